// The parts of the extension module rillet.runtime._native.
#ifndef RILLET_PYTHON_NATIVE_H_
#define RILLET_PYTHON_NATIVE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "rillet/session.h"

// What the extension module keeps: its types and the exceptions of rillet.errors.
typedef struct native_state_t {
  PyTypeObject* module_type;
  PyTypeObject* result_type;
  PyObject* load_error;
  PyObject* run_error;
  PyObject* dtype_name;  // the string "dtype"
  unsigned long main_thread;  // its identifier
  int64_t signals_seen;       // by the main thread: nanoseconds of the monotonic clock
} native_state_t;

typedef struct native_profile_t native_profile_t;

// A loaded module file.
typedef struct native_module_t {
  PyObject_HEAD
  native_state_t* state;  // of the extension module, which the type keeps alive
  rlt_session_t* session;
  native_profile_t* profile;  // NULL unless it was loaded for profiling
  PyObject* array_type;   // numpy.ndarray, once bound
  PyObject* exports;      // for each export (input dtypes, output dtypes), once bound
} native_module_t;

// Raises `type` with the message of `error`, and the kernel's ordinal as `entry` when one failed. Leaves the exception
// that a signal raised when it is of RLT_CANCELLED.
void native_raise(PyObject* type, const rlt_error_t* error);

// Finds out which thread is the main one; false with an exception set.
bool native_interrupt_initialize(native_state_t* state);

// What ends calls of the main thread when the handler of a signal raises an exception, as that of Ctrl-C does.
rlt_interrupt_t native_interrupt(native_state_t* state);

// Makes a Python object that exports the view's bytes through the buffer protocol. Takes over the reference.
PyObject* native_result_create(native_state_t* state, rlt_buffer_view_t* view);

extern PyType_Spec native_result_spec;

// Module.facts() -> dict: exports, executables, statistics and sizes.
PyObject* native_module_facts(PyObject* self, PyObject* unused);

// The same of any checked file; `executable` is the one that is selected.
PyObject* native_view_facts(const rlt_module_view_t* module, uint32_t executable);

// Module.bind(array_type, exports): what invoke makes results of.
PyObject* native_module_bind(PyObject* self, PyObject* arguments);

// Module.invoke(export, arrays) -> tuple of arrays, or None when an array cannot be used as it is.
PyObject* native_module_invoke(PyObject* self, PyObject* const* arguments, Py_ssize_t count);

// A profile and the observer that fills it; NULL when there is no memory. Must outlive the session that observes.
native_profile_t* native_profile_create(rlt_dispatch_observer_t* out_observer);
void native_profile_free(native_profile_t* profile);

// Module.take_profile() -> list of (entry, begun, ended) in nanoseconds since it was last taken.
PyObject* native_module_take_profile(PyObject* self, PyObject* unused);

#endif  // RILLET_PYTHON_NATIVE_H_
