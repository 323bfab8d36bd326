// The "hal.*" functions that programs import: thin, checked doors to the layer below. `self` is the session; the context
// of a call (rlt_vm_call_t) is a rlt_call_t, and in freestanding builds there is none.
#include "base/checked_math.h"
#include "base/strings.h"
#include "hal/element.h"
#include "program/session.h"

#ifndef RLT_FREESTANDING
#include "program/call.h"
#endif

// Binding tables up to this size need no allocation.
enum { TABLE_ON_STACK = 64 };

// Far from overflow, so that offsets into memory shared by several tensors do not overflow either.
static const int64_t MAX_TENSOR_BYTES = INT64_C(1) << 55;

static rlt_status_t wrong_type(const rlt_object_t* object, const rlt_object_type_t* type, rlt_error_t* error) {
  return rlt_error_set(error, RLT_INVALID_ARGUMENT, "expected a %s, got %s", type->name,
                       object ? object->type->name : "null");
}

// Declares `name`, reference argument `index` of the call; fails unless it is of the type.
#define REF_ARGUMENT(c_type, name, index, object_type)                                      \
  if (RLT_UNLIKELY(!rlt_object_is(call->ref_arguments[index], &object_type))) {             \
    return wrong_type(call->ref_arguments[index], &object_type, error);                     \
  }                                                                                         \
  c_type* name = (c_type*)call->ref_arguments[index]

static rlt_status_t out_of_range(const char* what, int64_t value, rlt_error_t* error) {
  return rlt_error_set(error, RLT_OUT_OF_RANGE, "%s is %lld", what, (long long)value);
}

// Fails unless integer argument `index` of the call is from 0 to `limit`.
#define CHECK_RANGE(index, what, limit)                                                             \
  if (RLT_UNLIKELY((uint64_t)call->int_arguments[index] > (uint64_t)(limit))) {                     \
    return out_of_range(what, call->int_arguments[index], error);                                       \
  }

// Declares `name`, the program's device with the ordinal in integer argument `index`.
#ifdef RLT_FREESTANDING
#define DEVICE_ARGUMENT(name, index) const rlt_session_device_t* name = session->devices  // the only one
#else
#define DEVICE_ARGUMENT(name, index)                         \
  CHECK_RANGE(index, "a device", session->device_count - 1); \
  const rlt_session_device_t* name = &session->devices[call->int_arguments[index]]
#endif

static rlt_status_t hal_constant(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  const uint64_t ordinal = (uint64_t)call->int_arguments[0];
  if (ordinal >= session->module.constants.count) {
    return rlt_error_set(error, RLT_OUT_OF_RANGE, "constant %lld is not below %u", (long long)ordinal,
                         session->module.constants.count);
  }
  rlt_buffer_retain(session->constants[ordinal]);
  call->ref_results[0] = &session->constants[ordinal]->base;
  return RLT_OK;
}

static rlt_status_t hal_buffer_allocate(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  DEVICE_ARGUMENT(device, 0);
  CHECK_RANGE(1, "a buffer's size", INT64_MAX);
  rlt_buffer_t* buffer = NULL;
  RLT_RETURN_IF_ERROR(rlt_device_allocate(device->device, rlt_buffer_params_default(),
                                          (uint64_t)call->int_arguments[1], error, &buffer));
  call->ref_results[0] = &buffer->base;
  return RLT_OK;
}

static rlt_status_t hal_buffer_transient(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  DEVICE_ARGUMENT(device, 0);
  CHECK_RANGE(1, "a buffer's size", INT64_MAX);
  rlt_buffer_t* buffer = NULL;
  RLT_RETURN_IF_ERROR(
      rlt_device_acquire_transient(device->device, (uint64_t)call->int_arguments[1], error, &buffer));
  call->ref_results[0] = &buffer->base;
  return RLT_OK;
}

static rlt_status_t hal_buffer_subspan(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  REF_ARGUMENT(rlt_buffer_t, buffer, 0, rlt_buffer_type);
  rlt_buffer_t* span = NULL;
  RLT_RETURN_IF_ERROR(rlt_buffer_subspan(buffer, (uint64_t)call->int_arguments[0], (uint64_t)call->int_arguments[1],
                                         session->allocator, error, &span));
  call->ref_results[0] = &span->base;
  return RLT_OK;
}

