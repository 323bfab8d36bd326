// Arithmetic that says when it overflows. Each returns false, and leaves *out undefined, when the result does not fit.
#ifndef RILLET_BASE_CHECKED_MATH_H_
#define RILLET_BASE_CHECKED_MATH_H_

#include "rillet/base/config.h"

static inline bool rlt_checked_add_size(size_t a, size_t b, size_t* out) {
  *out = a + b;
  return *out >= a;
}

static inline bool rlt_checked_mul_size(size_t a, size_t b, size_t* out) {
  *out = a * b;
  return a == 0 || *out / a == b;
}

static inline bool rlt_checked_add_u64(uint64_t a, uint64_t b, uint64_t* out) {
  *out = a + b;
  return *out >= a;
}

static inline bool rlt_checked_mul_i64(int64_t a, int64_t b, int64_t* out) {
#if defined(__GNUC__) && UINTPTR_MAX > 0xFFFFFFFFu
  return !__builtin_mul_overflow(a, b, out);
#else
  // The builtin would pull in a 128-bit helper that small targets lack.
  if (a != 0 && b != 0) {
    if (a == -1 ? b == INT64_MIN : b == -1 ? a == INT64_MIN : false) return false;
    if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a) : (b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a)) {
      return false;
    }
  }
  *out = a * b;
  return true;
#endif
}

// True when [offset, offset + length) lies inside [0, size).
static inline bool rlt_range_fits(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

#endif  // RILLET_BASE_CHECKED_MATH_H_
