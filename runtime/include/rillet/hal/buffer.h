// Buffers: memory a device works on; and buffer views: a buffer read as a tensor.
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_HAL_BUFFER_H_
#define RILLET_HAL_BUFFER_H_

#include "rillet/base/allocator.h"
#include "rillet/base/object.h"
#include "rillet/base/types.h"

RLT_BEGIN_DECLS

// Where a buffer lives (bits).
enum { RLT_MEMORY_HOST_VISIBLE = 1, RLT_MEMORY_DEVICE_LOCAL = 2 };

// What a buffer may be used for (bits).
enum { RLT_USAGE_DISPATCH = 1, RLT_USAGE_TRANSFER = 2, RLT_USAGE_MAPPING = 4, RLT_USAGE_ALL = 7 };

// What commands may do with a buffer (bits).
enum { RLT_ACCESS_READ = 1, RLT_ACCESS_WRITE = 2, RLT_ACCESS_ALL = 3 };

// The base address of every buffer that a device allocates is a multiple of this.
enum { RLT_BUFFER_ALIGNMENT = 64 };

typedef struct rlt_buffer_params_t {
  uint32_t memory_type;  // RLT_MEMORY_*
  uint32_t usage;        // RLT_USAGE_*
  uint32_t access;       // RLT_ACCESS_*
} rlt_buffer_params_t;

// Params of memory that the host and the commands may read and write.
static inline rlt_buffer_params_t rlt_buffer_params_default(void) {
  rlt_buffer_params_t params = {RLT_MEMORY_HOST_VISIBLE, RLT_USAGE_ALL, RLT_ACCESS_ALL};
  return params;
}

typedef struct rlt_buffer_t rlt_buffer_t;
typedef struct rlt_device_t rlt_device_t;

// A reference-counted range of memory. The fields are for reading only. A driver whose memory the host cannot see sets
// `device`, and only it knows what `data` means; the bytes from `offset` are at `data + offset` there too. Freestanding
// builds have no such drivers.
struct rlt_buffer_t {
  rlt_object_t base;
  rlt_buffer_params_t params;
  uint8_t* data;    // address; the host's unless there is a `device`
  uint64_t length;  // bytes
  // Called in place of freeing when the last reference goes: gives back the memory and the buffer object itself.
  void (*release)(rlt_buffer_t* buffer);
  rlt_allocator_t allocator;  // of the buffer object
  void* owner;                // what keeps the memory alive; its meaning belongs to `release`
  void (*owner_release)(void* owner, void* data);
#ifndef RLT_FREESTANDING
  rlt_device_t* device;  // which alone can see the memory; NULL: the host can
#endif
};

extern const rlt_object_type_t rlt_buffer_type;

// Makes a new buffer of `length` bytes of host memory, aligned to RLT_BUFFER_ALIGNMENT, contents undefined; a length of
// 0 has an address too. The caller owns the reference. Fails with RLT_OUT_OF_MEMORY.
rlt_status_t rlt_buffer_allocate_host(rlt_buffer_params_t params, uint64_t length, rlt_allocator_t allocator,
                                      rlt_error_t* error, rlt_buffer_t** out_buffer);

// Makes a buffer over memory that the caller keeps: `owner_release(owner, data)` (may be NULL) is called once when the
// last reference goes. Not called when this fails.
rlt_status_t rlt_buffer_wrap(rlt_buffer_params_t params, void* data, uint64_t length, void* owner,
                             void (*owner_release)(void* owner, void* data), rlt_allocator_t allocator,
                             rlt_error_t* error, rlt_buffer_t** out_buffer);

// Makes a buffer over `length` bytes from `offset` of another, which it retains. RLT_OUT_OF_RANGE when they do not fit.
rlt_status_t rlt_buffer_subspan(rlt_buffer_t* buffer, uint64_t offset, uint64_t length, rlt_allocator_t allocator,
                                rlt_error_t* error, rlt_buffer_t** out_buffer);

// The host addresses of `length` bytes from `offset`, for the uses in `access`. Fails when the range does not fit
// (RLT_OUT_OF_RANGE), the buffer does not allow the access, or the host cannot see it (RLT_FAILED_PRECONDITION).
rlt_status_t rlt_buffer_map(const rlt_buffer_t* buffer, uint64_t offset, uint64_t length, uint32_t access,
                            rlt_error_t* error, void** out_data);

enum { RLT_VIEW_MAX_RANK = 32 };

// A buffer read as a dense row-major tensor. The fields are for reading only.
typedef struct rlt_buffer_view_t {
  rlt_object_t base;
  rlt_allocator_t allocator;
  rlt_buffer_t* buffer;      // retained
  uint32_t element_type;     // rlt_element_type_t
  uint32_t rank;
  uint64_t length;           // bytes of the tensor, at most buffer->length
  int64_t dims[];
} rlt_buffer_view_t;

extern const rlt_object_type_t rlt_buffer_view_type;

// Makes a view and retains `buffer`. RLT_INVALID_ARGUMENT for an unknown element type, a negative dimension or a rank
// above RLT_VIEW_MAX_RANK; RLT_OUT_OF_RANGE when the tensor is larger than the buffer.
rlt_status_t rlt_buffer_view_create(rlt_buffer_t* buffer, int64_t element_type, uint32_t rank, const int64_t* dims,
                                    rlt_allocator_t allocator, rlt_error_t* error, rlt_buffer_view_t** out_view);

#ifdef RLT_HAVE_ATOMICS
// The device that alone can see the memory; NULL: the host can.
static inline rlt_device_t* rlt_buffer_device(const rlt_buffer_t* buffer) {
#ifdef RLT_FREESTANDING
  (void)buffer;
  return NULL;
#else
  return buffer->device;
#endif
}
static inline void rlt_buffer_retain(rlt_buffer_t* buffer) {
  if (buffer) rlt_object_retain(&buffer->base);
}
static inline void rlt_buffer_release(rlt_buffer_t* buffer) {
  if (buffer) rlt_object_release(&buffer->base);
}
static inline void rlt_buffer_view_retain(rlt_buffer_view_t* view) {
  if (view) rlt_object_retain(&view->base);
}
static inline void rlt_buffer_view_release(rlt_buffer_view_t* view) {
  if (view) rlt_object_release(&view->base);
}
#endif

RLT_END_DECLS

#endif  // RILLET_HAL_BUFFER_H_
