#include "program/check_inputs.h"

#include "base/strings.h"

// The name of a dimension; "" when it has none.
static const char* dim_name(const rlt_module_tensor_t* tensor, uint32_t axis) {
  return axis < tensor->dim_names.count ? rlt_module_string(tensor->dim_names, axis) : "";
}

// Puts "(N, 3, 224)" before the message, dynamic dimensions by name.
static void prefix_declared_shape(const rlt_module_tensor_t* tensor, rlt_error_t* error) {
  rlt_error_prefix(error, "%s", tensor->dims.count == 1 ? ",)" : ")");
  for (uint32_t i = tensor->dims.count; i-- > 0;) {
    const char* separator = i + 1 < tensor->dims.count ? ", " : "";
    const int64_t dim = rlt_module_dim(tensor->dims, i);
    const char* name = dim_name(tensor, i);
    if (dim >= 0) {
      rlt_error_prefix(error, "%lld%s", (long long)dim, separator);
    } else {
      rlt_error_prefix(error, "%.*s%s", 24, *name ? name : "?", separator);
    }
  }
  rlt_error_prefix(error, "(");
}

static void prefix_actual_shape(const rlt_buffer_view_t* view, rlt_error_t* error) {
  rlt_error_prefix(error, "%s", view->rank == 1 ? ",)" : ")");
  for (uint32_t i = view->rank; i-- > 0;) {
    rlt_error_prefix(error, "%lld%s", (long long)view->dims[i], i + 1 < view->rank ? ", " : "");
  }
  rlt_error_prefix(error, "(");
}

// The message is built from its end.
static rlt_status_t shape_error(const rlt_module_tensor_t* tensor, const rlt_buffer_view_t* view, rlt_error_t* error) {
  rlt_error_set(error, RLT_INVALID_ARGUMENT, "%s", "");
  prefix_actual_shape(view, error);
  rlt_error_prefix(error, ", got ");
  prefix_declared_shape(tensor, error);
  rlt_error_prefix(error, "input '%.*s': expected shape ", 64, tensor->name);
  return RLT_INVALID_ARGUMENT;
}

static rlt_status_t check_input(const rlt_module_tensor_t* tensor, const rlt_buffer_view_t* view, rlt_error_t* error) {
  if (view->element_type != tensor->dtype) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "input '%.*s': expected %s, got %s", 64, tensor->name,
                         rlt_element_type_name(tensor->dtype), rlt_element_type_name(view->element_type));
  }
  if (view->rank != tensor->dims.count) return shape_error(tensor, view, error);
  for (uint32_t i = 0; i < view->rank; ++i) {
    const int64_t expected = rlt_module_dim(tensor->dims, i);
    if (expected >= 0 && expected != view->dims[i]) return shape_error(tensor, view, error);
  }
  return RLT_OK;
}

// Compares a named dimension with those of the same name before it.
static rlt_status_t check_name(const rlt_module_export_t* declared, rlt_buffer_view_t* const* inputs, uint32_t input,
                               uint32_t axis, const char* name, rlt_error_t* error) {
  const int64_t actual = inputs[input]->dims[axis];
  for (uint32_t i = 0; i <= input; ++i) {
    const rlt_module_tensor_t other = rlt_module_tensor(declared->inputs, i);
    const uint32_t end = i == input ? axis : other.dim_names.count;
    for (uint32_t j = 0; j < end; ++j) {
      if (rlt_module_dim(other.dims, j) >= 0 || !rlt_string_equal(dim_name(&other, j), name)) continue;
      if (inputs[i]->dims[j] == actual) return RLT_OK;
      return rlt_error_set(error, RLT_INVALID_ARGUMENT,
                           "input '%.*s': dimension %u ('%.*s') is %lld, but dimension %u of input '%.*s' has the same "
                           "name and is %lld; where they may differ, compile the model with other names for them",
                           64, rlt_module_tensor(declared->inputs, input).name, axis, 24, name, (long long)actual, j,
                           64, other.name, (long long)inputs[i]->dims[j]);
    }
  }
  return RLT_OK;
}

rlt_status_t rlt_session_check_inputs(const rlt_module_export_t* declared, uint32_t input_count,
                                      rlt_buffer_view_t* const* inputs, rlt_error_t* error) {
  if (input_count != declared->inputs.count) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "'%.*s' takes %u inputs, got %u", 64, declared->name,
                         declared->inputs.count, input_count);
  }
  if (!inputs && input_count > 0) return rlt_error_set(error, RLT_INVALID_ARGUMENT, "'inputs' is NULL");
  for (uint32_t i = 0; i < input_count; ++i) {
    const rlt_module_tensor_t tensor = rlt_module_tensor(declared->inputs, i);
    if (!inputs[i]) return rlt_error_set(error, RLT_INVALID_ARGUMENT, "input '%.*s' is NULL", 64, tensor.name);
    RLT_RETURN_IF_ERROR(check_input(&tensor, inputs[i], error));
    for (uint32_t axis = 0; axis < tensor.dim_names.count; ++axis) {
      const char* name = dim_name(&tensor, axis);
      if (*name == '\0' || rlt_module_dim(tensor.dims, axis) >= 0) continue;
      RLT_RETURN_IF_ERROR(check_name(declared, inputs, i, axis, name, error));
    }
  }
  return RLT_OK;
}
