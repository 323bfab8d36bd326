#include "rillet/session.h"

#include "base/strings.h"
#include "program/check_inputs.h"
#include "program/hal_imports.h"

// Exports with up to this many outputs need no allocation for their results.
enum { REFS_ON_STACK = 16 };

// Kernels read whole elements of an input; larger ones, complex numbers, in parts.
enum { MOST_ALIGNMENT = 8 };

// Bytes of a list of nodes that a message may have.
enum { NODES_LENGTH = 200 };

// The bytes of the module file, shared by the session and by results that are constants of it.
typedef struct file_t {
  rlt_object_t base;
  rlt_allocator_t allocator;
  void* owner;
  void (*owner_release)(void* owner);
} file_t;

struct rlt_session_t {
  rlt_object_t base;
  rlt_allocator_t allocator;
  file_t* file;
  rlt_module_view_t module;
  uint32_t library;
  rlt_hal_imports_t* hal;
  rlt_vm_module_t* vm;
};

static rlt_status_t null_error(const char* argument, rlt_error_t* error) {
  return rlt_error_set(error, RLT_INVALID_ARGUMENT, "'%s' is NULL", argument);
}

static void file_destroy(rlt_object_t* object) {
  file_t* file = (file_t*)object;
  if (file->owner_release) file->owner_release(file->owner);
  rlt_allocator_free(file->allocator, file);
}

static const rlt_object_type_t file_type = {"session.file", file_destroy};

static void session_destroy(rlt_object_t* object) {
  rlt_session_t* session = (rlt_session_t*)object;
  rlt_vm_module_destroy(session->vm);
  rlt_hal_imports_destroy(session->hal);
  rlt_object_release(&session->file->base);
  rlt_allocator_free(session->allocator, session);
}

static const rlt_object_type_t session_type = {"session", session_destroy};

void rlt_session_retain(rlt_session_t* session) {
  if (session) rlt_object_retain(&session->base);
}

void rlt_session_release(rlt_session_t* session) {
  if (session) rlt_object_release(&session->base);
}

const rlt_module_view_t* rlt_session_module(const rlt_session_t* session) { return &session->module; }

uint32_t rlt_session_library(const rlt_session_t* session) { return session->library; }

static void release_file(void* owner, void* data) {
  (void)data;
  rlt_object_release((rlt_object_t*)owner);
}

static rlt_status_t wrap_constants(rlt_session_t* session, rlt_buffer_t** constants, rlt_error_t* error) {
  const rlt_buffer_params_t params = {RLT_MEMORY_HOST_VISIBLE, RLT_USAGE_ALL, RLT_ACCESS_READ};
  for (uint32_t i = 0; i < session->module.constants.count; ++i) {
    const rlt_module_bytes_t bytes = rlt_module_constant(&session->module, i);
    RLT_RETURN_IF_ERROR(rlt_buffer_wrap(params, (void*)(uintptr_t)bytes.data, bytes.length, session->file, release_file,
                                        session->allocator, error, &constants[i]));
    rlt_object_retain(&session->file->base);
  }
  return RLT_OK;
}

static rlt_status_t create_device(const rlt_session_options_t* options, rlt_allocator_t allocator, rlt_error_t* error,
                                  rlt_device_t** out_device) {
  *out_device = options->device;
  if (options->device) {
    rlt_device_retain(options->device);
    return RLT_OK;
  }
  return rlt_cpu_device_create(options->thread_count, options->observer, allocator, error, out_device);
}

static rlt_status_t load_library(rlt_session_t* session, rlt_static_libraries_t libraries, rlt_error_t* error,
                                 rlt_library_t** out_library) {
  *out_library = NULL;
  if (session->module.libraries.count == 0) return RLT_OK;
  const rlt_cpu_features_t cpu = rlt_cpu_features_detect();
  RLT_RETURN_IF_ERROR(rlt_library_select(&session->module, &cpu, error, &session->library));
  RLT_RETURN_IF_ERROR(rlt_library_load(&session->module, session->library, libraries, session->allocator, error,
                                       out_library));
  const rlt_module_library_t declared = rlt_module_library(&session->module, session->library);
  if (declared.entries.count == (*out_library)->table->entry_count) return RLT_OK;
  return rlt_error_set(error, RLT_DATA_LOSS, "the module declares %u kernels, but its library has %u",
                       declared.entries.count, (*out_library)->table->entry_count);
}

