// The choice among a module's executables, and among the loaders.
#include "base/strings.h"
#include "rillet/executable_loader.h"

// The first feature of `executable` that `cpu` lacks; NULL when it has them all.
static const char* missing_feature(const rlt_module_executable_t* executable, const rlt_cpu_features_t* cpu) {
  for (uint32_t i = 0; i < executable->features.count; ++i) {
    const char* feature = rlt_module_string(executable->features, i);
    if (!rlt_cpu_features_has(cpu, feature, rlt_string_length(feature))) return feature;
  }
  return NULL;
}

rlt_status_t rlt_executable_select(const rlt_module_view_t* module, const rlt_cpu_features_t* cpu, rlt_error_t* error,
                                   uint32_t* out_index) {
  *out_index = 0;
  const uint32_t count = module->executables.count;
  if (count == 0) return rlt_error_set(error, RLT_DATA_LOSS, "the module holds no executable");
  // Built back to front, since a prefix is what an error can take.
  rlt_error_t reasons = {0};
  rlt_error_set(&reasons, RLT_INCOMPATIBLE, "compile the model again for this CPU (target=\"host\")");
  for (uint32_t i = 0; i < count; ++i) {
    const rlt_module_executable_t executable = rlt_module_executable(module, i);
    const bool arch_fits = rlt_string_equal(executable.arch, rlt_cpu_architecture());
    const char* missing = arch_fits ? missing_feature(&executable, cpu) : NULL;
    if (arch_fits && !missing) {
      *out_index = i;
      return RLT_OK;
    }
    if (arch_fits) {
      rlt_error_prefix(&reasons, "compiled for %.*s; this CPU lacks %.*s; ", 48, executable.target, 32, missing);
    } else {
      rlt_error_prefix(&reasons, "compiled for %.*s (%.*s); this CPU is %s; ", 48, executable.target, 32,
                       executable.arch, rlt_cpu_architecture());
    }
  }
  return rlt_error_set(error, RLT_INCOMPATIBLE, "%s", reasons.message);
}

rlt_status_t rlt_executable_load(const rlt_module_view_t* module, uint32_t index, rlt_static_libraries_t libraries,
                                 rlt_allocator_t allocator, rlt_error_t* error, rlt_executable_t** out_executable) {
  *out_executable = NULL;
  const rlt_module_executable_t executable = rlt_module_executable(module, index);
  RLT_RETURN_IF_ERROR(rlt_module_check_executable(module, index, error));
#ifdef RLT_HAVE_ELF_LOADER
  if (executable.format == RLT_EXECUTABLE_EMBEDDED_ELF) {
    return rlt_embedded_elf_load(executable.image.data, (size_t)executable.image.length, allocator, error,
                                 out_executable);
  }
#endif
#ifdef RLT_HAVE_SYSTEM_LOADER
  if (executable.format == RLT_EXECUTABLE_SYSTEM_LIBRARY) {
    return rlt_system_library_load(executable.image.data, (size_t)executable.image.length, allocator, error,
                                   out_executable);
  }
#endif
#ifdef RLT_HAVE_STATIC_LOADER
  if (executable.format == RLT_EXECUTABLE_STATIC) {
    return rlt_static_library_load(libraries, executable.target, allocator, error, out_executable);
  }
#endif
  (void)libraries;
  return rlt_error_set(error, RLT_UNIMPLEMENTED, "this runtime has no loader for executable format %u",
                       executable.format);
}
