// The two roofs of this machine: FMA throughput in registers, and copy bandwidth out of memory.
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

// Runs `rounds` rounds of CHAINS fused multiply-adds; returns the floating-point operations in one round.
int probe_fma(long rounds, float seed, float* sink) {
  vector_t acc[CHAINS], scale, shift;
  for (int lane = 0; lane < LANES; ++lane) {
    scale[lane] = 1.0f - seed * 1e-7f;
    shift[lane] = seed;
  }
  for (int i = 0; i < CHAINS; ++i) acc[i] = shift * (float)i;
  for (long r = 0; r < rounds; ++r) {
#pragma clang loop unroll(full)
    for (int i = 0; i < CHAINS; ++i) acc[i] = __builtin_elementwise_fma(acc[i], scale, shift);
  }
  vector_t sum = acc[0];
  for (int i = 1; i < CHAINS; ++i) sum += acc[i];
  *sink = sum[0];
  return 2 * CHAINS * LANES;
}

void probe_copy(char* target, const char* source, size_t size) { memcpy(target, source, size); }
