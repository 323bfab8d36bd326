// Buffers for intermediate values that are used again by the next invocation; see rlt_device_acquire_transient.
#ifndef RILLET_HAL_TRANSIENT_POOL_H_
#define RILLET_HAL_TRANSIENT_POOL_H_

#include "rillet/hal/device.h"

// Frees the idle blocks. No buffer of the pool may be in use.
void rlt_transient_pool_clear(rlt_transient_pool_t* pool, rlt_allocator_t allocator);

#endif  // RILLET_HAL_TRANSIENT_POOL_H_
