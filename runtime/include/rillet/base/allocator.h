// Where memory comes from: every object is created with an explicit allocator, which it copies and later frees with.
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_BASE_ALLOCATOR_H_
#define RILLET_BASE_ALLOCATOR_H_

#include "rillet/base/status.h"

RLT_BEGIN_DECLS

// A pair of functions and the state they share. Copied by value; `self` must outlive every block allocated from it.
typedef struct rlt_allocator_t {
  void* self;
  // `size` bytes (more than 0) at a multiple of `alignment` (a power of two, at least sizeof(void*)), contents
  // undefined;
  // NULL when there are none.
  void* (*allocate)(void* self, size_t size, size_t alignment);
  // Frees a block of allocate; never called with NULL.
  void (*free)(void* self, void* block);
} rlt_allocator_t;

// Allocates `size` zeroed bytes, aligned for any scalar type. A size of 0 gives a block of its own all the same.
// Fails with RLT_OUT_OF_MEMORY, and then *out is NULL. The caller owns the block and frees it with rlt_allocator_free.
rlt_status_t rlt_allocator_allocate(rlt_allocator_t allocator, size_t size, rlt_error_t* error, void** out);

// As above for an array of `count` elements of `element_size` bytes; a product that overflows is RLT_OUT_OF_MEMORY.
rlt_status_t rlt_allocator_allocate_array(rlt_allocator_t allocator, size_t count, size_t element_size,
                                          rlt_error_t* error, void** out);

// Allocates `size` bytes at a multiple of `alignment` (a power of two) and does NOT clear them.
rlt_status_t rlt_allocator_allocate_aligned(rlt_allocator_t allocator, size_t size, size_t alignment,
                                            rlt_error_t* error, void** out);

// Frees a block of one of the functions above; NULL is ignored.
void rlt_allocator_free(rlt_allocator_t allocator, void* block);

#ifndef RLT_FREESTANDING
// The C library's heap. Stateless and safe from any thread.
rlt_allocator_t rlt_allocator_system(void);
#endif

RLT_END_DECLS

#endif  // RILLET_BASE_ALLOCATOR_H_
