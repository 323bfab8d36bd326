// Signals during calls: Python runs their handlers (that of Ctrl-C raises KeyboardInterrupt) in the main thread only, and
// only where it is asked to.
#include <time.h>

#include "python/native.h"

// Between two looks, since each waits for the GIL.
enum { INTERVAL_NANOSECONDS = 50000000 };

static int64_t monotonic_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// True with an exception set when a handler raised one.
static bool is_pending(void* self) {
  native_state_t* state = (native_state_t*)self;
  if (PyThread_get_thread_ident() != state->main_thread) return false;
  const int64_t now = monotonic_now();
  if (now - state->signals_seen < INTERVAL_NANOSECONDS) return false;
  state->signals_seen = now;
  const PyGILState_STATE gil = PyGILState_Ensure();
  const bool raised = PyErr_CheckSignals() != 0;
  PyGILState_Release(gil);
  return raised;
}

bool native_interrupt_initialize(native_state_t* state) {
  PyObject* threading = PyImport_ImportModule("threading");
  PyObject* thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
  PyObject* ident = thread ? PyObject_GetAttrString(thread, "ident") : NULL;
  if (ident) state->main_thread = PyLong_AsUnsignedLong(ident);
  Py_XDECREF(ident);
  Py_XDECREF(thread);
  Py_XDECREF(threading);
  return !PyErr_Occurred();
}

rlt_interrupt_t native_interrupt(native_state_t* state) {
  return (rlt_interrupt_t){.self = state, .is_pending = is_pending};
}
