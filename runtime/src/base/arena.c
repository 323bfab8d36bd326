#include "rillet/base/arena.h"

// Before every block; blocks follow each other without gaps.
typedef struct header_t {
  size_t size;   // bytes to the next header, this one included; a multiple of sizeof(header_t)
  size_t state;  // the alignment that the block was made with, 0 for none, and USED
} header_t;

enum { USED = 1 };  // no alignment has this bit

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
    if (next == end || header_at(next)->state & USED) return;
    block->size += header_at(next)->size;
    block->state = 0;
  }
}

// Cuts `block` in two, of which the first has `size` bytes; returns the second.
static header_t* split(header_t* block, size_t size) {
  header_t* rest = header_at((uint8_t*)block + size);
  *rest = (header_t){.size = block->size - size};
  block->size = size;
  return rest;
}

// The free block of this size and alignment that is first, or else the last block, whatever it is.
static header_t* same_or_last(const rlt_arena_t* arena, size_t size, size_t alignment) {
  header_t* block = header_at(arena->memory);
  for (uint8_t* at = arena->memory; at != arena->memory + arena->size; at += block->size) {
    block = header_at(at);
    if (block->size == size && block->state == alignment) break;
  }
  return block;
}

// Cuts a block of `size` bytes out of the free `block`; NULL when it does not fit.
static header_t* carve(header_t* block, size_t size, size_t alignment) {
  const size_t gap = (size_t)(-(uintptr_t)(block + 1) % alignment);
  if (block->state & USED || block->size < size || block->size - size < gap) return NULL;
  if (gap) block = split(block, gap);
  if (block->size > size) split(block, size);
  block->state = alignment;
  return block;
}

// Cuts it out of the first free blocks side by side that it fits in.
static header_t* carve_first(const rlt_arena_t* arena, size_t size, size_t alignment) {
  uint8_t* end = arena->memory + arena->size;
  header_t* found = NULL;
  for (uint8_t* at = arena->memory; at != end && !found; at += header_at(at)->size) {
    header_t* block = header_at(at);
    if (block->state & USED) continue;
    join(block, end);
    found = carve(block, size, alignment);
  }
  return found;
}

static void* arena_allocate(void* self, size_t size, size_t alignment) {
  rlt_arena_t* arena = (rlt_arena_t*)self;
  if (size >= arena->size) return NULL;
  const size_t needed = sizeof(header_t) + (size + sizeof(header_t) - 1) / sizeof(header_t) * sizeof(header_t);
  header_t* block = same_or_last(arena, needed, alignment);
  if (block->size != needed || block->state != alignment) block = carve(block, needed, alignment);
  if (!block) block = carve_first(arena, needed, alignment);
  if (!block) return NULL;
  block->state |= USED;
  const size_t top = (size_t)((uint8_t*)block + block->size - arena->memory);
  if (top > arena->peak) arena->peak = top;
  return block + 1;
}

static void arena_free(void* self, void* pointer) {
  (void)self;
  ((header_t*)pointer - 1)->state &= ~(size_t)USED;
}

rlt_allocator_t rlt_arena_allocator(rlt_arena_t* arena) {
  return (rlt_allocator_t){.self = arena, .allocate = arena_allocate, .free = arena_free};
}
