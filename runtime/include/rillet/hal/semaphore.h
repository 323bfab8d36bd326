// Timeline semaphores: a number that only grows; work waits for it to reach a value and raises it when done.
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_HAL_SEMAPHORE_H_
#define RILLET_HAL_SEMAPHORE_H_

#include "rillet/base/allocator.h"
#include "rillet/base/object.h"

RLT_BEGIN_DECLS

typedef struct rlt_semaphore_t rlt_semaphore_t;

extern const rlt_object_type_t rlt_semaphore_type;

// Makes a semaphore at `initial_value`. The caller owns the reference.
rlt_status_t rlt_semaphore_create(uint64_t initial_value, rlt_allocator_t allocator, rlt_error_t* error,
                                  rlt_semaphore_t** out_semaphore);

void rlt_semaphore_retain(rlt_semaphore_t* semaphore);
void rlt_semaphore_release(rlt_semaphore_t* semaphore);

// The current value.
uint64_t rlt_semaphore_query(rlt_semaphore_t* semaphore);

// Raises the value and wakes who waits for it. RLT_INVALID_ARGUMENT when `value` is not above the current one.
rlt_status_t rlt_semaphore_signal(rlt_semaphore_t* semaphore, uint64_t value, rlt_error_t* error);

// Fails everybody who waits, now or later, for a point that is not reached yet. They get `failure`, whose status is not
// RLT_OK. The first failure stays.
void rlt_semaphore_fail(rlt_semaphore_t* semaphore, const rlt_error_t* failure);

// Waits until the value is at least `value`. RLT_DEADLINE_EXCEEDED when that takes longer than `timeout_ns` (UINT64_MAX: no
// limit). Without an operating system nobody can signal meanwhile, so it does not wait.
rlt_status_t rlt_semaphore_wait(rlt_semaphore_t* semaphore, uint64_t value, uint64_t timeout_ns, rlt_error_t* error);

// A point on a timeline.
typedef struct rlt_semaphore_point_t {
  rlt_semaphore_t* semaphore;
  uint64_t value;
} rlt_semaphore_point_t;

typedef struct rlt_semaphore_list_t {
  const rlt_semaphore_point_t* points;
  uint32_t count;
} rlt_semaphore_list_t;

RLT_END_DECLS

#endif  // RILLET_HAL_SEMAPHORE_H_
