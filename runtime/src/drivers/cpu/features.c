// Processor identification: CPUID on x86; on AArch64 and RISC-V the auxiliary vector of Linux, and what the compiler was
// told.
#include "rillet/cpu/features.h"

#include "base/strings.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) || defined(__riscv)
#ifdef __linux__
// Without a C library the program may bring the function along.
__attribute__((weak)) unsigned long getauxval(unsigned long kind);
static uint64_t auxiliary(unsigned long kind) { return getauxval ? getauxval(kind) : 0; }
#else
static uint64_t auxiliary(unsigned long kind) { return (void)kind, 0; }
#endif
enum { AT_HWCAP = 16, AT_HWCAP2 = 26 };
#endif

const char* rlt_cpu_architecture(void) {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#elif defined(__riscv) && __riscv_xlen == 64
  return "riscv64";
#elif defined(__riscv)
  return "riscv32";
#elif defined(__arm__)
  return "arm";
#elif defined(__wasm32__)
  return "wasm32";
#else
  return "unknown";
#endif
}

// One feature: the bit `bit` of words[row][column]. `state` are the register-state bits it needs besides.
typedef struct feature_row_t {
  const char* name;
  uint8_t row, column, bit, state;
} feature_row_t;

#if defined(__x86_64__)

enum { LEAF_1, LEAF_7_0, LEAF_7_1, LEAF_D_1, LEAF_EXT_1, LEAF_COUNT };
enum { EAX, EBX, ECX, EDX };
// XCR0: SSE and AVX state; besides, the three AVX-512 parts; the two AMX parts.
enum { NONE, YMM, ZMM, AMX };
static const uint64_t state_masks[] = {0, 0x6, 0xe6, 0x60000};

