#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // pthread_setname_np
#endif
#include "drivers/queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/strings.h"

// A copy of a submission; its points, then its table, follow it.
typedef struct entry_t {
  struct entry_t* next;
  rlt_submission_t work;
} entry_t;

typedef struct rlt_queue_t {
  rlt_allocator_t allocator;
  rlt_device_t* device;
  pid_t process;  // after a fork the thread exists in the parent only
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  entry_t *first, *last;
  bool stop;
} rlt_queue_t;

static rlt_status_t wait_all(rlt_semaphore_list_t points, rlt_error_t* error) {
  for (uint32_t i = 0; i < points.count; ++i) {
    RLT_RETURN_IF_ERROR(rlt_semaphore_wait(points.points[i].semaphore, points.points[i].value, UINT64_MAX, error));
  }
  return RLT_OK;
}

static rlt_status_t perform(rlt_device_t* device, const rlt_submission_t* work, rlt_error_t* error) {
  RLT_RETURN_IF_ERROR(wait_all(work->wait, error));
  if (work->commands) return device->vtable->execute(device, work->commands, work->buffers, error);
  if (!work->target) return RLT_OK;
  return device->vtable->transfer(device, work->target, work->source, error);
}

static void release_points(rlt_semaphore_list_t points) {
  for (uint32_t i = 0; i < points.count; ++i) rlt_semaphore_release(points.points[i].semaphore);
}

static void do_entry(rlt_queue_t* queue, entry_t* entry) {
  rlt_error_t error;
  memset(&error, 0, sizeof(error));
  const rlt_submission_t* work = &entry->work;
  rlt_status_t status = perform(queue->device, work, &error);
  for (uint32_t i = 0; i < work->done.count; ++i) {
    const rlt_semaphore_point_t* point = &work->done.points[i];
    if (status == RLT_OK) status = rlt_semaphore_signal(point->semaphore, point->value, &error);
    if (status != RLT_OK) rlt_semaphore_fail(point->semaphore, &error);
  }
  release_points(work->wait);
  release_points(work->done);
  rlt_allocator_free(queue->allocator, entry);
}

// The oldest entry, once there is one; NULL at the end.
static entry_t* take(rlt_queue_t* queue) {
  pthread_mutex_lock(&queue->mutex);
  while (!queue->first && !queue->stop) pthread_cond_wait(&queue->changed, &queue->mutex);
  entry_t* entry = queue->first;
  if (entry) queue->first = entry->next;
  pthread_mutex_unlock(&queue->mutex);
  return entry;
}

static void* queue_main(void* argument) {
  rlt_queue_t* queue = (rlt_queue_t*)argument;
#ifdef __linux__
  pthread_setname_np(pthread_self(), "rillet-queue");
#endif
  for (entry_t* entry = take(queue); entry; entry = take(queue)) do_entry(queue, entry);
  return NULL;
}

static void queue_free(rlt_queue_t* queue) {
  pthread_cond_destroy(&queue->changed);
  pthread_mutex_destroy(&queue->mutex);
  rlt_allocator_free(queue->allocator, queue);
}

static void stop(rlt_queue_t* queue) {
  pthread_mutex_lock(&queue->mutex);
  queue->stop = true;
  pthread_cond_signal(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
  pthread_join(queue->thread, NULL);
  queue_free(queue);
}

static rlt_status_t queue_create(rlt_device_t* device, rlt_error_t* error, rlt_queue_t** out_queue) {
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(device->allocator, sizeof(rlt_queue_t), error, &block));
  rlt_queue_t* queue = (rlt_queue_t*)block;
  queue->allocator = device->allocator;
  queue->device = device;
  queue->process = getpid();
  pthread_mutex_init(&queue->mutex, NULL);
  pthread_cond_init(&queue->changed, NULL);
  // Signals belong to the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = pthread_create(&queue->thread, NULL, queue_main, queue) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  *out_queue = queue;
  if (started) return RLT_OK;
  queue_free(queue);
  return rlt_error_set(error, RLT_RESOURCE_EXHAUSTED, "the system allows no more threads");
}

// The device's queue, made when this is its first submission, or the first since a fork: the parent's is left alone.
static rlt_status_t acquire(rlt_queue_slot_t* slot, rlt_device_t* device, rlt_error_t* error,
                            rlt_queue_t** out_queue) {
  void* present = atomic_load_explicit(&slot->queue, memory_order_acquire);
  *out_queue = (rlt_queue_t*)present;
  if (present && (*out_queue)->process == getpid()) return RLT_OK;
  rlt_queue_t* made = NULL;
  RLT_RETURN_IF_ERROR(queue_create(device, error, &made));
  if (atomic_compare_exchange_strong(&slot->queue, &present, (void*)made)) {
    *out_queue = made;
  } else {
    stop(made);  // another thread was faster
    *out_queue = (rlt_queue_t*)present;
  }
  return RLT_OK;
}

static rlt_semaphore_list_t copy_points(rlt_semaphore_list_t points, rlt_semaphore_point_t* at) {
  for (uint32_t i = 0; i < points.count; ++i) {
    at[i] = points.points[i];
    rlt_semaphore_retain(at[i].semaphore);
  }
  return (rlt_semaphore_list_t){at, points.count};
}

rlt_status_t rlt_queue_submit(rlt_queue_slot_t* slot, rlt_device_t* device, const rlt_submission_t* submission,
                              rlt_error_t* error) {
  rlt_queue_t* queue = NULL;
  RLT_RETURN_IF_ERROR(acquire(slot, device, error, &queue));
  const size_t point_count = (size_t)submission->wait.count + submission->done.count;
  const size_t table_size = submission->buffer_count * sizeof(rlt_buffer_t*);
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(
      queue->allocator, sizeof(entry_t) + point_count * sizeof(rlt_semaphore_point_t) + table_size, error, &block));
  entry_t* entry = (entry_t*)block;
  rlt_semaphore_point_t* points = (rlt_semaphore_point_t*)(entry + 1);
  rlt_buffer_t** table = (rlt_buffer_t**)(points + point_count);
  entry->work = *submission;
  entry->work.wait = copy_points(submission->wait, points);
  entry->work.done = copy_points(submission->done, points + submission->wait.count);
  entry->work.buffers = table;
  if (table_size) memcpy((void*)table, (const void*)submission->buffers, table_size);
  pthread_mutex_lock(&queue->mutex);
  if (queue->first) {
    queue->last->next = entry;
  } else {
    queue->first = entry;
  }
  queue->last = entry;
  pthread_cond_signal(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
  return RLT_OK;
}

void rlt_queue_destroy(rlt_queue_slot_t* slot) {
  rlt_queue_t* queue = (rlt_queue_t*)atomic_load_explicit(&slot->queue, memory_order_acquire);
  if (queue && queue->process == getpid()) stop(queue);
}
