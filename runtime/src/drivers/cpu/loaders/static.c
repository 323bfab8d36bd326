// Kernel libraries that are linked into the program.
#include "base/strings.h"
#include "rillet/hal/library.h"

rlt_status_t rlt_static_library_load(rlt_static_libraries_t libraries, const char* name, rlt_allocator_t allocator,
                                     rlt_error_t* error, rlt_library_t** out_library) {
  *out_library = NULL;
  for (size_t i = 0; i < libraries.count; ++i) {
    if (!rlt_string_equal(libraries.libraries[i].name, name)) continue;
    return rlt_library_create(libraries.libraries[i].query, NULL, NULL, 0, allocator, error, out_library);
  }
  return rlt_error_set(error, RLT_NOT_FOUND, "no kernel library named '%.*s' is linked into this program", 128, name);
}
