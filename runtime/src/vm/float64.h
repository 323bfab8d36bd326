// Operations on 64-bit floats without a math library: exact, and the same on every machine.
#ifndef RILLET_VM_FLOAT64_H_
#define RILLET_VM_FLOAT64_H_

#include "base/strings.h"
#include "rillet/base/config.h"

static inline double f64_of_bits(int64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static inline int64_t f64_to_bits(double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static inline double f64_of_f32_bits(int64_t bits) {
  uint32_t low = (uint32_t)bits;
  float value;
  memcpy(&value, &low, sizeof(value));
  return value;
}

static inline int64_t f64_to_f32_bits(double value) {
  float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof(bits));
  return bits;
}

// The smaller; NaN when either is, and -0 is below +0.
static inline double f64_min(double a, double b) {
  if (a != a || b != b) return a + b;
  if (a == b) return f64_of_bits(f64_to_bits(a) | f64_to_bits(b));
  return a < b ? a : b;
}

static inline double f64_max(double a, double b) {
  if (a != a || b != b) return a + b;
  if (a == b) return f64_of_bits(f64_to_bits(a) & f64_to_bits(b));
  return a > b ? a : b;
}

// Rounds toward zero; what lies out of range becomes the nearest integer, NaN becomes 0.
static inline int64_t f64_to_i64(double value) {
  if (value != value) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  if (value < -0x1p63) return INT64_MIN;
  return (int64_t)value;
}

static inline double f64_trunc(double value) {
  if (!(value > -0x1p52 && value < 0x1p52)) return value;  // already whole, infinite or NaN
  int64_t sign = f64_to_bits(value) & INT64_MIN;
  return f64_of_bits(f64_to_bits((double)(int64_t)value) | sign);
}

static inline double f64_floor(double value) {
  double whole = f64_trunc(value);
  return whole > value ? whole - 1 : whole;
}

static inline double f64_ceil(double value) {
  double whole = f64_trunc(value);
  return whole < value ? whole + 1 : whole;
}

// The square root, correctly rounded, one binary digit at a time.
double rlt_f64_sqrt(double value);

#endif  // RILLET_VM_FLOAT64_H_