// The input's name as the module's only export declares it.
static const char* input_name(void* self, int64_t argument) {
  const rlt_module_view_t* module = (const rlt_module_view_t*)self;
  if (module->exports.count != 1) return NULL;
  const rlt_module_export_t declared = rlt_module_export(module, 0);
  if (argument < 0 || argument >= declared.inputs.count) return NULL;
  return rlt_module_tensor(declared.inputs, (uint32_t)argument).name;
}

// What a check of the program says when it fails.
static const char* check_message(void* self, int64_t ordinal) {
  const rlt_module_view_t* module = (const rlt_module_view_t*)self;
  if (ordinal < 0 || ordinal >= module->messages.count) return NULL;
  return rlt_module_string(module->messages, (uint32_t)ordinal);
}

// Loads into `params` what the HAL module shares; the caller releases it whether or not this fails.
static rlt_status_t load_parts(rlt_session_t* session, const rlt_session_options_t* options,
                               rlt_hal_imports_params_t* params, rlt_buffer_t** constants, rlt_error_t* error) {
  params->constants = constants;
  params->constant_count = session->module.constants.count;
  params->input_name = input_name;
  params->message = check_message;
  params->text_self = &session->module;
  RLT_RETURN_IF_ERROR(wrap_constants(session, constants, error));
  RLT_RETURN_IF_ERROR(load_library(session, options->static_libraries, error, &params->library));
  RLT_RETURN_IF_ERROR(create_device(options, session->allocator, error, &params->device));
  return rlt_hal_imports_create(params, session->allocator, error, &session->hal);
}

static rlt_status_t load(rlt_session_t* session, const rlt_session_options_t* options, rlt_error_t* error) {
  void* constants = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate_array(session->allocator, session->module.constants.count,
                                                   sizeof(rlt_buffer_t*), error, &constants));
  rlt_hal_imports_params_t params;
  memset(&params, 0, sizeof(params));
  const rlt_status_t status = load_parts(session, options, &params, (rlt_buffer_t**)constants, error);
  rlt_device_release(params.device);
  rlt_library_release(params.library);
  for (uint32_t i = 0; i < params.constant_count; ++i) rlt_buffer_release(((rlt_buffer_t**)constants)[i]);
  rlt_allocator_free(session->allocator, constants);
  RLT_RETURN_IF_ERROR(status);
  const rlt_vm_native_module_t natives = rlt_hal_imports_natives(session->hal);
  const rlt_vm_module_options_t vm_options = {.step_limit = options->step_limit, .interrupt = options->interrupt};
  return rlt_module_create_vm(&session->module, &natives, 1, &vm_options, session->allocator, error, &session->vm);
}

static rlt_status_t create_file(void* owner, void (*owner_release)(void*), rlt_allocator_t allocator,
                                rlt_error_t* error, file_t** out_file) {
  void* block = NULL;
  const rlt_status_t status = rlt_allocator_allocate(allocator, sizeof(file_t), error, &block);
  if (status != RLT_OK) {
    if (owner_release) owner_release(owner);
    return status;
  }
  file_t* file = (file_t*)block;
  rlt_object_initialize(&file->base, &file_type);
  file->allocator = allocator;
  file->owner = owner;
  file->owner_release = owner_release;
  *out_file = file;
  return RLT_OK;
}

rlt_status_t rlt_session_create(const void* data, size_t length, void* owner, void (*owner_release)(void* owner),
                                const rlt_session_options_t* options, rlt_allocator_t allocator, rlt_error_t* error,
                                rlt_session_t** out_session) {
  static const rlt_session_options_t defaults = {.thread_count = 0};
  *out_session = NULL;
  file_t* file = NULL;
  RLT_RETURN_IF_ERROR(create_file(owner, owner_release, allocator, error, &file));
  void* block = NULL;
  rlt_status_t status = rlt_allocator_allocate(allocator, sizeof(rlt_session_t), error, &block);
  if (status != RLT_OK) {
    rlt_object_release(&file->base);
    return status;
  }
  rlt_session_t* session = (rlt_session_t*)block;
  rlt_object_initialize(&session->base, &session_type);
  session->allocator = allocator;
  session->file = file;
  session->library = UINT32_MAX;
  status = data ? rlt_module_open(data, length, error, &session->module) : null_error("data", error);
  if (!options) options = &defaults;
  if (status == RLT_OK && options->check_constants) status = rlt_module_check_constants(&session->module, error);
  if (status == RLT_OK) status = load(session, options, error);
  if (status != RLT_OK) {
    rlt_session_release(session);
    return status;
  }
  *out_session = session;
  return RLT_OK;
}

