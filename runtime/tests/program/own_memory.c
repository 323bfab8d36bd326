// own_memory FILE: runs a program on the drivers "cpu-sync" and "npu", prints its outputs twice, once of a call that is
// waited for and once of one that goes on by itself, and last how often memory was copied to or from the npu.
#include "own_memory.h"

#include "call.h"

static void check_reading(void) {
  rlt_error_t error;
  rlt_device_t* device = NULL;
  rlt_buffer_t *there = NULL, *part = NULL;
  uint8_t data[16], back[4];
  for (int i = 0; i < 16; ++i) data[i] = (uint8_t)i;
  CHECK_OK(npu_create(&(rlt_device_options_t){0}, rlt_allocator_system(), &error, &device));
  CHECK_OK(rlt_device_acquire_transient(device, sizeof(data), &error, &there));
  const rlt_buffer_t here = {.data = data, .length = sizeof(data)};
  CHECK_OK(device->vtable->transfer(device, there, &here, &error));
  CHECK_OK(rlt_buffer_subspan(there, 8, 8, rlt_allocator_system(), &error, &part));
  CHECK_OK(rlt_device_read(part, 2, sizeof(back), back, &error));
  CHECK(back[0] == 10 && back[3] == 13);
  void* mapped = NULL;
  CHECK_FAILS(rlt_buffer_map(part, 0, 1, RLT_ACCESS_READ, &error, &mapped), RLT_FAILED_PRECONDITION, "cannot see");
  rlt_buffer_release(part);
  rlt_buffer_release(there);
  rlt_device_release(device);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  check_reading();
  static const rlt_driver_t drivers[] = {{"cpu-sync", rlt_cpu_sync_device_create}, {"npu", npu_create}};
  const rlt_session_options_t options = {.drivers = {drivers, 2}};
  rlt_error_t error = {0};
  rlt_session_t* session = NULL;
  CHECK_OK(rlt_session_open(argv[1], &options, rlt_allocator_system(), &error, &session));
  uint32_t count = 0;
  const rlt_session_device_t* devices = rlt_session_devices(session, &count);
  CHECK_INT(count, 2);
  CHECK(strcmp(devices[0].device->vtable->name, "cpu-sync") == 0 && strcmp(devices[1].device->vtable->name, "npu") == 0);
  npu_transfers = 0;
  CHECK_OK(call(session, true, &error));
  CHECK_OK(call_pending(session, true, &error));
  rlt_session_release(session);
  printf("%d transfers\n", npu_transfers);
  return 0;
}
