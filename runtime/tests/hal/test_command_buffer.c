#include "recording.h"

static rlt_error_t error;
static rlt_device_t* device;

static void test_recording_is_checked(void) {
  rlt_command_buffer_t* commands = make_commands(device, 2);
  const int64_t n = 4;
  CHECK_FAILS(bind(commands, 1, 0, RLT_ACCESS_READ, 0, 16, &error), RLT_INVALID_ARGUMENT, "binding 0 is next");
  CHECK_FAILS(bind(commands, 0, 2, RLT_ACCESS_READ, 0, 16, &error), RLT_OUT_OF_RANGE, "slot 2 is not below 2");
  CHECK_FAILS(bind(commands, 0, 0, RLT_ACCESS_READ, UINT64_MAX, 16, &error), RLT_OUT_OF_RANGE, "too large");
  CHECK_FAILS(bind(commands, 0, 0, 0, 0, 16, &error), RLT_INVALID_ARGUMENT, "access 0");
  CHECK_FAILS(rlt_command_buffer_dispatch(commands, ENTRY_COUNT, &error), RLT_OUT_OF_RANGE, "entry 4 is not below 4");
  CHECK_OK(bind(commands, 0, 0, RLT_ACCESS_READ, 0, 16, &error));
  CHECK_FAILS(rlt_command_buffer_dispatch(commands, ENTRY_ADD, &error), RLT_INVALID_ARGUMENT,
              "takes 3 bindings and 1 constants, but 1 and 0");
  CHECK_OK(rlt_command_buffer_constants(commands, 1, &n, &error));
  CHECK_FAILS(rlt_command_buffer_barrier(commands, &error), RLT_FAILED_PRECONDITION, "for no dispatch");
  CHECK_FAILS(rlt_command_buffer_end(commands, &error), RLT_FAILED_PRECONDITION, "for no dispatch");
  rlt_command_buffer_release(commands);
}

static void test_transfers_are_checked(void) {
  rlt_command_buffer_t* commands = make_commands(device, 2);
  CHECK_FAILS(rlt_command_buffer_fill(commands, 0, 0, 8, 0, 3, &error), RLT_INVALID_ARGUMENT, "pattern of 3 bytes");
  CHECK_FAILS(rlt_command_buffer_fill(commands, 0, 0, 6, 0, 4, &error), RLT_INVALID_ARGUMENT, "cannot be filled");
  CHECK_FAILS(rlt_command_buffer_fill(commands, 5, 0, 8, 0, 4, &error), RLT_OUT_OF_RANGE, "slot 5");
  CHECK_FAILS(rlt_command_buffer_copy(commands, 0, 8, 0, 0, 9, &error), RLT_INVALID_ARGUMENT, "overlaps itself");
  CHECK_OK(rlt_command_buffer_copy(commands, 0, 8, 0, 0, 8, &error));
  rlt_command_buffer_release(commands);
}

static void test_it_is_frozen_at_its_end(void) {
  rlt_command_buffer_t* commands = make_commands(device, 1);
  const int64_t n = 1;
  CHECK_FAILS(rlt_command_buffer_check_table(commands, 0, NULL, &error), RLT_FAILED_PRECONDITION, "before its end");
  CHECK_OK(rlt_command_buffer_end(commands, &error));
  CHECK_FAILS(rlt_command_buffer_end(commands, &error), RLT_FAILED_PRECONDITION, "has ended");
  CHECK_FAILS(rlt_command_buffer_barrier(commands, &error), RLT_FAILED_PRECONDITION, "has ended");
  CHECK_FAILS(rlt_command_buffer_constants(commands, 1, &n, &error), RLT_FAILED_PRECONDITION, "has ended");
  CHECK_FAILS(rlt_command_buffer_fill(commands, 0, 0, 8, 0, 4, &error), RLT_FAILED_PRECONDITION, "has ended");
  rlt_command_buffer_release(commands);
}

static void test_the_table_is_checked(void) {
  static float memory[8];
  rlt_command_buffer_t* commands = make_commands(device, 4);  // slot 3 is not used
  record_add(commands, 0, 1, 2, 16, 4);
  CHECK_OK(rlt_command_buffer_end(commands, &error));
  rlt_buffer_t* good = wrap(memory, 32, RLT_ACCESS_ALL);
  rlt_buffer_t* short_by_one = wrap(memory, 31, RLT_ACCESS_ALL);
  rlt_buffer_t* read_only = wrap(memory, 32, RLT_ACCESS_READ);
  rlt_buffer_t* write_only = wrap(memory, 32, RLT_ACCESS_WRITE);
  rlt_buffer_t* table[4] = {read_only, read_only, write_only, NULL};
  CHECK_OK(rlt_command_buffer_check_table(commands, 4, table, &error));
  CHECK_FAILS(rlt_command_buffer_check_table(commands, 3, table, &error), RLT_INVALID_ARGUMENT, "4 slots, but 3");
  table[2] = read_only;
  CHECK_FAILS(rlt_command_buffer_check_table(commands, 4, table, &error), RLT_FAILED_PRECONDITION,
              "write to slot 2, but its buffer is read-only");
  table[2] = good;
  table[1] = write_only;
  CHECK_FAILS(rlt_command_buffer_check_table(commands, 4, table, &error), RLT_FAILED_PRECONDITION,
              "read slot 1, but its buffer is write-only");
  table[1] = short_by_one;
  CHECK_FAILS(rlt_command_buffer_check_table(commands, 4, table, &error), RLT_OUT_OF_RANGE,
              "use 32 bytes of slot 1, but its buffer has 31");
  table[1] = NULL;
  CHECK_FAILS(rlt_command_buffer_check_table(commands, 4, table, &error), RLT_INVALID_ARGUMENT, "slot 1");
  table[1] = good;
  good->params.usage = RLT_USAGE_TRANSFER;
  CHECK_FAILS(rlt_command_buffer_check_table(commands, 4, table, &error), RLT_FAILED_PRECONDITION, "this use");
  rlt_buffer_release(good);
  rlt_buffer_release(short_by_one);
  rlt_buffer_release(read_only);
  rlt_buffer_release(write_only);
  rlt_command_buffer_release(commands);
}

int main(void) {
  device = make_sync_device();
  RUN_TEST(test_recording_is_checked);
  RUN_TEST(test_transfers_are_checked);
  RUN_TEST(test_it_is_frozen_at_its_end);
  RUN_TEST(test_the_table_is_checked);
  rlt_device_release(device);
  return 0;
}
