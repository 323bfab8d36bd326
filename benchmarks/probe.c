// The two roofs of this machine: multiply-add throughput in registers, and copy bandwidth.
#include <stddef.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
#define CHAINS 12  // enough independent chains to hide the latency, few enough to stay in registers

typedef float vector_t __attribute__((vector_size(4 * LANES)));

#if defined(__FMA__) || defined(__aarch64__)
#define MULTIPLY_ADD(a, b, c) __builtin_elementwise_fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

// Runs `rounds` rounds of CHAINS multiply-adds, fused where the instruction set has that; returns the floating-point
// operations in one round.
int probe_fma(long rounds, float seed, float* sink) {
  vector_t acc[CHAINS], scale, shift;
  for (int lane = 0; lane < LANES; ++lane) {
    scale[lane] = 1.0f - seed * 1e-7f;
    shift[lane] = seed;
  }
  for (int i = 0; i < CHAINS; ++i) acc[i] = shift * (float)i;
  for (long r = 0; r < rounds; ++r) {
#pragma clang loop unroll(full)
    for (int i = 0; i < CHAINS; ++i) acc[i] = MULTIPLY_ADD(acc[i], scale, shift);
  }
  vector_t sum = acc[0];
  for (int i = 1; i < CHAINS; ++i) sum += acc[i];
  *sink = sum[0];
  return 2 * CHAINS * LANES;
}

void probe_copy(char* target, const char* source, size_t size) { memcpy(target, source, size); }
