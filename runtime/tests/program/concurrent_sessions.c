// concurrent_sessions THREADS RUNS FILE...: one session for each file, all on one device, each called RUNS times by two
// threads of its own, while another thread loads and releases sessions on the same device.
#include <pthread.h>

#include "call.h"

enum { MAX_SESSIONS = 4, CALLERS = 2 };

static rlt_device_t* device;
static int runs;

static void* call_often(void* session) {
  for (int i = 0; i < runs; ++i) {
    rlt_error_t error;
    CHECK_OK(call((rlt_session_t*)session, false, &error));
  }
  return NULL;
}

static void* load_often(void* path) {
  const rlt_session_options_t options = {.devices = &device, .device_count = 1};
  for (int i = 0; i < runs; ++i) {
    rlt_error_t error;
    rlt_session_t* session = NULL;
    CHECK_OK(rlt_session_open((const char*)path, &options, rlt_allocator_system(), &error, &session));
    CHECK_OK(call(session, false, &error));
    rlt_session_release(session);
  }
  return NULL;
}

int main(int argc, char** argv) {
  CHECK(argc > 3 && argc - 3 <= MAX_SESSIONS);
  runs = atoi(argv[2]);
  rlt_error_t error;
  const rlt_allocator_t system = rlt_allocator_system();
  const rlt_device_options_t device_options = {.thread_count = (uint32_t)atoi(argv[1])};
  CHECK_OK(rlt_cpu_device_create(&device_options, system, &error, &device));
  const rlt_session_options_t options = {.devices = &device, .device_count = 1};
  rlt_session_t* sessions[MAX_SESSIONS] = {NULL};
  pthread_t threads[MAX_SESSIONS * CALLERS + 1];
  int count = 0;
  for (int i = 3; i < argc; ++i) {
    CHECK_OK(rlt_session_open(argv[i], &options, system, &error, &sessions[i - 3]));
    for (int k = 0; k < CALLERS; ++k) CHECK(pthread_create(&threads[count++], NULL, call_often, sessions[i - 3]) == 0);
  }
  CHECK(pthread_create(&threads[count++], NULL, load_often, argv[3]) == 0);
  while (count > 0) pthread_join(threads[--count], NULL);
  for (int i = 3; i < argc; ++i) rlt_session_release(sessions[i - 3]);
  rlt_device_release(device);
  return 0;
}