static rlt_status_t check_loaded(bool loaded, int64_t element_type, rlt_error_t* error) {
  if (RLT_LIKELY(loaded)) return RLT_OK;
  return rlt_error_set(error, RLT_INVALID_ARGUMENT, "cannot load an element of type %s (%lld)",
                       rlt_element_type_name(element_type), (long long)element_type);
}

#ifndef RLT_FREESTANDING
// hal.buffer.load of memory that the host cannot see.
static rlt_status_t load_from_device(const rlt_buffer_t* buffer, const rlt_vm_call_t* call, rlt_error_t* error) {
  const int64_t element_type = call->int_arguments[1];
  const uint64_t offset = (uint64_t)call->int_arguments[0], size = rlt_element_type_size(element_type);
  if (!rlt_range_fits(offset, size, buffer->length)) return out_of_range("an element's offset", (int64_t)offset, error);
  uint8_t element[16];
  RLT_RETURN_IF_ERROR(rlt_device_read(buffer, offset, size, element, error));
  return check_loaded(rlt_element_load(element_type, element, &call->int_results[0]), element_type, error);
}
#endif

static rlt_status_t hal_buffer_load(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_buffer_t, buffer, 0, rlt_buffer_type);
  const int64_t element_type = call->int_arguments[1];
  void* data = NULL;
#ifndef RLT_FREESTANDING
  rlt_call_t* queued = (rlt_call_t*)call->context;
  if (queued && queued->first) RLT_RETURN_IF_ERROR(rlt_call_await(queued, UINT64_MAX, error));
  if (buffer->device) return load_from_device(buffer, call, error);
#endif
  RLT_RETURN_IF_ERROR(rlt_buffer_map(buffer, (uint64_t)call->int_arguments[0], rlt_element_type_size(element_type),
                                     RLT_ACCESS_READ, error, &data));
  return check_loaded(rlt_element_load(element_type, data, &call->int_results[0]), element_type, error);
}

static rlt_status_t hal_view_create(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  REF_ARGUMENT(rlt_buffer_t, buffer, 0, rlt_buffer_type);
  rlt_buffer_view_t* view = NULL;
  RLT_RETURN_IF_ERROR(rlt_buffer_view_create(buffer, call->int_arguments[0], call->int_argument_count - 1,
                                             call->int_arguments + 1, session->allocator, error, &view));
  call->ref_results[0] = &view->base;
  return RLT_OK;
}

static rlt_status_t hal_view_buffer(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_buffer_view_t, view, 0, rlt_buffer_view_type);
  rlt_buffer_retain(view->buffer);
  call->ref_results[0] = &view->buffer->base;
  return RLT_OK;
}

static rlt_status_t hal_view_dim(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_buffer_view_t, view, 0, rlt_buffer_view_type);
  const uint64_t axis = (uint64_t)call->int_arguments[0];
  if (axis >= view->rank) {
    return rlt_error_set(error, RLT_OUT_OF_RANGE, "axis %lld of a tensor of rank %u", (long long)axis, view->rank);
  }
  call->int_results[0] = view->dims[axis];
  return RLT_OK;
}

// The input's name as the module's only export declares it; NULL when it has none.
static const char* input_name(const rlt_module_view_t* module, int64_t argument) {
  if (module->exports.count != 1) return NULL;
  const rlt_module_export_t declared = rlt_module_export(module, 0);
  if (argument < 0 || argument >= declared.inputs.count) return NULL;
  return rlt_module_tensor(declared.inputs, (uint32_t)argument).name;
}

// Puts the name of an input before a message about it.
static void blame_input(const rlt_session_t* session, int64_t argument, rlt_error_t* error) {
  const char* name = input_name(&session->module, argument);
  if (name) {
    rlt_error_prefix(error, "input '%.*s': ", 64, name);
  } else {
    rlt_error_prefix(error, "input %lld: ", (long long)argument);
  }
}

