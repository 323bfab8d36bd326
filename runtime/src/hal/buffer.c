#include "rillet/hal/buffer.h"

#include "base/checked_math.h"

// What any heap gives without asking, and enough for the objects here.
enum { BLOCK_ALIGNMENT = sizeof(int64_t) > sizeof(void*) ? sizeof(int64_t) : sizeof(void*) };

static void buffer_destroy(rlt_object_t* object) {
  rlt_buffer_t* buffer = (rlt_buffer_t*)object;
  buffer->release(buffer);
}

const rlt_object_type_t rlt_buffer_type = {"hal.buffer", buffer_destroy};

// The object and its memory are one block.
static void release_host(rlt_buffer_t* buffer) { rlt_allocator_free(buffer->allocator, buffer); }

static void release_wrapped(rlt_buffer_t* buffer) {
  if (buffer->owner_release) buffer->owner_release(buffer->owner, buffer->data);
  rlt_allocator_free(buffer->allocator, buffer);
}

static void release_subspan(rlt_buffer_t* buffer) {
  rlt_buffer_release((rlt_buffer_t*)buffer->owner);
  rlt_allocator_free(buffer->allocator, buffer);
}

static void buffer_initialize(rlt_buffer_t* buffer, rlt_buffer_params_t params, void* data, uint64_t length,
                              rlt_allocator_t allocator, void (*release)(rlt_buffer_t*)) {
  rlt_object_initialize(&buffer->base, &rlt_buffer_type);
  buffer->params = params;
  buffer->data = (uint8_t*)data;
  buffer->length = length;
  buffer->release = release;
  buffer->allocator = allocator;
  buffer->owner = NULL;
  buffer->owner_release = NULL;
#ifndef RLT_FREESTANDING
  buffer->device = NULL;
#endif
}

rlt_status_t rlt_buffer_allocate_host(rlt_buffer_params_t params, uint64_t length, rlt_allocator_t allocator,
                                      rlt_error_t* error, rlt_buffer_t** out_buffer) {
  *out_buffer = NULL;
  const size_t overhead = sizeof(rlt_buffer_t) + RLT_BUFFER_ALIGNMENT - 1;
  if (length > SIZE_MAX - overhead) {
    return rlt_error_set(error, RLT_OUT_OF_MEMORY, "a buffer of %llu bytes exceeds the address space",
                         (unsigned long long)length);
  }
  // Aligning by hand within one block is several times cheaper than what heaps do for larger alignments.
  void* block = NULL;
  RLT_RETURN_IF_ERROR(
      rlt_allocator_allocate_aligned(allocator, overhead + (size_t)length, BLOCK_ALIGNMENT, error, &block));
  const uintptr_t end = (uintptr_t)block + overhead;
  uint8_t* data = (uint8_t*)block + (end - end % RLT_BUFFER_ALIGNMENT - (uintptr_t)block);
  rlt_buffer_t* buffer = (rlt_buffer_t*)block;
  params.memory_type |= RLT_MEMORY_HOST_VISIBLE;
  buffer_initialize(buffer, params, data, length, allocator, release_host);
  *out_buffer = buffer;
  return RLT_OK;
}

rlt_status_t rlt_buffer_wrap(rlt_buffer_params_t params, void* data, uint64_t length, void* owner,
                             void (*owner_release)(void* owner, void* data), rlt_allocator_t allocator,
                             rlt_error_t* error, rlt_buffer_t** out_buffer) {
  *out_buffer = NULL;
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(allocator, sizeof(rlt_buffer_t), error, &block));
  rlt_buffer_t* buffer = (rlt_buffer_t*)block;
  buffer_initialize(buffer, params, data, length, allocator, release_wrapped);
  buffer->owner = owner;
  buffer->owner_release = owner_release;
  *out_buffer = buffer;
  return RLT_OK;
}

