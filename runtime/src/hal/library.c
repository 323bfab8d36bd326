#include "rillet/hal/library.h"

static void library_destroy(rlt_object_t* object) {
  rlt_library_t* library = (rlt_library_t*)object;
  library->vtable->destroy(library);
}

const rlt_object_type_t rlt_library_type = {"hal.library", library_destroy};

void rlt_library_initialize(rlt_library_t* library, const rlt_library_vtable_t* vtable, uint32_t entry_count,
                            rlt_allocator_t allocator) {
  rlt_object_initialize(&library->base, &rlt_library_type);
  library->vtable = vtable;
  library->allocator = allocator;
  library->entry_count = entry_count;
}
