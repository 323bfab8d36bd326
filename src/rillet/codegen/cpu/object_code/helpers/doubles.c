// Floats of 64 bits for processors that have none: rounded to nearest, ties to even. They are passed like integers, by
// their bits.
#include "helpers.h"

typedef struct wide_t {
  uint64_t high, low;
} wide_t;

static wide_t product(uint64_t a, uint64_t b) {
  const uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
  const uint64_t low = al * bl, middle = ah * bl + (low >> 32), other = al * bh + (uint32_t)middle;
  return (wide_t){ah * bh + (middle >> 32) + (other >> 32), other << 32 | (uint32_t)low};
}

static wide_t left(wide_t a, int distance) {
  if (distance >= 64) return (wide_t){a.low << (distance - 64), 0};
  if (distance == 0) return a;
  return (wide_t){a.high << distance | a.low >> (64 - distance), a.low << distance};
}

// The last bit is set when something is cut off.
static wide_t right(wide_t a, int distance) {
  if (distance == 0) return a;
  if (distance >= 64) return (wide_t){0, shifted(a.high, distance - 64) | (a.low != 0)};
  return (wide_t){a.high >> distance, shifted(a.low, distance) | a.high << (64 - distance)};
}

static int leading_zeros(wide_t a) { return a.high ? __builtin_clzll(a.high) : 64 + __builtin_clzll(a.low); }

static wide_t sum(wide_t a, wide_t b) {
  const uint64_t low = a.low + b.low;
  return (wide_t){a.high + b.high + (low < a.low), low};
}

static wide_t difference(wide_t a, wide_t b) { return (wide_t){a.high - b.high - (a.low < b.low), a.low - b.low}; }

static bool is_less(wide_t a, wide_t b) { return a.high != b.high ? a.high < b.high : a.low < b.low; }

typedef struct wide_number_t {
  wide_t mantissa;
  int exponent;
} wide_number_t;

// The same number with one leading zero; not for zero.
static wide_number_t normalized(wide_t mantissa, int exponent) {
  const int distance = leading_zeros(mantissa) - 1;
  return (wide_number_t){left(mantissa, distance), exponent - distance};
}

static uint64_t encode_wide(bool negative, wide_number_t a) {
  return encode(negative, (number_t){a.mantissa.high | (a.mantissa.low != 0), a.exponent + 64}, DOUBLE);
}

#define SIGN ((uint64_t)1 << 63)
#define INFINITE ((uint64_t)0x7ff << 52)
#define ONE ((uint64_t)0x3ff << 52)

static bool is_infinite(uint64_t a) { return (a & ~SIGN) == INFINITE; }
static bool is_zero(uint64_t a) { return (a & ~SIGN) == 0; }

// a * b + c for finite numbers of which a and b are not zero.
static uint64_t add_product(uint64_t a, uint64_t b, uint64_t c) {
  const bool negative = (a ^ b) >> 63;
  const number_t an = decode(a, DOUBLE), bn = decode(b, DOUBLE), cn = decode(c, DOUBLE);
  const wide_number_t ab = normalized(product(an.mantissa, bn.mantissa), an.exponent + bn.exponent);
  if (cn.mantissa == 0) return encode_wide(negative, ab);
  const wide_number_t other = normalized((wide_t){0, cn.mantissa}, cn.exponent);
  const bool swap = ab.exponent != other.exponent ? ab.exponent < other.exponent
                                                  : is_less(ab.mantissa, other.mantissa);
  const wide_number_t large = swap ? other : ab, small = swap ? ab : other;
  const wide_t aligned = right(small.mantissa, large.exponent - small.exponent);
  if (negative == (bool)(c >> 63)) {
    return encode_wide(negative, (wide_number_t){sum(large.mantissa, aligned), large.exponent});
  }
  const wide_t rest = difference(large.mantissa, aligned);
  if ((rest.high | rest.low) == 0) return 0;
  return encode_wide(swap ? c >> 63 : negative, normalized(rest, large.exponent));
}

static uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t sign = (a ^ b) & SIGN;
  if (is_nan(a, DOUBLE) || is_nan(b, DOUBLE) || is_nan(c, DOUBLE)) return quiet_nan(DOUBLE);
  if (is_infinite(a) || is_infinite(b)) {
    const bool undefined = is_zero(a) || is_zero(b) || (is_infinite(c) && (c & SIGN) != sign);
    return undefined ? quiet_nan(DOUBLE) : sign | INFINITE;
  }
  if (is_infinite(c)) return c;
  if (!is_zero(a) && !is_zero(b)) return add_product(a, b, c);
  return is_zero(c) ? sign & c : c;
}

