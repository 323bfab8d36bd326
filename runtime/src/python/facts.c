// What a module file holds, as Python objects.
#include "python/native.h"

#include <string.h>

// Adds to a list or dict, taking over the reference to `value`. All return false with an exception set.
static bool append(PyObject* list, PyObject* value) {
  const bool done = value && PyList_Append(list, value) == 0;
  Py_XDECREF(value);
  return done;
}

static bool set(PyObject* dict, const char* key, PyObject* value) {
  const bool done = value && PyDict_SetItemString(dict, key, value) == 0;
  Py_XDECREF(value);
  return done;
}

// The list, or NULL after releasing it when `complete` is false.
static PyObject* finish(PyObject* object, bool complete) {
  if (complete) return object;
  Py_XDECREF(object);
  return NULL;
}

static PyObject* text(const char* string) { return PyUnicode_DecodeUTF8(string, (Py_ssize_t)strlen(string), "replace"); }

static PyObject* strings(rlt_module_vector_t vector) {
  PyObject* list = PyList_New(0);
  bool complete = list != NULL;
  for (uint32_t i = 0; complete && i < vector.count; ++i) complete = append(list, text(rlt_module_string(vector, i)));
  return finish(list, complete);
}

static PyObject* dims(rlt_module_vector_t vector) {
  PyObject* list = PyList_New(0);
  bool complete = list != NULL;
  for (uint32_t i = 0; complete && i < vector.count; ++i) {
    complete = append(list, PyLong_FromLongLong(rlt_module_dim(vector, i)));
  }
  return finish(list, complete);
}

// (name, dtype name, [dims], [dimension names], whether it has a default)
static PyObject* tensors(rlt_module_vector_t vector) {
  PyObject* list = PyList_New(0);
  bool complete = list != NULL;
  for (uint32_t i = 0; complete && i < vector.count; ++i) {
    const rlt_module_tensor_t tensor = rlt_module_tensor(vector, i);
    complete = append(list, Py_BuildValue("(NsNNN)", text(tensor.name), rlt_element_type_name(tensor.dtype),
                                          dims(tensor.dims), strings(tensor.dim_names),
                                          PyBool_FromLong(tensor.default_value != 0)));
  }
  return finish(list, complete);
}

static PyObject* exports(const rlt_module_view_t* module) {
  PyObject* list = PyList_New(0);
  bool complete = list != NULL;
  for (uint32_t i = 0; complete && i < module->exports.count; ++i) {
    const rlt_module_export_t declared = rlt_module_export(module, i);
    complete = append(list, Py_BuildValue("(NNN)", text(declared.name), tensors(declared.inputs),
                                          tensors(declared.outputs)));
  }
  return finish(list, complete);
}

static const char* format_name(uint8_t format) {
  static const char* const names[] = {"embedded-elf", "system-library", "static"};
  return format < sizeof(names) / sizeof(names[0]) ? names[format] : "unknown";
}

// Whether some device runs library `ordinal`.
static bool is_chosen(const native_choice_t* choices, uint32_t device_count, uint32_t ordinal) {
  for (uint32_t i = 0; i < device_count; ++i) {
    if (choices[i].library == ordinal) return true;
  }
  return false;
}

static PyObject* libraries(const rlt_module_view_t* module, const native_choice_t* choices) {
  PyObject* list = PyList_New(0);
  bool complete = list != NULL;
  for (uint32_t i = 0; complete && i < module->libraries.count; ++i) {
    const rlt_module_library_t library = rlt_module_library(module, i);
    complete = append(
        list, Py_BuildValue("{sNsNsssNsNsKsO}", "target", text(library.target), "arch", text(library.arch),
                            "format", format_name(library.format), "features", strings(library.features),
                            "entries", strings(library.entries), "bytes",
                            (unsigned long long)library.image.length, "selected",
                            is_chosen(choices, module->devices.count, i) ? Py_True : Py_False));
  }
  return finish(list, complete);
}

