// What the CPU drivers share: binding tables turned into addresses, and commands run piece by piece.
#ifndef RILLET_DRIVERS_CPU_COMMON_H_
#define RILLET_DRIVERS_CPU_COMMON_H_

#include "rillet/hal/device.h"

#ifndef RLT_FREESTANDING
#include "drivers/queue.h"
#endif

// The first member of the CPU drivers' devices.
typedef struct rlt_cpu_device_t {
  rlt_device_t base;
  rlt_static_libraries_t static_libraries;
#ifndef RLT_FREESTANDING
  rlt_queue_slot_t queue;
#endif
} rlt_cpu_device_t;

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

// The drivers' functions, but execute and destroy.
rlt_status_t rlt_cpu_allocate(rlt_device_t* device, rlt_buffer_params_t params, uint64_t length, rlt_error_t* error,
                              rlt_buffer_t** out_buffer);
bool rlt_cpu_can_load(const rlt_device_t* device, const rlt_module_library_t* source, rlt_error_t* error);
rlt_status_t rlt_cpu_load(rlt_device_t* device, const rlt_module_library_t* source, rlt_allocator_t allocator,
                          rlt_error_t* error, rlt_library_t** out_library);
#ifdef RLT_FREESTANDING
#define RLT_CPU_FUNCTIONS .allocate = rlt_cpu_allocate, .can_load = rlt_cpu_can_load, .load = rlt_cpu_load
#else
rlt_status_t rlt_cpu_submit(rlt_device_t* device, const rlt_submission_t* submission, rlt_error_t* error);
#define RLT_CPU_FUNCTIONS \
  .allocate = rlt_cpu_allocate, .can_load = rlt_cpu_can_load, .load = rlt_cpu_load, .submit = rlt_cpu_submit
#endif

#endif  // RILLET_DRIVERS_CPU_COMMON_H_
