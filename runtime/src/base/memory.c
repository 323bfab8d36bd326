// The four functions that C compilers call unasked, for systems without a C library. A program's own take precedence.
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
