// Host services that QEMU offers to bare-metal programs (Arm's and RISC-V's semihosting).
#ifndef RILLET_PLATFORMS_QEMU_SEMIHOSTING_H_
#define RILLET_PLATFORMS_QEMU_SEMIHOSTING_H_

#include <stddef.h>

// Opens a file of the host for reading (`write` 0) or writing. Returns a handle, or -1.
long semihosting_open(const char* path, int write);

// Reads `length` bytes. Returns 0, or -1 when there are not as many.
int semihosting_read(long file, void* data, size_t length);

// Writes `length` bytes. Returns 0 or -1.
int semihosting_write(long file, const void* data, size_t length);

// Writes a zero-terminated text to the debug console.
void semihosting_print(const char* text);

// Ends the emulator with this exit status.
_Noreturn void semihosting_exit(int status);

#endif  // RILLET_PLATFORMS_QEMU_SEMIHOSTING_H_
