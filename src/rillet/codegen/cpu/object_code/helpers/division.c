// 64-bit division, with and without sign. Division by zero gives some number.
#include "helpers.h"

typedef struct division_t {
  uint64_t quotient, remainder;
} division_t;

// A bit at a time; numbers of 32 bits are left to the processor.
static division_t divide(uint64_t a, uint64_t b) {
  division_t result = {0, a};
  if (b == 0 || b > a) return result;
  if (a >> 32 == 0) return (division_t){(uint32_t)a / (uint32_t)b, (uint32_t)a % (uint32_t)b};
  int shift = __builtin_clzll(b) - __builtin_clzll(a);
  for (b <<= shift; shift >= 0; --shift, b >>= 1) {
    result.quotient <<= 1;
    if (result.remainder < b) continue;
    result.remainder -= b;
    result.quotient |= 1;
  }
  return result;
}

static uint64_t negated_if(uint64_t value, bool condition) { return condition ? 0 - value : value; }

// Rounds toward zero; the remainder has the sign of `a`.
static division_t divide_signed(int64_t a, int64_t b) {
  const division_t result = divide(negated_if((uint64_t)a, a < 0), negated_if((uint64_t)b, b < 0));
  return (division_t){negated_if(result.quotient, (a < 0) != (b < 0)), negated_if(result.remainder, a < 0)};
}

#ifdef __arm__

#define PART __attribute__((weak, visibility("hidden"), used))

PART uint64_t rlt_divide(uint64_t a, uint64_t b, uint64_t* remainder) {
  const division_t result = divide(a, b);
  *remainder = result.remainder;
  return result.quotient;
}

PART uint64_t rlt_divide_signed(int64_t a, int64_t b, uint64_t* remainder) {
  const division_t result = divide_signed(a, b);
  *remainder = result.remainder;
  return result.quotient;
}

// The quotient is returned in r0 and r1, the remainder in r2 and r3, which C cannot say.
#define RETURN_BOTH(function)                                                              \
  __asm__("push {r4, lr}\n sub sp, sp, #16\n add r4, sp, #8\n str r4, [sp]\n bl " function \
          "\n ldrd r2, r3, [sp, #8]\n add sp, sp, #16\n pop {r4, pc}")

__attribute__((weak, naked)) void __aeabi_uldivmod(void) { RETURN_BOTH("rlt_divide"); }
__attribute__((weak, naked)) void __aeabi_ldivmod(void) { RETURN_BOTH("rlt_divide_signed"); }

#else

HELPER uint64_t __udivdi3(uint64_t a, uint64_t b) { return divide(a, b).quotient; }
HELPER uint64_t __umoddi3(uint64_t a, uint64_t b) { return divide(a, b).remainder; }
HELPER int64_t __divdi3(int64_t a, int64_t b) { return (int64_t)divide_signed(a, b).quotient; }
HELPER int64_t __moddi3(int64_t a, int64_t b) { return (int64_t)divide_signed(a, b).remainder; }

#endif
