#include "rillet/hal/device.h"

#include "hal/transient_pool.h"

static void device_destroy(rlt_object_t* object) {
  rlt_device_t* device = (rlt_device_t*)object;
  rlt_transient_pool_clear(&device->transients, device->allocator);
  device->vtable->destroy(device);
}

const rlt_object_type_t rlt_device_type = {"hal.device", device_destroy};

void rlt_device_initialize(rlt_device_t* device, const rlt_device_vtable_t* vtable, rlt_allocator_t allocator) {
  rlt_object_initialize(&device->base, &rlt_device_type);
  device->vtable = vtable;
  device->allocator = allocator;
}

rlt_status_t rlt_device_allocate(rlt_device_t* device, rlt_buffer_params_t params, uint64_t length, rlt_error_t* error,
                                 rlt_buffer_t** out_buffer) {
  return device->vtable->allocate(device, params, length, error, out_buffer);
}

rlt_status_t rlt_device_execute(rlt_device_t* device, const rlt_command_buffer_t* commands, uint32_t buffer_count,
                                rlt_buffer_t* const* buffers, rlt_error_t* error) {
  RLT_RETURN_IF_ERROR(rlt_command_buffer_check_table(commands, buffer_count, buffers, error));
  const rlt_semaphore_list_t none = {NULL, 0};
  return device->vtable->execute(device, commands, buffers, none, error);
}

static void fail_all(rlt_semaphore_list_t points, rlt_status_t status) {
  for (uint32_t i = 0; i < points.count; ++i) rlt_semaphore_fail(points.points[i].semaphore, status);
}

rlt_status_t rlt_device_submit(rlt_device_t* device, rlt_semaphore_list_t wait, const rlt_command_buffer_t* commands,
                               uint32_t buffer_count, rlt_buffer_t* const* buffers, rlt_semaphore_list_t done,
                               rlt_error_t* error) {
  rlt_status_t status = rlt_command_buffer_check_table(commands, buffer_count, buffers, error);
  for (uint32_t i = 0; i < wait.count && status == RLT_OK; ++i) {
    status = rlt_semaphore_wait(wait.points[i].semaphore, wait.points[i].value, UINT64_MAX, error);
  }
  if (status != RLT_OK) {
    fail_all(done, status);
    return status;
  }
  return device->vtable->execute(device, commands, buffers, done, error);
}
