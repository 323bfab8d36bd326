#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // pthread_setname_np
#endif
#include "drivers/cpu/thread_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

// The job word: a job number in the high half, whether the job is open, and how many workers are inside.
#define JOB_ONE (UINT64_C(1) << 32)
#define JOB_OPEN (UINT64_C(1) << 31)
#define JOB_INSIDE (JOB_OPEN - 1)

// How long a worker, or the caller that waits for one, spins before it sleeps.
enum { SPIN_NANOSECONDS = 40000, PAUSES_PER_CLOCK = 32 };

typedef struct worker_t {
  rlt_thread_pool_t* pool;
  pthread_t thread;
  uint32_t index;
} worker_t;

struct rlt_thread_pool_t {
  rlt_allocator_t allocator;
  uint32_t worker_count;
  pid_t process;  // after a fork the threads exist in the parent only

  _Alignas(64) atomic_uint_fast64_t job;
  rlt_thread_pool_fn_t function;  // of the open job; written before `job` says open
  void* context;

  _Alignas(64) atomic_flag taken;  // some caller's job is open
  atomic_uint sleepers;
  atomic_bool caller_sleeps;
  atomic_bool stop;

  pthread_mutex_t mutex;     // of the conditions only
  pthread_cond_t work;       // for sleeping workers
  pthread_cond_t finished;   // for the caller in close
  worker_t workers[];
};

uint64_t rlt_thread_pool_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// True when there is an open job that this worker has not been in.
static bool offers(uint64_t word, uint64_t last_job) { return (word & JOB_OPEN) && (word / JOB_ONE) != last_job; }

// Waits for a job that is worth a look, or for the end; true when there is one.
static bool wait_for_job(rlt_thread_pool_t* pool, uint64_t last_job) {
  const uint64_t start = rlt_thread_pool_now();
  do {
    for (int i = 0; i < PAUSES_PER_CLOCK; ++i) {
      if (offers(atomic_load_explicit(&pool->job, memory_order_relaxed), last_job)) return true;
      pause_briefly();
    }
    if (atomic_load_explicit(&pool->stop, memory_order_relaxed)) return false;
  } while (rlt_thread_pool_now() - start < SPIN_NANOSECONDS);
  pthread_mutex_lock(&pool->mutex);
  // Whoever opens a job stores it before it looks for sleepers, and a sleeper counts itself before it looks for a job.
  atomic_fetch_add(&pool->sleepers, 1);
  while (!offers(atomic_load(&pool->job), last_job) && !atomic_load(&pool->stop)) {
    pthread_cond_wait(&pool->work, &pool->mutex);
  }
  atomic_fetch_sub(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->mutex);
  return !atomic_load(&pool->stop);
}

// Enters the open job, unless it closes first.
static bool try_enter(rlt_thread_pool_t* pool, uint64_t* last_job) {
  uint64_t word = atomic_load(&pool->job);
  while (offers(word, *last_job)) {
    if (atomic_compare_exchange_weak(&pool->job, &word, word + 1)) {
      *last_job = word / JOB_ONE;
      return true;
    }
  }
  return false;
}

static void leave(rlt_thread_pool_t* pool) {
  const uint64_t word = atomic_fetch_sub(&pool->job, 1) - 1;
  if ((word & (JOB_OPEN | JOB_INSIDE)) != 0 || !atomic_load(&pool->caller_sleeps)) return;
  pthread_mutex_lock(&pool->mutex);
  pthread_cond_signal(&pool->finished);
  pthread_mutex_unlock(&pool->mutex);
}

static void* worker_main(void* argument) {
  worker_t* worker = (worker_t*)argument;
  rlt_thread_pool_t* pool = worker->pool;
#ifdef __linux__
  pthread_setname_np(pthread_self(), "rillet-worker");
#endif
  uint64_t last_job = 0;
  while (wait_for_job(pool, last_job)) {
    if (!try_enter(pool, &last_job)) continue;
    pool->function(pool->context, worker->index);
    leave(pool);
  }
  return NULL;
}

