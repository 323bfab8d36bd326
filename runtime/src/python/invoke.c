// Calls: numpy arrays in and out without copying, the GIL released in between.
#include "python/native.h"

// Exports with up to this many inputs and outputs need no allocation.
enum { VIEWS_ON_STACK = 16 };

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

static PyObject* arrays_of_views(native_module_t* module, rlt_buffer_view_t** views, PyObject* dtypes) {
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

// Runs the export and makes arrays of the results. `views` has room for inputs (filled in) and then outputs.
static PyObject* run(native_module_t* module, uint32_t export_ordinal, rlt_buffer_view_t** views, uint32_t input_count,
                     PyObject* output_dtypes) {
  const uint32_t output_count = (uint32_t)PyTuple_Size(output_dtypes);
  rlt_session_t* session = module->session;
  rlt_error_t error;
  rlt_status_t status;
  Py_BEGIN_ALLOW_THREADS
  status = rlt_session_run(session, export_ordinal, input_count, views, output_count, views + input_count, &error);
  Py_END_ALLOW_THREADS
  if (status == RLT_OK) return arrays_of_views(module, views + input_count, output_dtypes);
  native_raise(module->state->run_error, &error);
  return NULL;
}

// Views of all inputs, then the call. NULL with an exception, or None when an array must be prepared first.
static PyObject* view_and_run(native_module_t* module, uint32_t export_ordinal, PyObject* arrays, PyObject* dtypes,
                              PyObject* output_dtypes, rlt_buffer_view_t** views) {
  const rlt_module_export_t declared = rlt_module_export(rlt_session_module(module->session), export_ordinal);
  const uint32_t input_count = declared.inputs.count;
  uint32_t viewed = 0;
  int usable = 1;
  for (; viewed < input_count; ++viewed) {
    usable = view_array(module, PyTuple_GetItem(arrays, viewed), PyTuple_GetItem(dtypes, viewed),
                        rlt_module_tensor(declared.inputs, viewed).dtype, &views[viewed]);
    if (usable != 1) break;
  }
  PyObject* result = NULL;
  if (usable == 1) {
    result = run(module, export_ordinal, views, input_count, output_dtypes);
  } else if (usable == 0) {
    Py_INCREF(Py_None);
    result = Py_None;
  }
  for (uint32_t i = 0; i < viewed; ++i) rlt_buffer_view_release(views[i]);
  return result;
}

PyObject* native_module_invoke(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  native_module_t* module = (native_module_t*)self;
  if (count != 2 || !PyTuple_Check(arguments[1])) {
    PyErr_SetString(PyExc_TypeError, "invoke(export, arrays) takes an ordinal and a tuple of arrays");
    return NULL;
  }
  const Py_ssize_t ordinal = PyLong_AsSsize_t(arguments[0]);
  if (ordinal == -1 && PyErr_Occurred()) return NULL;
  if (!module->exports || ordinal < 0 || ordinal >= PyTuple_Size(module->exports)) {
    PyErr_SetString(PyExc_IndexError, "no such export is bound");
    return NULL;
  }
  PyObject* bound = PyTuple_GetItem(module->exports, ordinal);
  PyObject* input_dtypes = PyTuple_GetItem(bound, 0);
  PyObject* output_dtypes = PyTuple_GetItem(bound, 1);
  PyObject* arrays = arguments[1];
  const Py_ssize_t input_count = PyTuple_Size(input_dtypes);
  if (PyTuple_Size(arrays) != input_count) {
    PyErr_Format(module->state->run_error, "the model takes %zd inputs, got %zd", input_count, PyTuple_Size(arrays));
    return NULL;
  }
  const size_t view_count = (size_t)input_count + (size_t)PyTuple_Size(output_dtypes);
  rlt_buffer_view_t* on_stack[VIEWS_ON_STACK];
  rlt_buffer_view_t** views = on_stack;
  if (view_count > VIEWS_ON_STACK) views = PyMem_Malloc(view_count * sizeof(*views));
  if (!views) return PyErr_NoMemory();
  PyObject* result = view_and_run(module, (uint32_t)ordinal, arrays, input_dtypes, output_dtypes, views);
  if (views != on_stack) PyMem_Free(views);
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
