#include "vm/float64.h"

double rlt_f64_sqrt(double value) {
  if (!(value > 0)) return value == 0 ? value : f64_of_bits(0x7FF8000000000000);  // ±0 as it is; negative and NaN
  uint64_t bits = (uint64_t)f64_to_bits(value);
  int exponent = (int)(bits >> 52);
  if (exponent == 0x7FF) return value;
  uint64_t mantissa = bits & 0xFFFFFFFFFFFFF;
  if (exponent == 0) {
    exponent = 1;
    while (!(mantissa >> 52)) mantissa <<= 1, --exponent;
  }
  mantissa |= 1ull << 52;
  exponent -= 1075;  // value = mantissa * 2^exponent
  if (exponent & 1) mantissa <<= 1, --exponent;

  // 54 digits of the root of mantissa * 2^54, two digits of the radicand each: 53 and one to round by. A tie is
  // impossible.
  uint64_t root = 0, rest = 0;
  for (int shift = 52; shift > -56; shift -= 2) {
    rest = rest << 2 | (shift >= 0 ? mantissa >> shift & 3 : 0);
    uint64_t trial = root << 2 | 1;
    root <<= 1;
    if (rest >= trial) rest -= trial, root |= 1;
  }
  root = (root + 1) >> 1;
  // exponent is even; adding carries the root's leading bit into the exponent's field.
  return f64_of_bits((int64_t)(((uint64_t)(exponent / 2 + 1048) << 52) + root));
}
