// A driver for tests, "npu": a device whose memory the host cannot see. Its addresses are the host's with a bit that makes
// any use by the host crash, it refuses buffers of the host, and it runs the CPU's kernels in order.
#ifndef RILLET_TESTS_PROGRAM_OWN_MEMORY_H_
#define RILLET_TESTS_PROGRAM_OWN_MEMORY_H_

#include "drivers/queue.h"
#include "harness.h"
#include "rillet/hal.h"

typedef struct npu_t {
  rlt_device_t base;
  rlt_device_t* cpu;
  rlt_queue_slot_t queue;
} npu_t;

static int npu_transfers;  // of the device's queue, or of whoever waits for it

static uint8_t* hidden(const uint8_t* address) { return (uint8_t*)((uintptr_t)address ^ (uintptr_t)1 << 62); }

static void npu_destroy(rlt_device_t* base) {
  npu_t* npu = (npu_t*)base;
  rlt_queue_destroy(&npu->queue);
  rlt_device_release(npu->cpu);
  free(npu);
}

static void npu_free(void* owner, void* data) {
  (void)data;
  free(owner);
}

static rlt_status_t npu_allocate(rlt_device_t* device, rlt_buffer_params_t params, uint64_t length, rlt_error_t* error,
                                 rlt_buffer_t** out_buffer) {
  uint8_t* memory = aligned_alloc(RLT_BUFFER_ALIGNMENT, (length / RLT_BUFFER_ALIGNMENT + 1) * RLT_BUFFER_ALIGNMENT);
  CHECK(memory != NULL);
  params.memory_type = RLT_MEMORY_DEVICE_LOCAL;
  RLT_RETURN_IF_ERROR(rlt_buffer_wrap(params, hidden(memory), length, memory, npu_free, device->allocator, error,
                                      out_buffer));
  (*out_buffer)->device = device;
  return RLT_OK;
}

static bool npu_can_load(const rlt_device_t* device, const rlt_module_library_t* library, rlt_error_t* error) {
  const rlt_device_t* cpu = ((const npu_t*)device)->cpu;
  return cpu->vtable->can_load(cpu, library, error);
}

static rlt_status_t npu_load(rlt_device_t* device, const rlt_module_library_t* library, rlt_allocator_t allocator,
                             rlt_error_t* error, rlt_library_t** out_library) {
  rlt_device_t* cpu = ((npu_t*)device)->cpu;
  return cpu->vtable->load(cpu, library, allocator, error, out_library);
}

static rlt_status_t npu_execute(rlt_device_t* device, const rlt_command_buffer_t* commands,
                                rlt_buffer_t* const* buffers, rlt_error_t* error) {
  enum { MOST = 64 };
  rlt_device_t* cpu = ((npu_t*)device)->cpu;
  rlt_buffer_t seen[MOST];
  rlt_buffer_t* table[MOST];
  CHECK(commands->slot_count <= MOST);
  for (uint32_t i = 0; i < commands->slot_count; ++i) {
    if (!buffers[i] || buffers[i]->device != device) {
      return rlt_error_set(error, RLT_INVALID_ARGUMENT, "the buffer in slot %u is not the npu's", i);
    }
    seen[i] = (rlt_buffer_t){.data = hidden(buffers[i]->data), .length = buffers[i]->length};
    table[i] = &seen[i];
  }
  return cpu->vtable->execute(cpu, commands, table, error);
}

static rlt_status_t npu_submit(rlt_device_t* device, const rlt_submission_t* submission, rlt_error_t* error) {
  return rlt_queue_submit(&((npu_t*)device)->queue, device, submission, error);
}

static rlt_status_t npu_transfer(rlt_device_t* device, rlt_buffer_t* target, const rlt_buffer_t* source,
                                 rlt_error_t* error) {
  (void)error;
  CHECK((target->device == device) != (source->device == device));
  ++npu_transfers;
  memcpy(target->device ? hidden(target->data) : target->data, source->device ? hidden(source->data) : source->data,
         (size_t)source->length);
  return RLT_OK;
}

static const rlt_device_vtable_t npu_vtable = {.name = "npu",
                                               .destroy = npu_destroy,
                                               .allocate = npu_allocate,
                                               .can_load = npu_can_load,
                                               .load = npu_load,
                                               .execute = npu_execute,
                                               .submit = npu_submit,
                                               .transfer = npu_transfer};

static rlt_status_t npu_create(const rlt_device_options_t* options, rlt_allocator_t allocator, rlt_error_t* error,
                               rlt_device_t** out_device) {
  npu_t* npu = calloc(1, sizeof(npu_t));
  CHECK(npu != NULL);
  rlt_device_initialize(&npu->base, &npu_vtable, allocator);
  CHECK(rlt_cpu_sync_device_create(options, allocator, error, &npu->cpu) == RLT_OK);
  *out_device = &npu->base;
  return RLT_OK;
}

#endif  // RILLET_TESTS_PROGRAM_OWN_MEMORY_H_
