#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include "rillet/hal/semaphore.h"

#ifndef RLT_FREESTANDING
#include <errno.h>
#include <pthread.h>
#include <time.h>
#endif

struct rlt_semaphore_t {
  rlt_object_t base;
  rlt_allocator_t allocator;
  uint64_t value;
  rlt_error_t failure;  // its status RLT_OK: none
#ifndef RLT_FREESTANDING
  pthread_mutex_t mutex;
  pthread_cond_t changed;
#endif
};

static void lock(rlt_semaphore_t* semaphore) {
#ifndef RLT_FREESTANDING
  pthread_mutex_lock(&semaphore->mutex);
#else
  (void)semaphore;
#endif
}

static void unlock(rlt_semaphore_t* semaphore) {
#ifndef RLT_FREESTANDING
  pthread_mutex_unlock(&semaphore->mutex);
#else
  (void)semaphore;
#endif
}

static void wake_all(rlt_semaphore_t* semaphore) {
#ifndef RLT_FREESTANDING
  pthread_cond_broadcast(&semaphore->changed);
#else
  (void)semaphore;
#endif
}

static void semaphore_destroy(rlt_object_t* object) {
  rlt_semaphore_t* semaphore = (rlt_semaphore_t*)object;
#ifndef RLT_FREESTANDING
  pthread_cond_destroy(&semaphore->changed);
  pthread_mutex_destroy(&semaphore->mutex);
#endif
  rlt_allocator_free(semaphore->allocator, semaphore);
}

const rlt_object_type_t rlt_semaphore_type = {"hal.semaphore", semaphore_destroy};

rlt_status_t rlt_semaphore_create(uint64_t initial_value, rlt_allocator_t allocator, rlt_error_t* error,
                                  rlt_semaphore_t** out_semaphore) {
  *out_semaphore = NULL;
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(allocator, sizeof(rlt_semaphore_t), error, &block));
  rlt_semaphore_t* semaphore = (rlt_semaphore_t*)block;
  rlt_object_initialize(&semaphore->base, &rlt_semaphore_type);
  semaphore->allocator = allocator;
  semaphore->value = initial_value;
#ifndef RLT_FREESTANDING
  pthread_mutex_init(&semaphore->mutex, NULL);
  pthread_cond_init(&semaphore->changed, NULL);
#endif
  *out_semaphore = semaphore;
  return RLT_OK;
}

void rlt_semaphore_retain(rlt_semaphore_t* semaphore) {
  if (semaphore) rlt_object_retain(&semaphore->base);
}

void rlt_semaphore_release(rlt_semaphore_t* semaphore) {
  if (semaphore) rlt_object_release(&semaphore->base);
}

uint64_t rlt_semaphore_query(rlt_semaphore_t* semaphore) {
  lock(semaphore);
  const uint64_t value = semaphore->value;
  unlock(semaphore);
  return value;
}

rlt_status_t rlt_semaphore_signal(rlt_semaphore_t* semaphore, uint64_t value, rlt_error_t* error) {
  lock(semaphore);
  const uint64_t current = semaphore->value;
  if (value > current) {
    semaphore->value = value;
    wake_all(semaphore);
  }
  unlock(semaphore);
  if (value > current) return RLT_OK;
  return rlt_error_set(error, RLT_INVALID_ARGUMENT, "a semaphore at %llu cannot be signalled to %llu",
                       (unsigned long long)current, (unsigned long long)value);
}

void rlt_semaphore_fail(rlt_semaphore_t* semaphore, const rlt_error_t* failure) {
  lock(semaphore);
  if (semaphore->failure.status == RLT_OK) semaphore->failure = *failure;
  wake_all(semaphore);
  unlock(semaphore);
}

#ifndef RLT_FREESTANDING
// Waits for a change; false when `deadline` (NULL: none) has passed.
static bool wait_change(rlt_semaphore_t* semaphore, const struct timespec* deadline) {
  if (!deadline) return pthread_cond_wait(&semaphore->changed, &semaphore->mutex) == 0;
  return pthread_cond_timedwait(&semaphore->changed, &semaphore->mutex, deadline) != ETIMEDOUT;
}

static struct timespec deadline_after(uint64_t timeout_ns) {
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += (time_t)(timeout_ns / 1000000000u);
  deadline.tv_nsec += (long)(timeout_ns % 1000000000u);
  if (deadline.tv_nsec >= 1000000000) {
    deadline.tv_nsec -= 1000000000;
    ++deadline.tv_sec;
  }
  return deadline;
}
#endif

rlt_status_t rlt_semaphore_wait(rlt_semaphore_t* semaphore, uint64_t value, uint64_t timeout_ns, rlt_error_t* error) {
  lock(semaphore);
#ifndef RLT_FREESTANDING
  // Beyond a year a deadline is none.
  const bool bounded = timeout_ns < UINT64_C(31536000) * 1000000000u;
  const struct timespec deadline = deadline_after(bounded ? timeout_ns : 0);
  while (semaphore->value < value && semaphore->failure.status == RLT_OK) {
    if (!wait_change(semaphore, bounded ? &deadline : NULL)) break;
  }
#else
  (void)timeout_ns;
#endif
  const bool reached = semaphore->value >= value;
  const rlt_status_t failure = reached ? RLT_OK : semaphore->failure.status;
  if (failure != RLT_OK && error) *error = semaphore->failure;
  unlock(semaphore);
  if (reached || failure != RLT_OK) return failure;
  return rlt_error_set(error, RLT_DEADLINE_EXCEEDED, "waiting for a semaphore to reach %llu took too long",
                       (unsigned long long)value);
}
