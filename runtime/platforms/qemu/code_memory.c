// Memory for code on processors without memory protection: a part of the RAM, from which instructions can be fetched.
#include "rillet/cpu/code_memory.h"

#ifndef CODE_MEMORY_BYTES
#define CODE_MEMORY_BYTES 65536
#endif

enum { PAGE = 64 };

static _Alignas(PAGE) uint8_t memory[CODE_MEMORY_BYTES];
static size_t used;

size_t rlt_code_memory_page_size(void) { return PAGE; }

void* rlt_code_memory_allocate(size_t size) {
  if (size > sizeof(memory) - used) return NULL;
  void* start = memory + used;
  used += size;
  return start;
}

bool rlt_code_memory_protect(void* start, size_t size, uint32_t access) {
  (void)start, (void)size, (void)access;
#if defined(__arm__)
  __asm__ volatile("dsb\nisb" ::: "memory");
#elif defined(__riscv)
  __asm__ volatile("fence.i" ::: "memory");
#endif
  return true;
}

// Only what was allocated last can be given back.
void rlt_code_memory_free(void* start, size_t size) {
  if ((uint8_t*)start + size == memory + used) used -= size;
}
