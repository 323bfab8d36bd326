#include "rillet/executable_loader.h"

static void executable_destroy(rlt_object_t* object) {
  rlt_executable_t* executable = (rlt_executable_t*)object;
  if (executable->unload) executable->unload(executable->handle, executable->handle_size);
  rlt_allocator_free(executable->allocator, executable);
}

const rlt_object_type_t rlt_executable_type = {"hal.executable", executable_destroy};

rlt_status_t rlt_executable_create(rlt_executable_query_fn_t query, void (*unload)(void* handle, size_t handle_size),
                                   void* handle, size_t handle_size, rlt_allocator_t allocator, rlt_error_t* error,
                                   rlt_executable_t** out_executable) {
  *out_executable = NULL;
  const rlt_executable_library_t* library = query(RLT_EXECUTABLE_ABI_VERSION);
  if (!library || library->abi_version != RLT_EXECUTABLE_ABI_VERSION) {
    return rlt_error_set(error, RLT_INCOMPATIBLE, "the kernels were compiled for another version of the runtime (%u)",
                         RLT_EXECUTABLE_ABI_VERSION);
  }
  uint32_t local_memory_size = 0;
  for (uint32_t i = 0; i < library->entry_count; ++i) {
    const rlt_executable_entry_t* entry = &library->entries[i];
    if (!entry->name || !entry->dispatch || !entry->workgroup_count) {
      return rlt_error_set(error, RLT_DATA_LOSS, "entry %u of the kernel library is incomplete", i);
    }
    if (entry->local_memory_size > local_memory_size) local_memory_size = entry->local_memory_size;
  }
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(allocator, sizeof(rlt_executable_t), error, &block));
  rlt_executable_t* executable = (rlt_executable_t*)block;
  rlt_object_initialize(&executable->base, &rlt_executable_type);
  executable->allocator = allocator;
  executable->library = library;
  executable->local_memory_size = local_memory_size;
  executable->unload = unload;
  executable->handle = handle;
  executable->handle_size = handle_size;
  *out_executable = executable;
  return RLT_OK;
}
