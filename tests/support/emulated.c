// Runs the whole grid of KERNEL on bindings read from standard input, and writes them all back.
//
// Input: scratch bytes, the number of bindings, then each one's size (uint64, little-endian) followed by its bytes.
#include <stdio.h>
#include <stdlib.h>

#include "rillet/cpu/kernel_abi.h"

extern int KERNEL(const rlt_dispatch_state_t* state, const uint32_t workgroup_id[3]);
extern void KERNEL_COUNT(const int64_t* constants, uint32_t workgroup_count[3]);

static uint64_t number(void) {
  uint64_t value;
  if (fread(&value, sizeof value, 1, stdin) != 1) exit(100);
  return value;
}

static void* memory(uint64_t size) {
  void* block = aligned_alloc(64, (size + 127) / 64 * 64);
  if (!block) exit(101);
  return block;
}

int main(void) {
  const uint64_t scratch = number(), count = number();
  void* bindings[16];
  uint64_t sizes[16];
  if (count > 16) return 102;
  for (uint64_t n = 0; n < count; ++n) {
    sizes[n] = number();
    bindings[n] = memory(sizes[n]);
    if (fread(bindings[n], 1, sizes[n], stdin) != sizes[n]) return 103;
  }
  rlt_dispatch_state_t state = {.bindings = bindings,
                                .binding_count = (uint32_t)count,
                                .local_memory = memory(scratch),
                                .local_memory_size = scratch};
  KERNEL_COUNT(NULL, state.workgroup_count);
  uint32_t id[3];
  for (id[2] = 0; id[2] < state.workgroup_count[2]; ++id[2])
    for (id[1] = 0; id[1] < state.workgroup_count[1]; ++id[1])
      for (id[0] = 0; id[0] < state.workgroup_count[0]; ++id[0])
        if (KERNEL(&state, id)) return 104;
  for (uint64_t n = 0; n < count; ++n)
    if (fwrite(bindings[n], 1, sizes[n], stdout) != sizes[n]) return 105;
  return 0;
}
