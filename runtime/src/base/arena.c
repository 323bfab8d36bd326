#include "rillet/base/arena.h"

// Before every block; blocks follow each other without gaps.
typedef struct header_t {
  size_t size;  // bytes to the next header, this one included; a multiple of sizeof(header_t)
  size_t used;
} header_t;

static header_t* header_at(uint8_t* at) { return (header_t*)(void*)at; }

void rlt_arena_initialize(rlt_arena_t* arena, void* memory, size_t size) {
  if (!memory) size = 0;
  const size_t skipped = (size_t)(-(uintptr_t)memory % sizeof(header_t));
  arena->memory = size ? (uint8_t*)memory + (size < skipped ? size : skipped) : memory;
  arena->size = size < skipped ? 0 : (size - skipped) / sizeof(header_t) * sizeof(header_t);
  arena->peak = 0;
  if (arena->size) *header_at(arena->memory) = (header_t){.size = arena->size};
}

// Joins the free block `block` with the free ones behind it.
static void join(header_t* block, const uint8_t* end) {
  for (;;) {
    uint8_t* next = (uint8_t*)block + block->size;
    if (next == end || header_at(next)->used) return;
    block->size += header_at(next)->size;
  }
}

// Cuts `block` in two, of which the first has `size` bytes; returns the second.
static header_t* split(header_t* block, size_t size) {
  header_t* rest = header_at((uint8_t*)block + size);
  *rest = (header_t){.size = block->size - size};
  block->size = size;
  return rest;
}

static void* arena_allocate(void* self, size_t size, size_t alignment) {
  rlt_arena_t* arena = (rlt_arena_t*)self;
  if (size >= arena->size) return NULL;
  uint8_t* end = arena->memory + arena->size;
  const size_t needed = sizeof(header_t) + (size + sizeof(header_t) - 1) / sizeof(header_t) * sizeof(header_t);
  for (uint8_t* at = arena->memory; at != end; at += header_at(at)->size) {
    header_t* block = header_at(at);
    if (block->used) continue;
    join(block, end);
    const size_t gap = (size_t)(-(uintptr_t)(block + 1) % alignment);
    if (block->size < needed || block->size - needed < gap) continue;
    if (gap) block = split(block, gap);
    if (block->size > needed) split(block, needed);
    block->used = 1;
    const size_t top = (size_t)((uint8_t*)block + block->size - arena->memory);
    if (top > arena->peak) arena->peak = top;
    return block + 1;
  }
  return NULL;
}

static void arena_free(void* self, void* pointer) {
  (void)self;
  ((header_t*)pointer - 1)->used = 0;
}

rlt_allocator_t rlt_arena_allocator(rlt_arena_t* arena) {
  return (rlt_allocator_t){.self = arena, .allocate = arena_allocate, .free = arena_free};
}
