// The thread pool and the driver on it, used by several threads at once.
#define _DEFAULT_SOURCE  // nanosleep
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "drivers/cpu/thread_pool.h"
#include "recording.h"

enum { CALLERS = 3, REPEATS = 400, N = 3000 };

static rlt_device_t* device;
static rlt_command_buffer_t* shared_commands;

// Runs the shared command buffer on memory of its own: w = x + y, z = w + y, x' = z + w in two overlapping halves.
static void* call_repeatedly(void* argument) {
  rlt_error_t error;
  const float base = (float)(intptr_t)argument;
  float* memory = malloc(4 * N * sizeof(float));
  rlt_buffer_t* table[4];
  for (int i = 0; i < 4; ++i) table[i] = wrap(memory + i * N, N * sizeof(float), RLT_ACCESS_ALL);
  for (int repeat = 0; repeat < REPEATS; ++repeat) {
    for (int i = 0; i < N; ++i) memory[i] = base, memory[N + i] = (float)repeat;
    CHECK_OK(rlt_device_execute(shared_commands, 4, table, &error));
    for (int i = 0; i < N; ++i) CHECK(memory[3 * N + i] == base + 2 * (float)repeat);
    // Now and then long enough for the workers to fall asleep.
    if (repeat % 100 == 0) nanosleep(&(struct timespec){0, 300000}, NULL);
  }
  for (int i = 0; i < 4; ++i) rlt_buffer_release(table[i]);
  free(memory);
  return NULL;
}

static void test_concurrent_callers(void) {
  rlt_error_t error;
  device = make_task_device(3);
  shared_commands = make_commands(device, 4);
  record_add(shared_commands, 0, 1, 2, 0, N / 2);
  record_add(shared_commands, 0, 1, 2, N / 2 * sizeof(float), N / 2);
  CHECK_OK(rlt_command_buffer_barrier(shared_commands, &error));
  record_add(shared_commands, 2, 1, 3, 0, N);
  CHECK_OK(rlt_command_buffer_end(shared_commands, &error));
  pthread_t callers[CALLERS];
  for (intptr_t i = 0; i < CALLERS; ++i) CHECK(pthread_create(&callers[i], NULL, call_repeatedly, (void*)i) == 0);
  for (int i = 0; i < CALLERS; ++i) pthread_join(callers[i], NULL);
  rlt_command_buffer_release(shared_commands);
  rlt_device_release(device);
}

// Notes which thread ran each workgroup, after constants[1] nanoseconds; constants[0] workgroups.
static int note_thread(const rlt_dispatch_state_t* state, const uint32_t id[3]) {
  if (state->constants[1]) nanosleep(&(struct timespec){0, (long)state->constants[1]}, NULL);
  ((pthread_t*)state->bindings[0])[id[0]] = pthread_self();
  return 0;
}

static void note_count(const int64_t* constants, uint32_t count[3]) {
  count[0] = (uint32_t)constants[0];
  count[1] = count[2] = 1;
}

static const rlt_kernel_table_t* query_notes(uint32_t abi_version) {
  static const rlt_kernel_entry_t entry = {"note", note_thread, note_count, 1, 2, 0, 0};
  static const rlt_kernel_table_t table = {RLT_KERNEL_ABI_VERSION, 1, &entry};
  (void)abi_version;
  return &table;
}

enum { NOTES = 4 };

// Executes the notes `warm` times, then `repeats` times or until another thread ran one; true in that case.
static bool other_threads_run(int64_t nanoseconds, int warm, int repeats) {
  rlt_error_t error;
  rlt_library_t* library = NULL;
  rlt_command_buffer_t* commands = NULL;
  pthread_t threads[NOTES];
  const int64_t constants[2] = {NOTES, nanoseconds};
  CHECK_OK(rlt_cpu_library_create(query_notes, NULL, NULL, 0, rlt_allocator_system(), &error, &library));
  CHECK_OK(rlt_command_buffer_create(device, 1, library, rlt_allocator_system(), &error, &commands));
  CHECK_OK(rlt_command_buffer_constants(commands, 2, constants, &error));
  CHECK_OK(bind(commands, 0, 0, RLT_ACCESS_WRITE, 0, sizeof(threads), &error));
  CHECK_OK(rlt_command_buffer_dispatch(commands, 0, &error));
  CHECK_OK(rlt_command_buffer_end(commands, &error));
  rlt_buffer_t* table[1] = {wrap(threads, sizeof(threads), RLT_ACCESS_WRITE)};
  bool seen = false;
  for (int i = 0; i < warm + repeats && !seen; ++i) {
    CHECK_OK(rlt_device_execute(commands, 1, table, &error));
    for (int k = 0; k < NOTES && i >= warm; ++k) seen = seen || !pthread_equal(threads[k], pthread_self());
  }
  rlt_buffer_release(table[0]);
  rlt_command_buffer_release(commands);
  rlt_library_release(library);
  return seen;
}

