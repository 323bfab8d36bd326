// The few services of Linux that a program without a C library needs: system calls made directly.
#ifndef RILLET_PLATFORMS_LINUX_SYSTEM_H_
#define RILLET_PLATFORMS_LINUX_SYSTEM_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Opens a file for reading, or creates one (emptying it if it exists) for writing. Returns a handle, or -1.
int system_open(const char* path, bool write);

void system_close(int file);

// Bytes of a regular file; 0 when it is none.
size_t system_size(int file);

// Reads or writes all of `length` bytes. False when that is not possible.
bool system_read(int file, void* data, size_t length);
bool system_write(int file, const void* data, size_t length);

// Maps a file for reading, or (file -1) fresh memory; NULL when that is not possible. Page aligned.
void* system_map(int file, size_t length);

void system_unmap(void* start, size_t length);

// Protection as in rillet/cpu/code_memory.h.
bool system_protect(void* start, size_t length, uint32_t access);

_Noreturn void system_exit(int status);

#endif  // RILLET_PLATFORMS_LINUX_SYSTEM_H_
