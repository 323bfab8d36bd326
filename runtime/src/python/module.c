// The extension module and the type of loaded module files.
#include "python/native.h"

#include <stdlib.h>
#include <string.h>

void native_raise(PyObject* type, const rlt_error_t* error) {
  if (error->status == RLT_CANCELLED && PyErr_Occurred()) return;
  if (error->status == RLT_OUT_OF_MEMORY) type = PyExc_MemoryError;
  PyObject* message = PyUnicode_DecodeUTF8(error->message, error->length, "replace");
  PyObject* raised = message ? PyObject_CallFunctionObjArgs(type, message, NULL) : NULL;
  Py_XDECREF(message);
  if (!raised) return;
  PyObject* entry = error->entry ? PyLong_FromUnsignedLong(error->entry - 1) : NULL;
  if (!entry || PyObject_SetAttrString(raised, "entry", entry) == 0) PyErr_SetObject(type, raised);
  Py_XDECREF(entry);
  Py_DECREF(raised);
}

// Takes over the session, the device to give back and the profile; the last two may be NULL.
static PyObject* create_module(native_state_t* state, rlt_session_t* session, rlt_device_t* device,
                               native_profile_t* profile) {
  native_module_t* module = PyObject_New(native_module_t, state->module_type);
  if (!module) {
    rlt_session_release(session);
    native_device_give_back(state, device);
    native_profile_free(profile);
    return NULL;
  }
  module->profile = profile;
  module->device = device;
  module->state = state;
  module->session = session;
  module->array_type = NULL;
  module->exports = NULL;
  module->dropped = NULL;
  return (PyObject*)module;
}

static void module_dealloc(PyObject* self) {
  native_module_t* module = (native_module_t*)self;
  PyTypeObject* type = Py_TYPE(self);
  native_module_end_dropped(module, true);
  rlt_session_release(module->session);
  native_device_give_back(module->state, module->device);
  native_profile_free(module->profile);
  Py_XDECREF(module->array_type);
  Py_XDECREF(module->exports);
  PyObject_Free(self);
  Py_DECREF(type);
}

// The bytes of the file.
static int module_getbuffer(PyObject* self, Py_buffer* buffer, int flags) {
  const rlt_module_view_t* module = rlt_session_module(((native_module_t*)self)->session);
  return PyBuffer_FillInfo(buffer, self, (void*)(uintptr_t)module->data, (Py_ssize_t)module->length, 1, flags);
}

// How a module is to be loaded, as Python says it.
typedef struct request_t {
  unsigned int threads;
  unsigned int sharing;  // native_sharing_t
  int profiled;
  int verified;
} request_t;

// Where a module file comes from: a path, or bytes in memory with their owner.
typedef struct file_source_t {
  const char* path;  // NULL for memory
  const void* data;
  size_t length;
  void* owner;
  void (*owner_release)(void* owner);
} file_source_t;

static void release_source(const file_source_t* source) {
  if (source->owner_release) source->owner_release(source->owner);
}

// The loaded module; takes over the source. NULL with an exception set.
static PyObject* load(native_state_t* state, const file_source_t* source, const request_t* request) {
  rlt_error_t error = {0};
  rlt_device_t* device = NULL;
  const native_sharing_t sharing = request->profiled || request->sharing > NATIVE_DEVICE_OWN
                                       ? NATIVE_DEVICE_OWN
                                       : (native_sharing_t)request->sharing;
  if (!native_device_take(state, sharing, request->threads, &error, &device)) {
    release_source(source);
    native_raise(state->load_error, &error);
    return NULL;
  }
  rlt_dispatch_observer_t observer;
  native_profile_t* profile = request->profiled ? native_profile_create(&observer) : NULL;
  const rlt_session_options_t options = {.thread_count = request->threads,
                                         .devices = &device,
                                         .device_count = device != NULL,
                                         .drivers = rlt_drivers_built_in(),
                                         .check_constants = request->verified,
                                         .observer = profile ? &observer : NULL,
                                         .interrupt = native_interrupt(state)};
  rlt_session_t* session = NULL;
  Py_BEGIN_ALLOW_THREADS
  if (source->path) {
    rlt_session_open(source->path, &options, rlt_allocator_system(), &error, &session);
  } else {
    rlt_session_create(source->data, source->length, source->owner, source->owner_release, &options,
                       rlt_allocator_system(), &error, &session);
  }
  Py_END_ALLOW_THREADS
  if (session) return create_module(state, session, device, profile);
  native_device_give_back(state, device);
  native_profile_free(profile);
  native_raise(state->load_error, &error);
  return NULL;
}

