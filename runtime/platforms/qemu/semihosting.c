#include "semihosting.h"

enum { SYS_OPEN = 0x01, SYS_WRITE0 = 0x04, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT_EXTENDED = 0x20 };
enum { MODE_READ_BINARY = 1, MODE_WRITE_BINARY = 5 };
enum { APPLICATION_EXIT = 0x20026 };

static long request(long operation, const void* argument) {
#if defined(__arm__)
  register long r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
#elif defined(__riscv)
  register long a0 __asm__("a0") = operation;
  register const void* a1 __asm__("a1") = argument;
  // The three instructions must be uncompressed and lie in one page.
  __asm__ volatile(
      ".option push\n.option norvc\n.balign 16\n"
      "slli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\n"
      ".option pop"
      : "+r"(a0)
      : "r"(a1)
      : "memory");
  return a0;
#else
#error "no semihosting for this architecture"
#endif
}

long semihosting_open(const char* path, int write) {
  size_t length = 0;
  while (path[length]) ++length;
  const struct {
    const char* path;
    long mode;
    size_t length;
  } block = {path, write ? MODE_WRITE_BINARY : MODE_READ_BINARY, length};
  return request(SYS_OPEN, &block);
}

static int transfer(long operation, long file, const void* data, size_t length) {
  const struct {
    long file;
    const void* data;
    size_t length;
  } block = {file, data, length};
  return request(operation, &block) == 0 ? 0 : -1;  // the result counts the bytes that are missing
}

int semihosting_read(long file, void* data, size_t length) { return transfer(SYS_READ, file, data, length); }

int semihosting_write(long file, const void* data, size_t length) { return transfer(SYS_WRITE, file, data, length); }

void semihosting_print(const char* text) { (void)request(SYS_WRITE0, text); }

_Noreturn void semihosting_exit(int status) {
  const struct {
    long reason;
    long status;
  } block = {APPLICATION_EXIT, status};
  for (;;) (void)request(SYS_EXIT_EXTENDED, &block);
}
