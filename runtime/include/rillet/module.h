// Reading a module file (.rlm): a range of memory, mapped or read, checked completely before anything in it is used.
//
// Nothing is copied or allocated: every string, array and segment that an accessor returns points into the range, which
// must stay in place and unchanged for as long as the view is used. Accessors cannot fail, since rlt_module_open
// checked every offset, but an index must be below its count.
//
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_MODULE_H_
#define RILLET_MODULE_H_

#include "rillet/base/allocator.h"
#include "rillet/base/status.h"
#include "rillet/vm.h"

RLT_BEGIN_DECLS

enum {
  RLT_MODULE_VERSION = 2,
  RLT_MODULE_DATA_ALIGNMENT = 64,  // of the range itself, and of segments in the file
  RLT_MODULE_MAX_RANK = 64,        // dimensions of an input or output
};

// How a library is stored.
enum { RLT_LIBRARY_EMBEDDED_ELF = 0, RLT_LIBRARY_SYSTEM = 1, RLT_LIBRARY_STATIC = 2 };

// An array of strings, or of another kind of element, inside the file.
typedef struct rlt_module_vector_t {
  const uint8_t* elements;  // NULL when count is 0
  uint32_t count;
} rlt_module_vector_t;

// A string of a vector of them. Each element is the distance to where it is stored, behind its length.
static inline const char* rlt_module_string(rlt_module_vector_t strings, uint32_t index) {
  const uint8_t* at = strings.elements + (size_t)index * 4;
  const uint32_t distance = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
  return (const char*)at + distance + 4;
}

// A checked module file. Treat the members as private.
typedef struct rlt_module_view_t {
  const uint8_t* data;
  size_t length;
  const char* producer;
  rlt_module_vector_t imports, functions, exports, code, constants, libraries, stats, entry_facts;
  rlt_module_vector_t messages;  // rlt_module_string: what checks of the program say when they fail
  rlt_module_vector_t devices;   // at least one
  uint32_t int_globals, ref_globals;
} rlt_module_view_t;

typedef struct rlt_module_bytes_t {
  const uint8_t* data;
  uint64_t length;
} rlt_module_bytes_t;

typedef struct rlt_module_tensor_t {
  const char* name;
  rlt_module_vector_t dims;       // rlt_module_dim
  rlt_module_vector_t dim_names;  // rlt_module_string; empty, or one for each dimension, "" when it has none
  uint32_t default_value;         // of an input that calls may leave out: 1 + the index of a constant; else 0
  uint8_t dtype;                  // rlt_element_type_t
} rlt_module_tensor_t;

typedef struct rlt_module_export_t {
  const char* name;
  uint32_t function;
  rlt_module_vector_t inputs, outputs;  // rlt_module_tensor
} rlt_module_export_t;

typedef struct rlt_module_library_t rlt_module_library_t;
struct rlt_module_library_t {
  const char* target;            // e.g. "x86-64-v3"
  const char* arch;              // e.g. "x86_64"
  rlt_module_vector_t features;  // rlt_module_string: CPU features that must be present
  rlt_module_vector_t entries;   // rlt_module_string: entry names in ordinal order
  rlt_module_bytes_t image;      // empty when format is RLT_LIBRARY_STATIC
  uint32_t crc32;                // of the image
  uint8_t format;                // RLT_LIBRARY_*
};

// A device that the program asks for; its ordinal is its index.
typedef struct rlt_module_device_t {
  const char* name;               // what the program calls it
  const char* driver;             // "cpu": any CPU
  rlt_module_vector_t libraries;  // rlt_module_uint: variants of its kernels, best first
  uint32_t first_fact;            // the entry facts of its entry 0
} rlt_module_device_t;

typedef struct rlt_module_stat_t {
  const char* key;
  int64_t value;
} rlt_module_stat_t;

// What one dispatch of an entry does; those of a device's entries follow each other.
typedef struct rlt_module_entry_facts_t {
  int64_t macs, bytes;
  const char* sources;
} rlt_module_entry_facts_t;

// Checks `length` bytes at `data` (aligned to RLT_MODULE_DATA_ALIGNMENT, as a mapping is; NULL only where there are
// none) and fills *out.
// Fails with RLT_INVALID_ARGUMENT (alignment), RLT_DATA_LOSS (not a module, truncated, or corrupt: the message says
// what and where) or RLT_INCOMPATIBLE (another version of the format). The bytecode itself is verified by
// rlt_vm_module_create, the bytes of a library by rlt_module_check_library, those of constants by
// rlt_module_check_constants.
rlt_status_t rlt_module_open(const void* data, size_t length, rlt_error_t* error, rlt_module_view_t* out);

// Compares a library's image with its checksum; call before loading it. Fails with RLT_DATA_LOSS.
rlt_status_t rlt_module_check_library(const rlt_module_view_t* module, uint32_t index, rlt_error_t* error);

// Compares every constant with its checksum, which reads all of them. Fails with RLT_DATA_LOSS.
rlt_status_t rlt_module_check_constants(const rlt_module_view_t* module, rlt_error_t* error);

// Accessors; `index` must be below the count of the vector it indexes.
rlt_vm_import_t rlt_module_import(const rlt_module_view_t* module, uint32_t index);
rlt_vm_function_t rlt_module_function(const rlt_module_view_t* module, uint32_t index);
rlt_module_export_t rlt_module_export(const rlt_module_view_t* module, uint32_t index);
rlt_module_bytes_t rlt_module_constant(const rlt_module_view_t* module, uint32_t index);
rlt_module_library_t rlt_module_library(const rlt_module_view_t* module, uint32_t index);
rlt_module_device_t rlt_module_device(const rlt_module_view_t* module, uint32_t index);
rlt_module_stat_t rlt_module_stat(const rlt_module_view_t* module, uint32_t index);
rlt_module_entry_facts_t rlt_module_entry_facts(const rlt_module_view_t* module, uint32_t index);

// Elements of the vectors inside the structures above.
rlt_module_tensor_t rlt_module_tensor(rlt_module_vector_t tensors, uint32_t index);
int64_t rlt_module_dim(rlt_module_vector_t dims, uint32_t index);
uint32_t rlt_module_uint(rlt_module_vector_t numbers, uint32_t index);

// Creates the VM module of this file; everything else as in rlt_vm_module_create. The file must outlive it.
rlt_status_t rlt_module_create_vm(const rlt_module_view_t* module, const rlt_vm_native_module_t* natives,
                                  size_t native_count, const rlt_vm_module_options_t* options,
                                  rlt_allocator_t allocator, rlt_error_t* error, rlt_vm_module_t** out);

RLT_END_DECLS

#endif  // RILLET_MODULE_H_
