// Calls: numpy arrays in and out without copying, the GIL released in between.
#include "python/native.h"

// Keeps an array's memory for a buffer.
typedef struct held_array_t {
  Py_buffer buffer;
} held_array_t;

// The last reference to an input usually goes right after the call, but the program may have kept it.
static void release_array(void* owner, void* data) {
  (void)data;
  held_array_t* held = (held_array_t*)owner;
  const PyGILState_STATE gil = PyGILState_Ensure();
  PyBuffer_Release(&held->buffer);
  PyMem_Free(held);
  PyGILState_Release(gil);
}

static rlt_status_t wrap_held(held_array_t* held, uint8_t element_type, rlt_error_t* error,
                              rlt_buffer_view_t** out_view) {
  const rlt_buffer_params_t params = {RLT_MEMORY_HOST_VISIBLE, RLT_USAGE_ALL, RLT_ACCESS_READ};
  const Py_buffer* array = &held->buffer;
  int64_t dims[RLT_VIEW_MAX_RANK];
  if (array->ndim > RLT_VIEW_MAX_RANK) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "an array of %d dimensions", array->ndim);
  }
  for (int i = 0; i < array->ndim; ++i) dims[i] = array->shape[i];
  rlt_buffer_t* buffer = NULL;
  RLT_RETURN_IF_ERROR(rlt_buffer_wrap(params, array->buf, (uint64_t)array->len, held, release_array,
                                      rlt_allocator_system(), error, &buffer));
  const rlt_status_t status = rlt_buffer_view_create(buffer, element_type, (uint32_t)array->ndim, dims,
                                                     rlt_allocator_system(), error, out_view);
  // From here on the buffer owns `held`; the caller must not free it when only the view failed.
  if (status != RLT_OK) buffer->owner_release = NULL;
  rlt_buffer_release(buffer);
  return status;
}

// Makes a view of an array. 1: done. 0: the array must be prepared first. -1: an exception is set.
static int view_array(native_module_t* module, PyObject* array, PyObject* dtype, uint8_t element_type,
                      rlt_buffer_view_t** out_view) {
  if ((PyObject*)Py_TYPE(array) != module->array_type) return 0;
  PyObject* actual = PyObject_GetAttr(array, module->state->dtype_name);
  if (!actual) return -1;
  Py_DECREF(actual);  // the array holds it
  if (actual != dtype) return 0;
  held_array_t* held = PyMem_Malloc(sizeof(held_array_t));
  if (!held) {
    PyErr_NoMemory();
    return -1;
  }
  if (PyObject_GetBuffer(array, &held->buffer, PyBUF_ND | PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();
    PyMem_Free(held);
    return 0;
  }
  // Kernels read whole elements.
  const size_t size = rlt_element_type_size(element_type);
  const size_t alignment = size > 8 ? 8 : size;
  int result = 0;
  if (size == (size_t)held->buffer.itemsize && (uintptr_t)held->buffer.buf % alignment == 0) {
    rlt_error_t error = {0};
    if (wrap_held(held, element_type, &error, out_view) == RLT_OK) return 1;
    native_raise(module->state->run_error, &error);
    result = -1;
  }
  PyBuffer_Release(&held->buffer);
  PyMem_Free(held);
  return result;
}

// The numpy array over a result's memory. Takes over the reference to `view`.
static PyObject* array_of_view(native_module_t* module, rlt_buffer_view_t* view, PyObject* dtype) {
  PyObject* shape = PyTuple_New(view->rank);
  for (uint32_t i = 0; shape && i < view->rank; ++i) {
    PyObject* dim = PyLong_FromLongLong(view->dims[i]);
    if (!dim || PyTuple_SetItem(shape, i, dim) != 0) Py_CLEAR(shape);
  }
  if (!shape) {
    rlt_buffer_view_release(view);
    return NULL;
  }
  PyObject* owner = native_result_create(module->state, view);
  PyObject* array = owner ? PyObject_CallFunctionObjArgs(module->array_type, shape, dtype, owner, NULL) : NULL;
  Py_XDECREF(owner);
  Py_DECREF(shape);
  return array;
}

PyObject* native_arrays_of_views(native_module_t* module, rlt_buffer_view_t** views, PyObject* dtypes) {
  const Py_ssize_t count = PyTuple_Size(dtypes);
  PyObject* arrays = PyTuple_New(count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!arrays) {
      rlt_buffer_view_release(views[i]);
      continue;
    }
    PyObject* array = array_of_view(module, views[i], PyTuple_GetItem(dtypes, i));
    if (!array || PyTuple_SetItem(arrays, i, array) != 0) Py_CLEAR(arrays);
  }
  return arrays;
}

// Makes a view of the default of an input that was left out. 1: done. 0: it has none. -1: an exception is set.
static int view_default(native_module_t* module, uint32_t export_ordinal, uint32_t input,
                        rlt_buffer_view_t** out_view) {
  rlt_error_t error = {0};
  if (rlt_session_default_input(module->session, export_ordinal, input, &error, out_view) == RLT_OK) {
    return *out_view != NULL;
  }
  native_raise(module->state->run_error, &error);
  return -1;
}

