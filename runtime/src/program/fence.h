// Fences, what programs on several devices order their work with: each is a set of points on timelines.
#ifndef RILLET_PROGRAM_FENCE_H_
#define RILLET_PROGRAM_FENCE_H_

#include "rillet/hal/semaphore.h"

typedef struct rlt_fence_t {
  rlt_object_t base;
  rlt_allocator_t allocator;
  uint32_t count;
  rlt_semaphore_point_t points[];  // retained
} rlt_fence_t;

extern const rlt_object_type_t rlt_fence_type;

static inline rlt_semaphore_list_t rlt_fence_points(const rlt_fence_t* fence) {
  return (rlt_semaphore_list_t){fence->points, fence->count};
}

// A point on a new timeline, which is not reached yet.
rlt_status_t rlt_fence_create(rlt_allocator_t allocator, rlt_error_t* error, rlt_fence_t** out_fence);

// What is reached when all of `fences` are; of none it is reached.
rlt_status_t rlt_fence_join(uint32_t count, rlt_object_t* const* fences, rlt_allocator_t allocator, rlt_error_t* error,
                            rlt_fence_t** out_fence);

// Waits for it; fails with the error of the work that was to reach it.
rlt_status_t rlt_fence_await(const rlt_fence_t* fence, rlt_error_t* error);

#endif  // RILLET_PROGRAM_FENCE_H_