static void stop_workers(rlt_thread_pool_t* pool, uint32_t started) {
  atomic_store(&pool->stop, true);
  pthread_mutex_lock(&pool->mutex);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->mutex);
  for (uint32_t i = 0; i < started; ++i) pthread_join(pool->workers[i].thread, NULL);
}

static void pool_free(rlt_thread_pool_t* pool) {
  pthread_cond_destroy(&pool->work);
  pthread_cond_destroy(&pool->finished);
  pthread_mutex_destroy(&pool->mutex);
  rlt_allocator_free(pool->allocator, pool);
}

rlt_status_t rlt_thread_pool_create(uint32_t worker_count, rlt_allocator_t allocator, rlt_error_t* error,
                                    rlt_thread_pool_t** out_pool) {
  *out_pool = NULL;
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate_aligned(
      allocator, sizeof(rlt_thread_pool_t) + worker_count * sizeof(worker_t), 64, error, &block));
  rlt_thread_pool_t* pool = (rlt_thread_pool_t*)block;
  pool->allocator = allocator;
  pool->worker_count = worker_count;
  pool->process = getpid();
  atomic_init(&pool->job, 0);
  atomic_flag_clear(&pool->taken);
  atomic_init(&pool->sleepers, 0);
  atomic_init(&pool->caller_sleeps, false);
  atomic_init(&pool->stop, false);
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->finished, NULL);
  // Signals belong to the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  uint32_t started = 0;
  for (; started < worker_count; ++started) {
    worker_t* worker = &pool->workers[started];
    worker->pool = pool;
    worker->index = started;
    if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) break;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started < worker_count) {
    stop_workers(pool, started);
    pool_free(pool);
    return rlt_error_set(error, RLT_RESOURCE_EXHAUSTED, "the system allows no more than %u of %u threads", started,
                         worker_count);
  }
  *out_pool = pool;
  return RLT_OK;
}

void rlt_thread_pool_destroy(rlt_thread_pool_t* pool) {
  if (!pool) return;
  // In a forked child there is nobody to join, and the state of the lock is unknown.
  if (pool->process != getpid()) {
    rlt_allocator_free(pool->allocator, pool);
    return;
  }
  stop_workers(pool, pool->worker_count);
  pool_free(pool);
}

bool rlt_thread_pool_try_open(rlt_thread_pool_t* pool, rlt_thread_pool_fn_t function, void* job) {
  if (pool->worker_count == 0 || atomic_flag_test_and_set(&pool->taken)) return false;
  pool->function = function;
  pool->context = job;
  const uint64_t number = atomic_load_explicit(&pool->job, memory_order_relaxed) / JOB_ONE + 1;
  // Job numbers wrap after 2^32 jobs; 0 is what a new worker has as its last.
  atomic_store(&pool->job, ((uint32_t)number ? number : 1) * JOB_ONE | JOB_OPEN);
  return true;
}

void rlt_thread_pool_wake(rlt_thread_pool_t* pool) {
  if (atomic_load(&pool->sleepers) == 0) return;
  pthread_mutex_lock(&pool->mutex);
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->mutex);
}

void rlt_thread_pool_close(rlt_thread_pool_t* pool) {
  uint64_t word = atomic_fetch_and(&pool->job, ~JOB_OPEN) & ~JOB_OPEN;
  const uint64_t start = (word & JOB_INSIDE) ? rlt_thread_pool_now() : 0;
  while (word & JOB_INSIDE) {
    for (int i = 0; i < PAUSES_PER_CLOCK && (word & JOB_INSIDE); ++i) {
      pause_briefly();
      word = atomic_load_explicit(&pool->job, memory_order_acquire);
    }
    if (!(word & JOB_INSIDE) || rlt_thread_pool_now() - start < SPIN_NANOSECONDS) continue;
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->job) & JOB_INSIDE) pthread_cond_wait(&pool->finished, &pool->mutex);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->mutex);
    break;
  }
  atomic_flag_clear(&pool->taken);
}
