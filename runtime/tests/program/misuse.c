// misuse FILE: calls every function of rillet/session.h with arguments that cannot be. FILE's "main" adds two f32 [1000].
#include "harness.h"
#include "rillet/session.h"

enum { COUNT = 1000 };

static _Alignas(64) float input[COUNT + 1];
static int released;

static void count_release(void* owner) { ++*(int*)owner; }

static void test_loading(const char* path) {
  rlt_error_t error;
  rlt_session_t* session = (rlt_session_t*)(uintptr_t)8;
  const rlt_allocator_t system = rlt_allocator_system();
  CHECK_FAILS(rlt_session_open(NULL, NULL, system, &error, &session), RLT_INVALID_ARGUMENT, "'path' is NULL");
  CHECK(session == NULL);
  CHECK_FAILS(rlt_session_open("", NULL, system, &error, &session), RLT_NOT_FOUND, "''");
  CHECK_FAILS(rlt_session_open(".", NULL, system, &error, &session), RLT_INVALID_ARGUMENT, "not a file");
  CHECK_INT(rlt_session_open("none.rlm", NULL, system, NULL, &session), RLT_NOT_FOUND);
  CHECK_FAILS(rlt_session_create(NULL, 64, &released, count_release, NULL, system, &error, &session),
              RLT_INVALID_ARGUMENT, "'data' is NULL");
  CHECK_INT(released, 1);
  CHECK_FAILS(rlt_session_create(NULL, 0, NULL, NULL, NULL, system, &error, &session), RLT_INVALID_ARGUMENT, "NULL");
  CHECK_FAILS(rlt_session_create((const uint8_t*)input + 1, 64, NULL, NULL, NULL, system, &error, &session),
              RLT_INVALID_ARGUMENT, "must start at a multiple of 64");
  for (size_t length = 0; length < 64; ++length) {
    CHECK(rlt_session_create(input, length, NULL, NULL, NULL, system, &error, &session) != RLT_OK);
  }
  rlt_session_options_t options = {.thread_count = UINT32_MAX};
  CHECK_FAILS(rlt_session_open(path, &options, system, &error, &session), RLT_INVALID_ARGUMENT, "threads are not");
  options = (rlt_session_options_t){.static_libraries = {.libraries = NULL, .count = 3}};
  CHECK_OK(rlt_session_open(path, &options, system, &error, &session));  // the file's own are used
  rlt_session_release(session);
  rlt_session_retain(NULL);
  rlt_session_release(NULL);
}

static void test_wrapping(rlt_session_t* session) {
  rlt_error_t error;
  rlt_buffer_view_t* view = (rlt_buffer_view_t*)(uintptr_t)8;
  const int64_t dims[] = {COUNT}, huge[] = {INT64_MAX, INT64_MAX}, negative[] = {-1};
  int64_t many[RLT_VIEW_MAX_RANK + 1];
  for (int i = 0; i <= RLT_VIEW_MAX_RANK; ++i) many[i] = 1;
  const uint64_t size = COUNT * sizeof(float);
#define WRAP(type, rank, dims, data, length) rlt_session_wrap(session, type, rank, dims, data, length, &error, &view)
  CHECK_FAILS(rlt_session_wrap(NULL, RLT_TYPE_F32, 1, dims, input, size, &error, &view), RLT_INVALID_ARGUMENT,
              "'session' is NULL");
  CHECK(view == NULL);
  CHECK_FAILS(WRAP(RLT_TYPE_F32, 1, NULL, input, size), RLT_INVALID_ARGUMENT, "'dims' is NULL");
  CHECK_FAILS(WRAP(RLT_TYPE_F32, 1, dims, NULL, size), RLT_INVALID_ARGUMENT, "'data' is NULL");
  CHECK_FAILS(WRAP(RLT_TYPE_F32, 1, dims, (uint8_t*)input + 2, size), RLT_INVALID_ARGUMENT, "is not aligned");
  CHECK_FAILS(WRAP(RLT_TYPE_F32, 1, dims, input, size - 1), RLT_OUT_OF_RANGE, "does not fit");
  CHECK_FAILS(WRAP(RLT_TYPE_F32, 2, huge, input, size), RLT_INVALID_ARGUMENT, "which no tensor can have");
  CHECK_FAILS(WRAP(RLT_TYPE_F32, 1, negative, input, size), RLT_INVALID_ARGUMENT, "which no tensor can have");
  CHECK_FAILS(WRAP(RLT_TYPE_F32, RLT_VIEW_MAX_RANK + 1, many, input, size), RLT_INVALID_ARGUMENT, "above the limit");
  CHECK_FAILS(WRAP((rlt_element_type_t)0, 1, dims, input, size), RLT_INVALID_ARGUMENT, "is not an element type");
  CHECK_FAILS(WRAP((rlt_element_type_t)200, 1, dims, input, size), RLT_INVALID_ARGUMENT, "is not an element type");
  CHECK_INT(rlt_session_wrap(session, RLT_TYPE_F32, 1, NULL, input, size, NULL, &view), RLT_INVALID_ARGUMENT);
  CHECK_OK(WRAP(RLT_TYPE_F32, 0, NULL, input, size));
  rlt_buffer_view_release(view);
  CHECK_OK(WRAP(RLT_TYPE_F32, 1, (int64_t[]){0}, NULL, 0));
  rlt_buffer_view_release(view);
  rlt_buffer_view_release(NULL);
#undef WRAP
}

