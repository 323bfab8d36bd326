#include "rillet/hal/library.h"

static void library_destroy(rlt_object_t* object) {
  rlt_library_t* library = (rlt_library_t*)object;
  if (library->unload) library->unload(library->handle, library->handle_size);
  rlt_allocator_free(library->allocator, library);
}

const rlt_object_type_t rlt_library_type = {"hal.library", library_destroy};

rlt_status_t rlt_library_create(rlt_kernel_query_fn_t query, void (*unload)(void* handle, size_t handle_size),
                                   void* handle, size_t handle_size, rlt_allocator_t allocator, rlt_error_t* error,
                                   rlt_library_t** out_library) {
  *out_library = NULL;
  const rlt_kernel_table_t* table = query(RLT_KERNEL_ABI_VERSION);
  if (!table || table->abi_version != RLT_KERNEL_ABI_VERSION) {
    return rlt_error_set(error, RLT_INCOMPATIBLE, "the kernels were compiled for another version of the runtime (%u)",
                         RLT_KERNEL_ABI_VERSION);
  }
  uint32_t local_memory_size = 0;
  for (uint32_t i = 0; i < table->entry_count; ++i) {
    const rlt_kernel_entry_t* entry = &table->entries[i];
    if (!entry->name || !entry->dispatch || !entry->workgroup_count) {
      return rlt_error_set(error, RLT_DATA_LOSS, "entry %u of the kernel library is incomplete", i);
    }
    if (entry->local_memory_size > local_memory_size) local_memory_size = entry->local_memory_size;
  }
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(allocator, sizeof(rlt_library_t), error, &block));
  rlt_library_t* library = (rlt_library_t*)block;
  rlt_object_initialize(&library->base, &rlt_library_type);
  library->allocator = allocator;
  library->table = table;
  library->local_memory_size = local_memory_size;
  library->unload = unload;
  library->handle = handle;
  library->handle_size = handle_size;
  *out_library = library;
  return RLT_OK;
}