static void test_only_long_runs_are_shared(void) {
  device = make_task_device(2);
  CHECK(other_threads_run(1000000, 0, 100));
  CHECK(!other_threads_run(0, 1000, 1000));
  rlt_device_release(device);
}

static pthread_t caller;
static atomic_uint elsewhere;  // pieces that other threads ran

// 25 microseconds on the calling thread, much more on another one: that is on a processor with other work.
static int slow_elsewhere(const rlt_dispatch_state_t* state, const uint32_t id[3]) {
  (void)state, (void)id;
  const uint64_t start = rlt_thread_pool_now();
  if (!pthread_equal(pthread_self(), caller)) {
    atomic_fetch_add(&elsewhere, 1);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  while (rlt_thread_pool_now() - start < 25000) continue;
  return 0;
}

static void four_pieces(const int64_t* constants, uint32_t count[3]) {
  (void)constants;
  count[0] = 4;
  count[1] = count[2] = 1;
}

static const rlt_kernel_table_t* query_slow(uint32_t abi_version) {
  static const rlt_kernel_entry_t entry = {"slow", slow_elsewhere, four_pieces, 1, 0, 0, 0};
  static const rlt_kernel_table_t table = {RLT_KERNEL_ABI_VERSION, 1, &entry};
  (void)abi_version;
  return &table;
}

static void test_what_takes_longer_shared_stays_on_the_caller(void) {
  rlt_error_t error;
  rlt_library_t* library = NULL;
  rlt_command_buffer_t* commands = NULL;
  char memory[8];
  caller = pthread_self();
  device = make_task_device(2);
  CHECK_OK(rlt_cpu_library_create(query_slow, NULL, NULL, 0, rlt_allocator_system(), &error, &library));
  CHECK_OK(rlt_command_buffer_create(device, 1, library, rlt_allocator_system(), &error, &commands));
  CHECK_OK(bind(commands, 0, 0, RLT_ACCESS_WRITE, 0, sizeof(memory), &error));
  CHECK_OK(rlt_command_buffer_dispatch(commands, 0, &error));
  CHECK_OK(rlt_command_buffer_end(commands, &error));
  rlt_buffer_t* table[1] = {wrap(memory, sizeof(memory), RLT_ACCESS_WRITE)};
  for (int i = 0; i < 600; ++i) {
    if (i == 100) atomic_store(&elsewhere, 0);
    CHECK_OK(rlt_device_execute(commands, 1, table, &error));
  }
  CHECK(atomic_load(&elsewhere) < 500 * 4 / 10);
  rlt_buffer_release(table[0]);
  rlt_command_buffer_release(commands);
  rlt_library_release(library);
  rlt_device_release(device);
}

typedef struct job_t {
  atomic_uint pieces, workers_seen;
} job_t;

static void slow_piece(void* argument, uint32_t worker) {
  job_t* job = argument;
  atomic_fetch_or(&job->workers_seen, 1u << worker);
  while (atomic_fetch_add(&job->pieces, 1) < 40) nanosleep(&(struct timespec){0, 100000}, NULL);
}

static void test_sleeping_workers_are_woken(void) {
  rlt_error_t error;
  rlt_thread_pool_t* pool = NULL;
  CHECK_OK(rlt_thread_pool_create(2, rlt_allocator_system(), &error, &pool));
  for (int repeat = 0; repeat < 5; ++repeat) {
    nanosleep(&(struct timespec){0, 2000000}, NULL);  // they spin for less
    job_t job = {0};
    CHECK(rlt_thread_pool_try_open(pool, slow_piece, &job));
    CHECK(!rlt_thread_pool_try_open(pool, slow_piece, &job));
    rlt_thread_pool_wake(pool);
    while (atomic_load(&job.workers_seen) != 3) nanosleep(&(struct timespec){0, 10000}, NULL);
    rlt_thread_pool_close(pool);
    CHECK(atomic_load(&job.pieces) >= 40);
  }
  rlt_thread_pool_destroy(pool);
}

static void test_a_closed_job_is_left_alone(void) {
  rlt_error_t error;
  rlt_thread_pool_t* pool = NULL;
  CHECK_OK(rlt_thread_pool_create(3, rlt_allocator_system(), &error, &pool));
  for (int repeat = 0; repeat < 20000; ++repeat) {
    job_t job = {.pieces = 100};  // on this frame: a worker that is late must not look at it
    CHECK(rlt_thread_pool_try_open(pool, slow_piece, &job));
    rlt_thread_pool_close(pool);
    memset((void*)&job, 0, sizeof(job));
  }
  rlt_thread_pool_destroy(pool);
}

int main(void) {
  RUN_TEST(test_concurrent_callers);
  RUN_TEST(test_only_long_runs_are_shared);
  RUN_TEST(test_what_takes_longer_shared_stays_on_the_caller);
  RUN_TEST(test_sleeping_workers_are_woken);
  RUN_TEST(test_a_closed_job_is_left_alone);
  return 0;
}
