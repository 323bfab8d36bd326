// The device that a program runs on where there is no operating system: one, whatever it is called.
#include "program/libraries.h"

rlt_status_t rlt_session_load_devices(rlt_session_t* session, const rlt_session_options_t* options,
                                      rlt_error_t* error) {
  if (session->module.devices.count > 1) {
    return rlt_error_set(error, RLT_UNIMPLEMENTED, "a program on %u devices", session->module.devices.count);
  }
  session->device_count = 1;
  rlt_device_t** device = &session->devices->device;
  if (options->device_count > 0) {
    *device = options->devices[0];
    rlt_device_retain(*device);
  } else {
    const rlt_device_options_t device_options = {.static_libraries = options->static_libraries,
                                                 .observer = options->observer};
    RLT_RETURN_IF_ERROR(rlt_cpu_device_create(&device_options, session->allocator, error, device));
  }
  RLT_RETURN_IF_ERROR(choose_library(session, 0, error));
  return load_library(session, 0, error);
}

void rlt_session_release_devices(rlt_session_t* session) {
  rlt_library_release(session->devices->library);
  rlt_device_release(session->devices->device);
}
