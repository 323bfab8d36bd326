// What every CPU driver must do, on each of them.
#include "recording.h"

static rlt_error_t error;
static rlt_device_t* device;

static void execute(const rlt_command_buffer_t* commands, uint32_t count, rlt_buffer_t* const* table) {
  CHECK_OK(rlt_device_execute(commands, count, table, &error));
}

static void test_commands_after_a_barrier_see_what_came_before(void) {
  enum { N = 10000 };
  static float x[N], y[N], z[N], w[N];
  for (int i = 0; i < N; ++i) x[i] = (float)i, y[i] = 1;
  rlt_command_buffer_t* commands = make_commands(device, 4);
  record_add(commands, 0, 1, 2, 0, N);
  CHECK_OK(rlt_command_buffer_barrier(commands, &error));
  record_add(commands, 2, 1, 3, 0, N);
  CHECK_OK(rlt_command_buffer_barrier(commands, &error));
  CHECK_OK(rlt_command_buffer_copy(commands, 2, 0, 3, 0, sizeof(z), &error));
  CHECK_OK(rlt_command_buffer_barrier(commands, &error));
  record_add(commands, 2, 1, 3, 0, N);
  CHECK_OK(rlt_command_buffer_end(commands, &error));
  rlt_buffer_t* table[4] = {wrap(x, sizeof(x), RLT_ACCESS_READ), wrap(y, sizeof(y), RLT_ACCESS_READ),
                            wrap(z, sizeof(z), RLT_ACCESS_ALL), wrap(w, sizeof(w), RLT_ACCESS_ALL)};
  for (int repeat = 0; repeat < 50; ++repeat) {
    memset(z, 0, sizeof(z));
    memset(w, 0, sizeof(w));
    execute(commands, 4, table);
    for (int i = 0; i < N; ++i) CHECK(w[i] == (float)i + 3);
  }
  for (int i = 0; i < 4; ++i) rlt_buffer_release(table[i]);
  rlt_command_buffer_release(commands);
}

static void test_grids_and_local_memory(void) {
  static int32_t out[3 * 5 * 7];
  memset(out, 0, sizeof(out));
  rlt_command_buffer_t* commands = make_commands(device, 1);
  CHECK_OK(bind(commands, 0, 0, RLT_ACCESS_WRITE, 0, sizeof(out), &error));
  CHECK_OK(rlt_command_buffer_dispatch(commands, ENTRY_GRID, &error));
  CHECK_OK(rlt_command_buffer_end(commands, &error));
  rlt_buffer_t* table[1] = {wrap(out, sizeof(out), RLT_ACCESS_WRITE)};
  execute(commands, 1, table);
  for (int i = 0; i < 3 * 5 * 7; ++i) CHECK_INT(out[i], 100 * (i / 15) + 10 * (i / 3 % 5) + i % 3);
  rlt_buffer_release(table[0]);
  rlt_command_buffer_release(commands);
}

static void check_fill(uint32_t pattern_size, uint64_t pattern, uint64_t offset, uint64_t length) {
  static uint8_t memory[200000];
  memset(memory, 0xee, sizeof(memory));
  rlt_command_buffer_t* commands = make_commands(device, 1);
  CHECK_OK(rlt_command_buffer_fill(commands, 0, offset, length, pattern, pattern_size, &error));
  CHECK_OK(rlt_command_buffer_end(commands, &error));
  rlt_buffer_t* table[1] = {wrap(memory, sizeof(memory), RLT_ACCESS_WRITE)};
  execute(commands, 1, table);
  for (uint64_t i = 0; i < sizeof(memory); ++i) {
    const bool inside = i >= offset && i - offset < length;
    CHECK_INT(memory[i], inside ? (uint8_t)(pattern >> (8 * ((i - offset) % pattern_size))) : 0xee);
  }
  rlt_buffer_release(table[0]);
  rlt_command_buffer_release(commands);
}

static void test_fills(void) {
  check_fill(1, 0xffffffffffffff42, 3, 100);
  check_fill(2, 0x1234, 2, 131074);
  check_fill(4, 0x12345678, 4, 65536 + 4);
  check_fill(8, 0x123456789abcdef0, 8, 8);
  check_fill(4, 0, 0, 0);
  check_fill(2, 0x4242, 0, 70000);
}

