// Devices: what executes command buffers. A driver (driver.h) creates them; its rlt_device_vtable_t is what they do.
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_HAL_DEVICE_H_
#define RILLET_HAL_DEVICE_H_

#include "rillet/hal/command_buffer.h"
#include "rillet/hal/semaphore.h"

RLT_BEGIN_DECLS

typedef struct rlt_device_t rlt_device_t;

#ifndef RLT_FREESTANDING
// Work for a device: a command buffer on a binding table that was checked against it; or, where `commands` is NULL, a copy
// of all of `source` to `target`, one of them in the device's memory and the other in the host's; or, where that is NULL
// too, nothing but its points. It begins when every point in `wait` is reached. Then it reaches those in `done`, or fails
// them.
typedef struct rlt_submission_t {
  rlt_semaphore_list_t wait, done;
  const rlt_command_buffer_t* commands;
  rlt_buffer_t* const* buffers;
  uint32_t buffer_count;
  rlt_buffer_t *target, *source;
} rlt_submission_t;
#endif

// What a driver implements. All functions but destroy may be called from any thread.
typedef struct rlt_device_vtable_t {
  const char* name;             // e.g. "cpu-sync"
  uint32_t command_state_size;  // bytes that it remembers of each recorded command, a multiple of 8
  void (*destroy)(rlt_device_t* device);
  // A new buffer of `length` bytes, aligned to RLT_BUFFER_ALIGNMENT; contents undefined.
  rlt_status_t (*allocate)(rlt_device_t* device, rlt_buffer_params_t params, uint64_t length, rlt_error_t* error,
                           rlt_buffer_t** out_buffer);
  // Whether the device can run the library. If not, puts the reason before the message of `error`.
  bool (*can_load)(const rlt_device_t* device, const rlt_module_library_t* source, rlt_error_t* error);
  rlt_status_t (*load)(rlt_device_t* device, const rlt_module_library_t* source, rlt_allocator_t allocator,
                       rlt_error_t* error, rlt_library_t** out_library);
  // Executes a command buffer that has ended on a binding table that was checked against it, and waits for it.
  rlt_status_t (*execute)(rlt_device_t* device, const rlt_command_buffer_t* commands, rlt_buffer_t* const* buffers,
                          rlt_error_t* error);
#ifndef RLT_FREESTANDING
  // Takes on work and returns. What the submission refers to must live until its points are reached or failed; it itself,
  // its lists and its table need not. When this fails the points are not touched.
  rlt_status_t (*submit)(rlt_device_t* device, const rlt_submission_t* submission, rlt_error_t* error);
  // Copies all of `source` to `target` and waits for it: one in the device's memory, the other in the host's. NULL for a
  // device that works in the host's memory.
  rlt_status_t (*transfer)(rlt_device_t* device, rlt_buffer_t* target, const rlt_buffer_t* source, rlt_error_t* error);
#endif
} rlt_device_vtable_t;

#ifndef RLT_FREESTANDING
// Memory for intermediate values that nobody uses now; the next invocation of any program on the device takes it. As many
// idle blocks are kept; more only come to be when more invocations run at the same time.
enum { RLT_TRANSIENT_POOL_MAX_IDLE = 32 };
typedef struct rlt_transient_pool_t {
  rlt_atomic_pointer_t idle[RLT_TRANSIENT_POOL_MAX_IDLE];
} rlt_transient_pool_t;
#endif

// The first member of every driver's device type.
struct rlt_device_t {
  rlt_object_t base;
  const rlt_device_vtable_t* vtable;
  rlt_allocator_t allocator;
#ifndef RLT_FREESTANDING
  rlt_transient_pool_t transients;
#endif
};

extern const rlt_object_type_t rlt_device_type;

// Fills the common part of a new device, for drivers.
void rlt_device_initialize(rlt_device_t* device, const rlt_device_vtable_t* vtable, rlt_allocator_t allocator);

// A new buffer; see rlt_device_vtable_t.
rlt_status_t rlt_device_allocate(rlt_device_t* device, rlt_buffer_params_t params, uint64_t length, rlt_error_t* error,
                                 rlt_buffer_t** out_buffer);

// A buffer of `length` bytes for intermediate values, contents undefined. Its memory returns to the device with its last
// reference and is used again, so that programs which run one after the other need the memory of the largest one.
// Freestanding builds leave that to the allocator.
rlt_status_t rlt_device_acquire_transient(rlt_device_t* device, uint64_t length, rlt_error_t* error,
                                          rlt_buffer_t** out_buffer);

// Checks the binding table, executes on the command buffer's device and waits. RLT_TRAP when a kernel reports an error in
// the data.
rlt_status_t rlt_device_execute(const rlt_command_buffer_t* commands, uint32_t buffer_count,
                                rlt_buffer_t* const* buffers, rlt_error_t* error);

#ifndef RLT_FREESTANDING
// Takes on work, after checking the binding table; see rlt_submission_t and rlt_device_vtable_t. `device` is the command
// buffer's.
rlt_status_t rlt_device_submit(rlt_device_t* device, const rlt_submission_t* submission, rlt_error_t* error);

// Brings `length` bytes of a buffer, wherever it is, to `data` and waits for it. The range must fit.
rlt_status_t rlt_device_read(const rlt_buffer_t* buffer, uint64_t offset, uint64_t length, void* data,
                             rlt_error_t* error);
#endif

#ifdef RLT_HAVE_ATOMICS
static inline void rlt_device_retain(rlt_device_t* device) {
  if (device) rlt_object_retain(&device->base);
}
static inline void rlt_device_release(rlt_device_t* device) {
  if (device) rlt_object_release(&device->base);
}
#endif

RLT_END_DECLS

#endif  // RILLET_HAL_DEVICE_H_
