// Background threads that help a caller through one job at a time.
//
// The caller that opens a job always works on it itself and needs no worker to make progress: workers join while the
// job is open and leave when it offers no more work. Workers that have just helped spin for a while before they sleep,
// so that jobs that follow each other closely cost no system call.
#ifndef RILLET_DRIVERS_CPU_THREAD_POOL_H_
#define RILLET_DRIVERS_CPU_THREAD_POOL_H_

#include <stdbool.h>
#include <stdint.h>

#include "rillet/base/allocator.h"
#include "rillet/base/status.h"

typedef struct rlt_thread_pool_t rlt_thread_pool_t;

// Runs in each worker that joins a job; returns when the job has no work left to claim.
typedef void (*rlt_thread_pool_fn_t)(void* job, uint32_t worker_index);

// Starts `worker_count` threads. A worker's index runs from 0 to worker_count - 1.
rlt_status_t rlt_thread_pool_create(uint32_t worker_count, rlt_allocator_t allocator, rlt_error_t* error,
                                    rlt_thread_pool_t** out_pool);

// Stops and joins the threads. No job may be open.
void rlt_thread_pool_destroy(rlt_thread_pool_t* pool);

// Offers a job to the workers that are awake. False when another caller's job is open: then the caller works alone.
bool rlt_thread_pool_try_open(rlt_thread_pool_t* pool, rlt_thread_pool_fn_t function, void* job);

// Wakes the workers that sleep; worth its microseconds only when much work is left in the open job.
void rlt_thread_pool_wake(rlt_thread_pool_t* pool);

// Lets no more workers join the open job and waits for those inside to leave. Their writes are visible afterwards.
void rlt_thread_pool_close(rlt_thread_pool_t* pool);

// Monotonic time in nanoseconds.
uint64_t rlt_thread_pool_now(void);

#endif  // RILLET_DRIVERS_CPU_THREAD_POOL_H_
