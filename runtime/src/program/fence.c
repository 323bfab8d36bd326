#include "program/fence.h"

static void fence_destroy(rlt_object_t* object) {
  rlt_fence_t* fence = (rlt_fence_t*)object;
  for (uint32_t i = 0; i < fence->count; ++i) rlt_semaphore_release(fence->points[i].semaphore);
  rlt_allocator_free(fence->allocator, fence);
}

const rlt_object_type_t rlt_fence_type = {"hal.fence", fence_destroy};

// With room for `capacity` points and none in it.
static rlt_status_t allocate(uint32_t capacity, rlt_allocator_t allocator, rlt_error_t* error,
                             rlt_fence_t** out_fence) {
  void* block = NULL;
  *out_fence = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(
      allocator, sizeof(rlt_fence_t) + capacity * sizeof(rlt_semaphore_point_t), error, &block));
  rlt_fence_t* fence = (rlt_fence_t*)block;
  rlt_object_initialize(&fence->base, &rlt_fence_type);
  fence->allocator = allocator;
  *out_fence = fence;
  return RLT_OK;
}

rlt_status_t rlt_fence_create(rlt_allocator_t allocator, rlt_error_t* error, rlt_fence_t** out_fence) {
  rlt_fence_t* fence = NULL;
  *out_fence = NULL;
  RLT_RETURN_IF_ERROR(allocate(1, allocator, error, &fence));
  const rlt_status_t status = rlt_semaphore_create(0, allocator, error, &fence->points[0].semaphore);
  if (status != RLT_OK) {
    rlt_object_release(&fence->base);
    return status;
  }
  fence->points[0].value = 1;
  fence->count = 1;
  *out_fence = fence;
  return RLT_OK;
}

rlt_status_t rlt_fence_join(uint32_t count, rlt_object_t* const* fences, rlt_allocator_t allocator, rlt_error_t* error,
                            rlt_fence_t** out_fence) {
  uint32_t point_count = 0;
  for (uint32_t i = 0; i < count; ++i) point_count += ((const rlt_fence_t*)fences[i])->count;
  RLT_RETURN_IF_ERROR(allocate(point_count, allocator, error, out_fence));
  for (uint32_t i = 0; i < count; ++i) {
    const rlt_fence_t* part = (const rlt_fence_t*)fences[i];
    for (uint32_t k = 0; k < part->count; ++k) {
      rlt_semaphore_retain(part->points[k].semaphore);
      (*out_fence)->points[(*out_fence)->count++] = part->points[k];
    }
  }
  return RLT_OK;
}

rlt_status_t rlt_fence_await(const rlt_fence_t* fence, rlt_error_t* error) {
  for (uint32_t i = 0; i < fence->count; ++i) {
    const rlt_semaphore_point_t* point = &fence->points[i];
    RLT_RETURN_IF_ERROR(rlt_semaphore_wait(point->semaphore, point->value, UINT64_MAX, error));
  }
  return RLT_OK;
}
