#include "program/session.h"

#include "base/strings.h"

#ifndef RLT_FREESTANDING
#include "program/call.h"
#endif

// Kernels read whole elements of an input; larger ones, complex numbers, in parts.
enum { MOST_ALIGNMENT = 8 };

static void file_destroy(rlt_object_t* object) {
  rlt_session_file_t* file = (rlt_session_file_t*)object;
  if (file->owner_release) file->owner_release(file->owner);
  rlt_allocator_free(file->allocator, file);
}

static const rlt_object_type_t file_type = {"session.file", file_destroy};

static void release_constants(rlt_session_t* session) {
  if (!session->constants) return;
  for (uint32_t i = 0; i < session->module.constants.count; ++i) rlt_buffer_release(session->constants[i]);
  rlt_allocator_free(session->allocator, session->constants);
}

static void session_destroy(rlt_object_t* object) {
  rlt_session_t* session = (rlt_session_t*)object;
  rlt_vm_module_destroy(session->vm);
  release_constants(session);
  rlt_session_release_devices(session);
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

const rlt_session_device_t* rlt_session_devices(const rlt_session_t* session, uint32_t* out_count) {
  *out_count = session->device_count;
  return session->devices;
}

static void release_file(void* owner, void* data) {
  (void)data;
  rlt_object_release((rlt_object_t*)owner);
}

static rlt_status_t wrap_constants(rlt_session_t* session, rlt_error_t* error) {
  const uint32_t count = session->module.constants.count;
  void* block = NULL;
  RLT_RETURN_IF_ERROR(
      rlt_allocator_allocate_array(session->allocator, count, sizeof(rlt_buffer_t*), error, &block));
  session->constants = (rlt_buffer_t**)block;
  const rlt_buffer_params_t params = {RLT_MEMORY_HOST_VISIBLE, RLT_USAGE_ALL, RLT_ACCESS_READ};
  for (uint32_t i = 0; i < count; ++i) {
    const rlt_module_bytes_t bytes = rlt_module_constant(&session->module, i);
    RLT_RETURN_IF_ERROR(rlt_buffer_wrap(params, (void*)(uintptr_t)bytes.data, bytes.length, session->file, release_file,
                                        session->allocator, error, &session->constants[i]));
    rlt_object_retain(&session->file->base);
  }
  return RLT_OK;
}

static rlt_status_t create_vm(rlt_session_t* session, const rlt_session_options_t* options, rlt_error_t* error) {
  const rlt_vm_native_module_t imports = rlt_session_imports(session);
  rlt_vm_module_options_t vm_options = {.step_limit = options->step_limit, .interrupt = options->interrupt};
#ifdef RLT_FREESTANDING
  return rlt_module_create_vm(&session->module, &imports, 1, &vm_options, session->allocator, error, &session->vm);
#else
  rlt_call_t call = rlt_call_begin(session->allocator, false);
  vm_options.context = &call;
  const rlt_status_t status =
      rlt_module_create_vm(&session->module, &imports, 1, &vm_options, session->allocator, error, &session->vm);
  return rlt_call_end(&call, status, error);
#endif
}

static rlt_status_t load(rlt_session_t* session, const rlt_session_options_t* options, rlt_error_t* error) {
  RLT_RETURN_IF_ERROR(rlt_session_load_devices(session, options, error));
  RLT_RETURN_IF_ERROR(wrap_constants(session, error));
  return create_vm(session, options, error);
}

static rlt_status_t create_file(void* owner, void (*owner_release)(void*), rlt_allocator_t allocator,
                                rlt_error_t* error, rlt_session_file_t** out_file) {
  void* block = NULL;
  const rlt_status_t status = rlt_allocator_allocate(allocator, sizeof(rlt_session_file_t), error, &block);
  if (status != RLT_OK) {
    if (owner_release) owner_release(owner);
    return status;
  }
  rlt_session_file_t* file = (rlt_session_file_t*)block;
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
  rlt_session_file_t* file = NULL;
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
  status = data ? rlt_module_open(data, length, error, &session->module) : rlt_session_null_error("data", error);
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
  if (!session) return rlt_session_null_error("session", error);
  if (!name) return rlt_session_null_error("name", error);
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
  if (!session) return rlt_session_null_error("session", error);
  if (!dims && rank > 0) return rlt_session_null_error("dims", error);
  if (!data && length > 0) return rlt_session_null_error("data", error);
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

rlt_status_t rlt_session_default_input(rlt_session_t* session, uint32_t export_ordinal, uint32_t input,
                                       rlt_error_t* error, rlt_buffer_view_t** out_view) {
  *out_view = NULL;
  if (!session) return rlt_session_null_error("session", error);
  const bool exported = export_ordinal < session->module.exports.count;
  const rlt_module_export_t declared =
      exported ? rlt_module_export(&session->module, export_ordinal) : (rlt_module_export_t){.name = ""};
  if (input >= declared.inputs.count) {
    return rlt_error_set(error, RLT_NOT_FOUND, "there is no input %u of export %u", input, export_ordinal);
  }
  const rlt_module_tensor_t tensor = rlt_module_tensor(declared.inputs, input);
  if (!tensor.default_value) return RLT_OK;
  int64_t dims[RLT_VIEW_MAX_RANK];
  if (tensor.dims.count > RLT_VIEW_MAX_RANK) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "input '%.*s' has %u dimensions", 64, tensor.name,
                         tensor.dims.count);
  }
  for (uint32_t i = 0; i < tensor.dims.count; ++i) dims[i] = rlt_module_dim(tensor.dims, i);
  return rlt_buffer_view_create(session->constants[tensor.default_value - 1], tensor.dtype, tensor.dims.count, dims,
                                session->allocator, error, out_view);
}
