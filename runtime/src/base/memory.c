// The functions that C compilers call unasked, for systems without a C library. A program's own take precedence.
#include "base/strings.h"

#define WEAK __attribute__((weak, visibility("default")))

WEAK void* memcpy(void* restrict destination, const void* restrict source, size_t length) {
  uint8_t* to = (uint8_t*)destination;
  const uint8_t* from = (const uint8_t*)source;
  while (length--) *to++ = *from++;
  return destination;
}

WEAK void* memmove(void* destination, const void* source, size_t length) {
  uint8_t* to = (uint8_t*)destination;
  const uint8_t* from = (const uint8_t*)source;
  if ((uintptr_t)to - (uintptr_t)from >= length) return memcpy(destination, source, length);
  while (length--) to[length] = from[length];
  return destination;
}

WEAK void* memset(void* destination, int value, size_t length) {
  uint8_t* to = (uint8_t*)destination;
  while (length--) *to++ = (uint8_t)value;
  return destination;
}

WEAK int memcmp(const void* a, const void* b, size_t length) {
  const uint8_t* left = (const uint8_t*)a;
  const uint8_t* right = (const uint8_t*)b;
  for (; length; --length, ++left, ++right) {
    if (*left != *right) return *left < *right ? -1 : 1;
  }
  return 0;
}

#ifdef __arm__

// Clang calls these for Arm. The numbers are alignments.
#define COPY(name) \
  WEAK void name(void* destination, const void* source, size_t length) { memcpy(destination, source, length); }
#define MOVE(name) \
  WEAK void name(void* destination, const void* source, size_t length) { memmove(destination, source, length); }
#define SET(name) \
  WEAK void name(void* destination, size_t length, int value) { memset(destination, value, length); }
#define CLEAR(name) \
  WEAK void name(void* destination, size_t length) { memset(destination, 0, length); }

COPY(__aeabi_memcpy)
COPY(__aeabi_memcpy4)
COPY(__aeabi_memcpy8)
MOVE(__aeabi_memmove)
MOVE(__aeabi_memmove4)
MOVE(__aeabi_memmove8)
SET(__aeabi_memset)
SET(__aeabi_memset4)
SET(__aeabi_memset8)
CLEAR(__aeabi_memclr)
CLEAR(__aeabi_memclr4)
CLEAR(__aeabi_memclr8)

#endif