static const feature_row_t feature_rows[] = {
    {"cx8", LEAF_1, EDX, 8, NONE},
    {"cmov", LEAF_1, EDX, 15, NONE},
    {"mmx", LEAF_1, EDX, 23, NONE},
    {"fxsr", LEAF_1, EDX, 24, NONE},
    {"x87", LEAF_1, EDX, 0, NONE},
    {"sse", LEAF_1, EDX, 25, NONE},
    {"sse2", LEAF_1, EDX, 26, NONE},
    {"sse3", LEAF_1, ECX, 0, NONE},
    {"pclmul", LEAF_1, ECX, 1, NONE},
    {"ssse3", LEAF_1, ECX, 9, NONE},
    {"fma", LEAF_1, ECX, 12, YMM},
    {"cx16", LEAF_1, ECX, 13, NONE},
    {"sse4.1", LEAF_1, ECX, 19, NONE},
    {"sse4.2", LEAF_1, ECX, 20, NONE},
    {"crc32", LEAF_1, ECX, 20, NONE},
    {"movbe", LEAF_1, ECX, 22, NONE},
    {"popcnt", LEAF_1, ECX, 23, NONE},
    {"aes", LEAF_1, ECX, 25, NONE},
    {"xsave", LEAF_1, ECX, 27, NONE},
    {"avx", LEAF_1, ECX, 28, YMM},
    {"f16c", LEAF_1, ECX, 29, YMM},
    {"rdrnd", LEAF_1, ECX, 30, NONE},
    {"fsgsbase", LEAF_7_0, EBX, 0, NONE},
    {"bmi", LEAF_7_0, EBX, 3, NONE},
    {"avx2", LEAF_7_0, EBX, 5, YMM},
    {"bmi2", LEAF_7_0, EBX, 8, NONE},
    {"invpcid", LEAF_7_0, EBX, 10, NONE},
    {"avx512f", LEAF_7_0, EBX, 16, ZMM},
    {"avx512dq", LEAF_7_0, EBX, 17, ZMM},
    {"rdseed", LEAF_7_0, EBX, 18, NONE},
    {"adx", LEAF_7_0, EBX, 19, NONE},
    {"avx512ifma", LEAF_7_0, EBX, 21, ZMM},
    {"clflushopt", LEAF_7_0, EBX, 23, NONE},
    {"clwb", LEAF_7_0, EBX, 24, NONE},
    {"avx512cd", LEAF_7_0, EBX, 28, ZMM},
    {"sha", LEAF_7_0, EBX, 29, NONE},
    {"avx512bw", LEAF_7_0, EBX, 30, ZMM},
    {"avx512vl", LEAF_7_0, EBX, 31, ZMM},
    {"avx512vbmi", LEAF_7_0, ECX, 1, ZMM},
    {"pku", LEAF_7_0, ECX, 4, NONE},
    {"avx512vbmi2", LEAF_7_0, ECX, 6, ZMM},
    {"shstk", LEAF_7_0, ECX, 7, NONE},
    {"gfni", LEAF_7_0, ECX, 8, NONE},
    {"vaes", LEAF_7_0, ECX, 9, YMM},
    {"vpclmulqdq", LEAF_7_0, ECX, 10, YMM},
    {"avx512vnni", LEAF_7_0, ECX, 11, ZMM},
    {"avx512bitalg", LEAF_7_0, ECX, 12, ZMM},
    {"avx512vpopcntdq", LEAF_7_0, ECX, 14, ZMM},
    {"rdpid", LEAF_7_0, ECX, 22, NONE},
    {"movdiri", LEAF_7_0, ECX, 27, NONE},
    {"movdir64b", LEAF_7_0, ECX, 28, NONE},
    {"avx512vp2intersect", LEAF_7_0, EDX, 8, ZMM},
    {"serialize", LEAF_7_0, EDX, 14, NONE},
    {"amx-bf16", LEAF_7_0, EDX, 22, AMX},
    {"avx512fp16", LEAF_7_0, EDX, 23, ZMM},
    {"amx-tile", LEAF_7_0, EDX, 24, AMX},
    {"amx-int8", LEAF_7_0, EDX, 25, AMX},
    {"avxvnni", LEAF_7_1, EAX, 4, YMM},
    {"avx512bf16", LEAF_7_1, EAX, 5, ZMM},
    {"amx-fp16", LEAF_7_1, EAX, 21, AMX},
    {"avxifma", LEAF_7_1, EAX, 23, YMM},
    {"avxvnniint8", LEAF_7_1, EDX, 4, YMM},
    {"avxneconvert", LEAF_7_1, EDX, 5, YMM},
    {"avxvnniint16", LEAF_7_1, EDX, 10, YMM},
    {"xsaveopt", LEAF_D_1, EAX, 0, NONE},
    {"xsavec", LEAF_D_1, EAX, 1, NONE},
    {"xsaves", LEAF_D_1, EAX, 3, NONE},
    {"sahf", LEAF_EXT_1, ECX, 0, NONE},
    {"lzcnt", LEAF_EXT_1, ECX, 5, NONE},
    {"sse4a", LEAF_EXT_1, ECX, 6, NONE},
    {"prfchw", LEAF_EXT_1, ECX, 8, NONE},
    {"64bit", LEAF_EXT_1, EDX, 29, NONE},
};

rlt_cpu_features_t rlt_cpu_features_detect(void) {
  rlt_cpu_features_t features;
  memset(&features, 0, sizeof(features));
  static const uint32_t leaves[LEAF_COUNT][2] = {{1, 0}, {7, 0}, {7, 1}, {0xd, 1}, {0x80000001u, 0}};
  for (int i = 0; i < LEAF_COUNT; ++i) {
    uint32_t* word = features.words[i];
    if (!__get_cpuid_count(leaves[i][0], leaves[i][1], &word[EAX], &word[EBX], &word[ECX], &word[EDX])) {
      memset(word, 0, sizeof(features.words[i]));
    }
  }
  const bool has_xgetbv = (features.words[LEAF_1][ECX] >> 27) & 1;  // OSXSAVE
  if (has_xgetbv) {
    uint32_t low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    features.state = ((uint64_t)high << 32) | low;
  }
  return features;
}

#elif defined(__aarch64__)

enum { HWCAP, HWCAP2 };
static const uint64_t state_masks[] = {0};

