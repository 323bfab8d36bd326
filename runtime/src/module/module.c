#include "rillet/module.h"

#include "base/checked_math.h"
#include "base/crc32.h"
#include "base/strings.h"
#include "module/flatbuffer.h"
#include "rillet/base/types.h"

// The schema, runtime/schema/rillet.fbs: fields in the order of their ids, and the ids by name.

#ifdef RLT_NO_ERROR_MESSAGES  // names are for messages
#define NAME(name) NULL
#else
#define NAME(name) name
#endif
#define SCALAR(name, size) {NAME(name), FB_SCALAR, size, NULL}
#define STRING(name) {NAME(name), FB_STRING, 0, NULL}
#define STRINGS(name) {NAME(name), FB_STRING_VECTOR, 0, NULL}
#define SCALARS(name, size) {NAME(name), FB_SCALAR_VECTOR, size, NULL}
#define TABLES(name, type) {NAME(name), FB_TABLE_VECTOR, 0, &type}
#define TABLE(name, type) {NAME(name), FB_TABLE, 0, &type}
#define TABLE_TYPE(name, fields) {NAME(name), fields, sizeof(fields) / sizeof(fields[0])}

enum { TENSOR_NAME, TENSOR_DTYPE, TENSOR_DIMS, TENSOR_DIM_NAMES, TENSOR_DEFAULT };
static const fb_field_t k_tensor_fields[] = {STRING("name"), SCALAR("dtype", 1), SCALARS("dims", 8),
                                             STRINGS("dim_names"), SCALAR("default_value", 4)};
static const fb_table_t k_tensor = TABLE_TYPE("TensorSpec", k_tensor_fields);

enum {
  FUNCTION_NAME,
  FUNCTION_ARGUMENTS,
  FUNCTION_RESULTS,
  FUNCTION_INTS,
  FUNCTION_REFS,
  FUNCTION_OFFSET,
  FUNCTION_LENGTH
};
static const fb_field_t k_function_fields[] = {
    STRING("name"), STRING("arguments"), STRING("results"), SCALAR("int_registers", 2), SCALAR("ref_registers", 2),
    SCALAR("code_offset", 4), SCALAR("code_length", 4)};
static const fb_table_t k_function = TABLE_TYPE("Function", k_function_fields);

enum { IMPORT_NAME, IMPORT_ARGUMENTS, IMPORT_RESULTS };
static const fb_field_t k_import_fields[] = {STRING("name"), STRING("arguments"), STRING("results")};
static const fb_table_t k_import = TABLE_TYPE("Import", k_import_fields);

enum { EXPORT_NAME, EXPORT_FUNCTION, EXPORT_INPUTS, EXPORT_OUTPUTS };
static const fb_field_t k_export_fields[] = {STRING("name"), SCALAR("function", 4), TABLES("inputs", k_tensor),
                                             TABLES("outputs", k_tensor)};
static const fb_table_t k_export = TABLE_TYPE("Export", k_export_fields);

enum { SEGMENT_OFFSET, SEGMENT_LENGTH, SEGMENT_CRC32 };
static const fb_field_t k_segment_fields[] = {SCALAR("offset", 8), SCALAR("length", 8), SCALAR("crc32", 4)};
static const fb_table_t k_segment = TABLE_TYPE("Segment", k_segment_fields);

enum {
  LIBRARY_TARGET,
  LIBRARY_FORMAT,
  LIBRARY_ARCH,
  LIBRARY_FEATURES,
  LIBRARY_SEGMENT,
  LIBRARY_ENTRIES
};
static const fb_field_t k_library_fields[] = {
    STRING("target"),    SCALAR("format", 1),
    STRING("arch"),      STRINGS("features"),
    TABLE("segment", k_segment), STRINGS("entries")};
static const fb_table_t k_library = TABLE_TYPE("Library", k_library_fields);

