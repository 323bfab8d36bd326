#include <math.h>

#include "hal/element.h"
#include "harness.h"

static double load_float(int64_t type, uint32_t bits) {
  int64_t value = 0;
  CHECK(rlt_element_load(type, &bits, &value));
  double number;
  memcpy(&number, &value, sizeof(number));
  return number;
}

static int64_t load_int(int64_t type, uint64_t bits) {
  int64_t value = 0;
  CHECK(rlt_element_load(type, &bits, &value));
  return value;
}

static void test_integers_extend(void) {
  CHECK_INT(load_int(RLT_TYPE_I8, 0x80), -128);
  CHECK_INT(load_int(RLT_TYPE_U8, 0x80), 128);
  CHECK_INT(load_int(RLT_TYPE_I16, 0xffff), -1);
  CHECK_INT(load_int(RLT_TYPE_U16, 0xffff), 65535);
  CHECK_INT(load_int(RLT_TYPE_I32, 0xffffffff), -1);
  CHECK_INT(load_int(RLT_TYPE_U32, 0xffffffff), 4294967295);
  CHECK_INT(load_int(RLT_TYPE_I64, UINT64_MAX), -1);
  CHECK_INT(load_int(RLT_TYPE_BOOL, 1), 1);
  int64_t value = 0;
  CHECK(!rlt_element_load(RLT_TYPE_C64, &value, &value));
}

static void test_floats_widen_exactly(void) {
  float single = -1.5f;
  uint32_t bits;
  memcpy(&bits, &single, sizeof(bits));
  CHECK(load_float(RLT_TYPE_F32, bits) == -1.5);
  CHECK(load_float(RLT_TYPE_F16, 0x3c00) == 1.0 && load_float(RLT_TYPE_F16, 0xc100) == -2.5);
  CHECK(load_float(RLT_TYPE_F16, 1) == ldexp(1, -24) && load_float(RLT_TYPE_F16, 0x3ff) == ldexp(1023, -24));
  CHECK(load_float(RLT_TYPE_F16, 0x7c00) == INFINITY && isnan(load_float(RLT_TYPE_F16, 0x7e00)));
  CHECK(load_float(RLT_TYPE_F16, 0x8000) == 0 && signbit(load_float(RLT_TYPE_F16, 0x8000)));
  CHECK(load_float(RLT_TYPE_BF16, 0x4049) == 3.140625 && load_float(RLT_TYPE_BF16, 0xff80) == -INFINITY);
  CHECK(load_float(RLT_TYPE_BF16, 1) == ldexp(1, -133));
  CHECK(load_float(RLT_TYPE_F8E4M3FN, 0x7e) == 448 && isnan(load_float(RLT_TYPE_F8E4M3FN, 0xff)));
  CHECK(load_float(RLT_TYPE_F8E4M3FNUZ, 0x7f) == 240 && isnan(load_float(RLT_TYPE_F8E4M3FNUZ, 0x80)));
  CHECK(load_float(RLT_TYPE_F8E5M2, 0x7b) == 57344 && load_float(RLT_TYPE_F8E5M2, 0x7c) == INFINITY);
  CHECK(load_float(RLT_TYPE_F8E5M2FNUZ, 0x7f) == 57344 && isnan(load_float(RLT_TYPE_F8E5M2FNUZ, 0x80)));
  CHECK(load_float(RLT_TYPE_F4E2M1, 7) == 6 && load_float(RLT_TYPE_F4E2M1, 9) == -0.5);
}

int main(void) {
  RUN_TEST(test_integers_extend);
  RUN_TEST(test_floats_widen_exactly);
  return 0;
}
