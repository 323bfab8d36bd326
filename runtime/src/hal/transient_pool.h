// Buffers for intermediate values that are used again by the next invocation.
#ifndef RILLET_HAL_TRANSIENT_POOL_H_
#define RILLET_HAL_TRANSIENT_POOL_H_

#include "rillet/device.h"

typedef struct rlt_transient_pool_t rlt_transient_pool_t;

// Makes an empty pool over `device` (retained). The caller owns the reference; buffers that are in use hold others.
rlt_status_t rlt_transient_pool_create(rlt_device_t* device, rlt_allocator_t allocator, rlt_error_t* error,
                                       rlt_transient_pool_t** out_pool);
void rlt_transient_pool_release(rlt_transient_pool_t* pool);

// A buffer of `length` bytes, contents undefined. Its memory returns to the pool with its last reference.
rlt_status_t rlt_transient_pool_acquire(rlt_transient_pool_t* pool, uint64_t length, rlt_error_t* error,
                                        rlt_buffer_t** out_buffer);

#endif  // RILLET_HAL_TRANSIENT_POOL_H_
