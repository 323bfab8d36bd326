// Libraries: all kernels of a program for one target, loaded for a device.
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_HAL_LIBRARY_H_
#define RILLET_HAL_LIBRARY_H_

#include "rillet/base/allocator.h"
#include "rillet/base/object.h"

RLT_BEGIN_DECLS

typedef struct rlt_library_t rlt_library_t;

// What recording a dispatch must know of a kernel.
typedef struct rlt_kernel_facts_t {
  const char* name;
  uint32_t binding_count, constant_count;
  uint32_t local_memory_size;  // bytes of scratch for each worker
} rlt_kernel_facts_t;

// What a driver implements for its libraries; `entry` is below entry_count.
typedef struct rlt_library_vtable_t {
  void (*destroy)(rlt_library_t* library);
  rlt_kernel_facts_t (*facts)(const rlt_library_t* library, uint32_t entry);
  // The grid of a dispatch, from its push constants.
  void (*grid)(const rlt_library_t* library, uint32_t entry, const int64_t* constants, uint32_t workgroup_count[3]);
} rlt_library_vtable_t;

// The first member of every driver's library type. The fields are for reading only.
struct rlt_library_t {
  rlt_object_t base;
  const rlt_library_vtable_t* vtable;
  rlt_allocator_t allocator;
  uint32_t entry_count;
};

extern const rlt_object_type_t rlt_library_type;

// Fills the common part of a new library, for drivers.
void rlt_library_initialize(rlt_library_t* library, const rlt_library_vtable_t* vtable, uint32_t entry_count,
                            rlt_allocator_t allocator);

// A library that is not loaded yet, as a module file describes it (rillet/module.h).
typedef struct rlt_module_library_t rlt_module_library_t;

// A kernel library linked into the program, and its query function (rillet/cpu/kernel_abi.h).
struct rlt_kernel_table_t;
typedef struct rlt_static_library_t {
  const char* name;
  const struct rlt_kernel_table_t* (*query)(uint32_t abi_version);
} rlt_static_library_t;

// What libraries of format RLT_LIBRARY_STATIC may name by their target; must outlive the device that loads them.
typedef struct rlt_static_libraries_t {
  const rlt_static_library_t* libraries;
  size_t count;
} rlt_static_libraries_t;

#ifdef RLT_HAVE_ATOMICS
static inline void rlt_library_retain(rlt_library_t* library) {
  if (library) rlt_object_retain(&library->base);
}
static inline void rlt_library_release(rlt_library_t* library) {
  if (library) rlt_object_release(&library->base);
}
#endif

RLT_END_DECLS

#endif  // RILLET_HAL_LIBRARY_H_
