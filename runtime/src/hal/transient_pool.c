#include "hal/transient_pool.h"

// As many idle blocks are kept; more only come to be when more invocations run at the same time.
enum { MAX_IDLE = 8 };

struct rlt_transient_pool_t {
  rlt_object_t base;
  rlt_allocator_t allocator;
  rlt_device_t* device;
  rlt_atomic_pointer_t idle[MAX_IDLE];  // pooled_buffer_t
};

// A buffer over the start of a block of the device.
typedef struct pooled_buffer_t {
  rlt_buffer_t base;
  rlt_buffer_t* storage;
} pooled_buffer_t;

static void pooled_free(pooled_buffer_t* pooled, rlt_allocator_t allocator) {
  rlt_buffer_release(pooled->storage);
  rlt_allocator_free(allocator, pooled);
}

static void pool_destroy(rlt_object_t* object) {
  rlt_transient_pool_t* pool = (rlt_transient_pool_t*)object;
  for (int i = 0; i < MAX_IDLE; ++i) {
    pooled_buffer_t* pooled = (pooled_buffer_t*)rlt_atomic_take_pointer(&pool->idle[i]);
    if (pooled) pooled_free(pooled, pool->allocator);
  }
  rlt_device_release(pool->device);
  rlt_allocator_free(pool->allocator, pool);
}

static const rlt_object_type_t pool_type = {"hal.transient_pool", pool_destroy};

rlt_status_t rlt_transient_pool_create(rlt_device_t* device, rlt_allocator_t allocator, rlt_error_t* error,
                                       rlt_transient_pool_t** out_pool) {
  *out_pool = NULL;
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(allocator, sizeof(rlt_transient_pool_t), error, &block));
  rlt_transient_pool_t* pool = (rlt_transient_pool_t*)block;
  rlt_object_initialize(&pool->base, &pool_type);
  pool->allocator = allocator;
  rlt_device_retain(device);
  pool->device = device;
  *out_pool = pool;
  return RLT_OK;
}

void rlt_transient_pool_release(rlt_transient_pool_t* pool) {
  if (pool) rlt_object_release(&pool->base);
}

static void pooled_release(rlt_buffer_t* buffer) {
  pooled_buffer_t* pooled = (pooled_buffer_t*)buffer;
  rlt_transient_pool_t* pool = (rlt_transient_pool_t*)buffer->owner;
  bool kept = false;
  for (int i = 0; i < MAX_IDLE && !kept; ++i) kept = rlt_atomic_put_pointer(&pool->idle[i], pooled);
  if (!kept) pooled_free(pooled, pool->allocator);
  rlt_transient_pool_release(pool);
}

// Takes an idle block of at least `length` bytes. When there is none, a smaller one that is idle is freed, so that the
// pool follows the sizes in use instead of collecting all that ever were. NULL when there is none.
static pooled_buffer_t* take_idle(rlt_transient_pool_t* pool, uint64_t length) {
  pooled_buffer_t* small = NULL;
  for (int i = 0; i < MAX_IDLE; ++i) {
    pooled_buffer_t* pooled = (pooled_buffer_t*)rlt_atomic_take_pointer(&pool->idle[i]);
    if (!pooled) continue;
    if (pooled->storage->length >= length) {
      if (small && !rlt_atomic_put_pointer(&pool->idle[i], small)) pooled_free(small, pool->allocator);
      return pooled;
    }
    if (!small) {
      small = pooled;
    } else if (!rlt_atomic_put_pointer(&pool->idle[i], pooled)) {
      pooled_free(pooled, pool->allocator);
    }
  }
  if (small) pooled_free(small, pool->allocator);
  return NULL;
}

rlt_status_t rlt_transient_pool_acquire(rlt_transient_pool_t* pool, uint64_t length, rlt_error_t* error,
                                        rlt_buffer_t** out_buffer) {
  *out_buffer = NULL;
  pooled_buffer_t* pooled = take_idle(pool, length);
  if (!pooled) {
    rlt_buffer_t* storage = NULL;
    RLT_RETURN_IF_ERROR(rlt_device_allocate(pool->device, rlt_buffer_params_default(), length, error, &storage));
    void* block = NULL;
    const rlt_status_t status = rlt_allocator_allocate(pool->allocator, sizeof(pooled_buffer_t), error, &block);
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
  buffer->release = pooled_release;
  buffer->allocator = pool->allocator;
  rlt_object_retain(&pool->base);
  buffer->owner = pool;
  *out_buffer = buffer;
  return RLT_OK;
}
