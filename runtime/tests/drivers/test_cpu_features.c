#include "harness.h"
#include "rillet/cpu/features.h"

static bool has(const char* name) {
  const rlt_cpu_features_t features = rlt_cpu_features_detect();
  return rlt_cpu_features_has(&features, name, strlen(name));
}

int main(void) {
  CHECK(!has("") && !has("no-such-feature") && !has("+sse2"));
#if defined(__x86_64__)
  CHECK(strcmp(rlt_cpu_architecture(), "x86_64") == 0);
  CHECK(has("sse2") && has("64bit") && has("fxsr"));
#if defined(__GNUC__)
  __builtin_cpu_init();
  CHECK(has("avx2") == !!__builtin_cpu_supports("avx2"));
  CHECK(has("fma") == !!__builtin_cpu_supports("fma"));
  CHECK(has("popcnt") == !!__builtin_cpu_supports("popcnt"));
  CHECK(has("bmi2") == !!__builtin_cpu_supports("bmi2"));
  CHECK(has("avx512f") == !!__builtin_cpu_supports("avx512f"));
  CHECK(has("avx512vnni") == !!__builtin_cpu_supports("avx512vnni"));
#endif
#elif defined(__aarch64__)
  CHECK(has("neon") && has("fp-armv8"));
#endif
  return 0;
}