rlt_status_t rlt_session_find_export(const rlt_session_t* session, const char* name, rlt_error_t* error,
                                     uint32_t* out_export) {
  *out_export = 0;
  if (!session) return null_error("session", error);
  if (!name) return null_error("name", error);
  for (uint32_t i = 0; i < session->module.exports.count; ++i) {
    if (!rlt_string_equal(rlt_module_export(&session->module, i).name, name)) continue;
    *out_export = i;
    return RLT_OK;
  }
  return rlt_error_set(error, RLT_NOT_FOUND, "the module exports no function '%.*s'", 64, name);
}

rlt_status_t rlt_session_wrap(rlt_session_t* session, rlt_element_type_t element_type, uint32_t rank,
                              const int64_t* dims, const void* data, uint64_t length, rlt_error_t* error,
                              rlt_buffer_view_t** out_view) {
  *out_view = NULL;
  if (!session) return null_error("session", error);
  if (!dims && rank > 0) return null_error("dims", error);
  if (!data && length > 0) return null_error("data", error);
  const size_t size = rlt_element_type_size(element_type);
  if (size > 0 && (uintptr_t)data % (size > MOST_ALIGNMENT ? MOST_ALIGNMENT : size) != 0) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "the data is not aligned to its elements");
  }
  const rlt_buffer_params_t params = {RLT_MEMORY_HOST_VISIBLE, RLT_USAGE_ALL, RLT_ACCESS_READ};
  rlt_buffer_t* buffer = NULL;
  RLT_RETURN_IF_ERROR(rlt_buffer_wrap(params, (void*)(uintptr_t)data, length, NULL, NULL, session->allocator, error,
                                      &buffer));
  const rlt_status_t status =
      rlt_buffer_view_create(buffer, element_type, rank, dims, session->allocator, error, out_view);
  rlt_buffer_release(buffer);
  return status;
}

static bool overlaps(const rlt_buffer_view_t* a, const rlt_buffer_view_t* b) {
  const uintptr_t a_begin = (uintptr_t)a->buffer->data, b_begin = (uintptr_t)b->buffer->data;
  return a_begin < b_begin + b->length && b_begin < a_begin + a->length;
}

// True when the memory of output `ordinal` belongs to somebody else too.
static bool is_shared(uint32_t ordinal, rlt_buffer_view_t* const* outputs, uint32_t input_count,
                      rlt_buffer_view_t* const* inputs) {
  const rlt_buffer_view_t* output = outputs[ordinal];
  if (!(output->buffer->params.access & RLT_ACCESS_WRITE)) return true;
  for (uint32_t i = 0; i < input_count; ++i) {
    if (overlaps(output, inputs[i])) return true;
  }
  for (uint32_t i = 0; i < ordinal; ++i) {
    if (output == outputs[i] || overlaps(output, outputs[i])) return true;
  }
  return false;
}

// Replaces a view by one of a copy of its memory.
static rlt_status_t make_own(rlt_session_t* session, rlt_buffer_view_t** view, rlt_error_t* error) {
  rlt_buffer_view_t* shared = *view;
  rlt_buffer_t* buffer = NULL;
  RLT_RETURN_IF_ERROR(rlt_buffer_allocate_host(rlt_buffer_params_default(), shared->length, session->allocator, error,
                                               &buffer));
  memcpy(buffer->data, shared->buffer->data, (size_t)shared->length);
  rlt_buffer_view_t* copy = NULL;
  const rlt_status_t status = rlt_buffer_view_create(buffer, shared->element_type, shared->rank, shared->dims,
                                                     session->allocator, error, &copy);
  rlt_buffer_release(buffer);
  RLT_RETURN_IF_ERROR(status);
  rlt_buffer_view_release(shared);
  *view = copy;
  return RLT_OK;
}

static rlt_status_t check_output(const rlt_module_export_t* declared, uint32_t ordinal, const rlt_object_t* object,
                                 rlt_error_t* error) {
  const rlt_module_tensor_t tensor = rlt_module_tensor(declared->outputs, ordinal);
  const rlt_buffer_view_t* view = (const rlt_buffer_view_t*)object;
  const bool fits = rlt_object_is(object, &rlt_buffer_view_type) && view->element_type == tensor.dtype &&
                    view->rank == tensor.dims.count && view->buffer->data;
  if (fits) return RLT_OK;
  return rlt_error_set(error, RLT_INTERNAL, "output '%.*s' is not what the module declares", 64, tensor.name);
}

