#include "rillet/hal/command_buffer.h"

#include "base/checked_math.h"
#include "base/strings.h"
#include "rillet/hal/device.h"

static void command_buffer_destroy(rlt_object_t* object) {
  rlt_command_buffer_t* commands = (rlt_command_buffer_t*)object;
  rlt_library_release(commands->library);
  rlt_allocator_free(commands->allocator, commands->commands);
  rlt_allocator_free(commands->allocator, commands->bindings);
  rlt_allocator_free(commands->allocator, commands->constants);
  rlt_device_release(commands->device);
  rlt_allocator_free(commands->allocator, commands);
}

const rlt_object_type_t rlt_command_buffer_type = {"hal.cmd", command_buffer_destroy};

rlt_status_t rlt_command_buffer_create(rlt_device_t* device, uint32_t slot_count, rlt_library_t* library,
                                       rlt_allocator_t allocator, rlt_error_t* error,
                                       rlt_command_buffer_t** out_commands) {
  *out_commands = NULL;
  if (slot_count > RLT_COMMAND_BUFFER_MAX_SLOTS) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "%u binding slots are above the limit of %d", slot_count,
                         RLT_COMMAND_BUFFER_MAX_SLOTS);
  }
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(
      allocator, sizeof(rlt_command_buffer_t) + slot_count * sizeof(rlt_slot_t), error, &block));
  rlt_command_buffer_t* commands = (rlt_command_buffer_t*)block;
  rlt_object_initialize(&commands->base, &rlt_command_buffer_type);
  commands->allocator = allocator;
  commands->slot_count = slot_count;
  commands->slots = (rlt_slot_t*)(commands + 1);
  rlt_device_retain(device);
  commands->device = device;
  rlt_library_retain(library);
  commands->library = library;
  *out_commands = commands;
  return RLT_OK;
}

// Makes room for `more` elements after the first `count`, and behind all elements for `apart_size` zeroed bytes for each.
static rlt_status_t reserve(rlt_allocator_t allocator, void** array, uint32_t count, uint32_t* capacity, uint32_t more,
                            size_t element_size, size_t apart_size, rlt_error_t* error) {
  if (more <= *capacity - count) return RLT_OK;
  if (more > UINT32_MAX / 4 || count > UINT32_MAX / 4) {
    return rlt_error_set(error, RLT_RESOURCE_EXHAUSTED, "the command buffer is too long");
  }
  uint32_t grown_capacity = *capacity ? *capacity * 2 : 8;
  if (grown_capacity < count + more) grown_capacity = count + more;
  void* grown = NULL;
  RLT_RETURN_IF_ERROR(
      rlt_allocator_allocate_array(allocator, grown_capacity, element_size + apart_size, error, &grown));
  if (count) memcpy(grown, *array, count * element_size);
  rlt_allocator_free(allocator, *array);
  *array = grown;
  *capacity = grown_capacity;
  return RLT_OK;
}

static rlt_status_t check_recording(const rlt_command_buffer_t* commands, rlt_error_t* error) {
  if (!commands->ended) return RLT_OK;
  return rlt_error_set(error, RLT_FAILED_PRECONDITION, "the command buffer has ended and cannot be changed");
}

static rlt_status_t append_binding(rlt_command_buffer_t* commands, rlt_binding_t range, rlt_error_t* error) {
  uint64_t end = 0;
  if (range.slot >= commands->slot_count) {
    return rlt_error_set(error, RLT_OUT_OF_RANGE, "slot %u is not below %u", range.slot, commands->slot_count);
  }
  if (!rlt_checked_add_u64(range.offset, range.length, &end) || end > INT64_MAX) {
    return rlt_error_set(error, RLT_OUT_OF_RANGE, "the range in slot %u is too large", range.slot);
  }
  if (range.access == 0 || (range.access & ~(uint32_t)RLT_ACCESS_ALL)) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "access %u of slot %u is not 1 (read), 2 (write) or 3 (both)",
                         range.access, range.slot);
  }
  void* bindings = commands->bindings;
  RLT_RETURN_IF_ERROR(reserve(commands->allocator, &bindings, commands->binding_count, &commands->binding_capacity, 1,
                              sizeof(rlt_binding_t), 0, error));
  commands->bindings = (rlt_binding_t*)bindings;
  commands->bindings[commands->binding_count++] = range;
  return RLT_OK;
}

static rlt_status_t append_command(rlt_command_buffer_t* commands, const rlt_command_t* command, rlt_error_t* error) {
  // The states follow the commands; before the end of recording there is nothing in them.
  void* array = commands->commands;
  RLT_RETURN_IF_ERROR(reserve(commands->allocator, &array, commands->command_count, &commands->command_capacity, 1,
                              sizeof(rlt_command_t), commands->device->vtable->command_state_size, error));
  commands->commands = (rlt_command_t*)array;
  commands->states = commands->commands + commands->command_capacity;
  commands->commands[commands->command_count++] = *command;
  commands->pending_binding = commands->binding_count;
  commands->pending_constant = commands->constant_count;
  return RLT_OK;
}

