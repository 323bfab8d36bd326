// The CPU driver for a number of threads.
#include "rillet/hal/device.h"

rlt_status_t rlt_cpu_device_create(uint32_t thread_count, const rlt_dispatch_observer_t* observer,
                                   rlt_allocator_t allocator, rlt_error_t* error, rlt_device_t** out_device) {
#ifdef RLT_HAVE_TASK_EXECUTOR
  if (thread_count > 1 && !observer) return rlt_cpu_task_device_create(thread_count, allocator, error, out_device);
#endif
  (void)thread_count;
#ifdef RLT_HAVE_CPU_SYNC
  return rlt_cpu_sync_device_create(observer, allocator, error, out_device);
#else
  (void)observer;
  (void)allocator;
  *out_device = NULL;
  return rlt_error_set(error, RLT_UNIMPLEMENTED, "this runtime has no CPU driver");
#endif
}
