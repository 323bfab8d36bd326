#include "harness.h"
#include "rillet/base/arena.h"

enum { SIZE = 4096, BLOCKS = 24 };

static _Alignas(64) uint8_t memory[SIZE + 64];
static rlt_error_t error;

static void* allocate(rlt_allocator_t allocator, size_t size, size_t alignment) {
  void* block = NULL;
  CHECK_OK(rlt_allocator_allocate_aligned(allocator, size, alignment, &error, &block));
  CHECK((uintptr_t)block % alignment == 0);
  return block;
}

static void test_all_of_it_comes_back(void) {
  rlt_arena_t arena;
  rlt_arena_initialize(&arena, memory + 3, SIZE);
  rlt_allocator_t allocator = rlt_arena_allocator(&arena);
  void* first = allocate(allocator, 100, 8);
  void* second = allocate(allocator, 100, 64);
  void* third = allocate(allocator, 1, 8);
  CHECK(arena.peak >= 201 && arena.peak <= 400);
  rlt_allocator_free(allocator, second);
  void* smaller = allocate(allocator, 50, 64);
  void* less_aligned = allocate(allocator, 100, 8);
  CHECK(smaller != second && less_aligned != second);
  CHECK(allocate(allocator, 100, 64) == second);
  rlt_allocator_free(allocator, smaller);
  rlt_allocator_free(allocator, less_aligned);
  rlt_allocator_free(allocator, second);
  rlt_allocator_free(allocator, first);
  rlt_allocator_free(allocator, third);
  void* whole = allocate(allocator, arena.size - 2 * sizeof(size_t), 8);
  CHECK_INT(arena.peak, arena.size);
  rlt_allocator_free(allocator, whole);
}

static void test_what_does_not_fit_is_refused(void) {
  rlt_arena_t arena;
  void* block = NULL;
  rlt_arena_initialize(&arena, memory, SIZE);
  CHECK_FAILS(rlt_allocator_allocate(rlt_arena_allocator(&arena), SIZE, &error, &block), RLT_OUT_OF_MEMORY, "4096");
  CHECK_FAILS(rlt_allocator_allocate(rlt_arena_allocator(&arena), SIZE_MAX, &error, &block), RLT_OUT_OF_MEMORY, "");
  rlt_arena_initialize(&arena, memory + 1, 3);
  CHECK_FAILS(rlt_allocator_allocate(rlt_arena_allocator(&arena), 1, &error, &block), RLT_OUT_OF_MEMORY, "1 bytes");
  for (size_t size = 0; size <= SIZE; size += SIZE) {
    rlt_arena_initialize(&arena, NULL, size);
    CHECK_INT(rlt_allocator_allocate(rlt_arena_allocator(&arena), 0, NULL, &block), RLT_OUT_OF_MEMORY);
    CHECK_INT(rlt_allocator_allocate(rlt_arena_allocator(&arena), 1, NULL, &block), RLT_OUT_OF_MEMORY);
    CHECK(block == NULL);
  }
}

// Blocks of random sizes and alignments keep what was written to them, whatever is allocated and freed around them.
static void test_blocks_do_not_overlap(void) {
  rlt_arena_t arena;
  rlt_arena_initialize(&arena, memory, SIZE);
  rlt_allocator_t allocator = rlt_arena_allocator(&arena);
  uint8_t* blocks[BLOCKS] = {NULL};
  size_t sizes[BLOCKS] = {0};
  uint32_t state = 1;
  for (int step = 0; step < 20000; ++step) {
    state = state * 1664525u + 1013904223u;
    const uint32_t i = (state >> 8) % BLOCKS;
    for (size_t k = 0; k < sizes[i]; ++k) CHECK_INT(blocks[i][k], i);
    rlt_allocator_free(allocator, blocks[i]);
    sizes[i] = (state >> 16) % 300;
    void* block = NULL;
    const size_t alignment = (size_t)8 << (state >> 28) % 4;
    if (rlt_allocator_allocate_aligned(allocator, sizes[i], alignment, &error, &block) != RLT_OK) sizes[i] = 0;
    blocks[i] = block;
    memset(block ? block : memory, (int)i, sizes[i]);
  }
  for (int i = 0; i < BLOCKS; ++i) rlt_allocator_free(allocator, blocks[i]);
  allocate(allocator, SIZE - 2 * sizeof(size_t), 8);
}

int main(void) {
  test_all_of_it_comes_back();
  test_what_does_not_fit_is_refused();
  test_blocks_do_not_overlap();
  return 0;
}