rlt_status_t rlt_command_buffer_constants(rlt_command_buffer_t* commands, uint32_t count, const int64_t* values,
                                          rlt_error_t* error) {
  RLT_RETURN_IF_ERROR(check_recording(commands, error));
  if (count == 0) return RLT_OK;
  void* constants = commands->constants;
  RLT_RETURN_IF_ERROR(reserve(commands->allocator, &constants, commands->constant_count, &commands->constant_capacity,
                              count, sizeof(int64_t), 0, error));
  commands->constants = (int64_t*)constants;
  memcpy(commands->constants + commands->constant_count, values, count * sizeof(int64_t));
  commands->constant_count += count;
  return RLT_OK;
}

rlt_status_t rlt_command_buffer_bind(rlt_command_buffer_t* commands, uint32_t binding, rlt_binding_t range,
                                     rlt_error_t* error) {
  RLT_RETURN_IF_ERROR(check_recording(commands, error));
  const uint32_t next = commands->binding_count - commands->pending_binding;
  if (binding != next) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "binding %u is set where binding %u is next", binding, next);
  }
  return append_binding(commands, range, error);
}

rlt_status_t rlt_command_buffer_dispatch(rlt_command_buffer_t* commands, uint32_t entry, rlt_error_t* error) {
  RLT_RETURN_IF_ERROR(check_recording(commands, error));
  const uint32_t entry_count = commands->library ? commands->library->entry_count : 0;
  if (entry >= entry_count) {
    return rlt_error_set(error, RLT_OUT_OF_RANGE, "dispatch entry %u is not below %u", entry, entry_count);
  }
  const rlt_kernel_facts_t kernel = commands->library->vtable->facts(commands->library, entry);
  const uint32_t binding_count = commands->binding_count - commands->pending_binding;
  const uint32_t constant_count = commands->constant_count - commands->pending_constant;
  if (binding_count != kernel.binding_count || constant_count != kernel.constant_count) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT,
                         "dispatch '%s' takes %u bindings and %u constants, but %u and %u were recorded", kernel.name,
                         kernel.binding_count, kernel.constant_count, binding_count, constant_count);
  }
  rlt_command_t command;
  memset(&command, 0, sizeof(command));
  command.kind = RLT_COMMAND_DISPATCH;
  command.first_binding = commands->pending_binding;
  command.binding_count = binding_count;
  command.dispatch.entry = entry;
  command.dispatch.first_constant = commands->pending_constant;
  commands->library->vtable->grid(commands->library, entry, commands->constants + commands->pending_constant,
                                  command.dispatch.workgroup_count);
  const uint32_t* grid = command.dispatch.workgroup_count;
  const uint64_t plane = (uint64_t)grid[0] * grid[1];
  if (plane > UINT32_MAX) {
    return rlt_error_set(error, RLT_OUT_OF_RANGE, "dispatch '%s' has a grid of %u x %u x %u workgroups", kernel.name,
                         grid[0], grid[1], grid[2]);
  }
  command.unit_count = plane * grid[2];
  if (kernel.local_memory_size > commands->local_memory_size) commands->local_memory_size = kernel.local_memory_size;
  return append_command(commands, &command, error);
}

static rlt_status_t check_no_pending(const rlt_command_buffer_t* commands, rlt_error_t* error) {
  if (commands->pending_binding == commands->binding_count && commands->pending_constant == commands->constant_count) {
    return RLT_OK;
  }
  return rlt_error_set(error, RLT_FAILED_PRECONDITION, "bindings or constants were recorded for no dispatch");
}

static uint64_t transfer_units(uint64_t length) {
  return length / RLT_TRANSFER_UNIT + (length % RLT_TRANSFER_UNIT != 0);
}

rlt_status_t rlt_command_buffer_fill(rlt_command_buffer_t* commands, uint32_t slot, uint64_t offset, uint64_t length,
                                     uint64_t pattern, uint32_t pattern_size, rlt_error_t* error) {
  RLT_RETURN_IF_ERROR(check_recording(commands, error));
  RLT_RETURN_IF_ERROR(check_no_pending(commands, error));
  if (pattern_size != 1 && pattern_size != 2 && pattern_size != 4 && pattern_size != 8) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "a fill pattern of %u bytes is not 1, 2, 4 or 8", pattern_size);
  }
  if (length % pattern_size != 0) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "%llu bytes cannot be filled with a pattern of %u",
                         (unsigned long long)length, pattern_size);
  }
  rlt_command_t command;
  memset(&command, 0, sizeof(command));
  command.kind = RLT_COMMAND_FILL;
  command.first_binding = commands->binding_count;
  command.binding_count = 1;
  command.unit_count = transfer_units(length);
  if (pattern_size < 8) pattern &= (UINT64_C(1) << (8 * pattern_size)) - 1;
  for (uint32_t size = pattern_size; size < 8; size *= 2) pattern |= pattern << (8 * size);
  command.fill.pattern = pattern;
  const rlt_binding_t target = {slot, RLT_ACCESS_WRITE, offset, length};
  RLT_RETURN_IF_ERROR(append_binding(commands, target, error));
  return append_command(commands, &command, error);
}

