#if defined(__linux__) && !defined(RLT_FREESTANDING)
#define _DEFAULT_SOURCE  // madvise
#include <sys/mman.h>
#endif

#include "rillet/base/allocator.h"

#include "base/checked_math.h"
#include "base/strings.h"

#ifndef RLT_FREESTANDING
#include <stdlib.h>
#endif

rlt_status_t rlt_allocator_allocate_aligned(rlt_allocator_t allocator, size_t size, size_t alignment,
                                            rlt_error_t* error, void** out) {
  *out = NULL;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "%zu is not an alignment: it must be a power of two", alignment);
  }
  if (alignment < sizeof(void*)) alignment = sizeof(void*);
  void* block = allocator.allocate(allocator.self, size ? size : 1, alignment);
  if (!block) return rlt_error_set(error, RLT_OUT_OF_MEMORY, "out of memory: could not allocate %zu bytes", size);
  *out = block;
  return RLT_OK;
}

rlt_status_t rlt_allocator_allocate(rlt_allocator_t allocator, size_t size, rlt_error_t* error, void** out) {
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate_aligned(allocator, size, _Alignof(max_align_t), error, out));
  memset(*out, 0, size);
  return RLT_OK;
}

rlt_status_t rlt_allocator_allocate_array(rlt_allocator_t allocator, size_t count, size_t element_size,
                                          rlt_error_t* error, void** out) {
  size_t size;
  if (!rlt_checked_mul_size(count, element_size, &size)) {
    *out = NULL;
    return rlt_error_set(error, RLT_OUT_OF_MEMORY, "out of memory: %zu elements of %zu bytes exceed the address space",
                         count, element_size);
  }
  return rlt_allocator_allocate(allocator, size, error, out);
}

void rlt_allocator_free(rlt_allocator_t allocator, void* block) {
  if (block) allocator.free(allocator.self, block);
}

#ifndef RLT_FREESTANDING

// Asks for huge pages within a large block: fewer page faults when it is new, fewer misses in the processor's table of
// pages always. Only advice: what the system makes of it is no error.
static void advise_huge_pages(void* block, size_t size) {
#ifdef MADV_HUGEPAGE
  const uintptr_t huge_page = 1u << 21;  // also a multiple of every size of small pages
  if (size < 2 * huge_page) return;
  const uintptr_t begin = ((uintptr_t)block + huge_page - 1) / huge_page * huge_page;
  (void)madvise((void*)begin, ((uintptr_t)block + size - begin) / huge_page * huge_page, MADV_HUGEPAGE);
#else
  (void)block;
  (void)size;
#endif
}

static void* system_allocate(void* self, size_t size, size_t alignment) {
  (void)self;
  void* block = NULL;
  if (alignment <= _Alignof(max_align_t)) {
    block = malloc(size);
  } else {
    size_t padded;
    if (!rlt_checked_add_size(size, alignment - 1, &padded)) return NULL;
    block = aligned_alloc(alignment, padded & ~(alignment - 1));
  }
  if (block) advise_huge_pages(block, size);
  return block;
}

static void system_free(void* self, void* block) {
  (void)self;
  free(block);
}

rlt_allocator_t rlt_allocator_system(void) {
  return (rlt_allocator_t){.self = NULL, .allocate = system_allocate, .free = system_free};
}

#endif  // RLT_FREESTANDING
