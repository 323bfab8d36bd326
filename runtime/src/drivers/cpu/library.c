#include "drivers/cpu/library.h"

#include "base/strings.h"
#include "drivers/cpu/common.h"
#include "drivers/cpu/loaders/loaders.h"
#include "rillet/cpu/features.h"
#include "rillet/module.h"

static void library_destroy(rlt_library_t* base) {
  rlt_cpu_library_t* library = (rlt_cpu_library_t*)base;
  if (library->unload) library->unload(library->handle, library->handle_size);
  rlt_allocator_free(base->allocator, library);
}

static rlt_kernel_facts_t library_facts(const rlt_library_t* library, uint32_t entry) {
  const rlt_kernel_entry_t* kernel = rlt_cpu_kernel(library, entry);
  return (rlt_kernel_facts_t){.name = kernel->name,
                              .binding_count = kernel->binding_count,
                              .constant_count = kernel->constant_count,
                              .local_memory_size = kernel->local_memory_size};
}

static void library_grid(const rlt_library_t* library, uint32_t entry, const int64_t* constants,
                         uint32_t workgroup_count[3]) {
  rlt_cpu_kernel(library, entry)->workgroup_count(constants, workgroup_count);
}

static const rlt_library_vtable_t library_vtable = {library_destroy, library_facts, library_grid};

rlt_status_t rlt_cpu_library_create(rlt_kernel_query_fn_t query, void (*unload)(void* handle, size_t handle_size),
                                    void* handle, size_t handle_size, rlt_allocator_t allocator, rlt_error_t* error,
                                    rlt_library_t** out_library) {
  *out_library = NULL;
  const rlt_kernel_table_t* table = query(RLT_KERNEL_ABI_VERSION);
  if (!table || table->abi_version != RLT_KERNEL_ABI_VERSION) {
    return rlt_error_set(error, RLT_INCOMPATIBLE, "the kernels were compiled for another version of the runtime (%u)",
                         RLT_KERNEL_ABI_VERSION);
  }
  for (uint32_t i = 0; i < table->entry_count; ++i) {
    const rlt_kernel_entry_t* kernel = &table->entries[i];
    if (kernel->name && kernel->dispatch && kernel->workgroup_count) continue;
    return rlt_error_set(error, RLT_DATA_LOSS, "entry %u of the kernel library is incomplete", i);
  }
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(allocator, sizeof(rlt_cpu_library_t), error, &block));
  rlt_cpu_library_t* library = (rlt_cpu_library_t*)block;
  rlt_library_initialize(&library->base, &library_vtable, table->entry_count, allocator);
  library->table = table;
  library->unload = unload;
  library->handle = handle;
  library->handle_size = handle_size;
  *out_library = &library->base;
  return RLT_OK;
}

// The first feature of the library that `cpu` lacks; NULL when it has them all.
static const char* missing_feature(const rlt_module_library_t* source, const rlt_cpu_features_t* cpu) {
  for (uint32_t i = 0; i < source->features.count; ++i) {
    const char* feature = rlt_module_string(source->features, i);
    if (!rlt_cpu_features_has(cpu, feature, rlt_string_length(feature))) return feature;
  }
  return NULL;
}

bool rlt_cpu_can_load(const rlt_device_t* device, const rlt_module_library_t* source, rlt_error_t* error) {
  (void)device, (void)error;
  if (!rlt_string_equal(source->arch, rlt_cpu_architecture())) {
    rlt_error_prefix(error, "compiled for %.*s (%.*s); this CPU is %s; ", 48, source->target, 32, source->arch,
                     rlt_cpu_architecture());
    return false;
  }
  const rlt_cpu_features_t cpu = rlt_cpu_features_detect();
  const char* missing = missing_feature(source, &cpu);
  if (missing) rlt_error_prefix(error, "compiled for %.*s; this CPU lacks %.*s; ", 48, source->target, 32, missing);
  return !missing;
}

rlt_status_t rlt_cpu_load(rlt_device_t* device, const rlt_module_library_t* source, rlt_allocator_t allocator,
                          rlt_error_t* error, rlt_library_t** out_library) {
  *out_library = NULL;
  switch (source->format) {
#ifdef RLT_HAVE_ELF_LOADER
    case RLT_LIBRARY_EMBEDDED_ELF: return rlt_elf_load(source, allocator, error, out_library);
#endif
#ifdef RLT_HAVE_SYSTEM_LOADER
    case RLT_LIBRARY_SYSTEM: return rlt_system_load(source, allocator, error, out_library);
#endif
#ifdef RLT_HAVE_STATIC_LOADER
    case RLT_LIBRARY_STATIC: {
      const rlt_static_libraries_t libraries = ((rlt_cpu_device_t*)device)->static_libraries;
      return rlt_static_load(source, libraries, allocator, error, out_library);
    }
#endif
    default: break;
  }
  (void)device, (void)allocator;  // without loaders
  return rlt_error_set(error, RLT_UNIMPLEMENTED, "this runtime has no loader for library format %u", source->format);
}
