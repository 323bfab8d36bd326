#include "harness.h"
#include "rillet/hal.h"

static int released;

static void count_release(void* owner, void* data) {
  CHECK(owner == &released && data != NULL);
  ++released;
}

static void test_host_buffers_are_aligned(void) {
  rlt_error_t error;
  for (uint64_t length = 0; length < 200; length += 7) {
    rlt_buffer_t* buffer = NULL;
    CHECK_OK(rlt_buffer_allocate_host(rlt_buffer_params_default(), length, rlt_allocator_system(), &error, &buffer));
    CHECK(buffer->data != NULL && (uintptr_t)buffer->data % RLT_BUFFER_ALIGNMENT == 0);
    CHECK_INT(buffer->length, length);
    memset(buffer->data, 1, length);
    rlt_buffer_release(buffer);
  }
}

static void test_a_size_beyond_memory_is_refused(void) {
  rlt_error_t error;
  rlt_buffer_t* buffer = NULL;
  CHECK_FAILS(rlt_buffer_allocate_host(rlt_buffer_params_default(), UINT64_MAX - 8, rlt_allocator_system(), &error,
                                       &buffer),
              RLT_OUT_OF_MEMORY, "address space");
  CHECK(buffer == NULL);
}

static void test_subspans_keep_their_parent(void) {
  rlt_error_t error;
  static uint8_t memory[100];
  rlt_buffer_t *buffer = NULL, *span = NULL, *inner = NULL;
  CHECK_OK(rlt_buffer_wrap(rlt_buffer_params_default(), memory, sizeof(memory), &released, count_release,
                           rlt_allocator_system(), &error, &buffer));
  CHECK_OK(rlt_buffer_subspan(buffer, 10, 50, rlt_allocator_system(), &error, &span));
  CHECK_OK(rlt_buffer_subspan(span, 50, 0, rlt_allocator_system(), &error, &inner));
  CHECK(span->data == memory + 10 && inner->data == memory + 60);
  rlt_buffer_release(inner);
  CHECK_FAILS(rlt_buffer_subspan(span, 50, 1, rlt_allocator_system(), &error, &inner), RLT_OUT_OF_RANGE, "do not fit");
  CHECK_FAILS(rlt_buffer_subspan(span, UINT64_MAX, 2, rlt_allocator_system(), &error, &inner), RLT_OUT_OF_RANGE,
              "do not fit");
  rlt_buffer_release(buffer);
  CHECK_INT(released, 0);
  rlt_buffer_release(span);
  CHECK_INT(released, 1);
}

static void test_mapping_respects_access(void) {
  rlt_error_t error;
  static uint8_t memory[8];
  const rlt_buffer_params_t read_only = {RLT_MEMORY_HOST_VISIBLE, RLT_USAGE_ALL, RLT_ACCESS_READ};
  rlt_buffer_t* buffer = NULL;
  void* data = NULL;
  CHECK_OK(rlt_buffer_wrap(read_only, memory, 8, NULL, NULL, rlt_allocator_system(), &error, &buffer));
  CHECK_OK(rlt_buffer_map(buffer, 4, 4, RLT_ACCESS_READ, &error, &data));
  CHECK(data == memory + 4);
  CHECK_FAILS(rlt_buffer_map(buffer, 4, 5, RLT_ACCESS_READ, &error, &data), RLT_OUT_OF_RANGE, "do not fit");
  CHECK_FAILS(rlt_buffer_map(buffer, 0, 1, RLT_ACCESS_WRITE, &error, &data), RLT_FAILED_PRECONDITION, "read-only");
  rlt_buffer_release(buffer);
  CHECK_OK(rlt_buffer_wrap(read_only, memory, 8, NULL, NULL, rlt_allocator_system(), &error, &buffer));
  rlt_device_t* device = NULL;
  CHECK_OK(rlt_cpu_device_create(&(rlt_device_options_t){0}, rlt_allocator_system(), &error, &device));
  buffer->device = device;
  CHECK_FAILS(rlt_buffer_map(buffer, 0, 1, RLT_ACCESS_READ, &error, &data), RLT_FAILED_PRECONDITION, "cannot see");
  rlt_device_release(device);
  rlt_buffer_release(buffer);
}

static void test_views_must_fit(void) {
  rlt_error_t error;
  rlt_buffer_t* buffer = NULL;
  rlt_buffer_view_t* view = NULL;
  const rlt_allocator_t allocator = rlt_allocator_system();
  CHECK_OK(rlt_buffer_allocate_host(rlt_buffer_params_default(), 24, allocator, &error, &buffer));
  CHECK_OK(rlt_buffer_view_create(buffer, RLT_TYPE_F32, 2, (int64_t[]){2, 3}, allocator, &error, &view));
  CHECK_INT(view->length, 24);
  rlt_buffer_view_release(view);
  CHECK_OK(rlt_buffer_view_create(buffer, RLT_TYPE_F64, 0, NULL, allocator, &error, &view));
  CHECK_INT(view->length, 8);
  rlt_buffer_view_release(view);
  CHECK_FAILS(rlt_buffer_view_create(buffer, RLT_TYPE_F32, 2, (int64_t[]){2, 4}, allocator, &error, &view),
              RLT_OUT_OF_RANGE, "does not fit");
  CHECK_FAILS(rlt_buffer_view_create(buffer, RLT_TYPE_F32, 1, (int64_t[]){-1}, allocator, &error, &view),
              RLT_INVALID_ARGUMENT, "dimension 0 is -1");
  CHECK_FAILS(rlt_buffer_view_create(buffer, RLT_TYPE_F32, 2, (int64_t[]){INT64_MAX, 2}, allocator, &error, &view),
              RLT_INVALID_ARGUMENT, "no tensor can have");
  CHECK_FAILS(rlt_buffer_view_create(buffer, 8, 0, NULL, allocator, &error, &view), RLT_INVALID_ARGUMENT,
              "not an element type");
  CHECK_FAILS(rlt_buffer_view_create(buffer, RLT_TYPE_U8, 33, NULL, allocator, &error, &view), RLT_INVALID_ARGUMENT,
              "rank of 33");
  rlt_buffer_release(buffer);
}

int main(void) {
  RUN_TEST(test_host_buffers_are_aligned);
  RUN_TEST(test_a_size_beyond_memory_is_refused);
  RUN_TEST(test_subspans_keep_their_parent);
  RUN_TEST(test_mapping_respects_access);
  RUN_TEST(test_views_must_fit);
  return 0;
}
