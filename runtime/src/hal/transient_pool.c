#include "hal/transient_pool.h"

// A buffer over the start of a block of the device.
typedef struct pooled_buffer_t {
  rlt_buffer_t base;
  rlt_buffer_t* storage;
} pooled_buffer_t;

static void pooled_free(pooled_buffer_t* pooled, rlt_allocator_t allocator) {
  rlt_buffer_release(pooled->storage);
  rlt_allocator_free(allocator, pooled);
}

void rlt_transient_pool_clear(rlt_transient_pool_t* pool, rlt_allocator_t allocator) {
  for (int i = 0; i < RLT_TRANSIENT_POOL_MAX_IDLE; ++i) {
    pooled_buffer_t* pooled = (pooled_buffer_t*)rlt_atomic_take_pointer(&pool->idle[i]);
    if (pooled) pooled_free(pooled, allocator);
  }
}

static void pooled_release(rlt_buffer_t* buffer) {
  pooled_buffer_t* pooled = (pooled_buffer_t*)buffer;
  rlt_device_t* device = (rlt_device_t*)buffer->owner;
  bool kept = false;
  for (int i = 0; i < RLT_TRANSIENT_POOL_MAX_IDLE && !kept; ++i) {
    kept = rlt_atomic_put_pointer(&device->transients.idle[i], pooled);
  }
  if (!kept) pooled_free(pooled, device->allocator);
  rlt_device_release(device);
}

// Takes an idle block of at least `length` bytes. When there is none, a smaller one that is idle is freed, so that the
// pool follows the sizes in use instead of collecting all that ever were. NULL when there is none.
static pooled_buffer_t* take_idle(rlt_device_t* device, uint64_t length) {
  rlt_transient_pool_t* pool = &device->transients;
  pooled_buffer_t* small = NULL;
  for (int i = 0; i < RLT_TRANSIENT_POOL_MAX_IDLE; ++i) {
    pooled_buffer_t* pooled = (pooled_buffer_t*)rlt_atomic_take_pointer(&pool->idle[i]);
    if (!pooled) continue;
    if (pooled->storage->length >= length) {
      if (small && !rlt_atomic_put_pointer(&pool->idle[i], small)) pooled_free(small, device->allocator);
      return pooled;
    }
    if (!small) {
      small = pooled;
    } else if (!rlt_atomic_put_pointer(&pool->idle[i], pooled)) {
      pooled_free(pooled, device->allocator);
    }
  }
  if (small) pooled_free(small, device->allocator);
  return NULL;
}

rlt_status_t rlt_device_acquire_transient(rlt_device_t* device, uint64_t length, rlt_error_t* error,
                                          rlt_buffer_t** out_buffer) {
  *out_buffer = NULL;
  pooled_buffer_t* pooled = take_idle(device, length);
  if (!pooled) {
    rlt_buffer_t* storage = NULL;
    RLT_RETURN_IF_ERROR(device->vtable->allocate(device, rlt_buffer_params_default(), length, error, &storage));
    void* block = NULL;
    const rlt_status_t status = rlt_allocator_allocate(device->allocator, sizeof(pooled_buffer_t), error, &block);
    if (status != RLT_OK) {
      rlt_buffer_release(storage);
      return status;
    }
    pooled = (pooled_buffer_t*)block;
    pooled->storage = storage;
  }
  rlt_buffer_t* buffer = &pooled->base;
  rlt_object_initialize(&buffer->base, &rlt_buffer_type);
  buffer->params = pooled->storage->params;
  buffer->data = pooled->storage->data;
  buffer->length = length;
#ifndef RLT_FREESTANDING
  buffer->device = pooled->storage->device;
#endif
  buffer->release = pooled_release;
  buffer->allocator = device->allocator;
  rlt_device_retain(device);
  buffer->owner = device;
  *out_buffer = buffer;
  return RLT_OK;
}
