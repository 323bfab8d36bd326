// Drivers: what makes devices, by name. A program brings its own list, or takes the built-in one.
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_HAL_DRIVER_H_
#define RILLET_HAL_DRIVER_H_

#include "rillet/hal/device.h"

RLT_BEGIN_DECLS

// Told about every dispatch, for profiles: `begin` before it, `end` after it with what `begin` gave, on its thread.
typedef struct rlt_dispatch_observer_t {
  void* self;
  uint64_t (*begin)(void* self);
  void (*end)(void* self, const char* kernel, uint64_t begun);
} rlt_dispatch_observer_t;

// How to make a device; all zero is the plainest one.
typedef struct rlt_device_options_t {
  uint32_t thread_count;                    // threads that work on a call, the calling one included; 0 and 1: it alone
  const rlt_dispatch_observer_t* observer;  // copied; NULL: nobody. Only drivers that use one thread have it
  rlt_static_libraries_t static_libraries;  // kernels linked into the program
} rlt_device_options_t;

typedef struct rlt_driver_t {
  const char* name;  // what module files ask for, e.g. "cpu-sync"
  // RLT_UNIMPLEMENTED when there is no such device here, or none that does what the options ask for.
  rlt_status_t (*create)(const rlt_device_options_t* options, rlt_allocator_t allocator, rlt_error_t* error,
                         rlt_device_t** out_device);
} rlt_driver_t;

typedef struct rlt_drivers_t {
  const rlt_driver_t* drivers;
  size_t count;
} rlt_drivers_t;

// The drivers of this runtime: "cpu", "cpu-sync" and, where there are threads, "cpu-task".
rlt_drivers_t rlt_drivers_built_in(void);

// "cpu-sync": executes in order on the calling thread; needs no operating system.
rlt_status_t rlt_cpu_sync_device_create(const rlt_device_options_t* options, rlt_allocator_t allocator,
                                        rlt_error_t* error, rlt_device_t** out_device);

// "cpu-task": executes on `thread_count` threads (at most RLT_CPU_TASK_MAX_THREADS), the calling one included: the grid of
// a dispatch is split over them, and dispatches between two barriers overlap. It has no observers.
enum { RLT_CPU_TASK_MAX_THREADS = 1024 };
rlt_status_t rlt_cpu_task_device_create(const rlt_device_options_t* options, rlt_allocator_t allocator,
                                        rlt_error_t* error, rlt_device_t** out_device);

// "cpu": the one of the two that fits the number of threads and the observer.
rlt_status_t rlt_cpu_device_create(const rlt_device_options_t* options, rlt_allocator_t allocator, rlt_error_t* error,
                                   rlt_device_t** out_device);

RLT_END_DECLS

#endif  // RILLET_HAL_DRIVER_H_
