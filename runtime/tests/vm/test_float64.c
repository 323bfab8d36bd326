// The 64-bit float operations against the C library's.
#include <math.h>

#include "harness.h"
#include "vm/float64.h"

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || f64_to_bits(a) == f64_to_bits(b); }

#define CHECK_SAME(x, actual, expected)                                                              \
  do {                                                                                               \
    if (!same((actual), (expected))) {                                                               \
      fprintf(stderr, "%s:%d: %s of %a is %a, expected %a\n", __FILE__, __LINE__, #actual, x, (actual), (expected)); \
      exit(1);                                                                                       \
    }                                                                                                \
  } while (0)

static void check_all(double x) {
  CHECK_SAME(x, rlt_f64_sqrt(x), sqrt(x));
  CHECK_SAME(x, f64_trunc(x), trunc(x));
  CHECK_SAME(x, f64_floor(x), floor(x));
  CHECK_SAME(x, f64_ceil(x), ceil(x));
}

static void test_special_values(void) {
  static const double values[] = {
      0.0, -0.0, 0.5, -0.5, 1, -1, 1.5, -1.5, 2, 3, 4, 9, 0x1p-1074, 0x1p-1022, -0x1p-1074, 0x1.fffffffffffffp-1,
      0x1.fffffffffffffp1023, 0x1p52, -0x1p52, 0x1.0000000000001p52, 0x1.fffffffffffffp51, 0x1p53, 0x1p63, -0x1p63,
      INFINITY, -INFINITY, NAN, 0x1.0000000000001p0, 0x1.fffffffffffffp1, 0x0.fffffffffffffp-1022};
  for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); ++i) check_all(values[i]);
}

static void test_random_bits(void) {
  uint64_t state = 0x9E3779B97F4A7C15u;
  for (int i = 0; i < 100000; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    check_all(f64_of_bits((int64_t)state));
    // And exponents near 0, where rounding to whole numbers does something.
    check_all(f64_of_bits((int64_t)((state & 0x803FFFFFFFFFFFFFu) + 0x3FC0000000000000u)));
  }
}

static void test_conversions(void) {
  CHECK_INT(f64_to_i64(1.9), 1);
  CHECK_INT(f64_to_i64(-1.9), -1);
  CHECK_INT(f64_to_i64(NAN), 0);
  CHECK_INT(f64_to_i64(INFINITY), INT64_MAX);
  CHECK_INT(f64_to_i64(0x1p63), INT64_MAX);
  CHECK_INT(f64_to_i64(-0x1p63), INT64_MIN);
  CHECK_INT(f64_to_i64(-INFINITY), INT64_MIN);
  CHECK_INT(f64_to_f32_bits(1.0), 0x3F800000);
  CHECK_INT(f64_to_f32_bits(-2.0), 0xC0000000);
  CHECK_INT(f64_to_f32_bits(1e300), 0x7F800000);
  CHECK(f64_of_f32_bits((int64_t)0xFFFFFFFF3F800000u) == 1.0);
}

static void test_min_max(void) {
  CHECK(f64_min(1, 2) == 1 && f64_max(1, 2) == 2);
  CHECK(isnan(f64_min(NAN, 1)) && isnan(f64_min(1, NAN)) && isnan(f64_max(NAN, 1)) && isnan(f64_max(1, NAN)));
  CHECK(same(f64_min(0.0, -0.0), -0.0) && same(f64_min(-0.0, 0.0), -0.0));
  CHECK(same(f64_max(0.0, -0.0), 0.0) && same(f64_max(-0.0, 0.0), 0.0));
  CHECK(same(f64_max(-1, -1), -1) && same(f64_min(-INFINITY, 3), -INFINITY));
}

int main(void) {
  RUN_TEST(test_special_values);
  RUN_TEST(test_random_bits);
  RUN_TEST(test_conversions);
  RUN_TEST(test_min_max);
  return 0;
}
