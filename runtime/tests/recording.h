// Short forms for tests that record and run command buffers.
#ifndef RILLET_TESTS_RECORDING_H_
#define RILLET_TESTS_RECORDING_H_

#include "drivers/cpu/library.h"
#include "harness.h"
#include "kernels.h"
#include "rillet/hal.h"

static inline rlt_library_t* make_library(void) {
  rlt_error_t error;
  rlt_library_t* library = NULL;
  CHECK_OK(rlt_cpu_library_create(rlt_kernel_query, NULL, NULL, 0, rlt_allocator_system(), &error, &library));
  CHECK_INT(library->vtable->facts(library, ENTRY_GRID).local_memory_size, 4096);
  return library;
}

static inline rlt_device_t* make_sync_device(void) {
  rlt_error_t error;
  rlt_device_t* device = NULL;
  CHECK_OK(rlt_cpu_sync_device_create(&(rlt_device_options_t){0}, rlt_allocator_system(), &error, &device));
  return device;
}

static inline rlt_device_t* make_task_device(uint32_t thread_count) {
  rlt_error_t error;
  rlt_device_t* device = NULL;
  const rlt_device_options_t options = {.thread_count = thread_count};
  CHECK_OK(rlt_cpu_task_device_create(&options, rlt_allocator_system(), &error, &device));
  return device;
}

static inline rlt_command_buffer_t* make_commands(rlt_device_t* device, uint32_t slot_count) {
  rlt_error_t error;
  rlt_library_t* library = make_library();
  rlt_command_buffer_t* commands = NULL;
  CHECK_OK(rlt_command_buffer_create(device, slot_count, library, rlt_allocator_system(), &error, &commands));
  rlt_library_release(library);
  return commands;
}

static inline rlt_status_t bind(rlt_command_buffer_t* commands, uint32_t binding, uint32_t slot, uint32_t access,
                                uint64_t offset, uint64_t length, rlt_error_t* error) {
  const rlt_binding_t range = {slot, access, offset, length};
  return rlt_command_buffer_bind(commands, binding, range, error);
}

// Records z = x + y on `n` floats at `offset` bytes of slots x, y and z.
static inline void record_add(rlt_command_buffer_t* commands, uint32_t x, uint32_t y, uint32_t z, uint64_t offset,
                              int64_t n) {
  rlt_error_t error;
  CHECK_OK(rlt_command_buffer_constants(commands, 1, &n, &error));
  CHECK_OK(bind(commands, 0, x, RLT_ACCESS_READ, offset, 4 * (uint64_t)n, &error));
  CHECK_OK(bind(commands, 1, y, RLT_ACCESS_READ, offset, 4 * (uint64_t)n, &error));
  CHECK_OK(bind(commands, 2, z, RLT_ACCESS_WRITE, offset, 4 * (uint64_t)n, &error));
  CHECK_OK(rlt_command_buffer_dispatch(commands, ENTRY_ADD, &error));
}

static inline rlt_buffer_t* wrap(void* data, uint64_t length, uint32_t access) {
  rlt_error_t error;
  rlt_buffer_t* buffer = NULL;
  const rlt_buffer_params_t params = {RLT_MEMORY_HOST_VISIBLE, RLT_USAGE_ALL, access};
  CHECK_OK(rlt_buffer_wrap(params, data, length, NULL, NULL, rlt_allocator_system(), &error, &buffer));
  return buffer;
}

#endif  // RILLET_TESTS_RECORDING_H_
