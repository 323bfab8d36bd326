#include "recording.h"

static rlt_error_t error;

static rlt_buffer_t* acquire(rlt_device_t* device, uint64_t length) {
  rlt_buffer_t* buffer = NULL;
  CHECK_OK(rlt_device_acquire_transient(device, length, &error, &buffer));
  CHECK_INT(buffer->length, length);
  memset(buffer->data, 7, length);
  return buffer;
}

static void test_memory_is_used_again(void) {
  rlt_device_t* device = make_sync_device();
  rlt_buffer_t* first = acquire(device, 1000);
  const uint8_t* data = first->data;
  rlt_buffer_release(first);
  first = acquire(device, 900);
  CHECK(first->data == data);
  rlt_buffer_t* second = acquire(device, 1000);  // at the same time: other memory
  CHECK(second->data != data);
  rlt_buffer_t* span = NULL;
  CHECK_OK(rlt_buffer_subspan(second, 10, 20, rlt_allocator_system(), &error, &span));
  rlt_buffer_release(second);
  second = acquire(device, 1000);  // the subspan keeps the block
  CHECK(span->data != second->data + 10);
  rlt_buffer_release(span);
  rlt_buffer_release(first);
  rlt_buffer_release(second);
  rlt_buffer_t* last = acquire(device, 100000);
  rlt_device_release(device);
  rlt_buffer_release(last);  // keeps the device
}

int main(void) {
  RUN_TEST(test_memory_is_used_again);
  return 0;
}
