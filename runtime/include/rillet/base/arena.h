// An allocator over one block of memory that the program provides, for systems without a heap.
//
//   static _Alignas(64) uint8_t memory[65536];
//   rlt_arena_t arena;
//   rlt_arena_initialize(&arena, memory, sizeof(memory));
//   rlt_session_create(..., rlt_arena_allocator(&arena), ...);
//   ... arena.peak: how much of it has been needed so far ...
//
// A block that was freed serves the next request of its size and alignment; other requests take memory that was never
// used. So a program whose requests repeat never needs more than, for each size and alignment, as many blocks as are in
// use at the same time. Only when no unused memory is left do free blocks side by side become one, and the first that
// fits is cut. The same calls in the same order always give the same addresses. Not safe from several threads.
//
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_BASE_ARENA_H_
#define RILLET_BASE_ARENA_H_

#include "rillet/base/allocator.h"

RLT_BEGIN_DECLS

// The fields are for reading only.
typedef struct rlt_arena_t {
  uint8_t* memory;
  size_t size;  // bytes
  size_t peak;  // bytes from the start of `memory` to the highest end any block has had
} rlt_arena_t;

// Takes over `size` bytes at `memory`, which must outlive every block allocated from them. Of NULL there are none.
void rlt_arena_initialize(rlt_arena_t* arena, void* memory, size_t size);

// `arena` must outlive every block allocated from it.
rlt_allocator_t rlt_arena_allocator(rlt_arena_t* arena);

RLT_END_DECLS

#endif  // RILLET_BASE_ARENA_H_