static PyObject* numbers(rlt_module_vector_t vector) {
  PyObject* list = PyList_New(0);
  bool complete = list != NULL;
  for (uint32_t i = 0; complete && i < vector.count; ++i) {
    complete = append(list, PyLong_FromUnsignedLong(rlt_module_uint(vector, i)));
  }
  return finish(list, complete);
}

// What is chosen, or None.
static PyObject* chosen_library(uint32_t ordinal) {
  if (ordinal != UINT32_MAX) return PyLong_FromUnsignedLong(ordinal);
  Py_INCREF(Py_None);
  return Py_None;
}

static PyObject* devices(const rlt_module_view_t* module, const native_choice_t* choices) {
  PyObject* list = PyList_New(0);
  bool complete = list != NULL;
  for (uint32_t i = 0; complete && i < module->devices.count; ++i) {
    const rlt_module_device_t device = rlt_module_device(module, i);
    complete = append(list, Py_BuildValue("{sNsNsNsIsNss}", "name", text(device.name), "driver", text(device.driver),
                                          "libraries", numbers(device.libraries), "first_fact",
                                          (unsigned int)device.first_fact, "library",
                                          chosen_library(choices[i].library), "runs_on", choices[i].device));
  }
  return finish(list, complete);
}

static PyObject* stats(const rlt_module_view_t* module) {
  PyObject* dict = PyDict_New();
  bool complete = dict != NULL;
  for (uint32_t i = 0; complete && i < module->stats.count; ++i) {
    const rlt_module_stat_t stat = rlt_module_stat(module, i);
    PyObject* key = text(stat.key);
    PyObject* value = PyLong_FromLongLong(stat.value);
    complete = key && value && PyDict_SetItem(dict, key, value) == 0;
    Py_XDECREF(key);
    Py_XDECREF(value);
  }
  return finish(dict, complete);
}

static PyObject* entry_facts(const rlt_module_view_t* module) {
  PyObject* list = PyList_New(0);
  bool complete = list != NULL;
  for (uint32_t i = 0; complete && i < module->entry_facts.count; ++i) {
    const rlt_module_entry_facts_t facts = rlt_module_entry_facts(module, i);
    complete = append(list, Py_BuildValue("(LLN)", (long long)facts.macs, (long long)facts.bytes, text(facts.sources)));
  }
  return finish(list, complete);
}

static PyObject* constants(const rlt_module_view_t* module) {
  PyObject* list = PyList_New(0);
  bool complete = list != NULL;
  for (uint32_t i = 0; complete && i < module->constants.count; ++i) {
    complete = append(list, PyLong_FromUnsignedLongLong(rlt_module_constant(module, i).length));
  }
  return finish(list, complete);
}

PyObject* native_module_facts(PyObject* self, PyObject* unused) {
  (void)unused;
  const rlt_session_t* session = ((native_module_t*)self)->session;
  uint32_t count = 0;
  const rlt_session_device_t* found = rlt_session_devices(session, &count);
  native_choice_t* choices = PyMem_Calloc(count, sizeof(native_choice_t));
  if (!choices) return PyErr_NoMemory();
  for (uint32_t i = 0; i < count; ++i) {
    choices[i] = (native_choice_t){.device = found[i].device->vtable->name, .library = found[i].library_ordinal};
  }
  PyObject* facts = native_view_facts(rlt_session_module(session), choices);
  PyMem_Free(choices);
  return facts;
}

PyObject* native_view_facts(const rlt_module_view_t* module, const native_choice_t* choices) {
  PyObject* facts = PyDict_New();
  const bool complete = facts && set(facts, "producer", text(module->producer)) &&
                        set(facts, "exports", exports(module)) &&
                        set(facts, "libraries", libraries(module, choices)) &&
                        set(facts, "devices", devices(module, choices)) && set(facts, "stats", stats(module)) &&
                        set(facts, "constants", constants(module)) && set(facts, "entry_facts", entry_facts(module));
  return finish(facts, complete);
}