// view, argument, element type, rank, dimensions
static rlt_status_t hal_view_check(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  REF_ARGUMENT(rlt_buffer_view_t, view, 0, rlt_buffer_view_type);
  const int64_t argument = call->int_arguments[0], element_type = call->int_arguments[1], rank = call->int_arguments[2];
  if (view->element_type != element_type) {
    rlt_error_set(error, RLT_INVALID_ARGUMENT, "expected element type %s, got %s", rlt_element_type_name(element_type),
                  rlt_element_type_name(view->element_type));
    blame_input(session, argument, error);
    return RLT_INVALID_ARGUMENT;
  }
  if (view->rank != rank) {
    rlt_error_set(error, RLT_INVALID_ARGUMENT, "expected rank %lld, got %u", (long long)rank, view->rank);
    blame_input(session, argument, error);
    return RLT_INVALID_ARGUMENT;
  }
  if (call->int_argument_count - 3 != view->rank) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "hal.view.check was given %u dimensions for rank %lld",
                         call->int_argument_count - 3, (long long)rank);
  }
  for (uint32_t i = 0; i < view->rank; ++i) {
    const int64_t expected = call->int_arguments[3 + i];
    if (expected < 0 || expected == view->dims[i]) continue;
    rlt_error_set(error, RLT_INVALID_ARGUMENT, "expected %lld in dimension %u, got %lld", (long long)expected, i,
                  (long long)view->dims[i]);
    blame_input(session, argument, error);
    return RLT_INVALID_ARGUMENT;
  }
  return RLT_OK;
}

// argument, axis, actual, expected
static rlt_status_t hal_check_dim(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const int64_t actual = call->int_arguments[2], expected = call->int_arguments[3];
  if (RLT_LIKELY(actual == expected)) return RLT_OK;
  rlt_error_set(error, RLT_INVALID_ARGUMENT, "dimension %lld is %lld, but must be %lld to agree with other inputs",
                (long long)call->int_arguments[1], (long long)actual, (long long)expected);
  blame_input((const rlt_session_t*)self, call->int_arguments[0], error);
  return RLT_INVALID_ARGUMENT;
}

// What a check of the program says when it fails.
static const char* check_message(const rlt_session_t* session, int64_t ordinal) {
  const rlt_module_vector_t messages = session->module.messages;
  if (ordinal < 0 || ordinal >= messages.count) return "a check of the program failed";
  return rlt_module_string(messages, (uint32_t)ordinal);
}

// The last "{}" in the first `length` bytes of `text`, or `length` when there is none.
static size_t last_placeholder(const char* text, size_t length) {
  for (size_t i = length; i-- > 0;) {
    if (i + 1 < length && text[i] == '{' && text[i + 1] == '}') return i;
  }
  return length;
}

// condition, message, actual, expected: the two numbers stand for the last two "{}" of the message.
static rlt_status_t hal_check_assert(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  if (RLT_LIKELY(call->int_arguments[0])) return RLT_OK;
  const char* text = check_message((const rlt_session_t*)self, call->int_arguments[1]);
  const size_t length = rlt_string_length(text), second = last_placeholder(text, length), first = last_placeholder(text, second);
  if (first == second) return rlt_error_set(error, RLT_INVALID_ARGUMENT, "%s", text);
  return rlt_error_set(error, RLT_INVALID_ARGUMENT, "%.*s%lld%.*s%lld%s", (int)first, text,
                       (long long)call->int_arguments[2], (int)(second - first - 2), text + first + 2,
                       (long long)call->int_arguments[3], text + second + 2);
}