rlt_status_t rlt_buffer_subspan(rlt_buffer_t* buffer, uint64_t offset, uint64_t length, rlt_allocator_t allocator,
                                rlt_error_t* error, rlt_buffer_t** out_buffer) {
  *out_buffer = NULL;
  if (!rlt_range_fits(offset, length, buffer->length)) {
    return rlt_error_set(error, RLT_OUT_OF_RANGE, "bytes %llu to %llu do not fit in a buffer of %llu bytes",
                         (unsigned long long)offset, (unsigned long long)(offset + length),
                         (unsigned long long)buffer->length);
  }
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(allocator, sizeof(rlt_buffer_t), error, &block));
  rlt_buffer_t* span = (rlt_buffer_t*)block;
  buffer_initialize(span, buffer->params, buffer->data + offset, length, allocator, release_subspan);
#ifndef RLT_FREESTANDING
  span->device = buffer->device;
#endif
  rlt_buffer_retain(buffer);
  span->owner = buffer;
  *out_buffer = span;
  return RLT_OK;
}

rlt_status_t rlt_buffer_map(const rlt_buffer_t* buffer, uint64_t offset, uint64_t length, uint32_t access,
                            rlt_error_t* error, void** out_data) {
  *out_data = NULL;
  if (rlt_buffer_device(buffer)) {
    return rlt_error_set(error, RLT_FAILED_PRECONDITION, "the host cannot see this buffer");
  }
  if ((buffer->params.access & access) != access) {
    return rlt_error_set(error, RLT_FAILED_PRECONDITION, "the buffer is %s",
                         buffer->params.access == RLT_ACCESS_READ ? "read-only" : "not accessible in this way");
  }
  if (!rlt_range_fits(offset, length, buffer->length)) {
    return rlt_error_set(error, RLT_OUT_OF_RANGE, "bytes %llu to %llu do not fit in a buffer of %llu bytes",
                         (unsigned long long)offset, (unsigned long long)(offset + length),
                         (unsigned long long)buffer->length);
  }
  *out_data = buffer->data + offset;
  return RLT_OK;
}

static void view_destroy(rlt_object_t* object) {
  rlt_buffer_view_t* view = (rlt_buffer_view_t*)object;
  rlt_buffer_release(view->buffer);
  rlt_allocator_free(view->allocator, view);
}

const rlt_object_type_t rlt_buffer_view_type = {"hal.view", view_destroy};

rlt_status_t rlt_buffer_view_create(rlt_buffer_t* buffer, int64_t element_type, uint32_t rank, const int64_t* dims,
                                    rlt_allocator_t allocator, rlt_error_t* error, rlt_buffer_view_t** out_view) {
  *out_view = NULL;
  const size_t element_size = rlt_element_type_size(element_type);
  if (element_size == 0) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "%lld is not an element type", (long long)element_type);
  }
  if (rank > RLT_VIEW_MAX_RANK) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "a rank of %u is above the limit of %d", rank,
                         RLT_VIEW_MAX_RANK);
  }
  int64_t length = (int64_t)element_size;
  for (uint32_t i = 0; i < rank; ++i) {
    if (dims[i] < 0 || !rlt_checked_mul_i64(length, dims[i], &length)) {
      return rlt_error_set(error, RLT_INVALID_ARGUMENT, "dimension %u is %lld, which no tensor can have", i,
                           (long long)dims[i]);
    }
  }
  if ((uint64_t)length > buffer->length) {
    return rlt_error_set(error, RLT_OUT_OF_RANGE, "a tensor of %lld bytes does not fit in a buffer of %llu bytes",
                         (long long)length, (unsigned long long)buffer->length);
  }
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate_aligned(allocator, sizeof(rlt_buffer_view_t) + rank * sizeof(int64_t),
                                                     BLOCK_ALIGNMENT, error, &block));
  rlt_buffer_view_t* view = (rlt_buffer_view_t*)block;
  rlt_object_initialize(&view->base, &rlt_buffer_view_type);
  view->allocator = allocator;
  rlt_buffer_retain(buffer);
  view->buffer = buffer;
  view->element_type = (uint32_t)element_type;
  view->rank = rank;
  view->length = (uint64_t)length;
  for (uint32_t i = 0; i < rank; ++i) view->dims[i] = dims[i];
  *out_view = view;
  return RLT_OK;
}