// Puts the source nodes of the kernel that failed, if one did, before the message.
static void blame_nodes(const rlt_session_t* session, rlt_error_t* error) {
#ifdef RLT_NO_ERROR_MESSAGES
  (void)session, (void)error;
#else
  if (!error || error->entry == 0 || error->entry > session->module.entry_facts.count) return;
  const char* nodes = rlt_module_entry_facts(&session->module, error->entry - 1).sources;
  if (!*nodes) return;
  bool several = false;
  int length = 0;
  for (; nodes[length] && length < NODES_LENGTH; ++length) several = several || nodes[length] == ',';
  const char* which = several ? "one of the nodes" : "node";
  rlt_error_prefix(error, "%s '%.*s%s': ", which, length, nodes, nodes[length] ? "..." : "");
#endif
}

// Calls the export; `refs` receives the results.
static rlt_status_t invoke(rlt_session_t* session, const rlt_module_export_t* declared, uint32_t input_count,
                           rlt_buffer_view_t* const* inputs, rlt_object_t** refs, rlt_error_t* error) {
  rlt_object_t** arguments = refs + declared->outputs.count;
  for (uint32_t i = 0; i < input_count; ++i) arguments[i] = &inputs[i]->base;
  const rlt_vm_call_t call = {
      .ref_arguments = arguments,
      .ref_results = refs,
      .ref_argument_count = input_count,
      .ref_result_count = declared->outputs.count,
  };
  const rlt_status_t status = rlt_vm_invoke(session->vm, declared->function, &call, error);
  if (RLT_UNLIKELY(status == RLT_TRAP)) blame_nodes(session, error);
  return status;
}

// Moves the results to `outputs`, each in memory of its own.
static rlt_status_t take_outputs(rlt_session_t* session, const rlt_module_export_t* declared, uint32_t input_count,
                                 rlt_buffer_view_t* const* inputs, rlt_object_t* const* refs,
                                 rlt_buffer_view_t** outputs, rlt_error_t* error) {
  rlt_status_t status = RLT_OK;
  const uint32_t count = declared->outputs.count;
  for (uint32_t i = 0; i < count && status == RLT_OK; ++i) status = check_output(declared, i, refs[i], error);
  for (uint32_t i = 0; i < count; ++i) {
    if (status == RLT_OK) {
      outputs[i] = (rlt_buffer_view_t*)refs[i];
    } else {
      rlt_object_release(refs[i]);
    }
  }
  for (uint32_t i = 0; i < count && status == RLT_OK; ++i) {
    if (is_shared(i, outputs, input_count, inputs)) status = make_own(session, &outputs[i], error);
  }
  if (status == RLT_OK) return RLT_OK;
  for (uint32_t i = 0; i < count; ++i) {
    rlt_buffer_view_release(outputs[i]);
    outputs[i] = NULL;
  }
  return status;
}

rlt_status_t rlt_session_run(rlt_session_t* session, uint32_t export_ordinal, uint32_t input_count,
                             rlt_buffer_view_t* const* inputs, uint32_t output_count, rlt_buffer_view_t** outputs,
                             rlt_error_t* error) {
  if (error) error->entry = 0;
  if (!session) return null_error("session", error);
  if (!outputs && output_count > 0) return null_error("outputs", error);
  for (uint32_t i = 0; i < output_count; ++i) outputs[i] = NULL;
  if (export_ordinal >= session->module.exports.count) {
    return rlt_error_set(error, RLT_NOT_FOUND, "export %u is not below %u", export_ordinal,
                         session->module.exports.count);
  }
  const rlt_module_export_t declared = rlt_module_export(&session->module, export_ordinal);
  if (output_count != declared.outputs.count) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "'%.*s' has %u outputs, but room for %u was given", 64,
                         declared.name, declared.outputs.count, output_count);
  }
  RLT_RETURN_IF_ERROR(rlt_session_check_inputs(&declared, input_count, inputs, error));
  rlt_object_t* on_stack[REFS_ON_STACK];
  void* block = NULL;
  const size_t ref_count = (size_t)input_count + output_count;
  if (ref_count > REFS_ON_STACK) {
    RLT_RETURN_IF_ERROR(
        rlt_allocator_allocate_array(session->allocator, ref_count, sizeof(rlt_object_t*), error, &block));
  }
  rlt_object_t** refs = block ? (rlt_object_t**)block : on_stack;
  rlt_status_t status = invoke(session, &declared, input_count, inputs, refs, error);
  if (status == RLT_OK) status = take_outputs(session, &declared, input_count, inputs, refs, outputs, error);
  rlt_allocator_free(session->allocator, block);
  return status;
}
