// The "hal.*" functions that host programs import: the VM's door to the hardware abstraction layer. The context of a call
// (rlt_vm_call_t) is a rlt_call_t; in freestanding builds there is none.
#ifndef RILLET_PROGRAM_HAL_IMPORTS_H_
#define RILLET_PROGRAM_HAL_IMPORTS_H_

#include "rillet/session.h"

// The state behind the imports of one loaded program.
typedef struct rlt_hal_imports_t rlt_hal_imports_t;

typedef struct rlt_hal_imports_params_t {
  const rlt_session_device_t* devices;  // by ordinal; must outlive the state
  uint32_t device_count;
  rlt_buffer_t* const* constants;       // retained; buffers of the constant segments
  uint32_t constant_count;
  // Text for errors: names of the inputs, and the messages of the program's checks, by ordinal. They may return NULL. What
  // they return must outlive the state.
  const char* (*input_name)(void* self, int64_t argument);
  const char* (*message)(void* self, int64_t ordinal);
  void* text_self;
} rlt_hal_imports_params_t;

// Makes the state. Destroy it after the VM module that imports from it.
rlt_status_t rlt_hal_imports_create(const rlt_hal_imports_params_t* params, rlt_allocator_t allocator,
                                    rlt_error_t* error, rlt_hal_imports_t** out_imports);
void rlt_hal_imports_destroy(rlt_hal_imports_t* imports);

// The table for rlt_vm_module_create.
rlt_vm_native_module_t rlt_hal_imports_natives(rlt_hal_imports_t* imports);

#endif  // RILLET_PROGRAM_HAL_IMPORTS_H_