static void test_running(rlt_session_t* session) {
  rlt_error_t error;
  uint32_t entry = 0;
  CHECK_FAILS(rlt_session_find_export(session, NULL, &error, &entry), RLT_INVALID_ARGUMENT, "'name' is NULL");
  CHECK_FAILS(rlt_session_find_export(NULL, "main", &error, &entry), RLT_INVALID_ARGUMENT, "'session' is NULL");
  CHECK_FAILS(rlt_session_find_export(session, "", &error, &entry), RLT_NOT_FOUND, "exports no function ''");
  CHECK_OK(rlt_session_find_export(session, "main", &error, &entry));
  rlt_buffer_view_t *x = NULL, *scalar = NULL, *output = NULL;
  const int64_t dims[] = {COUNT};
  CHECK_OK(rlt_session_wrap(session, RLT_TYPE_F32, 1, dims, input, COUNT * sizeof(float), &error, &x));
  CHECK_OK(rlt_session_wrap(session, RLT_TYPE_F32, 0, NULL, input, COUNT * sizeof(float), &error, &scalar));
  rlt_buffer_view_t *both[] = {x, x}, *one[] = {x, NULL}, *wrong[] = {x, scalar};
#define RUN(entry, inputs, input_count, outputs, output_count) \
  rlt_session_run(session, entry, input_count, inputs, output_count, outputs, &error)
  CHECK_FAILS(rlt_session_run(NULL, entry, 2, both, 1, &output, &error), RLT_INVALID_ARGUMENT, "'session' is NULL");
  CHECK_FAILS(RUN(entry, NULL, 2, &output, 1), RLT_INVALID_ARGUMENT, "'inputs' is NULL");
  CHECK_FAILS(RUN(entry, both, 2, NULL, 1), RLT_INVALID_ARGUMENT, "'outputs' is NULL");
  CHECK_FAILS(RUN(entry, both, 1, &output, 1), RLT_INVALID_ARGUMENT, "takes 2 inputs, got 1");
  CHECK_FAILS(RUN(entry, NULL, 0, &output, 1), RLT_INVALID_ARGUMENT, "takes 2 inputs, got 0");
  CHECK_FAILS(RUN(entry, both, UINT32_MAX, &output, 1), RLT_INVALID_ARGUMENT, "takes 2 inputs, got 4294967295");
  CHECK_FAILS(RUN(entry, both, 2, NULL, 0), RLT_INVALID_ARGUMENT, "has 1 outputs, but room for 0 was given");
  CHECK_FAILS(RUN(UINT32_MAX, both, 2, &output, 1), RLT_NOT_FOUND, "export 4294967295 is not below 1");
  CHECK_FAILS(RUN(entry, one, 2, &output, 1), RLT_INVALID_ARGUMENT, "input 'y' is NULL");
  CHECK_FAILS(RUN(entry, wrong, 2, &output, 1), RLT_INVALID_ARGUMENT, "input 'y': expected shape (1000,), got ()");
  CHECK_INT(rlt_session_run(session, entry, 2, one, 1, &output, NULL), RLT_INVALID_ARGUMENT);
  CHECK(output == NULL);
  CHECK_OK(RUN(entry, both, 2, &output, 1));
  CHECK(((const float*)(const void*)output->buffer->data)[7] == 14);
  rlt_buffer_view_release(output);
  rlt_buffer_view_release(scalar);
  rlt_buffer_view_release(x);
#undef RUN
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  for (int i = 0; i < COUNT; ++i) input[i] = (float)i;
  test_loading(argv[1]);
  rlt_error_t error;
  rlt_session_t* session = NULL;
  CHECK_OK(rlt_session_open(argv[1], NULL, rlt_allocator_system(), &error, &session));
  test_wrapping(session);
  test_running(session);
  rlt_session_release(session);
  return 0;
}