static uint64_t divide(uint64_t a, uint64_t b) {
  const uint64_t sign = (a ^ b) & SIGN;
  if (is_nan(a, DOUBLE) || is_nan(b, DOUBLE)) return quiet_nan(DOUBLE);
  if (is_infinite(a)) return is_infinite(b) ? quiet_nan(DOUBLE) : sign | INFINITE;
  if (is_infinite(b)) return sign;
  if (is_zero(b)) return is_zero(a) ? quiet_nan(DOUBLE) : sign | INFINITE;
  if (is_zero(a)) return sign;
  number_t an = decode(a, DOUBLE), bn = decode(b, DOUBLE);
  const int shift_a = __builtin_clzll(an.mantissa) - 2, shift_b = __builtin_clzll(bn.mantissa) - 2;
  uint64_t rest = an.mantissa << shift_a, quotient = 0;
  const uint64_t divisor = bn.mantissa << shift_b;
  enum { STEPS = 58 };
  for (int i = 0; i < STEPS; ++i) {
    quotient <<= 1;
    if (rest >= divisor) {
      rest -= divisor;
      quotient |= 1;
    }
    rest <<= 1;
  }
  const int exponent = an.exponent - shift_a - (bn.exponent - shift_b) - (STEPS - 1);
  return encode(sign != 0, (number_t){quotient << 1 | (rest != 0), exponent - 1}, DOUBLE);
}

// Two bits of the radicand give one of the root.
static uint64_t square_root(uint64_t a) {
  if (is_nan(a, DOUBLE)) return quiet_nan(DOUBLE);
  if (is_zero(a)) return a;
  if (a & SIGN) return quiet_nan(DOUBLE);
  if (is_infinite(a)) return a;
  const number_t number = decode(a, DOUBLE);
  int shift = __builtin_clzll(number.mantissa) - 1;
  if ((number.exponent - shift) % 2 != 0) --shift;
  uint64_t radicand = number.mantissa << shift, root = 0, rest = 0;
  enum { STEPS = 58 };
  for (int i = 0; i < STEPS; ++i) {
    rest = rest << 2 | radicand >> 62;
    radicand <<= 2;
    root <<= 1;
    if (rest >= (root << 1 | 1)) {
      rest -= root << 1 | 1;
      root |= 1;
    }
  }
  // The radicand has 32 pairs of bits; the root belongs to one of STEPS pairs.
  const int exponent = (number.exponent - shift) / 2 - (STEPS - 32);
  return encode(false, (number_t){root << 1 | (rest != 0), exponent - 1}, DOUBLE);
}

// Numbers in the order of these; both zeros are 0.
static int64_t ordered(uint64_t a) { return a & SIGN ? -(int64_t)(a & ~SIGN) : (int64_t)a; }
static bool unordered(uint64_t a, uint64_t b) { return is_nan(a, DOUBLE) || is_nan(b, DOUBLE); }

static uint64_t widened(uint32_t a) {
  const uint64_t sign = (uint64_t)(a >> 31) << 63;
  if (is_nan(a, SINGLE)) return sign | quiet_nan(DOUBLE);
  if ((a & 0x7fffffff) == infinity(SINGLE)) return sign | INFINITE;
  return encode(a >> 31, decode(a, SINGLE), DOUBLE);
}

static uint32_t narrowed(uint64_t a) {
  const uint32_t sign = (uint32_t)(a >> 63) << 31;
  if (is_nan(a, DOUBLE)) return sign | (uint32_t)quiet_nan(SINGLE);
  if (is_infinite(a)) return sign | (uint32_t)infinity(SINGLE);
  return (uint32_t)encode(a >> 63, decode(a, DOUBLE), SINGLE);
}

static int32_t clamped(int64_t a) { return a > INT32_MAX ? INT32_MAX : a < INT32_MIN ? INT32_MIN : (int32_t)a; }

