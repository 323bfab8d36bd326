// shared_device THREADS RUNS FILE...: loads several modules on one device, calls them in turn RUNS times, prints the
// outputs, and at last "device N bytes": what the device keeps while nothing runs.
#include "call.h"

enum { MAX_SESSIONS = 4 };

typedef struct counted_t {
  size_t live;
} counted_t;

// A block and, in front of it, its size in the space of one alignment.
static void* counted_allocate(void* self, size_t size, size_t alignment) {
  const size_t front = alignment < 64 ? 64 : alignment;
  uint8_t* block = (uint8_t*)aligned_alloc(front, (size + 2 * front - 1) / front * front);
  if (!block) return NULL;
  memcpy(block + front - sizeof(size_t) * 2, (size_t[]){size, front}, sizeof(size_t) * 2);
  ((counted_t*)self)->live += size;
  return block + front;
}

static void counted_free(void* self, void* block) {
  size_t facts[2];
  memcpy(facts, (uint8_t*)block - sizeof(facts), sizeof(facts));
  ((counted_t*)self)->live -= facts[0];
  free((uint8_t*)block - facts[1]);
}

int main(int argc, char** argv) {
  CHECK(argc > 3 && argc - 3 <= MAX_SESSIONS);
  counted_t counted = {0};
  const rlt_allocator_t allocator = {&counted, counted_allocate, counted_free};
  rlt_error_t error = {0};
  rlt_device_t* device = NULL;
  const rlt_device_options_t device_options = {.thread_count = (uint32_t)atoi(argv[1])};
  CHECK_OK(rlt_cpu_device_create(&device_options, allocator, &error, &device));
  const rlt_session_options_t options = {.devices = &device, .device_count = 1};
  rlt_session_t* sessions[MAX_SESSIONS] = {NULL};
  for (int i = 3; i < argc; ++i) {
    CHECK_OK(rlt_session_open(argv[i], &options, rlt_allocator_system(), &error, &sessions[i - 3]));
  }
  for (int run = 0; run < atoi(argv[2]); ++run) {
    for (int i = 3; i < argc; ++i) CHECK_OK(call(sessions[i - 3], true, &error));
  }
  printf("device %zu bytes\n", counted.live);
  for (int i = 3; i < argc; ++i) rlt_session_release(sessions[i - 3]);
  rlt_device_release(device);
  CHECK_INT(counted.live, 0);
  return 0;
}
