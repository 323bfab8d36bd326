#include "rillet/hal/device.h"

#include "base/strings.h"
#ifndef RLT_FREESTANDING
#include "hal/transient_pool.h"
#endif

static void device_destroy(rlt_object_t* object) {
  rlt_device_t* device = (rlt_device_t*)object;
#ifndef RLT_FREESTANDING
  rlt_transient_pool_clear(&device->transients, device->allocator);
#endif
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

rlt_status_t rlt_device_execute(const rlt_command_buffer_t* commands, uint32_t buffer_count,
                                rlt_buffer_t* const* buffers, rlt_error_t* error) {
  RLT_RETURN_IF_ERROR(rlt_command_buffer_check_table(commands, buffer_count, buffers, error));
  return commands->device->vtable->execute(commands->device, commands, buffers, error);
}

#ifdef RLT_FREESTANDING

rlt_status_t rlt_device_acquire_transient(rlt_device_t* device, uint64_t length, rlt_error_t* error,
                                          rlt_buffer_t** out_buffer) {
  return rlt_device_allocate(device, rlt_buffer_params_default(), length, error, out_buffer);
}

#else

rlt_status_t rlt_device_submit(rlt_device_t* device, const rlt_submission_t* submission, rlt_error_t* error) {
  if (submission->commands) {
    RLT_RETURN_IF_ERROR(rlt_command_buffer_check_table(submission->commands, submission->buffer_count,
                                                       submission->buffers, error));
  }
  return device->vtable->submit(device, submission, error);
}

rlt_status_t rlt_device_read(const rlt_buffer_t* buffer, uint64_t offset, uint64_t length, void* data,
                             rlt_error_t* error) {
  if (!buffer->device) {
    memcpy(data, buffer->data + offset, (size_t)length);
    return RLT_OK;
  }
  const rlt_buffer_t source = {
      .params = buffer->params, .data = buffer->data + offset, .length = length, .device = buffer->device};
  rlt_buffer_t target = {.params = rlt_buffer_params_default(), .data = (uint8_t*)data, .length = length};
  return buffer->device->vtable->transfer(buffer->device, &target, &source, error);
}

#endif  // RLT_FREESTANDING
