#include "system.h"

#include "rillet/cpu/code_memory.h"

// Numbers of the system calls: x86-64 and 32-bit Arm have their own, the others share one table.
#if defined(__x86_64__)
enum {
  SYS_READ = 0, SYS_WRITE = 1, SYS_CLOSE = 3, SYS_LSEEK = 8, SYS_MMAP = 9, SYS_MPROTECT = 10, SYS_MUNMAP = 11,
  SYS_EXIT = 60, SYS_OPENAT = 257,
};
#elif defined(__arm__)
enum {
  SYS_EXIT = 1, SYS_READ = 3, SYS_WRITE = 4, SYS_CLOSE = 6, SYS_LSEEK = 19, SYS_MUNMAP = 91, SYS_MPROTECT = 125,
  SYS_MMAP = 192, SYS_OPENAT = 322, SYS_CACHEFLUSH = 0xf0002,
};
#elif defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64)
enum {
  SYS_OPENAT = 56, SYS_CLOSE = 57, SYS_LSEEK = 62, SYS_READ = 63, SYS_WRITE = 64, SYS_EXIT = 93, SYS_MUNMAP = 215,
  SYS_MMAP = 222, SYS_MPROTECT = 226, SYS_RISCV_FLUSH_ICACHE = 259,
};
#else
#error "no system calls for this architecture"
#endif

enum { AT_FDCWD = -100, O_WRITE_CREATE_TRUNCATE = 01 | 0100 | 01000, FILE_MODE = 0644, SEEK_START = 0, SEEK_FROM_END = 2 };
enum { PROT_R = 1, PROT_W = 2, PROT_X = 4, MAP_PRIVATE_ = 2, MAP_ANONYMOUS_ = 0x20, MAP_NORESERVE_ = 0x4000 };

// Negative results, down to -4095, are error numbers.
static long call(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#elif defined(__arm__)
  register long r7 __asm__("r7") = number;
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  register long r3 __asm__("r3") = d;
  register long r4 __asm__("r4") = e;
  register long r5 __asm__("r5") = f;
  __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5) : "memory");
  return r0;
#else
  register long a7 __asm__("a7") = number;
  register long a0 __asm__("a0") = a;
  register long a1 __asm__("a1") = b;
  register long a2 __asm__("a2") = c;
  register long a3 __asm__("a3") = d;
  register long a4 __asm__("a4") = e;
  register long a5 __asm__("a5") = f;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
  return a0;
#endif
}

int system_open(const char* path, bool write) {
  return (int)call(SYS_OPENAT, AT_FDCWD, (long)path, write ? O_WRITE_CREATE_TRUNCATE : 0, FILE_MODE, 0, 0);
}

void system_close(int file) { (void)call(SYS_CLOSE, file, 0, 0, 0, 0, 0); }

size_t system_size(int file) {
  const long size = call(SYS_LSEEK, file, 0, SEEK_FROM_END, 0, 0, 0);
  return size > 0 && call(SYS_LSEEK, file, 0, SEEK_START, 0, 0, 0) == 0 ? (size_t)size : 0;
}

static bool transfer(long number, int file, const void* data, size_t length) {
  const char* at = (const char*)data;
  while (length > 0) {
    const long done = call(number, file, (long)at, (long)length, 0, 0, 0);
    if (done <= 0) return false;
    at += done;
    length -= (size_t)done;
  }
  return true;
}

bool system_read(int file, void* data, size_t length) { return transfer(SYS_READ, file, data, length); }

bool system_write(int file, const void* data, size_t length) { return transfer(SYS_WRITE, file, data, length); }

void* system_map(int file, size_t length) {
  const long protection = file < 0 ? PROT_R | PROT_W : PROT_R;
  const long flags = MAP_PRIVATE_ | (file < 0 ? MAP_ANONYMOUS_ | MAP_NORESERVE_ : 0);
  const long start = call(SYS_MMAP, 0, (long)length, protection, flags, file, 0);
  return start < 0 && start >= -4095 ? NULL : (void*)start;
}

void system_unmap(void* start, size_t length) { (void)call(SYS_MUNMAP, (long)start, (long)length, 0, 0, 0, 0); }

#if defined(__aarch64__)
// Cleans the data cache and discards what the instruction cache holds, by the sizes of their lines.
static void flush(uintptr_t begin, uintptr_t end) {
  uint64_t sizes;
  __asm__ volatile("mrs %0, ctr_el0" : "=r"(sizes));
  const uintptr_t data_line = (uintptr_t)4 << ((sizes >> 16) & 15), code_line = (uintptr_t)4 << (sizes & 15);
  for (uintptr_t at = begin & ~(data_line - 1); at < end; at += data_line) __asm__ volatile("dc cvau, %0" ::"r"(at));
  __asm__ volatile("dsb ish");
  for (uintptr_t at = begin & ~(code_line - 1); at < end; at += code_line) __asm__ volatile("ic ivau, %0" ::"r"(at));
  __asm__ volatile("dsb ish\nisb");
}
#elif defined(__arm__)
static void flush(uintptr_t begin, uintptr_t end) { (void)call(SYS_CACHEFLUSH, (long)begin, (long)end, 0, 0, 0, 0); }
#elif defined(__riscv)
static void flush(uintptr_t begin, uintptr_t end) {
  (void)call(SYS_RISCV_FLUSH_ICACHE, (long)begin, (long)end, 0, 0, 0, 0);
}
#else
static void flush(uintptr_t begin, uintptr_t end) { (void)begin, (void)end; }
#endif

bool system_protect(void* start, size_t length, uint32_t access) {
  const long protection = ((access & RLT_CODE_READ) ? PROT_R : 0) | ((access & RLT_CODE_WRITE) ? PROT_W : 0) |
                          ((access & RLT_CODE_EXECUTE) ? PROT_X : 0);
  if (call(SYS_MPROTECT, (long)start, (long)length, protection, 0, 0, 0) != 0) return false;
  if (access & RLT_CODE_EXECUTE) flush((uintptr_t)start, (uintptr_t)start + length);
  return true;
}

_Noreturn void system_exit(int status) {
  for (;;) (void)call(SYS_EXIT, status, 0, 0, 0, 0, 0);
}