enum { DEVICE_NAME, DEVICE_DRIVER, DEVICE_LIBRARIES, DEVICE_FIRST_FACT };
static const fb_field_t k_device_fields[] = {STRING("name"), STRING("driver"), SCALARS("libraries", 4),
                                             SCALAR("first_fact", 4)};
static const fb_table_t k_device = TABLE_TYPE("Device", k_device_fields);

enum { STAT_KEY, STAT_VALUE };
static const fb_field_t k_stat_fields[] = {STRING("key"), SCALAR("value", 8)};
static const fb_table_t k_stat = TABLE_TYPE("Stat", k_stat_fields);

enum { FACTS_MACS, FACTS_BYTES, FACTS_SOURCES };
static const fb_field_t k_facts_fields[] = {SCALAR("macs", 8), SCALAR("bytes", 8), STRING("sources")};
static const fb_table_t k_facts = TABLE_TYPE("EntryFacts", k_facts_fields);

enum {
  MODULE_PRODUCER,
  MODULE_IMPORTS,
  MODULE_FUNCTIONS,
  MODULE_EXPORTS,
  MODULE_CODE,
  MODULE_INT_GLOBALS,
  MODULE_REF_GLOBALS,
  MODULE_CONSTANTS,
  MODULE_LIBRARIES,
  MODULE_STATS,
  MODULE_ENTRY_FACTS,
  MODULE_MESSAGES,
  MODULE_DEVICES
};
static const fb_field_t k_module_fields[] = {
    STRING("producer"),        TABLES("imports", k_import),      TABLES("functions", k_function),
    TABLES("exports", k_export), SCALARS("code", 2),             SCALAR("int_globals", 4),
    SCALAR("ref_globals", 4),  TABLES("constants", k_segment),   TABLES("libraries", k_library),
    TABLES("stats", k_stat),   TABLES("entry_facts", k_facts),   STRINGS("messages"),
    TABLES("devices", k_device)};
static const fb_table_t k_module = TABLE_TYPE("Module", k_module_fields);

static const char k_magic[4] = {'R', 'L', 'M', '1'};
enum { HEADER_SIZE = 16, IDENTIFIER_OFFSET = 4 };

static rlt_module_vector_t get_vector(const uint8_t* table, uint32_t field) {
  rlt_module_vector_t vector;
  vector.elements = rlt_fb_vector(table, field, &vector.count);
  return vector;
}

static const uint8_t* get_table(rlt_module_vector_t vector, uint32_t index) {
  return rlt_fb_follow(vector.elements + (size_t)index * 4);
}

rlt_vm_import_t rlt_module_import(const rlt_module_view_t* module, uint32_t index) {
  const uint8_t* table = get_table(module->imports, index);
  return (rlt_vm_import_t){
      .name = rlt_fb_string(table, IMPORT_NAME),
      .arguments = rlt_fb_string(table, IMPORT_ARGUMENTS),
      .results = rlt_fb_string(table, IMPORT_RESULTS),
  };
}

rlt_vm_function_t rlt_module_function(const rlt_module_view_t* module, uint32_t index) {
  const uint8_t* table = get_table(module->functions, index);
  return (rlt_vm_function_t){
      .name = rlt_fb_string(table, FUNCTION_NAME),
      .arguments = rlt_fb_string(table, FUNCTION_ARGUMENTS),
      .results = rlt_fb_string(table, FUNCTION_RESULTS),
      .code_offset = (uint32_t)rlt_fb_scalar(table, FUNCTION_OFFSET, 4),
      .code_length = (uint32_t)rlt_fb_scalar(table, FUNCTION_LENGTH, 4),
      .int_registers = (uint16_t)rlt_fb_scalar(table, FUNCTION_INTS, 2),
      .ref_registers = (uint16_t)rlt_fb_scalar(table, FUNCTION_REFS, 2),
  };
}

