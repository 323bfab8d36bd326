#include "drivers/cpu/common.h"

#include "base/strings.h"
#include "drivers/cpu/library.h"

static size_t round_up(size_t size) {
  return (size + RLT_BUFFER_ALIGNMENT - 1) / RLT_BUFFER_ALIGNMENT * RLT_BUFFER_ALIGNMENT;
}

rlt_status_t rlt_cpu_scratch_reserve(rlt_cpu_scratch_t* scratch, size_t local_size, size_t address_count,
                                     rlt_allocator_t allocator, rlt_error_t* error) {
  local_size = round_up(local_size);
  const size_t size = round_up(local_size + address_count * sizeof(void*) + 1);
  if (size > scratch->size) {
    rlt_allocator_free(allocator, scratch->block);
    scratch->block = NULL;
    scratch->size = 0;
    RLT_RETURN_IF_ERROR(
        rlt_allocator_allocate_aligned(allocator, size, RLT_BUFFER_ALIGNMENT, error, &scratch->block));
    scratch->size = size;
  }
  scratch->local_size = local_size;
  return RLT_OK;
}

void rlt_cpu_resolve(const rlt_command_buffer_t* commands, rlt_buffer_t* const* buffers, void** addresses) {
  for (uint32_t i = 0; i < commands->binding_count; ++i) {
    const rlt_binding_t* binding = &commands->bindings[i];
    addresses[i] = buffers[binding->slot]->data + binding->offset;
  }
}

static int run_dispatch(const rlt_command_buffer_t* commands, const rlt_command_t* command, void* const* addresses,
                        void* local_memory, uint64_t begin, uint64_t end) {
  const rlt_kernel_entry_t* kernel = rlt_cpu_kernel(commands->library, command->dispatch.entry);
  const uint32_t* grid = command->dispatch.workgroup_count;
  rlt_dispatch_state_t state;
  state.bindings = addresses + command->first_binding;
  state.constants = commands->constants + command->dispatch.first_constant;
  memcpy(state.workgroup_count, grid, sizeof(state.workgroup_count));
  state.binding_count = command->binding_count;
  state.local_memory = local_memory;
  state.local_memory_size = kernel->local_memory_size;
  uint64_t rest = begin / grid[0];
  uint32_t id[3] = {(uint32_t)(begin % grid[0]), (uint32_t)(rest % grid[1]), (uint32_t)(rest / grid[1])};
  for (uint64_t unit = begin; unit < end; ++unit) {
    const int code = kernel->dispatch(&state, id);
    if (RLT_UNLIKELY(code != RLT_DISPATCH_OK)) return code;
    if (++id[0] < grid[0]) continue;
    id[0] = 0;
    if (++id[1] < grid[1]) continue;
    id[1] = 0;
    ++id[2];
  }
  return RLT_DISPATCH_OK;
}

// The bytes of the pieces [begin, end) of a transfer of `length` bytes.
static uint64_t transfer_span(uint64_t length, uint64_t begin, uint64_t end, uint64_t* out_offset) {
  *out_offset = begin * RLT_TRANSFER_UNIT;
  const uint64_t limit = end * RLT_TRANSFER_UNIT;
  return (limit < length ? limit : length) - *out_offset;
}

static void run_fill(uint8_t* target, uint64_t length, uint64_t pattern) {
  const uint8_t byte = (uint8_t)pattern;
  if (pattern == byte * UINT64_C(0x0101010101010101)) {
    memset(target, byte, (size_t)length);
    return;
  }
  uint64_t at = 0;
  for (; at + sizeof(pattern) <= length; at += sizeof(pattern)) memcpy(target + at, &pattern, sizeof(pattern));
  memcpy(target + at, &pattern, (size_t)(length - at));
}

int rlt_cpu_run(const rlt_command_buffer_t* commands, const rlt_command_t* command, void* const* addresses,
                void* local_memory, uint64_t begin, uint64_t end) {
  if (command->kind == RLT_COMMAND_DISPATCH) {
    return run_dispatch(commands, command, addresses, local_memory, begin, end);
  }
  uint64_t offset = 0;
  const uint64_t length = transfer_span(commands->bindings[command->first_binding].length, begin, end, &offset);
  uint8_t* target = (uint8_t*)addresses[command->first_binding] + offset;
  if (command->kind == RLT_COMMAND_FILL) {
    run_fill(target, length, command->fill.pattern);
  } else {
    memcpy(target, (const uint8_t*)addresses[command->first_binding + 1] + offset, (size_t)length);
  }
  return RLT_DISPATCH_OK;
}

rlt_status_t rlt_cpu_kernel_error(const rlt_command_buffer_t* commands, const rlt_command_t* command, int code,
                                  rlt_error_t* error) {
  const char* name = rlt_cpu_kernel(commands->library, command->dispatch.entry)->name;
  (void)name;  // without messages
  if (code == RLT_DISPATCH_OUT_OF_BOUNDS) {
    rlt_error_set(error, RLT_TRAP, "an index in the data is out of bounds (in kernel '%s')", name);
  } else {
    rlt_error_set(error, RLT_TRAP, "failed with code %d (in kernel '%s')", code, name);
  }
  if (error) error->entry = command->dispatch.entry + 1;
  return RLT_TRAP;
}

rlt_status_t rlt_cpu_allocate(rlt_device_t* device, rlt_buffer_params_t params, uint64_t length, rlt_error_t* error,
                              rlt_buffer_t** out_buffer) {
  return rlt_buffer_allocate_host(params, length, device->allocator, error, out_buffer);
}

#ifndef RLT_FREESTANDING
rlt_status_t rlt_cpu_submit(rlt_device_t* device, const rlt_submission_t* submission, rlt_error_t* error) {
  return rlt_queue_submit(&((rlt_cpu_device_t*)device)->queue, device, submission, error);
}
#endif
