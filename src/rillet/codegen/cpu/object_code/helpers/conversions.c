// Between 64-bit integers and floats of 32 bits.
#include "helpers.h"

static uint32_t bits_of(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static float of_bits(uint64_t bits) {
  const uint32_t low = (uint32_t)bits;
  float value;
  __builtin_memcpy(&value, &low, sizeof(value));
  return value;
}

HELPER int64_t NAME(__aeabi_f2lz, __fixsfdi)(float a) { return to_signed(bits_of(a), SINGLE); }
HELPER uint64_t NAME(__aeabi_f2ulz, __fixunssfdi)(float a) { return to_unsigned(bits_of(a), SINGLE); }
HELPER float NAME(__aeabi_l2f, __floatdisf)(int64_t a) { return of_bits(from_signed(a, SINGLE)); }
HELPER float NAME(__aeabi_ul2f, __floatundisf)(uint64_t a) { return of_bits(from_unsigned(a, SINGLE)); }