// message, bytes, dimensions: a tensor of as many bytes times the product of the dimensions can be addressed.
static rlt_status_t hal_check_size(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  const char* text = check_message(session, call->int_arguments[0]);
  const uint32_t count = call->int_argument_count;
  int64_t size = call->int_arguments[1];
  bool fits = true, empty = size == 0;
  for (uint32_t i = 2; i < count; ++i) {
    const int64_t dim = call->int_arguments[i];
    if (RLT_UNLIKELY(dim < 0)) {
      return rlt_error_set(error, RLT_INVALID_ARGUMENT, "%s: a dimension of %lld", text, (long long)dim);
    }
    empty = empty || dim == 0;
    fits = fits && rlt_checked_mul_i64(size, dim, &size) && size <= MAX_TENSOR_BYTES;
  }
  if (RLT_LIKELY(fits || empty)) return RLT_OK;
  rlt_error_set(error, RLT_OUT_OF_RANGE, " is too large");
  for (uint32_t i = count; i-- > 2;) {
    rlt_error_prefix(error, i > 2 ? " x %lld" : "%lld", (long long)call->int_arguments[i]);
  }
  rlt_error_prefix(error, "%s: a tensor of ", text);
  return RLT_OUT_OF_RANGE;
}

static rlt_status_t hal_cmd_create(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  DEVICE_ARGUMENT(device, 0);
  CHECK_RANGE(1, "the number of slots", UINT32_MAX);
  rlt_command_buffer_t* commands = NULL;
  RLT_RETURN_IF_ERROR(rlt_command_buffer_create(device->device, (uint32_t)call->int_arguments[1], device->library,
                                                session->allocator, error, &commands));
  call->ref_results[0] = &commands->base;
  return RLT_OK;
}

static rlt_status_t hal_cmd_constants(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_command_buffer_t, commands, 0, rlt_command_buffer_type);
  return rlt_command_buffer_constants(commands, call->int_argument_count, call->int_arguments, error);
}

// binding, slot, offset, length, access
static rlt_status_t hal_cmd_bind(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_command_buffer_t, commands, 0, rlt_command_buffer_type);
  CHECK_RANGE(0, "a binding", UINT32_MAX);
  CHECK_RANGE(1, "a slot", UINT32_MAX);
  CHECK_RANGE(4, "an access", RLT_ACCESS_ALL);
  const rlt_binding_t range = {(uint32_t)call->int_arguments[1], (uint32_t)call->int_arguments[4],
                               (uint64_t)call->int_arguments[2], (uint64_t)call->int_arguments[3]};
  return rlt_command_buffer_bind(commands, (uint32_t)call->int_arguments[0], range, error);
}

static rlt_status_t hal_cmd_dispatch(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_command_buffer_t, commands, 0, rlt_command_buffer_type);
  CHECK_RANGE(0, "a dispatch entry", UINT32_MAX);
  return rlt_command_buffer_dispatch(commands, (uint32_t)call->int_arguments[0], error);
}

// slot, offset, length, pattern, pattern size
static rlt_status_t hal_cmd_fill(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_command_buffer_t, commands, 0, rlt_command_buffer_type);
  CHECK_RANGE(0, "a slot", UINT32_MAX);
  CHECK_RANGE(4, "a pattern's size", 8);
  return rlt_command_buffer_fill(commands, (uint32_t)call->int_arguments[0], (uint64_t)call->int_arguments[1],
                                 (uint64_t)call->int_arguments[2], (uint64_t)call->int_arguments[3],
                                 (uint32_t)call->int_arguments[4], error);
}

// target slot, target offset, source slot, source offset, length
static rlt_status_t hal_cmd_copy(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_command_buffer_t, commands, 0, rlt_command_buffer_type);
  CHECK_RANGE(0, "a slot", UINT32_MAX);
  CHECK_RANGE(2, "a slot", UINT32_MAX);
  return rlt_command_buffer_copy(commands, (uint32_t)call->int_arguments[0], (uint64_t)call->int_arguments[1],
                                 (uint32_t)call->int_arguments[2], (uint64_t)call->int_arguments[3],
                                 (uint64_t)call->int_arguments[4], error);
}

static rlt_status_t hal_cmd_barrier(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_command_buffer_t, commands, 0, rlt_command_buffer_type);
  return rlt_command_buffer_barrier(commands, error);
}

static rlt_status_t hal_cmd_end(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_command_buffer_t, commands, 0, rlt_command_buffer_type);
  return rlt_command_buffer_end(commands, error);
}

