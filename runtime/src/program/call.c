#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include "program/call.h"

#include <time.h>

// One submission: the points it reaches, and what must live until then.
struct rlt_work_t {
  rlt_work_t* next;
  rlt_semaphore_list_t done;
  rlt_semaphore_point_t point;  // what `done` refers to for hal.execute
  uint32_t ref_count;
  rlt_object_t* refs[];
};

static void keep(rlt_work_t* work, rlt_object_t* object) {
  rlt_object_retain(object);
  work->refs[work->ref_count++] = object;
}

static rlt_status_t create_work(rlt_call_t* call, const rlt_submission_t* submission, rlt_error_t* error,
                                rlt_work_t** out_work) {
  enum { OTHERS = 4 };  // commands, target, source and a fence
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(
      call->allocator, sizeof(rlt_work_t) + (submission->buffer_count + OTHERS) * sizeof(rlt_object_t*), error,
      &block));
  rlt_work_t* work = (rlt_work_t*)block;
  for (uint32_t i = 0; i < submission->buffer_count; ++i) keep(work, &submission->buffers[i]->base);
  if (submission->commands) keep(work, (rlt_object_t*)(uintptr_t)&submission->commands->base);
  if (submission->target) keep(work, &submission->target->base);
  if (submission->source) keep(work, &submission->source->base);
  *out_work = work;
  return RLT_OK;
}

static void release_work(rlt_call_t* call, rlt_work_t* work) {
  for (uint32_t i = 0; i < work->ref_count; ++i) rlt_object_release(work->refs[i]);
  rlt_allocator_free(call->allocator, work);
}

// Gives the work to the device and, when it takes it, adds it to the call.
static rlt_status_t submit(rlt_call_t* call, rlt_device_t* device, const rlt_submission_t* submission,
                           rlt_work_t* work, rlt_error_t* error) {
  work->done = submission->done;
  const rlt_status_t status = rlt_device_submit(device, submission, error);
  if (status != RLT_OK) {
    release_work(call, work);
    return status;
  }
  if (call->last) {
    call->last->next = work;
  } else {
    call->first = work;
  }
  call->last = work;
  return RLT_OK;
}

rlt_status_t rlt_call_execute(rlt_call_t* call, rlt_command_buffer_t* commands, uint32_t buffer_count,
                              rlt_buffer_t* const* buffers, rlt_error_t* error) {
  if (call->has_branched) RLT_RETURN_IF_ERROR(rlt_call_await(call, UINT64_MAX, error));
  if (!call->timeline) RLT_RETURN_IF_ERROR(rlt_semaphore_create(0, call->allocator, error, &call->timeline));
  rlt_submission_t submission = {.commands = commands, .buffers = buffers, .buffer_count = buffer_count};
  rlt_work_t* work = NULL;
  RLT_RETURN_IF_ERROR(create_work(call, &submission, error, &work));
  const rlt_semaphore_point_t before = {call->timeline, call->submitted};
  work->point = (rlt_semaphore_point_t){call->timeline, call->submitted + 1};
  submission.wait = (rlt_semaphore_list_t){&before, call->submitted > 0};
  submission.done = (rlt_semaphore_list_t){&work->point, 1};
  RLT_RETURN_IF_ERROR(submit(call, commands->device, &submission, work, error));
  ++call->submitted;
  return RLT_OK;
}

// The fence's points and what hal.execute has queued, which comes before as in a call that waits for it.
static rlt_semaphore_list_t waiting_also(rlt_semaphore_point_t* points, const rlt_fence_t* fence,
                                         const rlt_call_t* call) {
  uint32_t count = 0;
  for (; count < fence->count; ++count) points[count] = fence->points[count];
  if (call->submitted > 0) points[count++] = (rlt_semaphore_point_t){call->timeline, call->submitted};
  return (rlt_semaphore_list_t){points, count};
}

rlt_status_t rlt_call_queue(rlt_call_t* call, rlt_device_t* device, rlt_submission_t submission, rlt_fence_t* wait,
                            rlt_fence_t* done, rlt_error_t* error) {
  void* points = NULL;
  RLT_RETURN_IF_ERROR(
      rlt_allocator_allocate_array(call->allocator, wait->count + 1u, sizeof(rlt_semaphore_point_t), error, &points));
  submission.wait = waiting_also((rlt_semaphore_point_t*)points, wait, call);
  submission.done = rlt_fence_points(done);
  rlt_work_t* work = NULL;
  rlt_status_t status = create_work(call, &submission, error, &work);
  if (status == RLT_OK) {
    keep(work, &done->base);
    status = submit(call, device, &submission, work, error);
  }
  rlt_allocator_free(call->allocator, points);
  call->has_branched = true;
  return status;
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Waits for all points of one submission.
static rlt_status_t await_work(const rlt_work_t* work, uint64_t deadline, rlt_error_t* error) {
  for (uint32_t i = 0; i < work->done.count; ++i) {
    uint64_t left = UINT64_MAX;
    if (deadline != UINT64_MAX) {
      const uint64_t time = now();
      left = deadline > time ? deadline - time : 0;
    }
    const rlt_semaphore_point_t* point = &work->done.points[i];
    RLT_RETURN_IF_ERROR(rlt_semaphore_wait(point->semaphore, point->value, left, error));
  }
  return RLT_OK;
}

rlt_status_t rlt_call_await(rlt_call_t* call, uint64_t timeout_ns, rlt_error_t* error) {
  const uint64_t start = timeout_ns == UINT64_MAX ? 0 : now();
  const uint64_t deadline = timeout_ns < UINT64_MAX - start ? start + timeout_ns : UINT64_MAX;
  rlt_status_t failure = RLT_OK;
  for (const rlt_work_t* work = call->first; work; work = work->next) {
    // Only the first failure is described.
    const rlt_status_t status = await_work(work, deadline, failure == RLT_OK ? error : NULL);
    if (status == RLT_DEADLINE_EXCEEDED) return rlt_error_set(error, status, "the work is not done yet");
    if (failure == RLT_OK) failure = status;
  }
  while (call->first) {
    rlt_work_t* work = call->first;
    call->first = work->next;
    release_work(call, work);
  }
  call->last = NULL;
  call->has_branched = false;
  return failure;
}

rlt_status_t rlt_call_end(rlt_call_t* call, rlt_status_t status, rlt_error_t* error) {
  if (call->first) {
    const rlt_status_t queued = rlt_call_await(call, UINT64_MAX, status == RLT_OK ? error : NULL);
    if (status == RLT_OK) status = queued;
  }
  rlt_semaphore_release(call->timeline);
  call->timeline = NULL;
  return status;
}
