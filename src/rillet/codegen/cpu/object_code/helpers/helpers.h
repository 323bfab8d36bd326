// What the helpers share: functions that a compiler calls where a 32-bit processor has no instruction for an operation
// on 64-bit numbers. They are weak, so that a program may have others of the same names.
#ifndef RILLET_HELPERS_H_
#define RILLET_HELPERS_H_

#include <stdbool.h>
#include <stdint.h>

// The functions of Arm's run-time ABI take floats in integer registers, whatever the program does.
#ifdef __arm__
#define HELPER __attribute__((weak, pcs("aapcs")))
#define NAME(arm, other) arm
#else
#define HELPER __attribute__((weak))
#define NAME(arm, other) other
#endif

// A binary format of IEEE 754: bits behind the binary point, and what is added to exponents.
typedef struct format_t {
  int fraction, bias;
} format_t;

static const format_t SINGLE = {23, 127}, DOUBLE = {52, 1023};

static inline uint64_t infinity(format_t format) { return (uint64_t)(2 * format.bias + 1) << format.fraction; }
static inline uint64_t sign_bit(format_t format) { return infinity(format) + ((uint64_t)1 << format.fraction); }
static inline uint64_t quiet_nan(format_t format) { return infinity(format) | (uint64_t)1 << (format.fraction - 1); }

// mantissa * 2^exponent, without the sign.
typedef struct number_t {
  uint64_t mantissa;
  int exponent;
} number_t;

// The number of bits that are neither infinity nor NaN.
static inline number_t decode(uint64_t bits, format_t format) {
  const uint64_t fraction = bits & (((uint64_t)1 << format.fraction) - 1);
  const int exponent = (int)((bits & infinity(format)) >> format.fraction);
  if (exponent == 0) return (number_t){fraction, 1 - format.bias - format.fraction};
  return (number_t){fraction | (uint64_t)1 << format.fraction, exponent - format.bias - format.fraction};
}

// `value`, the last bit of it set when something was cut off below, shifted right. So is the last bit of the result.
static inline uint64_t shifted(uint64_t value, int distance) {
  if (distance >= 64) return value != 0;
  return value >> distance | (uint64_t)(distance > 0 && value << (64 - distance) != 0);
}

// The bits of a number rounded to the nearest, ties to even. The last bit of the mantissa may stand for more below it
// when the mantissa has more bits than the format, and two.
static inline uint64_t encode(bool negative, number_t number, format_t format) {
  const uint64_t sign = negative ? sign_bit(format) : 0;
  if (number.mantissa == 0) return sign;
  const int zeros = __builtin_clzll(number.mantissa), spare = 63 - format.fraction;
  uint64_t mantissa = number.mantissa << zeros;
  int exponent = number.exponent - zeros + 63 + format.bias;
  if (exponent > 2 * format.bias) return sign | infinity(format);
  if (exponent <= 0) {
    mantissa = shifted(mantissa, 1 - exponent);
    exponent = 1;  // what the leading bit, which is not there, would add
  }
  const uint64_t rest = mantissa << (64 - spare), half = (uint64_t)1 << 63;
  uint64_t bits = (mantissa >> spare) + ((uint64_t)(exponent - 1) << format.fraction);
  if (rest > half || (rest == half && (bits & 1))) ++bits;
  return sign | bits;
}

// The magnitude rounded toward zero: UINT64_MAX when it is larger.
static inline uint64_t truncated(number_t number) {
  if (number.exponent <= 0) return number.exponent <= -64 ? 0 : number.mantissa >> -number.exponent;
  if (number.mantissa == 0) return 0;
  return number.exponent > __builtin_clzll(number.mantissa) ? UINT64_MAX : number.mantissa << number.exponent;
}

static inline bool is_nan(uint64_t bits, format_t format) { return (bits & ~sign_bit(format)) > infinity(format); }
static inline bool is_negative(uint64_t bits, format_t format) { return (bits & sign_bit(format)) != 0; }

// The magnitude rounded toward zero: UINT64_MAX when it is larger, 0 for NaN.
static inline uint64_t magnitude(uint64_t bits, format_t format) {
  if (is_nan(bits, format)) return 0;
  bits &= ~sign_bit(format);
  return bits == infinity(format) ? UINT64_MAX : truncated(decode(bits, format));
}

// Saturates.
static inline int64_t to_signed(uint64_t bits, format_t format) {
  const uint64_t size = magnitude(bits, format);
  if (is_negative(bits, format)) return size > INT64_MAX ? INT64_MIN : -(int64_t)size;
  return size > INT64_MAX ? INT64_MAX : (int64_t)size;
}

// Saturates above. Numbers below 0 wrap around, as on processors that have no such conversion and use the signed one.
static inline uint64_t to_unsigned(uint64_t bits, format_t format) {
  return is_negative(bits, format) ? (uint64_t)to_signed(bits, format) : magnitude(bits, format);
}

static inline uint64_t from_signed(int64_t value, format_t format) {
  return encode(value < 0, (number_t){value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 0}, format);
}

static inline uint64_t from_unsigned(uint64_t value, format_t format) {
  return encode(false, (number_t){value, 0}, format);
}

#endif  // RILLET_HELPERS_H_
