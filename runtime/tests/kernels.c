// Kernels for the tests of the runtime, as the compiler would emit them.
#include "rillet/cpu/kernel_abi.h"

// Bindings x, y, z; constant n: z[i] = x[i] + y[i], 256 elements a workgroup.
static int add(const rlt_dispatch_state_t* state, const uint32_t id[3]) {
  const float* x = state->bindings[0];
  const float* y = state->bindings[1];
  float* z = state->bindings[2];
  const int64_t n = state->constants[0];
  const int64_t begin = (int64_t)id[0] * 256, end = begin + 256 < n ? begin + 256 : n;
  for (int64_t i = begin; i < end; ++i) z[i] = x[i] + y[i];
  return 0;
}

static void add_count(const int64_t* constants, uint32_t count[3]) {
  count[0] = (uint32_t)((constants[0] + 255) / 256);
  count[1] = count[2] = 1;
}

// Bindings table, indices, out; constants rows, n: out[i] = table[indices[i]]; code 1 when an index is out of range.
static int gather(const rlt_dispatch_state_t* state, const uint32_t id[3]) {
  (void)id;
  const float* table = state->bindings[0];
  const int64_t* indices = state->bindings[1];
  float* out = state->bindings[2];
  for (int64_t i = 0; i < state->constants[1]; ++i) {
    if (indices[i] < 0 || indices[i] >= state->constants[0]) return 1;
    out[i] = table[indices[i]];
  }
  return 0;
}

static void one(const int64_t* constants, uint32_t count[3]) {
  (void)constants;
  count[0] = count[1] = count[2] = 1;
}

// Binding out; grid 3 x 5 x 7: out[z][y][x] = 100 z + 10 y + x, staged in local memory.
static int grid(const rlt_dispatch_state_t* state, const uint32_t id[3]) {
  int32_t* out = state->bindings[0];
  int32_t* local = state->local_memory;
  if (state->local_memory_size < 4096 || (uintptr_t)local % 64 != 0) return 2;
  for (int i = 0; i < 1024; ++i) local[i] = (int32_t)(100 * id[2] + 10 * id[1] + id[0]);
  int32_t last = local[0];
  for (int i = 0; i < 1024; ++i) {
    if (local[i] != last) return 3;
  }
  out[(id[2] * state->workgroup_count[1] + id[1]) * state->workgroup_count[0] + id[0]] = last;
  return 0;
}

static void grid_count(const int64_t* constants, uint32_t count[3]) {
  (void)constants;
  count[0] = 3, count[1] = 5, count[2] = 7;
}

// Binding x (read and written): x[i] = -x[i] for bytes, n of them.
static int negate(const rlt_dispatch_state_t* state, const uint32_t id[3]) {
  (void)id;
  int8_t* x = state->bindings[0];
  for (int64_t i = 0; i < state->constants[0]; ++i) x[i] = (int8_t)-x[i];
  return 0;
}

static const rlt_kernel_entry_t entries[] = {
    {"add", add, add_count, 3, 1, 0, 0},
    {"gather", gather, one, 3, 2, 0, 0},
    {"grid", grid, grid_count, 1, 0, 4096, 0},
    {"negate", negate, one, 1, 1, 0, 0},
};

static const rlt_kernel_table_t table = {RLT_KERNEL_ABI_VERSION, sizeof(entries) / sizeof(entries[0]),
                                                 entries};

__attribute__((visibility("default"))) const rlt_kernel_table_t* rlt_kernel_query(uint32_t abi_version) {
  return abi_version == RLT_KERNEL_ABI_VERSION ? &table : 0;
}