static void test_an_empty_grid_does_nothing(void) {
  static float x[1];
  rlt_command_buffer_t* commands = make_commands(device, 1);
  record_add(commands, 0, 0, 0, 0, 0);
  CHECK_OK(rlt_command_buffer_end(commands, &error));
  rlt_buffer_t* table[1] = {wrap(x, sizeof(x), RLT_ACCESS_ALL)};
  execute(commands, 1, table);
  rlt_buffer_release(table[0]);
  rlt_command_buffer_release(commands);
}

static void test_kernel_errors_name_the_dispatch(void) {
  static float values[2], out[1];
  int64_t indices[1] = {7};
  const int64_t constants[2] = {2, 1};
  rlt_command_buffer_t* commands = make_commands(device, 3);
  CHECK_OK(rlt_command_buffer_constants(commands, 2, constants, &error));
  CHECK_OK(bind(commands, 0, 0, RLT_ACCESS_READ, 0, sizeof(values), &error));
  CHECK_OK(bind(commands, 1, 1, RLT_ACCESS_READ, 0, sizeof(indices), &error));
  CHECK_OK(bind(commands, 2, 2, RLT_ACCESS_WRITE, 0, sizeof(out), &error));
  CHECK_OK(rlt_command_buffer_dispatch(commands, ENTRY_GATHER, &error));
  CHECK_OK(rlt_command_buffer_end(commands, &error));
  rlt_buffer_t* table[3] = {wrap(values, sizeof(values), RLT_ACCESS_READ), wrap(indices, sizeof(indices), RLT_ACCESS_READ),
                            wrap(out, sizeof(out), RLT_ACCESS_WRITE)};
  CHECK_FAILS(rlt_device_execute(commands, 3, table, &error), RLT_TRAP,
              "an index in the data is out of bounds (in kernel 'gather')");
  CHECK_INT(error.entry, ENTRY_GATHER + 1);
  indices[0] = 1;
  execute(commands, 3, table);
  for (int i = 0; i < 3; ++i) rlt_buffer_release(table[i]);
  rlt_command_buffer_release(commands);
}

static void test_submissions_go_on_by_themselves_in_order(void) {
  enum { N = 1000, STEPS = 50 };
  static float x[N], z[N];
  memset(z, 0, sizeof(z));
  for (int i = 0; i < N; ++i) x[i] = 1;
  rlt_semaphore_t* semaphore = NULL;
  CHECK_OK(rlt_semaphore_create(0, rlt_allocator_system(), &error, &semaphore));
  rlt_command_buffer_t* commands = make_commands(device, 2);
  record_add(commands, 0, 1, 1, 0, N);
  CHECK_OK(rlt_command_buffer_end(commands, &error));
  rlt_buffer_t* table[2] = {wrap(x, sizeof(x), RLT_ACCESS_READ), wrap(z, sizeof(z), RLT_ACCESS_ALL)};
  for (uint64_t step = 1; step <= STEPS; ++step) {
    // The first waits for what this thread signals below, so that all are queued before any begins.
    const rlt_semaphore_point_t before = {semaphore, step}, after = {semaphore, step + 1};
    const rlt_submission_t submission = {
        .wait = {&before, 1}, .done = {&after, 1}, .commands = commands, .buffers = table, .buffer_count = 2};
    CHECK_OK(rlt_device_submit(device, &submission, &error));
  }
  CHECK(z[0] == 0);
  CHECK_OK(rlt_semaphore_signal(semaphore, 1, &error));
  CHECK_OK(rlt_semaphore_wait(semaphore, STEPS + 1, UINT64_MAX, &error));
  for (int i = 0; i < N; ++i) CHECK(z[i] == STEPS);
  rlt_buffer_release(table[0]);
  rlt_buffer_release(table[1]);
  rlt_command_buffer_release(commands);
  rlt_semaphore_release(semaphore);
}