rlt_module_export_t rlt_module_export(const rlt_module_view_t* module, uint32_t index) {
  const uint8_t* table = get_table(module->exports, index);
  return (rlt_module_export_t){
      .name = rlt_fb_string(table, EXPORT_NAME),
      .function = (uint32_t)rlt_fb_scalar(table, EXPORT_FUNCTION, 4),
      .inputs = get_vector(table, EXPORT_INPUTS),
      .outputs = get_vector(table, EXPORT_OUTPUTS),
  };
}

static rlt_module_bytes_t get_segment(const rlt_module_view_t* module, const uint8_t* table) {
  uint64_t length = rlt_fb_scalar(table, SEGMENT_LENGTH, 8);
  // An empty segment has no bytes that could lie anywhere, so its offset is not looked at.
  uint64_t offset = length ? rlt_fb_scalar(table, SEGMENT_OFFSET, 8) : 0;
  return (rlt_module_bytes_t){.data = module->data + offset, .length = length};
}

rlt_module_bytes_t rlt_module_constant(const rlt_module_view_t* module, uint32_t index) {
  return get_segment(module, get_table(module->constants, index));
}

rlt_module_library_t rlt_module_library(const rlt_module_view_t* module, uint32_t index) {
  const uint8_t* table = get_table(module->libraries, index);
  rlt_module_library_t library = {
      .target = rlt_fb_string(table, LIBRARY_TARGET),
      .arch = rlt_fb_string(table, LIBRARY_ARCH),
      .features = get_vector(table, LIBRARY_FEATURES),
      .entries = get_vector(table, LIBRARY_ENTRIES),
      .image = {module->data, 0},
      .format = (uint8_t)rlt_fb_scalar(table, LIBRARY_FORMAT, 1),
  };
  const uint8_t* segment = rlt_fb_table(table, LIBRARY_SEGMENT);
  if (!segment) return library;
  library.image = get_segment(module, segment);
  library.crc32 = (uint32_t)rlt_fb_scalar(segment, SEGMENT_CRC32, 4);
  return library;
}

rlt_module_device_t rlt_module_device(const rlt_module_view_t* module, uint32_t index) {
  const uint8_t* table = get_table(module->devices, index);
  return (rlt_module_device_t){
      .name = rlt_fb_string(table, DEVICE_NAME),
      .driver = rlt_fb_string(table, DEVICE_DRIVER),
      .libraries = get_vector(table, DEVICE_LIBRARIES),
      .first_fact = (uint32_t)rlt_fb_scalar(table, DEVICE_FIRST_FACT, 4),
  };
}

rlt_module_stat_t rlt_module_stat(const rlt_module_view_t* module, uint32_t index) {
  const uint8_t* table = get_table(module->stats, index);
  return (rlt_module_stat_t){
      .key = rlt_fb_string(table, STAT_KEY),
      .value = (int64_t)rlt_fb_scalar(table, STAT_VALUE, 8),
  };
}

rlt_module_entry_facts_t rlt_module_entry_facts(const rlt_module_view_t* module, uint32_t index) {
  const uint8_t* table = get_table(module->entry_facts, index);
  return (rlt_module_entry_facts_t){
      .macs = (int64_t)rlt_fb_scalar(table, FACTS_MACS, 8),
      .bytes = (int64_t)rlt_fb_scalar(table, FACTS_BYTES, 8),
      .sources = rlt_fb_string(table, FACTS_SOURCES),
  };
}

rlt_module_tensor_t rlt_module_tensor(rlt_module_vector_t tensors, uint32_t index) {
  const uint8_t* table = get_table(tensors, index);
  return (rlt_module_tensor_t){
      .name = rlt_fb_string(table, TENSOR_NAME),
      .dims = get_vector(table, TENSOR_DIMS),
      .dim_names = get_vector(table, TENSOR_DIM_NAMES),
      .default_value = (uint32_t)rlt_fb_scalar(table, TENSOR_DEFAULT, 4),
      .dtype = (uint8_t)rlt_fb_scalar(table, TENSOR_DTYPE, 1),
  };
}

int64_t rlt_module_dim(rlt_module_vector_t dims, uint32_t index) {
  int64_t value;
  memcpy(&value, dims.elements + (size_t)index * sizeof(value), sizeof(value));
  return value;
}

