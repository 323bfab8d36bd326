// Kernel libraries of CPUs: tables of functions, which only the CPU drivers call.
#ifndef RILLET_DRIVERS_CPU_LIBRARY_H_
#define RILLET_DRIVERS_CPU_LIBRARY_H_

#include "rillet/cpu/kernel_abi.h"
#include "rillet/hal/device.h"
#include "rillet/hal/library.h"

typedef struct rlt_cpu_library_t {
  rlt_library_t base;
  const rlt_kernel_table_t* table;
  void (*unload)(void* handle, size_t handle_size);  // may be NULL
  void* handle;
  size_t handle_size;
} rlt_cpu_library_t;

// The kernel of a library that a CPU driver loaded.
static inline const rlt_kernel_entry_t* rlt_cpu_kernel(const rlt_library_t* library, uint32_t entry) {
  return &((const rlt_cpu_library_t*)library)->table->entries[entry];
}

// Checks what `query` returns and wraps it. When the last reference goes, `unload(handle, handle_size)` is called; it is
// not called when this fails. RLT_INCOMPATIBLE when the library speaks another ABI version.
rlt_status_t rlt_cpu_library_create(rlt_kernel_query_fn_t query, void (*unload)(void* handle, size_t handle_size),
                                    void* handle, size_t handle_size, rlt_allocator_t allocator, rlt_error_t* error,
                                    rlt_library_t** out_library);

#endif  // RILLET_DRIVERS_CPU_LIBRARY_H_
