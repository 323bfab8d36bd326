// What the processor this runs on can do, under the names LLVM gives its features.
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_CPU_FEATURES_H_
#define RILLET_CPU_FEATURES_H_

#include "rillet/base/config.h"

RLT_BEGIN_DECLS

// Raw identification words; their meaning depends on the architecture. Obtain with rlt_cpu_features_detect.
typedef struct rlt_cpu_features_t {
  uint32_t words[6][4];
  uint64_t state;  // x86: XCR0, the register state that the operating system saves
} rlt_cpu_features_t;

// "x86_64", "aarch64", "riscv64", "riscv32", "arm", "wasm32" or "unknown": the architecture this was compiled for.
const char* rlt_cpu_architecture(void);

// Asks the processor, and the operating system about the registers it saves.
rlt_cpu_features_t rlt_cpu_features_detect(void);

// True when the processor has the feature `name` ("avx2", "dotprod", ...). Names it does not know are absent.
bool rlt_cpu_features_has(const rlt_cpu_features_t* features, const char* name, size_t name_length);

RLT_END_DECLS

#endif  // RILLET_CPU_FEATURES_H_
