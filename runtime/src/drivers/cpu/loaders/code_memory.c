// Memory for code on systems with mmap.
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#endif
#include "rillet/cpu/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

size_t rlt_code_memory_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void* rlt_code_memory_allocate(size_t size) {
  void* start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return start == MAP_FAILED ? NULL : start;
}

bool rlt_code_memory_protect(void* start, size_t size, uint32_t access) {
  const int protection = ((access & RLT_CODE_READ) ? PROT_READ : 0) | ((access & RLT_CODE_WRITE) ? PROT_WRITE : 0) |
                         ((access & RLT_CODE_EXECUTE) ? PROT_EXEC : 0);
  if (mprotect(start, size, protection) != 0) return false;
  if (access & RLT_CODE_EXECUTE) __builtin___clear_cache((char*)start, (char*)start + size);
  return true;
}

void rlt_code_memory_free(void* start, size_t size) { munmap(start, size); }
