// The few atomic operations the runtime needs, on C11 <stdatomic.h>; plain integers under RLT_SINGLE_THREADED.
#ifndef RILLET_BASE_ATOMICS_H_
#define RILLET_BASE_ATOMICS_H_

#include "rillet/base/config.h"

#if defined(__cplusplus) || defined(RLT_SINGLE_THREADED)
typedef uint32_t rlt_atomic_uint32_t;
typedef int64_t rlt_atomic_int64_t;
typedef void* rlt_atomic_pointer_t;
#else
#include <stdatomic.h>
typedef _Atomic(uint32_t) rlt_atomic_uint32_t;
#if ATOMIC_LLONG_LOCK_FREE == 2
typedef _Atomic(int64_t) rlt_atomic_int64_t;
#else
// 32-bit processors: a load may see half of a concurrent store, so there integer globals may not change while several
// threads run one module.
typedef int64_t rlt_atomic_int64_t;
#endif
typedef _Atomic(void*) rlt_atomic_pointer_t;
#endif

// C++ has them where they are plain integers; else it knows the layout only, and not the inline functions above them.
#if !defined(__cplusplus) || defined(RLT_SINGLE_THREADED)
#define RLT_HAVE_ATOMICS

#if defined(RLT_SINGLE_THREADED)

static inline void rlt_atomic_initialize(rlt_atomic_uint32_t* value, uint32_t initial) { *value = initial; }
static inline void rlt_atomic_increment(rlt_atomic_uint32_t* value) { ++*value; }
static inline uint32_t rlt_atomic_decrement(rlt_atomic_uint32_t* value) { return --*value; }
static inline int64_t rlt_atomic_load_int64(const rlt_atomic_int64_t* value) { return *value; }
static inline void rlt_atomic_store_int64(rlt_atomic_int64_t* value, int64_t desired) { *value = desired; }
static inline void* rlt_atomic_take_pointer(rlt_atomic_pointer_t* slot) {
  void* taken = *slot;
  *slot = NULL;
  return taken;
}
static inline bool rlt_atomic_put_pointer(rlt_atomic_pointer_t* slot, void* pointer) {
  if (*slot) return false;
  *slot = pointer;
  return true;
}

#else

// Sets the first value, before any other thread can see it.
static inline void rlt_atomic_initialize(rlt_atomic_uint32_t* value, uint32_t initial) { atomic_init(value, initial); }
// Adds one; relaxed, since whoever increments already holds a reference.
static inline void rlt_atomic_increment(rlt_atomic_uint32_t* value) {
  atomic_fetch_add_explicit(value, 1u, memory_order_relaxed);
}
// Subtracts one and returns the new value; acquire-release, so that the last one sees what the others wrote.
static inline uint32_t rlt_atomic_decrement(rlt_atomic_uint32_t* value) {
  return atomic_fetch_sub_explicit(value, 1u, memory_order_acq_rel) - 1u;
}
// Relaxed 64-bit load and store.
#if ATOMIC_LLONG_LOCK_FREE == 2
static inline int64_t rlt_atomic_load_int64(const rlt_atomic_int64_t* value) {
  return atomic_load_explicit((rlt_atomic_int64_t*)value, memory_order_relaxed);
}
static inline void rlt_atomic_store_int64(rlt_atomic_int64_t* value, int64_t desired) {
  atomic_store_explicit(value, desired, memory_order_relaxed);
}
#else
static inline int64_t rlt_atomic_load_int64(const rlt_atomic_int64_t* value) { return *value; }
static inline void rlt_atomic_store_int64(rlt_atomic_int64_t* value, int64_t desired) { *value = desired; }
#endif
// Takes what the slot holds and leaves NULL.
static inline void* rlt_atomic_take_pointer(rlt_atomic_pointer_t* slot) {
  if (!atomic_load_explicit(slot, memory_order_relaxed)) return NULL;
  return atomic_exchange_explicit(slot, NULL, memory_order_acquire);
}
// Puts a pointer into an empty slot; false when the slot is taken.
static inline bool rlt_atomic_put_pointer(rlt_atomic_pointer_t* slot, void* pointer) {
  void* expected = NULL;
  return atomic_compare_exchange_strong_explicit(slot, &expected, pointer, memory_order_release, memory_order_relaxed);
}

#endif  // RLT_SINGLE_THREADED

#endif  // RLT_HAVE_ATOMICS

#endif  // RILLET_BASE_ATOMICS_H_
