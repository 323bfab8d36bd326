#include "hal/transient_pool.h"
#include "harness.h"

static rlt_error_t error;

static rlt_buffer_t* acquire(rlt_transient_pool_t* pool, uint64_t length) {
  rlt_buffer_t* buffer = NULL;
  CHECK_OK(rlt_transient_pool_acquire(pool, length, &error, &buffer));
  CHECK_INT(buffer->length, length);
  memset(buffer->data, 7, length);
  return buffer;
}

static void test_memory_is_used_again(void) {
  rlt_device_t* device = NULL;
  rlt_transient_pool_t* pool = NULL;
  CHECK_OK(rlt_cpu_sync_device_create(NULL, rlt_allocator_system(), &error, &device));
  CHECK_OK(rlt_transient_pool_create(device, rlt_allocator_system(), &error, &pool));
  rlt_buffer_t* first = acquire(pool, 1000);
  const uint8_t* data = first->data;
  rlt_buffer_release(first);
  first = acquire(pool, 900);
  CHECK(first->data == data);
  rlt_buffer_t* second = acquire(pool, 1000);  // at the same time: other memory
  CHECK(second->data != data);
  rlt_buffer_t* span = NULL;
  CHECK_OK(rlt_buffer_subspan(second, 10, 20, rlt_allocator_system(), &error, &span));
  rlt_buffer_release(second);
  second = acquire(pool, 1000);  // the subspan keeps the block
  CHECK(span->data != second->data + 10);
  rlt_buffer_release(span);
  rlt_buffer_release(first);
  rlt_buffer_release(second);
  rlt_buffer_t* last = acquire(pool, 100000);
  rlt_transient_pool_release(pool);
  rlt_device_release(device);
  rlt_buffer_release(last);  // outlives both
}

int main(void) {
  RUN_TEST(test_memory_is_used_again);
  return 0;
}