static PyObject* load_path(PyObject* native, PyObject* arguments) {
  PyObject* path = NULL;
  request_t request = {0};
  if (!PyArg_ParseTuple(arguments, "O&IIp|p", PyUnicode_FSConverter, &path, &request.threads, &request.sharing,
                        &request.profiled, &request.verified)) {
    return NULL;
  }
  const file_source_t source = {.path = PyBytes_AsString(path)};
  PyObject* module = load((native_state_t*)PyModule_GetState(native), &source, &request);
  Py_DECREF(path);
  return module;
}

static void release_object(void* owner) {
  Py_buffer* buffer = (Py_buffer*)owner;
  const PyGILState_STATE gil = PyGILState_Ensure();
  PyBuffer_Release(buffer);
  PyMem_Free(buffer);
  PyGILState_Release(gil);
}

// An aligned copy, for bytes objects, whose data lies wherever it does. NULL when there is no memory.
static void* copy_aligned(const Py_buffer* buffer) {
  const size_t alignment = RLT_MODULE_DATA_ALIGNMENT;
  const size_t size = ((size_t)buffer->len + alignment) / alignment * alignment;
  void* copy = aligned_alloc(alignment, size);
  if (copy) memcpy(copy, buffer->buf, (size_t)buffer->len);
  return copy;
}

static PyObject* load_bytes(PyObject* native, PyObject* arguments) {
  PyObject* object = NULL;
  request_t request = {0};
  if (!PyArg_ParseTuple(arguments, "OIIp|p", &object, &request.threads, &request.sharing, &request.profiled,
                        &request.verified)) {
    return NULL;
  }
  Py_buffer* buffer = PyMem_Malloc(sizeof(Py_buffer));
  if (!buffer) return PyErr_NoMemory();
  if (PyObject_GetBuffer(object, buffer, PyBUF_SIMPLE) != 0) {
    PyMem_Free(buffer);
    return NULL;
  }
  file_source_t source = {
      .data = buffer->buf, .length = (size_t)buffer->len, .owner = buffer, .owner_release = release_object};
  if ((uintptr_t)buffer->buf % RLT_MODULE_DATA_ALIGNMENT != 0) {
    source.owner = copy_aligned(buffer);
    source.data = source.owner;
    source.owner_release = free;
    release_object(buffer);
    if (!source.owner) return PyErr_NoMemory();
  }
  return load((native_state_t*)PyModule_GetState(native), &source, &request);
}

// Chooses for each of a file's devices the library that this machine would run on a CPU.
static rlt_status_t choose(const rlt_module_view_t* view, native_choice_t* choices, rlt_error_t* error) {
  rlt_device_t* device = NULL;
  const rlt_device_options_t options = {.thread_count = 1};
  RLT_RETURN_IF_ERROR(rlt_cpu_device_create(&options, rlt_allocator_system(), error, &device));
  for (uint32_t i = 0; i < view->devices.count; ++i) {
    const rlt_module_vector_t libraries = rlt_module_device(view, i).libraries;
    choices[i].library = UINT32_MAX;
    for (uint32_t k = 0; k < libraries.count && choices[i].library == UINT32_MAX; ++k) {
      const uint32_t ordinal = rlt_module_uint(libraries, k);
      if (rlt_session_can_load(view, ordinal, device, NULL)) choices[i].library = ordinal;
    }
  }
  rlt_device_release(device);
  return RLT_OK;
}

// What Module.facts() gives. NULL with an exception set.
static PyObject* inspect_view(native_state_t* state, const rlt_module_view_t* view) {
  native_choice_t* choices = PyMem_Calloc(view->devices.count, sizeof(native_choice_t));
  if (!choices) return PyErr_NoMemory();
  rlt_error_t error = {0};
  PyObject* facts = NULL;
  if (choose(view, choices, &error) == RLT_OK) {
    facts = native_view_facts(view, choices);
  } else {
    native_raise(state->load_error, &error);
  }
  PyMem_Free(choices);
  return facts;
}

// Checks a file without loading it, so that it may be for another processor.
static PyObject* inspect(PyObject* native, PyObject* arguments) {
  native_state_t* state = (native_state_t*)PyModule_GetState(native);
  Py_buffer buffer;
  int verified = 0;
  if (!PyArg_ParseTuple(arguments, "y*p", &buffer, &verified)) return NULL;
  const bool in_place = (uintptr_t)buffer.buf % RLT_MODULE_DATA_ALIGNMENT == 0;
  void* copy = in_place ? NULL : copy_aligned(&buffer);
  if (!in_place && !copy) {
    PyBuffer_Release(&buffer);
    return PyErr_NoMemory();
  }
  rlt_error_t error = {0};
  rlt_module_view_t view;
  rlt_status_t status;
  Py_BEGIN_ALLOW_THREADS
  status = rlt_module_open(in_place ? buffer.buf : copy, (size_t)buffer.len, &error, &view);
  if (status == RLT_OK && verified) status = rlt_module_check_constants(&view, &error);
  for (uint32_t i = 0; status == RLT_OK && verified && i < view.libraries.count; ++i) {
    status = rlt_module_check_library(&view, i, &error);
  }
  Py_END_ALLOW_THREADS
  PyObject* facts = NULL;
  if (status == RLT_OK) {
    facts = inspect_view(state, &view);
  } else {
    native_raise(state->load_error, &error);
  }
  free(copy);
  PyBuffer_Release(&buffer);
  return facts;
}

