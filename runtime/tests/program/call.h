// Calls a session's "main" on inputs made up as declared: elements 0, 1, 2, ... in their type; dynamic dimensions are 3.
#ifndef RILLET_TESTS_PROGRAM_CALL_H_
#define RILLET_TESTS_PROGRAM_CALL_H_

#include "harness.h"
#include "rillet/session.h"

enum { DYNAMIC_DIMENSION = 3, MAX_TENSORS = 8, MAX_BYTES = 1 << 16 };

static void fill(uint8_t* data, uint32_t element_type, uint64_t length) {
  for (uint64_t i = 0; i < length; ++i) data[i] = 0;
  for (uint64_t i = 0; element_type == RLT_TYPE_F32 && i < length / 4; ++i) ((float*)(void*)data)[i] = (float)i;
  for (uint64_t i = 0; element_type == RLT_TYPE_I64 && i < length / 8; ++i) ((int64_t*)(void*)data)[i] = (int64_t)i;
}

// An input as the module declares it; NULL when this program has no room for it.
static rlt_buffer_view_t* make_input(rlt_session_t* session, rlt_module_tensor_t tensor, uint8_t* memory) {
  int64_t dims[RLT_VIEW_MAX_RANK];
  uint64_t length = rlt_element_type_size(tensor.dtype);
  if (tensor.dims.count > RLT_VIEW_MAX_RANK) return NULL;
  for (uint32_t i = 0; i < tensor.dims.count; ++i) {
    dims[i] = rlt_module_dim(tensor.dims, i);
    if (dims[i] < 0) dims[i] = DYNAMIC_DIMENSION;
    if (dims[i] > MAX_BYTES) return NULL;
    length *= (uint64_t)dims[i];
    if (length > MAX_BYTES) return NULL;
  }
  fill(memory, tensor.dtype, length);
  rlt_buffer_view_t* view = NULL;
  rlt_session_wrap(session, tensor.dtype, tensor.dims.count, dims, memory, length, NULL, &view);
  return view;
}

static void print_output(const rlt_buffer_view_t* view) {
  printf("%s [", rlt_element_type_name(view->element_type));
  for (uint32_t i = 0; i < view->rank; ++i) printf("%s%lld", i ? ", " : "", (long long)view->dims[i]);
  double sum = 0;
  for (uint64_t i = 0; view->element_type == RLT_TYPE_F32 && i < view->length / 4; ++i) {
    sum += (double)((const float*)(const void*)view->buffer->data)[i];
  }
  printf("] sum %g\n", sum);
}

// `run` is how the session is called: it fills in the outputs.
typedef rlt_status_t (*run_fn_t)(rlt_session_t* session, uint32_t entry, uint32_t input_count,
                                 rlt_buffer_view_t* const* inputs, uint32_t output_count, rlt_buffer_view_t** outputs,
                                 rlt_error_t* error);

static rlt_status_t call_with(run_fn_t run, rlt_session_t* session, bool print, rlt_error_t* error) {
  uint32_t entry = 0;
  RLT_RETURN_IF_ERROR(rlt_session_find_export(session, "main", error, &entry));
  const rlt_module_export_t declared = rlt_module_export(rlt_session_module(session), entry);
  if (declared.inputs.count > MAX_TENSORS || declared.outputs.count > MAX_TENSORS) {
    return rlt_error_set(error, RLT_RESOURCE_EXHAUSTED, "too many tensors");
  }
  uint8_t* memory = (uint8_t*)malloc(MAX_TENSORS * MAX_BYTES);
  rlt_buffer_view_t *inputs[MAX_TENSORS] = {NULL}, *outputs[MAX_TENSORS] = {NULL};
  bool complete = memory != NULL;
  for (uint32_t i = 0; i < declared.inputs.count && complete; ++i) {
    inputs[i] = make_input(session, rlt_module_tensor(declared.inputs, i), memory + i * MAX_BYTES);
    complete = inputs[i] != NULL;
  }
  rlt_status_t status = RLT_RESOURCE_EXHAUSTED;
  if (complete) {
    status = run(session, entry, declared.inputs.count, inputs, declared.outputs.count, outputs, error);
  }
  for (uint32_t i = 0; i < declared.inputs.count; ++i) rlt_buffer_view_release(inputs[i]);
  for (uint32_t i = 0; i < declared.outputs.count; ++i) {
    if (outputs[i] && print) print_output(outputs[i]);
    rlt_buffer_view_release(outputs[i]);
  }
  free(memory);
  return status;
}

static inline rlt_status_t call(rlt_session_t* session, bool print, rlt_error_t* error) {
  return call_with(rlt_session_run, session, print, error);
}

static inline rlt_status_t submit_and_wait(rlt_session_t* session, uint32_t entry, uint32_t input_count,
                                           rlt_buffer_view_t* const* inputs, uint32_t output_count,
                                           rlt_buffer_view_t** outputs, rlt_error_t* error) {
  rlt_pending_t* pending = NULL;
  RLT_RETURN_IF_ERROR(rlt_session_submit(session, entry, input_count, inputs, error, &pending));
  const rlt_status_t status = rlt_pending_wait(pending, UINT64_MAX, output_count, outputs, error);
  rlt_pending_release(pending);
  return status;
}

// The same by a call that goes on by itself.
static inline rlt_status_t call_pending(rlt_session_t* session, bool print, rlt_error_t* error) {
  return call_with(submit_and_wait, session, print, error);
}

#endif  // RILLET_TESTS_PROGRAM_CALL_H_
