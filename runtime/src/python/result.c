// A result of a call: the owner of the memory that a numpy array shows.
#include "python/native.h"

typedef struct native_result_t {
  PyObject_HEAD
  rlt_buffer_view_t* view;
} native_result_t;

PyObject* native_result_create(native_state_t* state, rlt_buffer_view_t* view) {
  native_result_t* result = PyObject_New(native_result_t, state->result_type);
  if (!result) {
    rlt_buffer_view_release(view);
    return NULL;
  }
  result->view = view;
  return (PyObject*)result;
}

static void result_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  rlt_buffer_view_release(((native_result_t*)self)->view);
  PyObject_Free(self);
  Py_DECREF(type);
}

static int result_getbuffer(PyObject* self, Py_buffer* buffer, int flags) {
  const rlt_buffer_view_t* view = ((native_result_t*)self)->view;
  return PyBuffer_FillInfo(buffer, self, view->buffer->data, (Py_ssize_t)view->length, 0, flags);
}

static PyType_Slot result_slots[] = {
    {Py_tp_dealloc, (void*)result_dealloc},
    {Py_bf_getbuffer, (void*)result_getbuffer},
    {Py_tp_doc, "The memory of one result of a call."},
    {0, NULL},
};

PyType_Spec native_result_spec = {
    .name = "rillet.runtime._native.Result",
    .basicsize = sizeof(native_result_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = result_slots,
};
