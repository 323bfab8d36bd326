// The memory and string functions that the runtime may use: the four a freestanding C compiler itself relies on, and
// two of our own.
#ifndef RILLET_BASE_STRINGS_H_
#define RILLET_BASE_STRINGS_H_

#include "rillet/base/config.h"

#ifdef RLT_FREESTANDING
void* memcpy(void* restrict destination, const void* restrict source, size_t length);
void* memmove(void* destination, const void* source, size_t length);
void* memset(void* destination, int value, size_t length);
int memcmp(const void* a, const void* b, size_t length);
#else
#include <string.h>
#endif

// True when both strings are equal.
static inline bool rlt_string_equal(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

// Bytes before the terminator.
static inline size_t rlt_string_length(const char* string) {
  size_t length = 0;
  while (string[length]) ++length;
  return length;
}

#endif  // RILLET_BASE_STRINGS_H_