// Linux's numbering of HWCAP and HWCAP2; column 0 holds bits 0 to 31, column 1 bits 32 to 63.
static const feature_row_t feature_rows[] = {
    {"fp-armv8", HWCAP, 0, 0, 0}, {"neon", HWCAP, 0, 1, 0},      {"aes", HWCAP, 0, 3, 0},
    {"sha2", HWCAP, 0, 6, 0},     {"crc", HWCAP, 0, 7, 0},       {"lse", HWCAP, 0, 8, 0},
    {"fullfp16", HWCAP, 0, 10, 0}, {"rdm", HWCAP, 0, 12, 0},     {"jsconv", HWCAP, 0, 13, 0},
    {"complxnum", HWCAP, 0, 14, 0}, {"rcpc", HWCAP, 0, 15, 0},   {"sha3", HWCAP, 0, 17, 0},
    {"sm4", HWCAP, 0, 19, 0},     {"dotprod", HWCAP, 0, 20, 0},  {"sve", HWCAP, 0, 22, 0},
    {"fp16fml", HWCAP, 0, 23, 0}, {"sve2", HWCAP2, 0, 1, 0},     {"f32mm", HWCAP2, 0, 10, 0},
    {"f64mm", HWCAP2, 0, 11, 0},  {"i8mm", HWCAP2, 0, 13, 0},    {"bf16", HWCAP2, 0, 14, 0},
    {"sme", HWCAP2, 0, 23, 0},
};

enum {
#ifdef __ARM_FEATURE_DOTPROD
  DOTPROD = 1 << 20,
#else
  DOTPROD = 0,
#endif
  COMPILED = 0x3 | DOTPROD  // the base architecture has the first two
};

rlt_cpu_features_t rlt_cpu_features_detect(void) {
  rlt_cpu_features_t features;
  memset(&features, 0, sizeof(features));
  const uint64_t words[2] = {auxiliary(AT_HWCAP) | COMPILED, auxiliary(AT_HWCAP2)};
  for (int i = 0; i < 2; ++i) {
    features.words[i][0] = (uint32_t)words[i];
    features.words[i][1] = (uint32_t)(words[i] >> 32);
  }
  return features;
}

#elif defined(__riscv)

static const uint64_t state_masks[] = {0};

// HWCAP on Linux has one bit for each single-letter extension.
static const feature_row_t feature_rows[] = {
    {"a", 0, 0, 'a' - 'a', 0}, {"c", 0, 0, 'c' - 'a', 0}, {"d", 0, 0, 'd' - 'a', 0},
    {"f", 0, 0, 'f' - 'a', 0}, {"m", 0, 0, 'm' - 'a', 0}, {"v", 0, 0, 'v' - 'a', 0},
    {"zvl128b", 0, 0, 'v' - 'a', 0},  // registers of the extension V have at least 128 bits
};

// The runtime itself may use what it is compiled for.
enum {
  COMPILED = 0
#ifdef __riscv_atomic
             | 1 << ('a' - 'a')
#endif
#ifdef __riscv_compressed
             | 1 << ('c' - 'a')
#endif
#ifdef __riscv_mul
             | 1 << ('m' - 'a')
#endif
#if defined(__riscv_flen) && __riscv_flen >= 32
             | 1 << ('f' - 'a')
#endif
#if defined(__riscv_flen) && __riscv_flen >= 64
             | 1 << ('d' - 'a')
#endif
#ifdef __riscv_v
             | 1 << ('v' - 'a')
#endif
};

rlt_cpu_features_t rlt_cpu_features_detect(void) {
  rlt_cpu_features_t features;
  memset(&features, 0, sizeof(features));
  features.words[0][0] = (uint32_t)auxiliary(AT_HWCAP) | COMPILED;
  return features;
}

#else

static const uint64_t state_masks[] = {0};
static const feature_row_t feature_rows[] = {{"", 0, 0, 0, 0}};

rlt_cpu_features_t rlt_cpu_features_detect(void) {
  rlt_cpu_features_t features;
  memset(&features, 0, sizeof(features));
  return features;
}

#endif

bool rlt_cpu_features_has(const rlt_cpu_features_t* features, const char* name, size_t name_length) {
  for (size_t i = 0; i < sizeof(feature_rows) / sizeof(feature_rows[0]); ++i) {
    const feature_row_t* row = &feature_rows[i];
    if (rlt_string_length(row->name) != name_length || memcmp(row->name, name, name_length) != 0) continue;
    const uint64_t state_mask = state_masks[row->state];
    if ((features->state & state_mask) != state_mask) return false;
    return (features->words[row->row][row->column] >> row->bit) & 1;
  }
  return false;
}
