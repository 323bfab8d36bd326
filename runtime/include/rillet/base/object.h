// Reference-counted objects: what the VM's reference registers hold.
//
// A type embeds rlt_object_t as its first member and has one static rlt_object_type_t. A new object starts with one
// reference, owned by its creator. Retain and release are safe from any thread.
//
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_BASE_OBJECT_H_
#define RILLET_BASE_OBJECT_H_

#include "rillet/base/atomics.h"
#include "rillet/base/config.h"

RLT_BEGIN_DECLS

typedef struct rlt_object_t rlt_object_t;

// Describes a type; its address is the type's identity.
typedef struct rlt_object_type_t {
  const char* name;                       // for messages, e.g. "hal.buffer"
  void (*destroy)(rlt_object_t* object);  // releases what the object owns and frees its memory
} rlt_object_type_t;

struct rlt_object_t {
  const rlt_object_type_t* type;
  rlt_atomic_uint32_t ref_count;
};

#ifdef RLT_HAVE_ATOMICS

// Makes `object` an instance of `type` with one reference.
static inline void rlt_object_initialize(rlt_object_t* object, const rlt_object_type_t* type) {
  object->type = type;
  rlt_atomic_initialize(&object->ref_count, 1);
}

// Adds a reference; NULL is ignored.
static inline void rlt_object_retain(rlt_object_t* object) {
  if (object) rlt_atomic_increment(&object->ref_count);
}

// Drops a reference and destroys the object when it was the last; NULL is ignored.
static inline void rlt_object_release(rlt_object_t* object) {
  if (object && rlt_atomic_decrement(&object->ref_count) == 0) object->type->destroy(object);
}

// True when `object` is not NULL and is of exactly this type.
static inline bool rlt_object_is(const rlt_object_t* object, const rlt_object_type_t* type) {
  return object && object->type == type;
}

#endif  // RLT_HAVE_ATOMICS

RLT_END_DECLS

#endif  // RILLET_BASE_OBJECT_H_