HELPER uint64_t NAME(__aeabi_dadd, __adddf3)(uint64_t a, uint64_t b) { return multiply_add(a, ONE, b); }
HELPER uint64_t NAME(__aeabi_dsub, __subdf3)(uint64_t a, uint64_t b) { return multiply_add(a, ONE, b ^ SIGN); }
HELPER uint64_t NAME(__aeabi_dmul, __muldf3)(uint64_t a, uint64_t b) { return multiply_add(a, b, (a ^ b) & SIGN); }
HELPER uint64_t NAME(__aeabi_ddiv, __divdf3)(uint64_t a, uint64_t b) { return divide(a, b); }

HELPER uint64_t NAME(__aeabi_f2d, __extendsfdf2)(uint32_t a) { return widened(a); }
HELPER uint32_t NAME(__aeabi_d2f, __truncdfsf2)(uint64_t a) { return narrowed(a); }
HELPER int32_t NAME(__aeabi_d2iz, __fixdfsi)(uint64_t a) { return clamped(to_signed(a, DOUBLE)); }
HELPER uint32_t NAME(__aeabi_d2uiz, __fixunsdfsi)(uint64_t a) {
  const uint64_t whole = to_unsigned(a, DOUBLE);
  return !is_negative(a, DOUBLE) && whole > UINT32_MAX ? UINT32_MAX : (uint32_t)whole;
}
HELPER int64_t NAME(__aeabi_d2lz, __fixdfdi)(uint64_t a) { return to_signed(a, DOUBLE); }
HELPER uint64_t NAME(__aeabi_d2ulz, __fixunsdfdi)(uint64_t a) { return to_unsigned(a, DOUBLE); }
HELPER uint64_t NAME(__aeabi_i2d, __floatsidf)(int32_t a) { return from_signed(a, DOUBLE); }
HELPER uint64_t NAME(__aeabi_ui2d, __floatunsidf)(uint32_t a) { return from_unsigned(a, DOUBLE); }
HELPER uint64_t NAME(__aeabi_l2d, __floatdidf)(int64_t a) { return from_signed(a, DOUBLE); }
HELPER uint64_t NAME(__aeabi_ul2d, __floatundidf)(uint64_t a) { return from_unsigned(a, DOUBLE); }

#ifdef __arm__

// Whether a relation holds.
#define COMPARISON(name, condition) \
  HELPER int name(uint64_t a, uint64_t b) { return condition; }
COMPARISON(__aeabi_dcmpeq, !unordered(a, b) && ordered(a) == ordered(b))
COMPARISON(__aeabi_dcmplt, !unordered(a, b) && ordered(a) < ordered(b))
COMPARISON(__aeabi_dcmple, !unordered(a, b) && ordered(a) <= ordered(b))
COMPARISON(__aeabi_dcmpge, !unordered(a, b) && ordered(a) >= ordered(b))
COMPARISON(__aeabi_dcmpgt, !unordered(a, b) && ordered(a) > ordered(b))
COMPARISON(__aeabi_dcmpun, unordered(a, b))

#else

// Below, at or above 0 as the first number is below, equal to or above the second.
static int compared(uint64_t a, uint64_t b, int otherwise) {
  if (unordered(a, b)) return otherwise;
  return (ordered(a) > ordered(b)) - (ordered(a) < ordered(b));
}

HELPER int __eqdf2(uint64_t a, uint64_t b) { return compared(a, b, 1); }
HELPER int __nedf2(uint64_t a, uint64_t b) { return compared(a, b, 1); }
HELPER int __ltdf2(uint64_t a, uint64_t b) { return compared(a, b, 1); }
HELPER int __ledf2(uint64_t a, uint64_t b) { return compared(a, b, 1); }
HELPER int __gtdf2(uint64_t a, uint64_t b) { return compared(a, b, -1); }
HELPER int __gedf2(uint64_t a, uint64_t b) { return compared(a, b, -1); }
HELPER int __unorddf2(uint64_t a, uint64_t b) { return unordered(a, b); }

#endif

// Functions of the C library, which take floats as the program does.
static uint64_t bits_of(double a) {
  uint64_t bits;
  __builtin_memcpy(&bits, &a, sizeof(bits));
  return bits;
}

static double of_bits(uint64_t a) {
  double value;
  __builtin_memcpy(&value, &a, sizeof(value));
  return value;
}

__attribute__((weak)) double fma(double a, double b, double c) {
  return of_bits(multiply_add(bits_of(a), bits_of(b), bits_of(c)));
}

__attribute__((weak)) double sqrt(double a) { return of_bits(square_root(bits_of(a))); }
