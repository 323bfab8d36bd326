// The parts of the extension module rillet.runtime._native.
#ifndef RILLET_PYTHON_NATIVE_H_
#define RILLET_PYTHON_NATIVE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "rillet/session.h"

// Which device a module runs on.
typedef enum native_sharing_t {
  NATIVE_DEVICE_ONE_THREAD,   // shared by all modules that use one thread
  NATIVE_DEVICE_ALL_CORES,    // shared by all modules that use a thread a core
  NATIVE_DEVICE_OWN,          // the module's own
} native_sharing_t;

typedef struct native_shared_device_t {
  rlt_device_t* device;  // NULL while nobody uses it
  size_t users;          // loaded modules
  long process;          // that made it
} native_shared_device_t;

// What the extension module keeps: its types, the exceptions of rillet.errors and the devices that modules share.
typedef struct native_state_t {
  native_shared_device_t shared[NATIVE_DEVICE_OWN];
  PyTypeObject* module_type;
  PyTypeObject* result_type;
  PyTypeObject* pending_type;
  PyObject* load_error;
  PyObject* run_error;
  PyObject* dtype_name;  // the string "dtype"
  unsigned long main_thread;  // its identifier
  int64_t signals_seen;       // by the main thread: nanoseconds of the monotonic clock
} native_state_t;

typedef struct native_profile_t native_profile_t;

// Calls with up to this many inputs and outputs need no allocation.
enum { NATIVE_VIEWS_ON_STACK = 16 };

typedef struct native_dropped_t native_dropped_t;

// A loaded module file.
typedef struct native_module_t {
  PyObject_HEAD
  native_state_t* state;  // of the extension module, which the type keeps alive
  rlt_session_t* session;
  native_profile_t* profile;  // NULL unless it was loaded for profiling
  rlt_device_t* device;       // to give back; NULL when it is the session's own
  PyObject* array_type;   // numpy.ndarray, once bound
  PyObject* exports;      // for each export (input dtypes, output dtypes), once bound
  native_dropped_t* dropped;  // calls that nobody will ask for, which may not be done yet
} native_module_t;

// Raises `type` with the message of `error`, and the kernel's ordinal as `entry` when one failed. Leaves the exception
// that a signal raised when it is of RLT_CANCELLED.
void native_raise(PyObject* type, const rlt_error_t* error);

// The device to load a module for; NULL for one of its own. False when it cannot be made. Give it back once the session is
// released.
bool native_device_take(native_state_t* state, native_sharing_t sharing, uint32_t thread_count, rlt_error_t* error,
                        rlt_device_t** out_device);
void native_device_give_back(native_state_t* state, rlt_device_t* device);

// Finds out which thread is the main one; false with an exception set.
bool native_interrupt_initialize(native_state_t* state);

// What ends calls of the main thread when the handler of a signal raises an exception, as that of Ctrl-C does.
rlt_interrupt_t native_interrupt(native_state_t* state);

// Makes a Python object that exports the view's bytes through the buffer protocol. Takes over the reference.
PyObject* native_result_create(native_state_t* state, rlt_buffer_view_t* view);

extern PyType_Spec native_result_spec;

// Module.facts() -> dict: exports, libraries, statistics and sizes.
PyObject* native_module_facts(PyObject* self, PyObject* unused);

// What one of a file's devices runs on, and the ordinal of the library that it runs; NULL and UINT32_MAX: none.
typedef struct native_choice_t {
  const char* device;
  uint32_t library;
} native_choice_t;

// The same of any checked file, with a choice for each of its devices.
PyObject* native_view_facts(const rlt_module_view_t* module, const native_choice_t* choices);

// Module.bind(array_type, exports): what invoke makes results of.
PyObject* native_module_bind(PyObject* self, PyObject* arguments);

// Module.invoke(export, arrays) -> tuple of arrays, or None when an array cannot be used as it is.
PyObject* native_module_invoke(PyObject* self, PyObject* const* arguments, Py_ssize_t count);

// Module.submit(export, arrays) -> Pending, or None when an array cannot be used as it is.
PyObject* native_module_submit(PyObject* self, PyObject* const* arguments, Py_ssize_t count);

extern PyType_Spec native_pending_spec;

// Gives up the calls whose Pending was dropped before they were done; those that are not done only where it is to `wait`.
void native_module_end_dropped(native_module_t* module, bool wait);

// What a call needs: the export, and views of the inputs with room for the outputs behind them.
typedef struct native_request_t {
  uint32_t export_ordinal;
  uint32_t input_count, output_count;
  PyObject* output_dtypes;
  rlt_buffer_view_t** views;
  rlt_buffer_view_t* on_stack[NATIVE_VIEWS_ON_STACK];
} native_request_t;

// Views the inputs of a call with the arguments (export, arrays). 1: done; give it up with native_request_end. 0: an array
// must be prepared first. -1: an exception is set.
int native_request_begin(native_module_t* module, PyObject* const* arguments, Py_ssize_t count,
                         native_request_t* request);
void native_request_end(native_request_t* request);

// The arrays of a call's outputs, whose references it takes over.
PyObject* native_arrays_of_views(native_module_t* module, rlt_buffer_view_t** views, PyObject* dtypes);

// A profile and the observer that fills it; NULL when there is no memory. Must outlive the session that observes.
native_profile_t* native_profile_create(rlt_dispatch_observer_t* out_observer);
void native_profile_free(native_profile_t* profile);

// Module.take_profile() -> list of (entry, begun, ended) in nanoseconds since it was last taken.
PyObject* native_module_take_profile(PyObject* self, PyObject* unused);

#endif  // RILLET_PYTHON_NATIVE_H_