// Views of all inputs, as far as that is possible; None stands for a default.
static int view_all(native_module_t* module, PyObject* arrays, PyObject* dtypes, native_request_t* request) {
  const rlt_module_view_t* view = rlt_session_module(module->session);
  const rlt_module_export_t declared = rlt_module_export(view, request->export_ordinal);
  for (uint32_t i = 0; i < declared.inputs.count; ++i) {
    PyObject* array = PyTuple_GetItem(arrays, i);
    const int usable = array == Py_None
                           ? view_default(module, request->export_ordinal, i, &request->views[i])
                           : view_array(module, array, PyTuple_GetItem(dtypes, i),
                                        rlt_module_tensor(declared.inputs, i).dtype, &request->views[i]);
    if (usable != 1) return usable;
    ++request->input_count;
  }
  return 1;
}

int native_request_begin(native_module_t* module, PyObject* const* arguments, Py_ssize_t count,
                         native_request_t* request) {
  if (count != 2 || !PyTuple_Check(arguments[1])) {
    PyErr_SetString(PyExc_TypeError, "a call takes an export's ordinal and a tuple of arrays");
    return -1;
  }
  const Py_ssize_t ordinal = PyLong_AsSsize_t(arguments[0]);
  if (ordinal == -1 && PyErr_Occurred()) return -1;
  if (!module->exports || ordinal < 0 || ordinal >= PyTuple_Size(module->exports)) {
    PyErr_SetString(PyExc_IndexError, "no such export is bound");
    return -1;
  }
  PyObject* bound = PyTuple_GetItem(module->exports, ordinal);
  PyObject* input_dtypes = PyTuple_GetItem(bound, 0);
  const Py_ssize_t input_count = PyTuple_Size(input_dtypes);
  if (PyTuple_Size(arguments[1]) != input_count) {
    PyErr_Format(module->state->run_error, "the model takes %zd inputs, got %zd", input_count,
                 PyTuple_Size(arguments[1]));
    return -1;
  }
  request->export_ordinal = (uint32_t)ordinal;
  request->output_dtypes = PyTuple_GetItem(bound, 1);
  request->input_count = 0;
  request->output_count = (uint32_t)PyTuple_Size(request->output_dtypes);
  request->views = request->on_stack;
  const size_t view_count = (size_t)input_count + request->output_count;
  if (view_count > NATIVE_VIEWS_ON_STACK) request->views = PyMem_Malloc(view_count * sizeof(*request->views));
  if (!request->views) {
    PyErr_NoMemory();
    return -1;
  }
  const int usable = view_all(module, arguments[1], input_dtypes, request);
  if (usable != 1) native_request_end(request);
  return usable;
}

void native_request_end(native_request_t* request) {
  for (uint32_t i = 0; i < request->input_count; ++i) rlt_buffer_view_release(request->views[i]);
  if (request->views != request->on_stack) PyMem_Free(request->views);
}

PyObject* native_module_invoke(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  native_module_t* module = (native_module_t*)self;
  native_request_t request;
  const int usable = native_request_begin(module, arguments, count, &request);
  if (usable < 0) return NULL;
  if (usable == 0) Py_RETURN_NONE;
  rlt_session_t* session = module->session;
  rlt_buffer_view_t** outputs = request.views + request.input_count;
  rlt_error_t error;
  rlt_status_t status;
  Py_BEGIN_ALLOW_THREADS
  status = rlt_session_run(session, request.export_ordinal, request.input_count, request.views, request.output_count,
                           outputs, &error);
  Py_END_ALLOW_THREADS
  PyObject* result = NULL;
  if (status == RLT_OK) {
    result = native_arrays_of_views(module, outputs, request.output_dtypes);
  } else {
    native_raise(module->state->run_error, &error);
  }
  native_request_end(&request);
  return result;
}

// True for a tuple of `count` objects.
static bool is_dtypes(PyObject* object, uint32_t count) {
  return object && PyTuple_Check(object) && PyTuple_Size(object) == (Py_ssize_t)count;
}

PyObject* native_module_bind(PyObject* self, PyObject* arguments) {
  native_module_t* module = (native_module_t*)self;
  PyObject* array_type = NULL;
  PyObject* exports = NULL;
  if (!PyArg_ParseTuple(arguments, "OO!", &array_type, &PyTuple_Type, &exports)) return NULL;
  const rlt_module_view_t* view = rlt_session_module(module->session);
  bool fits = PyTuple_Size(exports) == (Py_ssize_t)view->exports.count;
  for (uint32_t i = 0; fits && i < view->exports.count; ++i) {
    const rlt_module_export_t declared = rlt_module_export(view, i);
    PyObject* bound = PyTuple_GetItem(exports, i);
    fits = PyTuple_Check(bound) && PyTuple_Size(bound) == 2 &&
           is_dtypes(PyTuple_GetItem(bound, 0), declared.inputs.count) &&
           is_dtypes(PyTuple_GetItem(bound, 1), declared.outputs.count);
  }
  if (!fits) {
    PyErr_SetString(PyExc_ValueError, "bind takes ((input dtypes, output dtypes), ...), one pair for each export");
    return NULL;
  }
  if (module->exports) {
    PyErr_SetString(PyExc_RuntimeError, "the module is bound already");
    return NULL;
  }
  Py_INCREF(array_type);
  Py_INCREF(exports);
  module->array_type = array_type;
  module->exports = exports;
  Py_RETURN_NONE;
}
