// The hardware abstraction layer in one include, and the functions of it that the bytecode VM can call.
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_HAL_H_
#define RILLET_HAL_H_

#include "rillet/buffer.h"
#include "rillet/command_buffer.h"
#include "rillet/device.h"
#include "rillet/library_loader.h"
#include "rillet/semaphore.h"
#include "rillet/vm.h"

RLT_BEGIN_DECLS

// The state behind the "hal.*" imports of one loaded module.
typedef struct rlt_hal_module_t rlt_hal_module_t;

typedef struct rlt_hal_module_params_t {
  rlt_device_t* device;            // retained
  rlt_library_t* library;    // retained; NULL for a module without kernels
  rlt_buffer_t* const* constants;  // retained; buffers of the constant segments
  uint32_t constant_count;
  // Text for errors: names of the inputs, and the messages of the program's checks, by ordinal. Either may be NULL, and
  // may return NULL. What they return must outlive the module.
  const char* (*input_name)(void* self, int64_t argument);
  const char* (*message)(void* self, int64_t ordinal);
  void* text_self;
} rlt_hal_module_params_t;

// Makes the state. Destroy it after the VM module that imports from it.
rlt_status_t rlt_hal_module_create(const rlt_hal_module_params_t* params, rlt_allocator_t allocator,
                                   rlt_error_t* error, rlt_hal_module_t** out_module);
void rlt_hal_module_destroy(rlt_hal_module_t* module);

// The imports, for rlt_vm_module_create.
rlt_vm_native_module_t rlt_hal_module_natives(rlt_hal_module_t* module);

RLT_END_DECLS

#endif  // RILLET_HAL_H_
