// What the CPU drivers share: binding tables turned into addresses, and commands run piece by piece.
#ifndef RILLET_DRIVERS_CPU_COMMON_H_
#define RILLET_DRIVERS_CPU_COMMON_H_

#include "rillet/hal/device.h"

// Working memory of one execution, or of one worker.
typedef struct rlt_cpu_scratch_t {
  void* block;  // 64-byte aligned; local memory, then the addresses of the bindings
  size_t size;
  size_t local_size;
} rlt_cpu_scratch_t;

// Makes the scratch large enough for `local_size` bytes of local memory and `address_count` addresses.
rlt_status_t rlt_cpu_scratch_reserve(rlt_cpu_scratch_t* scratch, size_t local_size, size_t address_count,
                                     rlt_allocator_t allocator, rlt_error_t* error);

static inline void** rlt_cpu_scratch_addresses(const rlt_cpu_scratch_t* scratch) {
  return (void**)(void*)((uint8_t*)scratch->block + scratch->local_size);
}

// Fills in the address of every binding of `commands`. The table was checked.
void rlt_cpu_resolve(const rlt_command_buffer_t* commands, rlt_buffer_t* const* buffers, void** addresses);

// Runs the pieces [begin, end) of a command. Returns the first non-zero code that a kernel returned.
int rlt_cpu_run(const rlt_command_buffer_t* commands, const rlt_command_t* command, void* const* addresses,
                void* local_memory, uint64_t begin, uint64_t end);

// The error for the code of a command's kernel.
rlt_status_t rlt_cpu_kernel_error(const rlt_command_buffer_t* commands, const rlt_command_t* command, int code,
                                  rlt_error_t* error);

// The end of a driver's execute: signals the points, or fails them, and returns `status`.
rlt_status_t rlt_cpu_finish(rlt_status_t status, rlt_semaphore_list_t done, rlt_error_t* error);

// The drivers' allocate.
rlt_status_t rlt_cpu_allocate(rlt_device_t* device, rlt_buffer_params_t params, uint64_t length, rlt_error_t* error,
                              rlt_buffer_t** out_buffer);

#endif  // RILLET_DRIVERS_CPU_COMMON_H_
