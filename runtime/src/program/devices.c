// The devices that a program runs on.
#include "base/strings.h"
#include "program/libraries.h"

bool rlt_session_can_load(const rlt_module_view_t* module, uint32_t ordinal, const rlt_device_t* device,
                          rlt_error_t* error) {
  return can_load(module, ordinal, device, error);
}

// Whether a device of this name is what `driver` asks for: "cpu" is any "cpu-...".
static bool fits(const char* driver, const char* name) {
  while (*driver && *driver == *name) ++driver, ++name;
  return !*driver && (!*name || *name == '-');
}

static rlt_status_t make(const rlt_session_t* session, const rlt_session_options_t* options,
                         const rlt_driver_t* driver, rlt_error_t* error, rlt_device_t** out_device) {
  const rlt_device_options_t device_options = {.thread_count = options->thread_count,
                                               .observer = options->observer,
                                               .static_libraries = options->static_libraries};
  return driver->create(&device_options, session->allocator, error, out_device);
}

// The device that `driver` asks for; NULL when there is none.
static rlt_status_t find(const rlt_session_t* session, const rlt_session_options_t* options, rlt_drivers_t drivers,
                         const char* driver, rlt_error_t* error, rlt_device_t** out_device) {
  *out_device = NULL;
  for (uint32_t i = 0; i < options->device_count; ++i) {
    if (!fits(driver, options->devices[i]->vtable->name)) continue;
    *out_device = options->devices[i];
    rlt_device_retain(*out_device);
    return RLT_OK;
  }
  for (size_t i = 0; i < drivers.count; ++i) {
    if (!rlt_string_equal(driver, drivers.drivers[i].name)) continue;
    const rlt_status_t status = make(session, options, &drivers.drivers[i], error, out_device);
    return status == RLT_UNIMPLEMENTED ? RLT_OK : status;
  }
  return RLT_OK;
}

// What stands in for missing devices: the program's first that is there, else the caller's first, else a driver's.
static rlt_status_t find_substitute(const rlt_session_t* session, const rlt_session_options_t* options,
                                    rlt_drivers_t drivers, rlt_error_t* error, rlt_device_t** out_device) {
  for (uint32_t i = 0; i < session->device_count; ++i) {
    *out_device = session->devices[i].device;
    if (*out_device) break;
  }
  if (!*out_device && options->device_count > 0) *out_device = options->devices[0];
  if (*out_device) {
    rlt_device_retain(*out_device);
    return RLT_OK;
  }
  if (drivers.count > 0) return make(session, options, &drivers.drivers[0], error, out_device);
  return rlt_error_set(error, RLT_UNIMPLEMENTED, "this runtime has no devices");
}

static rlt_status_t find_all(rlt_session_t* session, const rlt_session_options_t* options, rlt_error_t* error) {
  rlt_drivers_t drivers = options->drivers;
  if (drivers.count == 0 && options->device_count == 0) drivers = rlt_drivers_built_in();
  bool complete = true;
  for (uint32_t i = 0; i < session->device_count; ++i) {
    const rlt_module_device_t declared = rlt_module_device(&session->module, i);
    RLT_RETURN_IF_ERROR(find(session, options, drivers, declared.driver, error, &session->devices[i].device));
    complete = complete && session->devices[i].device;
  }
  if (complete) return RLT_OK;
  rlt_device_t* substitute = NULL;
  RLT_RETURN_IF_ERROR(find_substitute(session, options, drivers, error, &substitute));
  for (uint32_t i = 0; i < session->device_count; ++i) {
    if (session->devices[i].device) continue;
    rlt_device_retain(substitute);
    session->devices[i].device = substitute;
  }
  rlt_device_release(substitute);
  return RLT_OK;
}

// Says which device it is whose place another one cannot take.
static void blame_device(const rlt_session_t* session, uint32_t ordinal, rlt_error_t* error) {
  const rlt_module_device_t declared = rlt_module_device(&session->module, ordinal);
  const char* name = session->devices[ordinal].device->vtable->name;
  if (fits(declared.driver, name)) return;
  rlt_error_prefix(error, "there is no device '%.*s' (%.*s) here, and %s cannot take its place: ", 32, declared.name,
                   32, declared.driver, name);
}

// Whether what one device has loaded is good for the other: code in the host's memory, loaded the same way.
static bool load_alike(const rlt_device_t* one, const rlt_device_t* other) {
  return one == other || (one->vtable->load == other->vtable->load && !one->vtable->transfer);
}

// Takes the library of a device before it that has the same one loaded; false when there is none.
static bool share_library(const rlt_session_t* session, rlt_session_device_t* target) {
  for (const rlt_session_device_t* other = session->devices; other != target; ++other) {
    if (other->library_ordinal != target->library_ordinal || !load_alike(other->device, target->device)) continue;
    target->library = other->library;
    rlt_library_retain(target->library);
    return true;
  }
  return false;
}

rlt_status_t rlt_session_load_devices(rlt_session_t* session, const rlt_session_options_t* options,
                                      rlt_error_t* error) {
  const uint32_t count = session->module.devices.count;
  void* block = NULL;
  RLT_RETURN_IF_ERROR(
      rlt_allocator_allocate_array(session->allocator, count, sizeof(rlt_session_device_t), error, &block));
  session->devices = (rlt_session_device_t*)block;
  session->device_count = count;
  RLT_RETURN_IF_ERROR(find_all(session, options, error));
  for (uint32_t i = 0; i < count; ++i) {
    const rlt_status_t status = choose_library(session, i, error);
    if (status == RLT_INCOMPATIBLE) blame_device(session, i, error);
    RLT_RETURN_IF_ERROR(status);
    if (share_library(session, &session->devices[i])) continue;
    RLT_RETURN_IF_ERROR(load_library(session, i, error));
  }
  return RLT_OK;
}

void rlt_session_release_devices(rlt_session_t* session) {
  for (uint32_t i = 0; i < session->device_count; ++i) {
    rlt_library_release(session->devices[i].library);
    rlt_device_release(session->devices[i].device);
  }
  rlt_allocator_free(session->allocator, session->devices);
}