uint32_t rlt_module_uint(rlt_module_vector_t numbers, uint32_t index) {
  uint32_t value;
  memcpy(&value, numbers.elements + (size_t)index * sizeof(value), sizeof(value));
  return value;
}

static rlt_status_t corrupt(rlt_error_t* error, const char* what, const char* name) {
  return rlt_error_set(error, RLT_DATA_LOSS, "the file is corrupt: %s (%s)", what, name);
}

// A segment that is not empty lies behind the metadata, inside the file, and aligned.
static rlt_status_t check_segment(const rlt_module_view_t* module, const uint8_t* table, uint64_t metadata_end,
                                  uint64_t alignment, const char* what, uint32_t index, rlt_error_t* error) {
  uint64_t offset = rlt_fb_scalar(table, SEGMENT_OFFSET, 8);
  uint64_t length = rlt_fb_scalar(table, SEGMENT_LENGTH, 8);
  if (length == 0) return RLT_OK;
  if (!rlt_range_fits(offset, length, module->length)) {
    return rlt_error_set(error, RLT_DATA_LOSS,
                         "the file is truncated: %s %u is %llu bytes at offset %llu, but the file has %zu", what, index,
                         (unsigned long long)length, (unsigned long long)offset, module->length);
  }
  if (offset < metadata_end || offset % alignment != 0) {
    return rlt_error_set(error, RLT_DATA_LOSS, "the file is corrupt: %s %u is at offset %llu, which is not possible",
                         what, index, (unsigned long long)offset);
  }
  return RLT_OK;
}

static rlt_status_t check_tensors(const rlt_module_view_t* module, rlt_module_vector_t tensors, rlt_error_t* error) {
  for (uint32_t i = 0; i < tensors.count; ++i) {
    rlt_module_tensor_t tensor = rlt_module_tensor(tensors, i);
    if (rlt_element_type_size(tensor.dtype) == 0) return corrupt(error, "unknown element type", tensor.name);
    if (tensor.dims.count > RLT_MODULE_MAX_RANK) return corrupt(error, "too many dimensions", tensor.name);
    if (tensor.dim_names.count != 0 && tensor.dim_names.count != tensor.dims.count) {
      return corrupt(error, "not one name for each dimension", tensor.name);
    }
    for (uint32_t axis = 0; axis < tensor.dims.count; ++axis) {
      const int64_t dim = rlt_module_dim(tensor.dims, axis);
      if (dim < -1) return corrupt(error, "a dimension below -1", tensor.name);
      if (dim == -1 && tensor.default_value) return corrupt(error, "a default of unknown shape", tensor.name);
    }
    if (tensor.default_value > module->constants.count) return corrupt(error, "no such default", tensor.name);
  }
  return RLT_OK;
}

static rlt_status_t check_functions(const rlt_module_view_t* module, rlt_error_t* error) {
  for (uint32_t i = 0; i < module->functions.count; ++i) {
    rlt_vm_function_t function = rlt_module_function(module, i);
    if (!rlt_range_fits(function.code_offset, function.code_length, module->code.count)) {
      return corrupt(error, "a function's code is outside the module's code", function.name);
    }
  }
  for (uint32_t i = 0; i < module->exports.count; ++i) {
    rlt_module_export_t export = rlt_module_export(module, i);
    if (export.function >= module->functions.count) return corrupt(error, "no such function", export.name);
    RLT_RETURN_IF_ERROR(check_tensors(module, export.inputs, error));
    RLT_RETURN_IF_ERROR(check_tensors(module, export.outputs, error));
  }
  return RLT_OK;
}

