// The kernel ABI: what a kernel library exports and how its kernels are called.
//
// Kernels call nothing outside their library, allocate nothing, and use at most 16 KiB of stack.
#ifndef RILLET_CPU_KERNEL_ABI_H_
#define RILLET_CPU_KERNEL_ABI_H_

#include "rillet/base/config.h"

RLT_BEGIN_DECLS

#define RLT_KERNEL_ABI_VERSION 1u

// What one dispatch sees; the same for all of its workgroups but local_memory.
typedef struct rlt_dispatch_state_t {
  void* const* bindings;     // one pointer for each binding, 64-byte aligned base unless it is a slice
  const int64_t* constants;  // push constants
  uint32_t workgroup_count[3];
  uint32_t binding_count;
  void* local_memory;        // local_memory_size bytes of scratch owned by this worker, 64-byte aligned
  size_t local_memory_size;
} rlt_dispatch_state_t;

// What a dispatch returns. Any other value is a failure too.
enum { RLT_DISPATCH_OK = 0, RLT_DISPATCH_OUT_OF_BOUNDS = 1 };

// Runs one workgroup of the grid. 0 = ok; non-zero = a data error that the model itself defines.
typedef int (*rlt_dispatch_fn_t)(const rlt_dispatch_state_t* state, const uint32_t workgroup_id[3]);

// Computes the grid from the push constants.
typedef void (*rlt_workgroup_count_fn_t)(const int64_t* constants, uint32_t workgroup_count[3]);

typedef struct rlt_kernel_entry_t {
  const char* name;
  rlt_dispatch_fn_t dispatch;
  rlt_workgroup_count_fn_t workgroup_count;
  uint32_t binding_count, constant_count;
  uint32_t local_memory_size;
  uint32_t flags;  // reserved, 0
} rlt_kernel_entry_t;

typedef struct rlt_kernel_table_t {
  uint32_t abi_version;  // RLT_KERNEL_ABI_VERSION
  uint32_t entry_count;
  const rlt_kernel_entry_t* entries;
} rlt_kernel_table_t;

// The library's only export (in an embedded ELF also its entry point). NULL when it does not speak `abi_version`.
typedef const rlt_kernel_table_t* (*rlt_kernel_query_fn_t)(uint32_t abi_version);

RLT_END_DECLS

#endif  // RILLET_CPU_KERNEL_ABI_H_
