// What the parts of a session share.
#ifndef RILLET_PROGRAM_SESSION_H_
#define RILLET_PROGRAM_SESSION_H_

#include "rillet/session.h"

// The bytes of the module file, shared by the session and by results that are constants of it.
typedef struct rlt_session_file_t {
  rlt_object_t base;
  rlt_allocator_t allocator;
  void* owner;
  void (*owner_release)(void* owner);
} rlt_session_file_t;

struct rlt_session_t {
  rlt_object_t base;
  rlt_allocator_t allocator;
  rlt_session_file_t* file;
  rlt_module_view_t module;
#ifdef RLT_FREESTANDING
  rlt_session_device_t devices[1];
#else
  rlt_session_device_t* devices;
#endif
  uint32_t device_count;
  rlt_buffer_t** constants;  // by ordinal
  rlt_vm_module_t* vm;
};

static inline rlt_status_t rlt_session_null_error(const char* argument, rlt_error_t* error) {
  (void)argument;
  return rlt_error_set(error, RLT_INVALID_ARGUMENT, "'%s' is NULL", argument);
}

// Finds or makes the program's devices and loads their libraries.
rlt_status_t rlt_session_load_devices(rlt_session_t* session, const rlt_session_options_t* options,
                                      rlt_error_t* error);
void rlt_session_release_devices(rlt_session_t* session);

// The "hal.*" functions that host programs import: the VM's door to the hardware abstraction layer.
rlt_vm_native_module_t rlt_session_imports(rlt_session_t* session);

// Moves the results of a call, `refs`, to `outputs`, each in host memory of its own. Takes over the references.
rlt_status_t rlt_session_take_outputs(rlt_session_t* session, const rlt_module_export_t* declared,
                                      uint32_t input_count, rlt_buffer_view_t* const* inputs,
                                      rlt_object_t* const* refs, rlt_buffer_view_t** outputs, rlt_error_t* error);

#endif  // RILLET_PROGRAM_SESSION_H_
