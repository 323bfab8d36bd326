#include "hal/element.h"

#include "base/strings.h"

// A binary floating-point format of at most 16 bits.
typedef struct float_format_t {
  int exponent_bits, mantissa_bits, bias;
  enum { IEEE, FINITE, FINITE_UNSIGNED_ZERO } kind;  // whether there are infinities; what encodes NaN
} float_format_t;

// The bits of the double sign * mantissa * 2^exponent, for values in its normal range.
static uint64_t compose_double(uint64_t sign, uint32_t mantissa, int exponent) {
  if (mantissa == 0) return sign << 63;
  int top = 31;
  while (!(mantissa >> top)) --top;
  const uint64_t fraction = ((uint64_t)mantissa << (52 - top)) & ((UINT64_C(1) << 52) - 1);
  return sign << 63 | (uint64_t)(exponent + top + 1023) << 52 | fraction;
}

// Widening is exact, so only NaN and infinity need care.
static uint64_t widen(uint32_t bits, float_format_t format) {
  const uint32_t exponent_mask = (1u << format.exponent_bits) - 1, mantissa_mask = (1u << format.mantissa_bits) - 1;
  const uint64_t sign = (bits >> (format.exponent_bits + format.mantissa_bits)) & 1;
  const uint32_t exponent = (bits >> format.mantissa_bits) & exponent_mask, mantissa = bits & mantissa_mask;
  const uint64_t infinity = UINT64_C(0x7ff) << 52, nan = infinity | UINT64_C(1) << 51;
  if (format.kind == IEEE && exponent == exponent_mask) return sign << 63 | (mantissa ? nan : infinity);
  if (format.kind == FINITE && format.exponent_bits == 4 && exponent == exponent_mask && mantissa == mantissa_mask) {
    return sign << 63 | nan;
  }
  if (format.kind == FINITE_UNSIGNED_ZERO && sign && exponent == 0 && mantissa == 0) return nan;
  if (exponent == 0) return compose_double(sign, mantissa, 1 - format.bias - format.mantissa_bits);
  return compose_double(sign, mantissa | 1u << format.mantissa_bits,
                        (int)exponent - format.bias - format.mantissa_bits);
}

static int64_t double_bits(double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

#define LOAD(type)                   \
  do {                               \
    type element;                    \
    memcpy(&element, data, sizeof(element)); \
    *out_value = (int64_t)element;   \
    return true;                     \
  } while (0)

#define LOAD_FLOAT(type, ...)                                   \
  do {                                                          \
    type element;                                               \
    memcpy(&element, data, sizeof(element));                    \
    *out_value = (int64_t)widen(element, (float_format_t){__VA_ARGS__}); \
    return true;                                                \
  } while (0)

bool rlt_element_load(int64_t element_type, const void* data, int64_t* out_value) {
  float single;
  uint8_t power;
  switch (element_type) {
    case RLT_TYPE_BOOL:
    case RLT_TYPE_U2:
    case RLT_TYPE_U4:
    case RLT_TYPE_U8: LOAD(uint8_t);
    case RLT_TYPE_I2:
    case RLT_TYPE_I4:
    case RLT_TYPE_I8: LOAD(int8_t);
    case RLT_TYPE_U16: LOAD(uint16_t);
    case RLT_TYPE_I16: LOAD(int16_t);
    case RLT_TYPE_U32: LOAD(uint32_t);
    case RLT_TYPE_I32: LOAD(int32_t);
    case RLT_TYPE_U64: LOAD(uint64_t);
    case RLT_TYPE_F64:  // its bits
    case RLT_TYPE_I64: LOAD(int64_t);
    case RLT_TYPE_F32:
      memcpy(&single, data, sizeof(single));
      *out_value = double_bits((double)single);
      return true;
    case RLT_TYPE_F16: LOAD_FLOAT(uint16_t, 5, 10, 15, IEEE);
    case RLT_TYPE_BF16: LOAD_FLOAT(uint16_t, 8, 7, 127, IEEE);
    case RLT_TYPE_F8E4M3FN: LOAD_FLOAT(uint8_t, 4, 3, 7, FINITE);
    case RLT_TYPE_F8E4M3FNUZ: LOAD_FLOAT(uint8_t, 4, 3, 8, FINITE_UNSIGNED_ZERO);
    case RLT_TYPE_F8E5M2: LOAD_FLOAT(uint8_t, 5, 2, 15, IEEE);
    case RLT_TYPE_F8E5M2FNUZ: LOAD_FLOAT(uint8_t, 5, 2, 16, FINITE_UNSIGNED_ZERO);
    case RLT_TYPE_F8E8M0:  // 2^(code - 127), the last code NaN
      memcpy(&power, data, sizeof(power));
      *out_value = power == 0xFF ? (int64_t)0x7FF8000000000000 : (int64_t)(power + 1023 - 127) << 52;
      return true;
    case RLT_TYPE_F4E2M1: LOAD_FLOAT(uint8_t, 2, 1, 1, FINITE);
    default: return false;
  }
}