// Turns the ordinal of the kernel that failed into that of its facts.
static void blame_entry(const rlt_session_t* session, const rlt_command_buffer_t* commands, rlt_error_t* error) {
#ifdef RLT_FREESTANDING
  (void)session, (void)commands, (void)error;  // those of the only device come first
#else
  if (!error || error->entry == 0) return;
  for (uint32_t i = 0; i < session->device_count; ++i) {
    if (session->devices[i].library != commands->library) continue;
    error->entry += session->devices[i].first_fact;
    return;
  }
#endif
}

// In a call that somebody waits for, the commands are executed here and now.
static rlt_status_t execute_or_queue(const rlt_vm_call_t* call, rlt_command_buffer_t* commands, uint32_t count,
                                     rlt_buffer_t* const* table, rlt_error_t* error) {
#ifdef RLT_FREESTANDING
  (void)call;
#else
  rlt_call_t* queued = (rlt_call_t*)call->context;
  if (queued && queued->asynchronous) return rlt_call_execute(queued, commands, count, table, error);
  if (queued && queued->first) RLT_RETURN_IF_ERROR(rlt_call_await(queued, UINT64_MAX, error));
#endif
  return rlt_device_execute(commands, count, table, error);
}

static rlt_status_t hal_execute(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  REF_ARGUMENT(rlt_command_buffer_t, commands, 0, rlt_command_buffer_type);
  const uint32_t count = call->ref_argument_count - 1;
  for (uint32_t i = 1; i <= count; ++i) {
    const rlt_object_t* object = call->ref_arguments[i];
    if (object && object->type != &rlt_buffer_type) return wrong_type(object, &rlt_buffer_type, error);
  }
  rlt_buffer_t* on_stack[TABLE_ON_STACK];
  void* block = NULL;
  if (count > TABLE_ON_STACK) {
    RLT_RETURN_IF_ERROR(rlt_allocator_allocate_array(session->allocator, count, sizeof(rlt_buffer_t*), error, &block));
  }
  rlt_buffer_t** table = block ? (rlt_buffer_t**)block : on_stack;
  for (uint32_t i = 0; i < count; ++i) table[i] = (rlt_buffer_t*)call->ref_arguments[1 + i];
  const rlt_status_t status = execute_or_queue(call, commands, count, table, error);
  rlt_allocator_free(session->allocator, block);
  if (RLT_UNLIKELY(status == RLT_TRAP)) blame_entry(session, commands, error);
  return status;
}

#ifndef RLT_FREESTANDING

static rlt_status_t hal_fence_create(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  rlt_fence_t* fence = NULL;
  RLT_RETURN_IF_ERROR(rlt_fence_create(session->allocator, error, &fence));
  call->ref_results[0] = &fence->base;
  return RLT_OK;
}

static rlt_status_t hal_fence_join(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  for (uint32_t i = 0; i < call->ref_argument_count; ++i) {
    if (!rlt_object_is(call->ref_arguments[i], &rlt_fence_type)) {
      return wrong_type(call->ref_arguments[i], &rlt_fence_type, error);
    }
  }
  rlt_fence_t* fence = NULL;
  RLT_RETURN_IF_ERROR(
      rlt_fence_join(call->ref_argument_count, call->ref_arguments, session->allocator, error, &fence));
  call->ref_results[0] = &fence->base;
  return RLT_OK;
}

static rlt_status_t hal_fence_await(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_fence_t, fence, 0, rlt_fence_type);
  return rlt_fence_await(fence, error);
}

// commands, wait, done, buffers
static rlt_status_t hal_queue(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  REF_ARGUMENT(rlt_command_buffer_t, commands, 0, rlt_command_buffer_type);
  REF_ARGUMENT(rlt_fence_t, wait, 1, rlt_fence_type);
  REF_ARGUMENT(rlt_fence_t, done, 2, rlt_fence_type);
  for (uint32_t i = 3; i < call->ref_argument_count; ++i) {
    const rlt_object_t* object = call->ref_arguments[i];
    if (object && object->type != &rlt_buffer_type) return wrong_type(object, &rlt_buffer_type, error);
  }
  // An object is the first member of every buffer.
  const rlt_submission_t submission = {.commands = commands,
                                       .buffers = (rlt_buffer_t* const*)(call->ref_arguments + 3),
                                       .buffer_count = call->ref_argument_count - 3};
  return rlt_call_queue((rlt_call_t*)call->context, commands->device, submission, wait, done, error);
}

