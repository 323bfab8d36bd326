// The drivers that this runtime was built with.
#include "rillet/hal/driver.h"

static const rlt_driver_t drivers[] = {
    {"cpu", rlt_cpu_device_create},
#ifdef RLT_HAVE_CPU_SYNC
    {"cpu-sync", rlt_cpu_sync_device_create},
#endif
#ifdef RLT_HAVE_TASK_EXECUTOR
    {"cpu-task", rlt_cpu_task_device_create},
#endif
};

rlt_drivers_t rlt_drivers_built_in(void) {
  return (rlt_drivers_t){.drivers = drivers, .count = sizeof(drivers) / sizeof(drivers[0])};
}