static void test_submissions_fail_with_the_error_of_the_work(void) {
  static float values[2], out[1];
  static int64_t indices[1] = {7};
  const int64_t constants[2] = {2, 1};
  rlt_semaphore_t *first = NULL, *second = NULL;
  CHECK_OK(rlt_semaphore_create(0, rlt_allocator_system(), &error, &first));
  CHECK_OK(rlt_semaphore_create(0, rlt_allocator_system(), &error, &second));
  rlt_command_buffer_t* commands = make_commands(device, 3);
  CHECK_OK(rlt_command_buffer_constants(commands, 2, constants, &error));
  CHECK_OK(bind(commands, 0, 0, RLT_ACCESS_READ, 0, sizeof(values), &error));
  CHECK_OK(bind(commands, 1, 1, RLT_ACCESS_READ, 0, sizeof(indices), &error));
  CHECK_OK(bind(commands, 2, 2, RLT_ACCESS_WRITE, 0, sizeof(out), &error));
  CHECK_OK(rlt_command_buffer_dispatch(commands, ENTRY_GATHER, &error));
  CHECK_OK(rlt_command_buffer_end(commands, &error));
  rlt_buffer_t* table[3] = {wrap(values, sizeof(values), RLT_ACCESS_READ),
                            wrap(indices, sizeof(indices), RLT_ACCESS_READ), wrap(out, sizeof(out), RLT_ACCESS_WRITE)};
  const rlt_semaphore_point_t one = {first, 1}, two = {second, 1};
  rlt_submission_t submission = {.done = {&one, 1}, .commands = commands, .buffers = table, .buffer_count = 3};
  CHECK_OK(rlt_device_submit(device, &submission, &error));
  // What waits for failed work fails with its error, and does nothing.
  submission = (rlt_submission_t){.wait = {&one, 1}, .done = {&two, 1}};
  CHECK_OK(rlt_device_submit(device, &submission, &error));
  CHECK_FAILS(rlt_semaphore_wait(second, 1, UINT64_MAX, &error), RLT_TRAP, "out of bounds (in kernel 'gather')");
  CHECK_INT(error.entry, ENTRY_GATHER + 1);
  CHECK_FAILS(rlt_semaphore_wait(first, 1, UINT64_MAX, &error), RLT_TRAP, "out of bounds");
  rlt_buffer_t* wrong[3] = {NULL, NULL, NULL};
  submission = (rlt_submission_t){.done = {&two, 1}, .commands = commands, .buffers = wrong, .buffer_count = 3};
  CHECK_FAILS(rlt_device_submit(device, &submission, &error), RLT_INVALID_ARGUMENT, "empty");
  for (int i = 0; i < 3; ++i) rlt_buffer_release(table[i]);
  rlt_command_buffer_release(commands);
  rlt_semaphore_release(first);
  rlt_semaphore_release(second);
}

static void test_allocated_buffers_are_aligned(void) {
  rlt_buffer_t* buffer = NULL;
  CHECK_OK(rlt_device_allocate(device, rlt_buffer_params_default(), 1000, &error, &buffer));
  CHECK_INT((uintptr_t)buffer->data % RLT_BUFFER_ALIGNMENT, 0);
  rlt_buffer_release(buffer);
}

static void run_tests(void) {
  printf("%s\n", device->vtable->name);
  RUN_TEST(test_commands_after_a_barrier_see_what_came_before);
  RUN_TEST(test_grids_and_local_memory);
  RUN_TEST(test_fills);
  RUN_TEST(test_an_empty_grid_does_nothing);
  RUN_TEST(test_kernel_errors_name_the_dispatch);
  RUN_TEST(test_submissions_go_on_by_themselves_in_order);
  RUN_TEST(test_submissions_fail_with_the_error_of_the_work);
  RUN_TEST(test_allocated_buffers_are_aligned);
  rlt_device_release(device);
}

int main(void) {
  device = make_sync_device();
  run_tests();
  for (uint32_t threads = 1; threads <= 4; ++threads) {
    device = make_task_device(threads);
    run_tests();
  }
  const rlt_allocator_t system = rlt_allocator_system();
  rlt_device_options_t options = {.thread_count = UINT32_MAX};
  CHECK_FAILS(rlt_cpu_task_device_create(&options, system, &error, &device), RLT_INVALID_ARGUMENT,
              "threads are not between");
  CHECK_INT(rlt_cpu_device_create(&options, system, NULL, &device), RLT_INVALID_ARGUMENT);
  const rlt_dispatch_observer_t observer = {0};
  options = (rlt_device_options_t){.thread_count = 2, .observer = &observer};
  CHECK_FAILS(rlt_cpu_task_device_create(&options, system, &error, &device), RLT_UNIMPLEMENTED, "observed");
  rlt_device_retain(NULL);
  rlt_device_release(NULL);
  return 0;
}
