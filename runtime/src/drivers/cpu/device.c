// The CPU driver for a number of threads.
#include "rillet/hal/driver.h"

rlt_status_t rlt_cpu_device_create(const rlt_device_options_t* options, rlt_allocator_t allocator, rlt_error_t* error,
                                   rlt_device_t** out_device) {
#ifdef RLT_HAVE_TASK_EXECUTOR
  if (options->thread_count > 1 && !options->observer) {
    return rlt_cpu_task_device_create(options, allocator, error, out_device);
  }
#endif
#ifdef RLT_HAVE_CPU_SYNC
  return rlt_cpu_sync_device_create(options, allocator, error, out_device);
#else
  (void)options;
  (void)allocator;
  *out_device = NULL;
  return rlt_error_set(error, RLT_UNIMPLEMENTED, "this runtime has no CPU driver");
#endif
}
