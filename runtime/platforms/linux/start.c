// What stands before main in a program without a C library: the arguments, the auxiliary vector, memory for code.
#include "rillet/cpu/code_memory.h"
#include "system.h"

int main(int argc, char** argv);
unsigned long getauxval(unsigned long kind);

enum { AT_NULL = 0, AT_PAGESZ = 6 };

static const unsigned long* auxiliary;

unsigned long getauxval(unsigned long kind) {
  for (const unsigned long* entry = auxiliary; entry[0] != AT_NULL; entry += 2) {
    if (entry[0] == kind) return entry[1];
  }
  return 0;
}

// `stack` holds the number of arguments, the arguments, NULL, the environment, NULL, and the auxiliary vector.
__attribute__((noreturn, used)) static void start(unsigned long* stack) {
  const int argc = (int)stack[0];
  char** argv = (char**)(stack + 1);
  char** after = argv + argc + 1;
  while (*after) ++after;
  auxiliary = (const unsigned long*)(after + 1);
  system_exit(main(argc, argv));
}

__attribute__((naked, noreturn)) void _start(void) {
#if defined(__x86_64__)
  __asm__ volatile("mov %rsp, %rdi\nand $-16, %rsp\ncall start");
#elif defined(__aarch64__)
  __asm__ volatile("mov x0, sp\nb start");
#elif defined(__arm__)
  __asm__ volatile("mov r0, sp\nbic r1, r0, #15\nmov sp, r1\nbl start");
#elif defined(__riscv)
  __asm__ volatile(".option push\n.option norelax\nlla gp, __global_pointer$\n.option pop\nmv a0, sp\ntail start");
#endif
}

size_t rlt_code_memory_page_size(void) { return (size_t)getauxval(AT_PAGESZ); }

void* rlt_code_memory_allocate(size_t size) { return system_map(-1, size); }

bool rlt_code_memory_protect(void* start_of, size_t size, uint32_t access) {
  return system_protect(start_of, size, access);
}

void rlt_code_memory_free(void* start_of, size_t size) { system_unmap(start_of, size); }
