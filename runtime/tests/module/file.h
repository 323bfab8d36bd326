// Reading a whole file into memory that begins aligned and ends exactly where the file does.
#ifndef RILLET_TESTS_MODULE_FILE_H_
#define RILLET_TESTS_MODULE_FILE_H_

#include "base/crc32.h"
#include "harness.h"

typedef struct file_t {
  uint8_t* data;
  size_t length;
} file_t;

static inline file_t file_create(const void* data, size_t length) {
  void* block;
  CHECK_INT(posix_memalign(&block, RLT_MODULE_DATA_ALIGNMENT, length ? length : 1), 0);
  if (length) memcpy(block, data, length);
  return (file_t){block, length};
}

static inline file_t file_read(const char* path) {
  FILE* stream = fopen(path, "rb");
  if (!stream) {
    fprintf(stderr, "cannot open %s\n", path);
    exit(1);
  }
  CHECK_INT(fseek(stream, 0, SEEK_END), 0);
  long length = ftell(stream);
  CHECK(length >= 0);
  rewind(stream);
  uint8_t* bytes = malloc((size_t)length + 1);
  CHECK(bytes && fread(bytes, 1, (size_t)length, stream) == (size_t)length);
  fclose(stream);
  file_t file = file_create(bytes, (size_t)length);
  free(bytes);
  return file;
}

// Makes the checksum of the metadata right, where there is metadata of the declared size.
static inline void file_seal(file_t file) {
  uint32_t size, checksum;
  if (file.length < 16) return;
  memcpy(&size, file.data + 8, sizeof(size));
  if (size > file.length - 16) return;
  checksum = rlt_crc32(0, file.data + 16, size);
  memcpy(file.data + 12, &checksum, sizeof(checksum));
}

// Reads everything that a view leads to, so that a sanitizer sees each access. Returns something that depends on it
// all.
static inline uint64_t view_visit(const rlt_module_view_t* view) {
  uint64_t sum = strlen(view->producer) + view->int_globals + view->ref_globals;
  for (uint32_t i = 0; i < view->imports.count; ++i) {
    rlt_vm_import_t import = rlt_module_import(view, i);
    sum += strlen(import.name) + strlen(import.arguments) + strlen(import.results);
  }
  for (uint32_t i = 0; i < view->functions.count; ++i) {
    rlt_vm_function_t function = rlt_module_function(view, i);
    sum += strlen(function.name) + strlen(function.arguments) + strlen(function.results) + function.code_length;
  }
  for (uint32_t i = 0; i < view->exports.count; ++i) {
    rlt_module_export_t export = rlt_module_export(view, i);
    sum += strlen(export.name);
    for (int part = 0; part < 2; ++part) {
      rlt_module_vector_t tensors = part ? export.outputs : export.inputs;
      for (uint32_t k = 0; k < tensors.count; ++k) {
        rlt_module_tensor_t tensor = rlt_module_tensor(tensors, k);
        sum += strlen(tensor.name) + rlt_element_type_size(tensor.dtype);
        for (uint32_t d = 0; d < tensor.dims.count; ++d) sum += (uint64_t)rlt_module_dim(tensor.dims, d);
        for (uint32_t d = 0; d < tensor.dim_names.count; ++d) sum += strlen(rlt_module_string(tensor.dim_names, d));
      }
    }
  }
  for (uint32_t i = 0; i < view->code.count * 2; ++i) sum += view->code.elements[i];
  for (uint32_t i = 0; i < view->constants.count; ++i) {
    rlt_module_bytes_t bytes = rlt_module_constant(view, i);
    for (uint64_t k = 0; k < bytes.length; ++k) sum += bytes.data[k];
  }
  for (uint32_t i = 0; i < view->devices.count; ++i) {
    const rlt_module_device_t device = rlt_module_device(view, i);
    sum += strlen(device.name) + strlen(device.driver) + device.first_fact;
    for (uint32_t k = 0; k < device.libraries.count; ++k) sum += rlt_module_uint(device.libraries, k);
  }
  for (uint32_t i = 0; i < view->libraries.count; ++i) {
    rlt_module_library_t library = rlt_module_library(view, i);
    sum += strlen(library.target) + strlen(library.arch) + library.format;
    for (uint32_t k = 0; k < library.features.count; ++k) sum += strlen(rlt_module_string(library.features, k));
    for (uint32_t k = 0; k < library.entries.count; ++k) sum += strlen(rlt_module_string(library.entries, k));
    for (uint64_t k = 0; k < library.image.length; ++k) sum += library.image.data[k];
  }
  for (uint32_t i = 0; i < view->stats.count; ++i) {
    rlt_module_stat_t stat = rlt_module_stat(view, i);
    sum += strlen(stat.key) + (uint64_t)stat.value;
  }
  return sum;
}

#endif  // RILLET_TESTS_MODULE_FILE_H_
