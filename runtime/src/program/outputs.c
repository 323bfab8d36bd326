// The outputs of a call: in memory of the host that is nobody else's.
#include "base/strings.h"
#include "program/session.h"

static bool overlaps(const rlt_buffer_view_t* a, const rlt_buffer_view_t* b) {
  const uintptr_t a_begin = (uintptr_t)a->buffer->data, b_begin = (uintptr_t)b->buffer->data;
  return a_begin < b_begin + b->length && b_begin < a_begin + a->length;
}

// True when the memory of output `ordinal` belongs to somebody else too, or the host cannot see it.
static bool is_shared(uint32_t ordinal, rlt_buffer_view_t* const* outputs, uint32_t input_count,
                      rlt_buffer_view_t* const* inputs) {
  const rlt_buffer_view_t* output = outputs[ordinal];
  if (rlt_buffer_device(output->buffer) || !(output->buffer->params.access & RLT_ACCESS_WRITE)) return true;
  for (uint32_t i = 0; i < input_count; ++i) {
    if (overlaps(output, inputs[i])) return true;
  }
  for (uint32_t i = 0; i < ordinal; ++i) {
    if (output == outputs[i] || overlaps(output, outputs[i])) return true;
  }
  return false;
}

// Copies the bytes of a view to the host.
static rlt_status_t read_all(const rlt_buffer_view_t* view, void* data, rlt_error_t* error) {
#ifdef RLT_FREESTANDING
  (void)error;
  memcpy(data, view->buffer->data, (size_t)view->length);
  return RLT_OK;
#else
  return rlt_device_read(view->buffer, 0, view->length, data, error);
#endif
}

// Replaces a view by one of a copy of its memory.
static rlt_status_t make_own(rlt_session_t* session, rlt_buffer_view_t** view, rlt_error_t* error) {
  rlt_buffer_view_t* shared = *view;
  rlt_buffer_t* buffer = NULL;
  RLT_RETURN_IF_ERROR(rlt_buffer_allocate_host(rlt_buffer_params_default(), shared->length, session->allocator, error,
                                               &buffer));
  rlt_buffer_view_t* copy = NULL;
  rlt_status_t status = read_all(shared, buffer->data, error);
  if (status == RLT_OK) {
    status = rlt_buffer_view_create(buffer, shared->element_type, shared->rank, shared->dims, session->allocator,
                                    error, &copy);
  }
  rlt_buffer_release(buffer);
  RLT_RETURN_IF_ERROR(status);
  rlt_buffer_view_release(shared);
  *view = copy;
  return RLT_OK;
}

static rlt_status_t check_output(const rlt_module_export_t* declared, uint32_t ordinal, const rlt_object_t* object,
                                 rlt_error_t* error) {
  const rlt_module_tensor_t tensor = rlt_module_tensor(declared->outputs, ordinal);
  const rlt_buffer_view_t* view = (const rlt_buffer_view_t*)object;
  const bool fits = rlt_object_is(object, &rlt_buffer_view_type) && view->element_type == tensor.dtype &&
                    view->rank == tensor.dims.count;
  if (fits) return RLT_OK;
  return rlt_error_set(error, RLT_INTERNAL, "output '%.*s' is not what the module declares", 64, tensor.name);
}

rlt_status_t rlt_session_take_outputs(rlt_session_t* session, const rlt_module_export_t* declared,
                                      uint32_t input_count, rlt_buffer_view_t* const* inputs,
                                      rlt_object_t* const* refs, rlt_buffer_view_t** outputs, rlt_error_t* error) {
  rlt_status_t status = RLT_OK;
  const uint32_t count = declared->outputs.count;
  for (uint32_t i = 0; i < count && status == RLT_OK; ++i) status = check_output(declared, i, refs[i], error);
  for (uint32_t i = 0; i < count; ++i) {
    if (status == RLT_OK) {
      outputs[i] = (rlt_buffer_view_t*)refs[i];
    } else {
      rlt_object_release(refs[i]);
    }
  }
  for (uint32_t i = 0; i < count && status == RLT_OK; ++i) {
    if (is_shared(i, outputs, input_count, inputs)) status = make_own(session, &outputs[i], error);
  }
  if (status == RLT_OK) return RLT_OK;
  for (uint32_t i = 0; i < count; ++i) {
    rlt_buffer_view_release(outputs[i]);
    outputs[i] = NULL;
  }
  return status;
}
