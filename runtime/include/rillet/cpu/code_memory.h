// Memory for machine code that is loaded at run time. On systems with mmap the runtime brings these functions along; on
// others (RLT_FREESTANDING) a program that uses the embedded ELF loader defines them.
//
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_CPU_CODE_MEMORY_H_
#define RILLET_CPU_CODE_MEMORY_H_

#include "rillet/base/config.h"

RLT_BEGIN_DECLS

enum { RLT_CODE_EXECUTE = 1, RLT_CODE_WRITE = 2, RLT_CODE_READ = 4 };

// The bytes, a power of two of at least 16, that protection comes in: segments of different protection do not share a
// page. Where memory is not protected any small number will do.
size_t rlt_code_memory_page_size(void);

// `size` bytes (a multiple of the page size) at a multiple of the page size, readable and writable; NULL when there are
// none.
void* rlt_code_memory_allocate(size_t size);

// Sets what `size` bytes at `start` (whole pages) may be used for, RLT_CODE_*, and where they may be executed makes sure
// that the processor fetches what was written. False when the system does not allow it.
bool rlt_code_memory_protect(void* start, size_t size, uint32_t access);

// Gives back what rlt_code_memory_allocate(size) returned.
void rlt_code_memory_free(void* start, size_t size);

RLT_END_DECLS

#endif  // RILLET_CPU_CODE_MEMORY_H_
