// Turning bytes into callable kernels: libraries and their loaders.
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_HAL_LIBRARY_H_
#define RILLET_HAL_LIBRARY_H_

#include "rillet/base/allocator.h"
#include "rillet/base/object.h"
#include "rillet/cpu/features.h"
#include "rillet/cpu/kernel_abi.h"
#include "rillet/module.h"

RLT_BEGIN_DECLS

// A library of kernels, ready to call. The fields are for reading only.
typedef struct rlt_library_t {
  rlt_object_t base;
  rlt_allocator_t allocator;
  const rlt_kernel_table_t* table;
  uint32_t local_memory_size;  // the most any entry needs
  void (*unload)(void* handle, size_t handle_size);  // may be NULL
  void* handle;
  size_t handle_size;
} rlt_library_t;

extern const rlt_object_type_t rlt_library_type;

// Checks what `query` returns and wraps it. When the last reference goes, `unload(handle, handle_size)` is called; it is
// not called when this fails. RLT_INCOMPATIBLE when the library speaks another ABI version.
rlt_status_t rlt_library_create(rlt_kernel_query_fn_t query, void (*unload)(void* handle, size_t handle_size),
                                void* handle, size_t handle_size, rlt_allocator_t allocator, rlt_error_t* error,
                                rlt_library_t** out_library);

// Loads a position-independent ELF of this architecture from memory: relative relocations only, no imports, no
// initializers, no page both writable and executable. The bytes are copied to memory of rillet/cpu/code_memory.h.
// RLT_DATA_LOSS when malformed, RLT_INCOMPATIBLE when well formed but not loadable here.
rlt_status_t rlt_embedded_elf_load(const uint8_t* data, size_t size, rlt_allocator_t allocator, rlt_error_t* error,
                                   rlt_library_t** out_library);

// Loads a shared library from memory through the operating system's dynamic linker.
rlt_status_t rlt_system_library_load(const uint8_t* data, size_t size, rlt_allocator_t allocator, rlt_error_t* error,
                                     rlt_library_t** out_library);

// A library linked into the program.
typedef struct rlt_static_library_t {
  const char* name;
  rlt_kernel_query_fn_t query;
} rlt_static_library_t;

// What libraries of format RLT_LIBRARY_STATIC may name by their target; must outlive them.
typedef struct rlt_static_libraries_t {
  const rlt_static_library_t* libraries;
  size_t count;
} rlt_static_libraries_t;

// Finds a linked library by name. RLT_NOT_FOUND when there is none.
rlt_status_t rlt_static_library_load(rlt_static_libraries_t libraries, const char* name, rlt_allocator_t allocator,
                                     rlt_error_t* error, rlt_library_t** out_library);

// Chooses the first library of `module` that this processor can run. RLT_INCOMPATIBLE when none fits, with a message
// that says for each variant what is missing.
rlt_status_t rlt_library_select(const rlt_module_view_t* module, const rlt_cpu_features_t* cpu, rlt_error_t* error,
                                uint32_t* out_index);

// Checks and loads library `index` of `module` with the loader for its format. RLT_UNIMPLEMENTED when this build
// leaves that loader out.
rlt_status_t rlt_library_load(const rlt_module_view_t* module, uint32_t index, rlt_static_libraries_t libraries,
                              rlt_allocator_t allocator, rlt_error_t* error, rlt_library_t** out_library);

#if !defined(__cplusplus)
static inline void rlt_library_retain(rlt_library_t* library) {
  if (library) rlt_object_retain(&library->base);
}
static inline void rlt_library_release(rlt_library_t* library) {
  if (library) rlt_object_release(&library->base);
}
#endif

RLT_END_DECLS

#endif  // RILLET_HAL_LIBRARY_H_
