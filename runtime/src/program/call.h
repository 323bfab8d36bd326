// What one call of a program has given to devices and not waited for. The context of its imports (rlt_vm_call_t).
#ifndef RILLET_PROGRAM_CALL_H_
#define RILLET_PROGRAM_CALL_H_

#include "program/fence.h"
#include "rillet/hal/device.h"

typedef struct rlt_work_t rlt_work_t;

typedef struct rlt_call_t {
  rlt_allocator_t allocator;
  bool asynchronous;   // hal.execute queues and returns
  bool has_branched;   // hal.queue or hal.transfer since the last hal.execute that was queued
  rlt_work_t *first, *last;
  rlt_semaphore_t* timeline;  // what hal.execute queues reaches its points in order; NULL until then
  uint64_t submitted;         // the last of them
} rlt_call_t;

static inline rlt_call_t rlt_call_begin(rlt_allocator_t allocator, bool asynchronous) {
  return (rlt_call_t){.allocator = allocator, .asynchronous = asynchronous};
}

// hal.execute of an asynchronous call: queues the commands behind everything that the call has queued.
rlt_status_t rlt_call_execute(rlt_call_t* call, rlt_command_buffer_t* commands, uint32_t buffer_count,
                              rlt_buffer_t* const* buffers, rlt_error_t* error);

// hal.queue and hal.transfer: queues work for `device` (its lists are ignored) that begins at `wait` and reaches `done`.
rlt_status_t rlt_call_queue(rlt_call_t* call, rlt_device_t* device, rlt_submission_t work, rlt_fence_t* wait,
                            rlt_fence_t* done, rlt_error_t* error);

// Waits for everything that the call has queued and gives up what it kept for it. Fails with the first error of the work,
// or with RLT_DEADLINE_EXCEEDED after `timeout_ns` (UINT64_MAX: no limit), and then keeps everything.
rlt_status_t rlt_call_await(rlt_call_t* call, uint64_t timeout_ns, rlt_error_t* error);

// As above without a limit, at the end of the call, which did or did not fail before. Returns the first failure.
rlt_status_t rlt_call_end(rlt_call_t* call, rlt_status_t status, rlt_error_t* error);

#endif  // RILLET_PROGRAM_CALL_H_
