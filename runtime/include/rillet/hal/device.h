// Devices: what executes command buffers. A driver is a rlt_device_vtable_t and a function that creates its device.
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_HAL_DEVICE_H_
#define RILLET_HAL_DEVICE_H_

#include "rillet/hal/command_buffer.h"
#include "rillet/hal/semaphore.h"

RLT_BEGIN_DECLS

typedef struct rlt_device_t rlt_device_t;

// What a driver implements. All functions but destroy may be called from any thread.
typedef struct rlt_device_vtable_t {
  const char* name;  // e.g. "cpu-sync"
  void (*destroy)(rlt_device_t* device);
  // A new buffer of `length` bytes, aligned to RLT_BUFFER_ALIGNMENT; contents undefined.
  rlt_status_t (*allocate)(rlt_device_t* device, rlt_buffer_params_t params, uint64_t length, rlt_error_t* error,
                           rlt_buffer_t** out_buffer);
  // Executes a command buffer that has ended on a binding table that was checked against it. Returns when the work is
  // done, or may return earlier when `done` is not empty, and then signals or fails each of its points later.
  rlt_status_t (*execute)(rlt_device_t* device, const rlt_command_buffer_t* commands, rlt_buffer_t* const* buffers,
                          rlt_semaphore_list_t done, rlt_error_t* error);
} rlt_device_vtable_t;

// Memory for intermediate values that nobody uses now; the next invocation of any program on the device takes it. As many
// idle blocks are kept; more only come to be when more invocations run at the same time.
#ifdef RLT_FREESTANDING
enum { RLT_TRANSIENT_POOL_MAX_IDLE = 8 };
#else
enum { RLT_TRANSIENT_POOL_MAX_IDLE = 32 };
#endif
typedef struct rlt_transient_pool_t {
  rlt_atomic_pointer_t idle[RLT_TRANSIENT_POOL_MAX_IDLE];
} rlt_transient_pool_t;

// The first member of every driver's device type.
struct rlt_device_t {
  rlt_object_t base;
  const rlt_device_vtable_t* vtable;
  rlt_allocator_t allocator;
  rlt_transient_pool_t transients;
};

extern const rlt_object_type_t rlt_device_type;

// Fills the common part of a new device, for drivers.
void rlt_device_initialize(rlt_device_t* device, const rlt_device_vtable_t* vtable, rlt_allocator_t allocator);

// Told about every dispatch, for profiles: `begin` before it, `end` after it with what `begin` gave, on its thread.
typedef struct rlt_dispatch_observer_t {
  void* self;
  uint64_t (*begin)(void* self);
  void (*end)(void* self, const rlt_kernel_entry_t* entry, uint64_t begun);
} rlt_dispatch_observer_t;

// Executes in order on the calling thread; needs no operating system. `observer` may be NULL, and is copied.
rlt_status_t rlt_cpu_sync_device_create(const rlt_dispatch_observer_t* observer, rlt_allocator_t allocator,
                                        rlt_error_t* error, rlt_device_t** out_device);

// Executes on `thread_count` threads (at least 1, at most RLT_CPU_TASK_MAX_THREADS), the calling one included: the grid
// of a dispatch is split over them, and dispatches between two barriers overlap.
enum { RLT_CPU_TASK_MAX_THREADS = 1024 };
rlt_status_t rlt_cpu_task_device_create(uint32_t thread_count, rlt_allocator_t allocator, rlt_error_t* error,
                                        rlt_device_t** out_device);

// The one of the two that fits `thread_count` (0 and 1: the calling thread alone) and an observer, which may be NULL and
// takes the first. RLT_UNIMPLEMENTED when this runtime has no driver that does.
rlt_status_t rlt_cpu_device_create(uint32_t thread_count, const rlt_dispatch_observer_t* observer,
                                   rlt_allocator_t allocator, rlt_error_t* error, rlt_device_t** out_device);

// A new buffer; see rlt_device_vtable_t.
rlt_status_t rlt_device_allocate(rlt_device_t* device, rlt_buffer_params_t params, uint64_t length, rlt_error_t* error,
                                 rlt_buffer_t** out_buffer);

// A buffer of `length` bytes for intermediate values, contents undefined. Its memory returns to the device with its last
// reference and is used again, so that programs which run one after the other need the memory of the largest one.
rlt_status_t rlt_device_acquire_transient(rlt_device_t* device, uint64_t length, rlt_error_t* error,
                                          rlt_buffer_t** out_buffer);

// Checks the binding table, executes and waits. RLT_TRAP when a kernel reports an error in the data.
rlt_status_t rlt_device_execute(rlt_device_t* device, const rlt_command_buffer_t* commands, uint32_t buffer_count,
                                rlt_buffer_t* const* buffers, rlt_error_t* error);

// As above after every point in `wait` is reached; then signals the points in `done`, or fails them when the work fails.
// May return before the work is done; the arguments must live until then.
rlt_status_t rlt_device_submit(rlt_device_t* device, rlt_semaphore_list_t wait, const rlt_command_buffer_t* commands,
                               uint32_t buffer_count, rlt_buffer_t* const* buffers, rlt_semaphore_list_t done,
                               rlt_error_t* error);

#if !defined(__cplusplus)
static inline void rlt_device_retain(rlt_device_t* device) {
  if (device) rlt_object_retain(&device->base);
}
static inline void rlt_device_release(rlt_device_t* device) {
  if (device) rlt_object_release(&device->base);
}
#endif

RLT_END_DECLS

#endif  // RILLET_HAL_DEVICE_H_