static PyMethodDef module_methods[] = {
    {"bind", native_module_bind, METH_VARARGS,
     "bind(array_type, exports): the array type, and for each export (input dtypes, output dtypes)."},
    {"facts", native_module_facts, METH_NOARGS, "What the file holds, as a dict."},
    {"invoke", (PyCFunction)(void (*)(void))native_module_invoke, METH_FASTCALL,
     "invoke(export, arrays): the results as a tuple of arrays, or None when an array is not of the bound type and "
     "dtype, contiguous and aligned."},
    {"submit", (PyCFunction)(void (*)(void))native_module_submit, METH_FASTCALL,
     "submit(export, arrays): as invoke, but a Pending, at once."},
    {"take_profile", native_module_take_profile, METH_NOARGS,
     "(entry, begun, ended) of each dispatch since the profile was last taken, in nanoseconds."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot module_slots[] = {
    {Py_tp_dealloc, (void*)module_dealloc},
    {Py_tp_methods, module_methods},
    {Py_bf_getbuffer, (void*)module_getbuffer},
    {Py_tp_doc, "A loaded module file; its buffer is the file's bytes."},
    {0, NULL},
};

static PyType_Spec module_spec = {
    .name = "rillet.runtime._native.Module",
    .basicsize = sizeof(native_module_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = module_slots,
};

static PyMethodDef native_functions[] = {
    {"load_path", load_path, METH_VARARGS, "load_path(path, threads, sharing, profile, verify): maps and loads a module file."},
    {"load_bytes", load_bytes, METH_VARARGS,
     "load_bytes(data, threads, sharing, profile, verify): loads a module file from memory (in place when 64-byte aligned)."},
    {"inspect", inspect, METH_VARARGS,
     "inspect(data, verify): what Module.facts() gives, for a module file in memory that is not loaded."},
    {NULL, NULL, 0, NULL},
};

static int native_exec(PyObject* native) {
  native_state_t* state = (native_state_t*)PyModule_GetState(native);
  state->module_type = (PyTypeObject*)PyType_FromModuleAndSpec(native, &module_spec, NULL);
  state->result_type = (PyTypeObject*)PyType_FromModuleAndSpec(native, &native_result_spec, NULL);
  state->pending_type = (PyTypeObject*)PyType_FromModuleAndSpec(native, &native_pending_spec, NULL);
  state->dtype_name = PyUnicode_InternFromString("dtype");
  PyObject* errors = PyImport_ImportModule("rillet.errors");
  if (errors) {
    state->load_error = PyObject_GetAttrString(errors, "LoadError");
    state->run_error = PyObject_GetAttrString(errors, "RunError");
    Py_DECREF(errors);
  }
  const bool complete = state->module_type && state->result_type && state->pending_type && state->dtype_name &&
                        state->load_error && state->run_error;
  if (!complete || !native_interrupt_initialize(state)) return -1;
  return PyModule_AddObjectRef(native, "Module", (PyObject*)state->module_type);
}

static int native_traverse(PyObject* native, visitproc visit, void* arg) {
  native_state_t* state = (native_state_t*)PyModule_GetState(native);
  Py_VISIT(state->module_type);
  Py_VISIT(state->result_type);
  Py_VISIT(state->pending_type);
  Py_VISIT(state->load_error);
  Py_VISIT(state->run_error);
  return 0;
}

static int native_clear(PyObject* native) {
  native_state_t* state = (native_state_t*)PyModule_GetState(native);
  Py_CLEAR(state->module_type);
  Py_CLEAR(state->result_type);
  Py_CLEAR(state->pending_type);
  Py_CLEAR(state->load_error);
  Py_CLEAR(state->run_error);
  Py_CLEAR(state->dtype_name);
  return 0;
}

static PyModuleDef_Slot native_slots[] = {
    {Py_mod_exec, (void*)native_exec},
    {0, NULL},
};

static PyModuleDef native_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "The runtime: loads module files and calls them.",
    .m_size = sizeof(native_state_t),
    .m_methods = native_functions,
    .m_slots = native_slots,
    .m_traverse = native_traverse,
    .m_clear = native_clear,
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&native_definition); }
