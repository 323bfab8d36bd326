// pending FILE THREADS RUNS: calls FILE's "main", which adds two f32 [1000], RUNS times with several calls pending, from two
// threads at a time, on one session; then what can happen to a pending call.
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "rillet/session.h"

enum { COUNT = 1000, FLIGHT = 8 };

static rlt_session_t* session;
static int runs;
static _Alignas(64) float y[COUNT];

static rlt_buffer_view_t* view_of(const float* data) {
  rlt_error_t error;
  rlt_buffer_view_t* view = NULL;
  CHECK_OK(rlt_session_wrap(session, RLT_TYPE_F32, 1, (int64_t[]){COUNT}, data, COUNT * sizeof(float), &error, &view));
  return view;
}

static rlt_pending_t* submit(const float* x) {
  rlt_error_t error;
  rlt_pending_t* pending = NULL;
  rlt_buffer_view_t* inputs[2] = {view_of(x), view_of(y)};
  CHECK_OK(rlt_session_submit(session, 0, 2, inputs, &error, &pending));
  rlt_buffer_view_release(inputs[0]);  // the call keeps them
  rlt_buffer_view_release(inputs[1]);
  return pending;
}

static void* call_often(void* argument) {
  const float base = (float)(intptr_t)argument;
  float* x = malloc(FLIGHT * COUNT * sizeof(float));
  for (int run = 0; run < runs; ++run) {
    rlt_pending_t* pending[FLIGHT];
    for (int i = 0; i < FLIGHT; ++i) {
      for (int k = 0; k < COUNT; ++k) x[i * COUNT + k] = base + (float)(run + i);
      pending[i] = submit(x + i * COUNT);
    }
    for (int i = FLIGHT; i-- > 0;) {
      rlt_error_t error;
      rlt_buffer_view_t* output = NULL;
      CHECK_OK(rlt_pending_wait(pending[i], UINT64_MAX, 1, &output, &error));
      CHECK(rlt_pending_is_done(pending[i]));
      const float* z = (const float*)(const void*)output->buffer->data;
      for (int k = 0; k < COUNT; ++k) CHECK(z[k] == base + (float)(run + i + k));
      rlt_pending_release(pending[i]);
      rlt_buffer_view_release(output);  // may outlive the call
    }
  }
  free(x);
  return NULL;
}

static void test_misuse(void) {
  rlt_error_t error;
  rlt_pending_t* pending = NULL;
  rlt_buffer_view_t* input = view_of(y);
  rlt_buffer_view_t *both[2] = {input, input}, *output = NULL;
  CHECK_FAILS(rlt_session_submit(NULL, 0, 2, both, &error, &pending), RLT_INVALID_ARGUMENT, "'session' is NULL");
  CHECK_FAILS(rlt_session_submit(session, 9, 2, both, &error, &pending), RLT_NOT_FOUND, "export 9");
  CHECK_FAILS(rlt_session_submit(session, 0, 1, both, &error, &pending), RLT_INVALID_ARGUMENT, "takes 2 inputs");
  CHECK(pending == NULL);
  CHECK_OK(rlt_session_submit(session, 0, 2, both, &error, &pending));
  CHECK_FAILS(rlt_pending_wait(pending, 0, 2, both, &error), RLT_INVALID_ARGUMENT, "has 1 outputs");
  CHECK_FAILS(rlt_pending_wait(pending, 0, 1, NULL, &error), RLT_INVALID_ARGUMENT, "'outputs' is NULL");
  CHECK_FAILS(rlt_pending_wait(NULL, 0, 0, NULL, &error), RLT_INVALID_ARGUMENT, "'pending' is NULL");
  CHECK_OK(rlt_pending_wait(pending, UINT64_MAX, 1, &output, &error));
  rlt_buffer_view_release(output);
  CHECK_OK(rlt_pending_wait(pending, 0, 1, &output, &error));  // again
  rlt_buffer_view_release(output);
  rlt_pending_release(pending);
  rlt_pending_release(NULL);
  rlt_buffer_view_release(input);
}

// A fork has neither the work nor the threads of calls that are pending, but can call, and submit calls of its own.
static void test_a_fork(void) {
  static float x[COUNT];
  rlt_pending_t* pending = submit(x);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    rlt_error_t error;
    rlt_buffer_view_t* output = NULL;
    CHECK(!rlt_pending_is_done(pending));
    CHECK_FAILS(rlt_pending_wait(pending, UINT64_MAX, 1, &output, &error), RLT_FAILED_PRECONDITION, "a fork of");
    rlt_pending_release(pending);
    rlt_pending_t* own = submit(x);
    CHECK_OK(rlt_pending_wait(own, UINT64_MAX, 1, &output, &error));
    rlt_buffer_view_release(output);
    rlt_pending_release(own);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  rlt_pending_release(pending);  // waits
}

int main(int argc, char** argv) {
  CHECK(argc == 4 || argc == 5);
  for (int i = 0; i < COUNT; ++i) y[i] = (float)i;
  runs = atoi(argv[3]);
  rlt_error_t error;
  const rlt_session_options_t options = {.thread_count = (uint32_t)atoi(argv[2])};
  CHECK_OK(rlt_session_open(argv[1], &options, rlt_allocator_system(), &error, &session));
  pthread_t threads[2];
  for (intptr_t i = 0; i < 2; ++i) CHECK(pthread_create(&threads[i], NULL, call_often, (void*)(10 * i)) == 0);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  test_misuse();
  if (argc == 5) test_a_fork();
  rlt_session_release(session);
  return 0;
}
