// Kernel libraries that are linked into the program.
#include "base/strings.h"
#include "drivers/cpu/loaders/loaders.h"

rlt_status_t rlt_static_load(const rlt_module_library_t* source, rlt_static_libraries_t libraries,
                             rlt_allocator_t allocator, rlt_error_t* error, rlt_library_t** out_library) {
  *out_library = NULL;
  for (size_t i = 0; i < libraries.count; ++i) {
    if (!rlt_string_equal(libraries.libraries[i].name, source->target)) continue;
    return rlt_cpu_library_create(libraries.libraries[i].query, NULL, NULL, 0, allocator, error, out_library);
  }
  return rlt_error_set(error, RLT_NOT_FOUND, "no kernel library named '%.*s' is linked into this program", 128,
                       source->target);
}