#ifndef RLT_FREESTANDING
// A device's libraries are the same kernels for different processors: their entries are the same, in the same order.
static bool same_entries(const uint8_t* one, const uint8_t* other) {
  const rlt_module_vector_t a = get_vector(one, LIBRARY_ENTRIES), b = get_vector(other, LIBRARY_ENTRIES);
  bool same = a.count == b.count;
  for (uint32_t i = 0; same && i < a.count; ++i) {
    same = rlt_string_equal(rlt_module_string(a, i), rlt_module_string(b, i));
  }
  return same;
}
#endif

static rlt_status_t check_devices(const rlt_module_view_t* module, rlt_error_t* error) {
  if (module->devices.count == 0) return corrupt(error, "no device", module->producer);
  for (uint32_t i = 0; i < module->devices.count; ++i) {
    const uint8_t* device = get_table(module->devices, i);
    const rlt_module_vector_t libraries = get_vector(device, DEVICE_LIBRARIES);
    for (uint32_t k = 0; k < libraries.count; ++k) {
      const uint32_t ordinal = rlt_module_uint(libraries, k);
      if (ordinal >= module->libraries.count) {
        return corrupt(error, "a device without its library", rlt_fb_string(device, DEVICE_NAME));
      }
#ifndef RLT_FREESTANDING  // where memory is short the count is compared, when a library is loaded
      const uint8_t* library = get_table(module->libraries, ordinal);
      if (!same_entries(get_table(module->libraries, rlt_module_uint(libraries, 0)), library)) {
        return corrupt(error, "libraries with different entries", rlt_fb_string(library, LIBRARY_TARGET));
      }
#endif
    }
  }
  return RLT_OK;
}

static rlt_status_t check_segments(const rlt_module_view_t* module, uint64_t metadata_end, rlt_error_t* error) {
  for (uint32_t i = 0; i < module->constants.count; ++i) {
    RLT_RETURN_IF_ERROR(check_segment(module, get_table(module->constants, i), metadata_end,
                                      RLT_MODULE_DATA_ALIGNMENT, "constant", i, error));
  }
  for (uint32_t i = 0; i < module->libraries.count; ++i) {
    // The segment first: the accessor below already forms a pointer to its bytes.
    const uint8_t* segment = rlt_fb_table(get_table(module->libraries, i), LIBRARY_SEGMENT);
    if (segment) {
      RLT_RETURN_IF_ERROR(
          check_segment(module, segment, metadata_end, RLT_MODULE_DATA_ALIGNMENT, "library", i, error));
    }
    rlt_module_library_t library = rlt_module_library(module, i);
    if (library.format > RLT_LIBRARY_STATIC) {
      return rlt_error_set(error, RLT_INCOMPATIBLE,
                           "library %u (%s) has format %u, which this runtime does not know", i,
                           library.target, library.format);
    }
    if (library.image.length == 0 && library.format != RLT_LIBRARY_STATIC) {
      return corrupt(error, "a library without its image", library.target);
    }
  }
  return RLT_OK;
}

static rlt_status_t check_header(const uint8_t* data, size_t length, rlt_error_t* error, size_t* metadata_size) {
  size_t compared = length < sizeof(k_magic) ? length : sizeof(k_magic);
  if (length == 0) return rlt_error_set(error, RLT_DATA_LOSS, "not a Rillet module: the file is empty");
  if (memcmp(data, k_magic, compared) != 0) {
    return rlt_error_set(error, RLT_DATA_LOSS, "not a Rillet module: the file does not begin with \"RLM1\"");
  }
  if (length < HEADER_SIZE) {
    return rlt_error_set(error, RLT_DATA_LOSS, "the file is truncated: %zu bytes, not even its header", length);
  }
  uint32_t version, size, checksum;
  memcpy(&version, data + 4, sizeof(version));
  memcpy(&size, data + 8, sizeof(size));
  memcpy(&checksum, data + 12, sizeof(checksum));
  if (version != RLT_MODULE_VERSION) {
    return rlt_error_set(error, RLT_INCOMPATIBLE,
                         "the file has format version %u, this runtime reads %d: compile the model again", version,
                         (int)RLT_MODULE_VERSION);
  }
  if (size > length - HEADER_SIZE) {
    return rlt_error_set(error, RLT_DATA_LOSS,
                         "the file is truncated: its metadata is %u bytes, but only %zu are there", size,
                         length - HEADER_SIZE);
  }
  *metadata_size = size;
  if (rlt_crc32(0, data + HEADER_SIZE, size) != checksum) {
    return rlt_error_set(error, RLT_DATA_LOSS, "the file is corrupt: the checksum of its metadata does not match");
  }
  if (size < 8 || memcmp(data + HEADER_SIZE + IDENTIFIER_OFFSET, k_magic, sizeof(k_magic)) != 0) {
    return rlt_error_set(error, RLT_DATA_LOSS, "the file is corrupt: its metadata has no identifier");
  }
  return RLT_OK;
}