// device, source, wait, done
static rlt_status_t hal_transfer(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  const rlt_session_t* session = (const rlt_session_t*)self;
  DEVICE_ARGUMENT(device, 0);
  REF_ARGUMENT(rlt_buffer_t, source, 0, rlt_buffer_type);
  REF_ARGUMENT(rlt_fence_t, wait, 1, rlt_fence_type);
  REF_ARGUMENT(rlt_fence_t, done, 2, rlt_fence_type);
  rlt_call_t* queued = (rlt_call_t*)call->context;
  rlt_device_t* reader = device->device->vtable->transfer ? device->device : NULL;  // with memory of its own
  if (source->device == reader) {
    RLT_RETURN_IF_ERROR(rlt_call_queue(queued, device->device, (rlt_submission_t){0}, wait, done, error));
    rlt_buffer_retain(source);
    call->ref_results[0] = &source->base;
    return RLT_OK;
  }
  if (source->device && reader) {
    return rlt_error_set(error, RLT_UNIMPLEMENTED, "memory of the device '%s' cannot be brought to '%s' directly",
                         source->device->vtable->name, reader->vtable->name);
  }
  rlt_buffer_t* target = NULL;
  RLT_RETURN_IF_ERROR(
      rlt_device_allocate(device->device, rlt_buffer_params_default(), source->length, error, &target));
  call->ref_results[0] = &target->base;  // the VM releases it when this fails
  const rlt_submission_t submission = {.target = target, .source = source};
  return rlt_call_queue(queued, reader ? reader : source->device, submission, wait, done, error);
}

#endif  // RLT_FREESTANDING

static const rlt_vm_native_function_t natives[] = {
    {"hal.constant", "i", "r", hal_constant},
    {"hal.buffer.allocate", "ii", "r", hal_buffer_allocate},
    {"hal.buffer.transient", "ii", "r", hal_buffer_transient},
    {"hal.buffer.subspan", "rii", "r", hal_buffer_subspan},
    {"hal.buffer.load", "rii", "i", hal_buffer_load},
    {"hal.view.create", "rii*", "r", hal_view_create},
    {"hal.view.buffer", "r", "r", hal_view_buffer},
    {"hal.view.dim", "ri", "i", hal_view_dim},
    {"hal.view.check", "riiii*", "", hal_view_check},
    {"hal.check.dim", "iiii", "", hal_check_dim},
    {"hal.check.assert", "iiii", "", hal_check_assert},
    {"hal.check.size", "iii*", "", hal_check_size},
    {"hal.cmd.create", "ii", "r", hal_cmd_create},
    {"hal.cmd.constants", "ri*", "", hal_cmd_constants},
    {"hal.cmd.bind", "riiiii", "", hal_cmd_bind},
    {"hal.cmd.dispatch", "ri", "", hal_cmd_dispatch},
    {"hal.cmd.fill", "riiiii", "", hal_cmd_fill},
    {"hal.cmd.copy", "riiiii", "", hal_cmd_copy},
    {"hal.cmd.barrier", "r", "", hal_cmd_barrier},
    {"hal.cmd.end", "r", "", hal_cmd_end},
    {"hal.execute", "rr*", "", hal_execute},
#ifndef RLT_FREESTANDING
    {"hal.fence.create", "", "r", hal_fence_create},
    {"hal.fence.join", "r*", "r", hal_fence_join},
    {"hal.fence.await", "r", "", hal_fence_await},
    {"hal.queue", "rrrr*", "", hal_queue},
    {"hal.transfer", "irrr", "r", hal_transfer},
#endif
};

rlt_vm_native_module_t rlt_session_imports(rlt_session_t* session) {
  return (rlt_vm_native_module_t){session, natives, sizeof(natives) / sizeof(natives[0])};
}
