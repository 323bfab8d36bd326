// The choice among a module's libraries, and among the loaders.
#include "base/strings.h"
#include "rillet/hal/library.h"

// The first feature of `library` that `cpu` lacks; NULL when it has them all.
static const char* missing_feature(const rlt_module_library_t* library, const rlt_cpu_features_t* cpu) {
  for (uint32_t i = 0; i < library->features.count; ++i) {
    const char* feature = rlt_module_string(library->features, i);
    if (!rlt_cpu_features_has(cpu, feature, rlt_string_length(feature))) return feature;
  }
  return NULL;
}

rlt_status_t rlt_library_select(const rlt_module_view_t* module, const rlt_cpu_features_t* cpu, rlt_error_t* error,
                                uint32_t* out_index) {
  *out_index = 0;
  const uint32_t count = module->libraries.count;
  if (count == 0) return rlt_error_set(error, RLT_DATA_LOSS, "the module holds no library");
  // Built back to front, since a prefix is what an error can take.
  rlt_error_t reasons = {0};
  rlt_error_set(&reasons, RLT_INCOMPATIBLE, "compile the model again for this CPU (target=\"host\")");
  for (uint32_t i = 0; i < count; ++i) {
    const rlt_module_library_t library = rlt_module_library(module, i);
    const bool arch_fits = rlt_string_equal(library.arch, rlt_cpu_architecture());
    const char* missing = arch_fits ? missing_feature(&library, cpu) : NULL;
    if (arch_fits && !missing) {
      *out_index = i;
      return RLT_OK;
    }
    if (arch_fits) {
      rlt_error_prefix(&reasons, "compiled for %.*s; this CPU lacks %.*s; ", 48, library.target, 32, missing);
    } else {
      rlt_error_prefix(&reasons, "compiled for %.*s (%.*s); this CPU is %s; ", 48, library.target, 32,
                       library.arch, rlt_cpu_architecture());
    }
  }
  return rlt_error_set(error, RLT_INCOMPATIBLE, "%s", reasons.message);
}

rlt_status_t rlt_library_load(const rlt_module_view_t* module, uint32_t index, rlt_static_libraries_t libraries,
                              rlt_allocator_t allocator, rlt_error_t* error, rlt_library_t** out_library) {
  *out_library = NULL;
  const rlt_module_library_t library = rlt_module_library(module, index);
  RLT_RETURN_IF_ERROR(rlt_module_check_library(module, index, error));
#ifdef RLT_HAVE_ELF_LOADER
  if (library.format == RLT_LIBRARY_EMBEDDED_ELF) {
    return rlt_embedded_elf_load(library.image.data, (size_t)library.image.length, allocator, error,
                                 out_library);
  }
#endif
#ifdef RLT_HAVE_SYSTEM_LOADER
  if (library.format == RLT_LIBRARY_SYSTEM) {
    return rlt_system_library_load(library.image.data, (size_t)library.image.length, allocator, error,
                                   out_library);
  }
#endif
#ifdef RLT_HAVE_STATIC_LOADER
  if (library.format == RLT_LIBRARY_STATIC) {
    return rlt_static_library_load(libraries, library.target, allocator, error, out_library);
  }
#endif
  (void)libraries;
  return rlt_error_set(error, RLT_UNIMPLEMENTED, "this runtime has no loader for library format %u",
                       library.format);
}