rlt_status_t rlt_module_open(const void* data, size_t length, rlt_error_t* error, rlt_module_view_t* out) {
  if ((uintptr_t)data % RLT_MODULE_DATA_ALIGNMENT != 0) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "the module's bytes must start at a multiple of %d",
                         (int)RLT_MODULE_DATA_ALIGNMENT);
  }
  const uint8_t* bytes = data;
  size_t metadata_size = 0;
  RLT_RETURN_IF_ERROR(check_header(bytes, length, error, &metadata_size));
  const uint8_t* root = NULL;
  RLT_RETURN_IF_ERROR(rlt_fb_check(bytes + HEADER_SIZE, metadata_size, &k_module, error, &root));
  rlt_module_view_t view = {
      .data = bytes,
      .length = length,
      .producer = rlt_fb_string(root, MODULE_PRODUCER),
      .imports = get_vector(root, MODULE_IMPORTS),
      .functions = get_vector(root, MODULE_FUNCTIONS),
      .exports = get_vector(root, MODULE_EXPORTS),
      .code = get_vector(root, MODULE_CODE),
      .constants = get_vector(root, MODULE_CONSTANTS),
      .libraries = get_vector(root, MODULE_LIBRARIES),
      .stats = get_vector(root, MODULE_STATS),
      .entry_facts = get_vector(root, MODULE_ENTRY_FACTS),
      .messages = get_vector(root, MODULE_MESSAGES),
      .devices = get_vector(root, MODULE_DEVICES),
      .int_globals = (uint32_t)rlt_fb_scalar(root, MODULE_INT_GLOBALS, 4),
      .ref_globals = (uint32_t)rlt_fb_scalar(root, MODULE_REF_GLOBALS, 4),
  };
  RLT_RETURN_IF_ERROR(check_functions(&view, error));
  RLT_RETURN_IF_ERROR(check_segments(&view, HEADER_SIZE + (uint64_t)metadata_size, error));
  RLT_RETURN_IF_ERROR(check_devices(&view, error));
  *out = view;
  return RLT_OK;
}

rlt_status_t rlt_module_check_constants(const rlt_module_view_t* module, rlt_error_t* error) {
  for (uint32_t i = 0; i < module->constants.count; ++i) {
    const uint8_t* table = get_table(module->constants, i);
    const rlt_module_bytes_t bytes = get_segment(module, table);
    if (rlt_crc32(0, bytes.data, (size_t)bytes.length) == (uint32_t)rlt_fb_scalar(table, SEGMENT_CRC32, 4)) continue;
    return rlt_error_set(error, RLT_DATA_LOSS, "the file is corrupt: the checksum of constant %u does not match", i);
  }
  return RLT_OK;
}

rlt_status_t rlt_module_check_library(const rlt_module_view_t* module, uint32_t index, rlt_error_t* error) {
  rlt_module_library_t library = rlt_module_library(module, index);
  if (library.image.length == 0) return RLT_OK;
  if (rlt_crc32(0, library.image.data, (size_t)library.image.length) == library.crc32) return RLT_OK;
  return rlt_error_set(error, RLT_DATA_LOSS, "the file is corrupt: the checksum of library %u (%s) does not match",
                       index, library.target);
}
