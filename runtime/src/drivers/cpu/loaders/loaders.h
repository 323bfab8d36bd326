// Loaders: each makes libraries of one format callable.
#ifndef RILLET_DRIVERS_CPU_LOADERS_LOADERS_H_
#define RILLET_DRIVERS_CPU_LOADERS_LOADERS_H_

#include "drivers/cpu/library.h"
#include "rillet/module.h"

// A position-independent ELF of this architecture: relative relocations only, no imports, no initializers, no page both
// writable and executable. The bytes are copied to memory of rillet/cpu/code_memory.h. RLT_DATA_LOSS when malformed,
// RLT_INCOMPATIBLE when well formed but not loadable here.
rlt_status_t rlt_elf_load(const rlt_module_library_t* source, rlt_allocator_t allocator, rlt_error_t* error,
                          rlt_library_t** out_library);

// A shared library, through the operating system's dynamic linker.
rlt_status_t rlt_system_load(const rlt_module_library_t* source, rlt_allocator_t allocator, rlt_error_t* error,
                             rlt_library_t** out_library);

// The one of `libraries` that the source's target names. RLT_NOT_FOUND when there is none.
rlt_status_t rlt_static_load(const rlt_module_library_t* source, rlt_static_libraries_t libraries,
                             rlt_allocator_t allocator, rlt_error_t* error, rlt_library_t** out_library);

#endif  // RILLET_DRIVERS_CPU_LOADERS_LOADERS_H_
