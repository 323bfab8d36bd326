// Sessions over mapped files.
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rillet/session.h"

typedef struct mapping_t {
  rlt_allocator_t allocator;
  void* data;
  size_t length;
} mapping_t;

static void unmap(void* owner) {
  mapping_t* mapping = (mapping_t*)owner;
  munmap(mapping->data, mapping->length);
  rlt_allocator_free(mapping->allocator, mapping);
}

static rlt_status_t file_error(const char* path, const char* what, rlt_status_t status, rlt_error_t* error) {
  return rlt_error_set(error, status, "'%.*s': %s", 192, path, what);
}

static rlt_status_t map_file(const char* path, int file, rlt_allocator_t allocator, rlt_error_t* error,
                             mapping_t** out_mapping) {
  struct stat facts;
  if (fstat(file, &facts) != 0) return file_error(path, strerror(errno), RLT_NOT_FOUND, error);
  if (!S_ISREG(facts.st_mode)) return file_error(path, "not a file", RLT_INVALID_ARGUMENT, error);
  if (facts.st_size == 0) return file_error(path, "the file is empty", RLT_DATA_LOSS, error);
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(allocator, sizeof(mapping_t), error, &block));
  mapping_t* mapping = (mapping_t*)block;
  mapping->allocator = allocator;
  mapping->length = (size_t)facts.st_size;
  mapping->data = mmap(NULL, mapping->length, PROT_READ, MAP_PRIVATE, file, 0);
  if (mapping->data == MAP_FAILED) {
    rlt_allocator_free(allocator, mapping);
    return file_error(path, strerror(errno), RLT_OUT_OF_MEMORY, error);
  }
  *out_mapping = mapping;
  return RLT_OK;
}

rlt_status_t rlt_session_open(const char* path, const rlt_session_options_t* options, rlt_allocator_t allocator,
                              rlt_error_t* error, rlt_session_t** out_session) {
  *out_session = NULL;
  if (!path) return rlt_error_set(error, RLT_INVALID_ARGUMENT, "'path' is NULL");
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return file_error(path, strerror(errno), RLT_NOT_FOUND, error);
  mapping_t* mapping = NULL;
  const rlt_status_t status = map_file(path, file, allocator, error, &mapping);
  close(file);
  RLT_RETURN_IF_ERROR(status);
  const rlt_status_t created =
      rlt_session_create(mapping->data, mapping->length, mapping, unmap, options, allocator, error, out_session);
  if (created != RLT_OK) rlt_error_prefix(error, "'%.*s': ", 192, path);
  return created;
}
