// Calls that go on by themselves.
#include "python/native.h"

// Waiting is interrupted as often for signals, whose handlers Python runs in the main thread only.
static const uint64_t SLICE_NANOSECONDS = 50000000;

typedef struct native_pending_t {
  PyObject_HEAD
  native_module_t* module;  // retained
  rlt_pending_t* pending;
  PyObject* output_dtypes;  // of the module, which keeps them
} native_pending_t;

struct native_dropped_t {
  rlt_pending_t* pending;
  native_dropped_t* next;
};

static void release(rlt_pending_t* pending) {
  Py_BEGIN_ALLOW_THREADS
  rlt_pending_release(pending);
  Py_END_ALLOW_THREADS
}

void native_module_end_dropped(native_module_t* module, bool wait) {
  // Other threads may drop calls while this one waits.
  native_dropped_t* list = module->dropped;
  module->dropped = NULL;
  while (list) {
    native_dropped_t* dropped = list;
    list = dropped->next;
    if (wait || rlt_pending_is_done(dropped->pending)) {
      release(dropped->pending);
      PyMem_Free(dropped);
    } else {
      dropped->next = module->dropped;
      module->dropped = dropped;
    }
  }
}

PyObject* native_module_submit(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  native_module_t* module = (native_module_t*)self;
  native_request_t request;
  const int usable = native_request_begin(module, arguments, count, &request);
  if (usable < 0) return NULL;
  if (usable == 0) Py_RETURN_NONE;
  native_module_end_dropped(module, false);
  rlt_session_t* session = module->session;
  rlt_pending_t* pending = NULL;
  rlt_error_t error;
  rlt_status_t status;
  Py_BEGIN_ALLOW_THREADS
  status = rlt_session_submit(session, request.export_ordinal, request.input_count, request.views, &error, &pending);
  Py_END_ALLOW_THREADS
  native_request_end(&request);
  if (status != RLT_OK) {
    native_raise(module->state->run_error, &error);
    return NULL;
  }
  native_pending_t* result = PyObject_New(native_pending_t, module->state->pending_type);
  if (!result) {
    release(pending);
    return NULL;
  }
  Py_INCREF(self);
  result->module = module;
  result->pending = pending;
  result->output_dtypes = request.output_dtypes;
  return (PyObject*)result;
}

// A call that is not done is left to the module, so that dropping it does not wait.
static void pending_dealloc(PyObject* self) {
  native_pending_t* pending = (native_pending_t*)self;
  native_module_t* module = pending->module;
  PyTypeObject* type = Py_TYPE(self);
  native_dropped_t* dropped = NULL;
  if (!rlt_pending_is_done(pending->pending)) dropped = PyMem_Malloc(sizeof(native_dropped_t));
  if (dropped) {
    *dropped = (native_dropped_t){.pending = pending->pending, .next = module->dropped};
    module->dropped = dropped;
  } else {
    release(pending->pending);
  }
  Py_DECREF((PyObject*)module);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject* pending_done(PyObject* self, PyObject* unused) {
  (void)unused;
  rlt_pending_t* pending = ((native_pending_t*)self)->pending;
  bool done;
  Py_BEGIN_ALLOW_THREADS
  done = rlt_pending_is_done(pending);
  Py_END_ALLOW_THREADS
  return PyBool_FromLong(done);
}

// Waits for at most a slice of what is left of the time; false with an exception set when a signal's handler raised one.
static bool wait_slice(rlt_pending_t* pending, uint64_t* left, uint32_t count, rlt_buffer_view_t** outputs,
                       rlt_error_t* error, rlt_status_t* out_status) {
  const uint64_t slice = *left < SLICE_NANOSECONDS ? *left : SLICE_NANOSECONDS;
  Py_BEGIN_ALLOW_THREADS
  *out_status = rlt_pending_wait(pending, slice, count, outputs, error);
  Py_END_ALLOW_THREADS
  if (*left != UINT64_MAX) *left -= slice;
  return PyErr_CheckSignals() == 0;
}

static PyObject* take_results(native_pending_t* self, uint64_t timeout_ns, rlt_buffer_view_t** outputs) {
  const uint32_t count = (uint32_t)PyTuple_Size(self->output_dtypes);
  rlt_error_t error;
  rlt_status_t status = RLT_DEADLINE_EXCEEDED;
  do {
    if (!wait_slice(self->pending, &timeout_ns, count, outputs, &error, &status)) {
      for (uint32_t i = 0; i < count; ++i) rlt_buffer_view_release(outputs[i]);
      return NULL;
    }
  } while (status == RLT_DEADLINE_EXCEEDED && timeout_ns > 0);
  if (status == RLT_OK) return native_arrays_of_views(self->module, outputs, self->output_dtypes);
  native_raise(status == RLT_DEADLINE_EXCEEDED ? PyExc_TimeoutError : self->module->state->run_error, &error);
  return NULL;
}

static PyObject* pending_result(PyObject* self, PyObject* timeout) {
  native_pending_t* pending = (native_pending_t*)self;
  uint64_t timeout_ns = UINT64_MAX;
  if (timeout != Py_None) {
    timeout_ns = PyLong_AsUnsignedLongLong(timeout);
    if (PyErr_Occurred()) return NULL;
  }
  const size_t count = (size_t)PyTuple_Size(pending->output_dtypes);
  rlt_buffer_view_t** outputs = PyMem_Calloc(count + 1, sizeof(*outputs));
  if (!outputs) return PyErr_NoMemory();
  PyObject* results = take_results(pending, timeout_ns, outputs);
  PyMem_Free(outputs);
  return results;
}

static PyMethodDef pending_methods[] = {
    {"done", pending_done, METH_NOARGS, "Whether result() would not wait."},
    {"result", pending_result, METH_O,
     "result(timeout): the results as a tuple of arrays, waiting for them for so many nanoseconds (None: no limit)."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot pending_slots[] = {
    {Py_tp_dealloc, (void*)pending_dealloc},
    {Py_tp_methods, pending_methods},
    {Py_tp_doc, "A call that goes on by itself; to be used by one thread at a time."},
    {0, NULL},
};

PyType_Spec native_pending_spec = {
    .name = "rillet.runtime._native.Pending",
    .basicsize = sizeof(native_pending_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = pending_slots,
};