rlt_status_t rlt_command_buffer_copy(rlt_command_buffer_t* commands, uint32_t target_slot, uint64_t target_offset,
                                     uint32_t source_slot, uint64_t source_offset, uint64_t length,
                                     rlt_error_t* error) {
  RLT_RETURN_IF_ERROR(check_recording(commands, error));
  RLT_RETURN_IF_ERROR(check_no_pending(commands, error));
  const uint64_t distance =
      target_offset > source_offset ? target_offset - source_offset : source_offset - target_offset;
  if (target_slot == source_slot && distance < length) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "a copy within slot %u overlaps itself", target_slot);
  }
  rlt_command_t command;
  memset(&command, 0, sizeof(command));
  command.kind = RLT_COMMAND_COPY;
  command.first_binding = commands->binding_count;
  command.binding_count = 2;
  command.unit_count = transfer_units(length);
  const rlt_binding_t target = {target_slot, RLT_ACCESS_WRITE, target_offset, length};
  const rlt_binding_t source = {source_slot, RLT_ACCESS_READ, source_offset, length};
  RLT_RETURN_IF_ERROR(append_binding(commands, target, error));
  RLT_RETURN_IF_ERROR(append_binding(commands, source, error));
  return append_command(commands, &command, error);
}

rlt_status_t rlt_command_buffer_barrier(rlt_command_buffer_t* commands, rlt_error_t* error) {
  RLT_RETURN_IF_ERROR(check_recording(commands, error));
  RLT_RETURN_IF_ERROR(check_no_pending(commands, error));
  rlt_command_t command;
  memset(&command, 0, sizeof(command));
  command.kind = RLT_COMMAND_BARRIER;
  command.first_binding = commands->binding_count;
  return append_command(commands, &command, error);
}

rlt_status_t rlt_command_buffer_end(rlt_command_buffer_t* commands, rlt_error_t* error) {
  RLT_RETURN_IF_ERROR(check_recording(commands, error));
  RLT_RETURN_IF_ERROR(check_no_pending(commands, error));
  for (uint32_t i = 0; i < commands->command_count; ++i) {
    const rlt_command_t* command = &commands->commands[i];
    const uint32_t usage = command->kind == RLT_COMMAND_DISPATCH ? RLT_USAGE_DISPATCH : RLT_USAGE_TRANSFER;
    for (uint32_t j = 0; j < command->binding_count; ++j) {
      const rlt_binding_t* binding = &commands->bindings[command->first_binding + j];
      rlt_slot_t* slot = &commands->slots[binding->slot];
      slot->access |= binding->access;
      slot->usage |= usage;
      if (binding->offset + binding->length > slot->extent) slot->extent = binding->offset + binding->length;
    }
  }
  commands->ended = true;
  return RLT_OK;
}

// Says what is wrong with the buffer in slot `i`, out of the fast path.
static rlt_status_t slot_error(const rlt_slot_t* slot, uint32_t i, const rlt_buffer_t* buffer, rlt_error_t* error) {
  if (!buffer) return rlt_error_set(error, RLT_INVALID_ARGUMENT, "slot %u of the binding table is empty", i);
  if (buffer->length < slot->extent) {
    return rlt_error_set(error, RLT_OUT_OF_RANGE, "the commands use %llu bytes of slot %u, but its buffer has %llu",
                         (unsigned long long)slot->extent, i, (unsigned long long)buffer->length);
  }
  const uint32_t missing = slot->access & ~buffer->params.access;
  if (missing) {
    return rlt_error_set(error, RLT_FAILED_PRECONDITION, "the commands %s slot %u, but its buffer is %s",
                         missing & RLT_ACCESS_WRITE ? "write to" : "read", i,
                         missing & RLT_ACCESS_WRITE ? "read-only" : "write-only");
  }
  return rlt_error_set(error, RLT_FAILED_PRECONDITION, "the buffer in slot %u does not allow this use by commands", i);
}

rlt_status_t rlt_command_buffer_check_table(const rlt_command_buffer_t* commands, uint32_t buffer_count,
                                            rlt_buffer_t* const* buffers, rlt_error_t* error) {
  if (!commands->ended) {
    return rlt_error_set(error, RLT_FAILED_PRECONDITION, "the command buffer is executed before its end");
  }
  if (buffer_count != commands->slot_count) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "the command buffer has %u slots, but %u buffers were given",
                         commands->slot_count, buffer_count);
  }
  for (uint32_t i = 0; i < buffer_count; ++i) {
    const rlt_slot_t* slot = &commands->slots[i];
    const rlt_buffer_t* buffer = buffers[i];
    if (slot->access == 0) continue;
    if (RLT_UNLIKELY(!buffer || buffer->length < slot->extent ||
                     (buffer->params.access & slot->access) != slot->access ||
                     (buffer->params.usage & slot->usage) != slot->usage)) {
      return slot_error(slot, i, buffer, error);
    }
  }
  return RLT_OK;
}
