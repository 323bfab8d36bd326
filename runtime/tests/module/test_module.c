// The reader on a good file, and on each way in which a file can be bad. The good one is written by
// make_test_modules.py.
#include "module/file.h"
#include "vm/program.h"

static file_t g_sample;

static uint32_t load32(size_t at) {
  uint32_t value;
  memcpy(&value, g_sample.data + at, sizeof(value));
  return value;
}

enum { HEADER_SIZE = 16 };

static rlt_module_view_t open_good(file_t file) {
  rlt_error_t error;
  rlt_module_view_t view;
  CHECK_OK(rlt_module_open(file.data, file.length, &error, &view));
  return view;
}

static void test_everything_is_read(void) {
  rlt_module_view_t view = open_good(g_sample);
  CHECK(strcmp(view.producer, "test writer") == 0);
  CHECK_INT(view.imports.count, 3);
  CHECK(strcmp(rlt_module_import(&view, 2).name, "test.sum") == 0);
  CHECK(strcmp(rlt_module_import(&view, 2).arguments, "ri*") == 0);
  CHECK(strcmp(rlt_module_import(&view, 2).results, "ir") == 0);
  CHECK_INT(view.functions.count, 2);
  rlt_vm_function_t function = rlt_module_function(&view, 1);
  CHECK(strcmp(function.name, "main") == 0 && strcmp(function.arguments, "ir") == 0);
  CHECK_INT(function.int_registers, 2);
  CHECK_INT(function.code_offset + function.code_length, view.code.count);
  CHECK(strcmp(rlt_module_function(&view, 0).arguments, "") == 0);
  CHECK_INT(view.int_globals, 0);
  CHECK_INT(view.ref_globals, 1);

  CHECK_INT(view.exports.count, 1);
  rlt_module_export_t export = rlt_module_export(&view, 0);
  CHECK(strcmp(export.name, "main") == 0);
  CHECK_INT(export.function, 1);
  CHECK_INT(export.inputs.count, 2);
  rlt_module_tensor_t x = rlt_module_tensor(export.inputs, 0);
  CHECK(strcmp(x.name, "x") == 0);
  CHECK_INT(x.dtype, RLT_TYPE_F32);
  CHECK_INT(x.dims.count, 2);
  CHECK_INT(rlt_module_dim(x.dims, 0), -1);
  CHECK_INT(rlt_module_dim(x.dims, 1), 3);
  CHECK(strcmp(rlt_module_string(x.dim_names, 0), "N") == 0 && strcmp(rlt_module_string(x.dim_names, 1), "") == 0);
  CHECK_INT(rlt_module_tensor(export.inputs, 1).dims.count, 0);
  CHECK_INT(rlt_module_dim(rlt_module_tensor(export.outputs, 0).dims, 2), 4);

  CHECK_INT(view.constants.count, 3);
  CHECK_INT(rlt_module_constant(&view, 0).length, 5120);
  CHECK_INT(rlt_module_constant(&view, 0).data[257], 1);
  CHECK_INT((rlt_module_constant(&view, 0).data - g_sample.data) % 4096, 0);
  CHECK_INT(rlt_module_constant(&view, 1).length, 0);
  float fourth;
  memcpy(&fourth, rlt_module_constant(&view, 2).data + 12, sizeof(fourth));
  CHECK(fourth == 4.0f);

  CHECK_INT(view.libraries.count, 2);
  rlt_module_library_t library = rlt_module_library(&view, 0);
  CHECK(strcmp(library.target, "x86-64-v3") == 0 && strcmp(library.arch, "x86_64") == 0);
  CHECK_INT(library.features.count, 2);
  CHECK(strcmp(rlt_module_string(library.features, 1), "fma") == 0);
  CHECK(strcmp(rlt_module_string(library.entries, 1), "softmax") == 0);
  CHECK(memcmp(library.image.data, "\x7f" "ELF first", 10) == 0);
  CHECK_INT(library.format, RLT_LIBRARY_EMBEDDED_ELF);
  CHECK_INT(rlt_module_library(&view, 1).features.count, 0);
  CHECK_INT(view.devices.count, 2);
  const rlt_module_device_t device = rlt_module_device(&view, 1);
  CHECK(strcmp(device.name, "other") == 0 && strcmp(device.driver, "cpu-task") == 0);
  CHECK_INT(device.libraries.count, 1);
  CHECK_INT(rlt_module_uint(device.libraries, 0), 1);
  CHECK_INT(device.first_fact, 2);

  CHECK(strcmp(rlt_module_stat(&view, 0).key, "arena_bytes") == 0);
  CHECK_INT(rlt_module_stat(&view, 0).value, 4096);
  CHECK_INT(rlt_module_stat(&view, 1).value, -1);
}

static void test_runs(void) {
  rlt_module_view_t view = open_good(g_sample);
  rlt_vm_native_module_t native = {NULL, k_test_functions, 4};
  rlt_error_t error;
  rlt_vm_module_t* module;
  CHECK_OK(rlt_module_create_vm(&view, &native, 1, NULL, rlt_allocator_system(), &error, &module));
  uint32_t function;
  CHECK_OK(rlt_vm_module_lookup(module, "main", &error, &function));
  int64_t argument = 30, result;
  rlt_object_t *box = box_create(200), *result_box;
  rlt_vm_call_t call = {&argument, &box, &result, &result_box, 1, 1, 1, 1, NULL};
  CHECK_OK(rlt_vm_invoke(module, function, &call, &error));
  CHECK_INT(result, 235);
  CHECK_INT(box_value(result_box), 235);
  rlt_object_release(box);
  rlt_object_release(result_box);
  rlt_vm_module_destroy(module);
  CHECK_INT(g_live_boxes, 0);
  CHECK_FAILS(rlt_module_create_vm(&view, NULL, 0, NULL, rlt_allocator_system(), &error, &module), RLT_NOT_FOUND,
              "test.box");
}

// A copy of the sample with `size` bytes at `offset` replaced, which must be rejected.
static void check_patched(size_t offset, uint64_t value, size_t size, rlt_status_t status, const char* text) {
  file_t file = file_create(g_sample.data, g_sample.length);
  CHECK(offset + size <= file.length);
  memcpy(file.data + offset, &value, size);
  if (offset != 12) file_seal(file);  // what was patched is judged
  rlt_error_t error;
  rlt_module_view_t view;
  CHECK_FAILS(rlt_module_open(file.data, file.length, &error, &view), status, text);
  free(file.data);
}

static void check_bytes(const void* data, size_t length, rlt_status_t status, const char* text) {
  file_t file = file_create(data, length);
  rlt_error_t error;
  rlt_module_view_t view;
  CHECK_FAILS(rlt_module_open(file.data, file.length, &error, &view), status, text);
  free(file.data);
}

static void test_header(void) {
  rlt_module_view_t none;
  CHECK_INT(rlt_module_open(NULL, 0, NULL, &none), RLT_DATA_LOSS);
  check_bytes("", 0, RLT_DATA_LOSS, "not a Rillet module: the file is empty");
  check_bytes("\x08ONNX model, not ours", 20, RLT_DATA_LOSS, "not a Rillet module");
  check_bytes("X", 1, RLT_DATA_LOSS, "not a Rillet module");
  check_bytes("RLM1", 4, RLT_DATA_LOSS, "the file is truncated: 4 bytes");
  check_bytes("RL", 2, RLT_DATA_LOSS, "the file is truncated");
  check_patched(4, 1, 4, RLT_INCOMPATIBLE, "the file has format version 1, this runtime reads 2");
  check_patched(8, UINT32_MAX, 4, RLT_DATA_LOSS, "the file is truncated: its metadata is 4294967295 bytes");
  check_patched(8, 0, 4, RLT_DATA_LOSS, "identifier");
  check_patched(12, 0, 4, RLT_DATA_LOSS, "the checksum of its metadata does not match");
  check_patched(12, 1, 4, RLT_DATA_LOSS, "the checksum of its metadata does not match");
  check_patched(20, 0, 4, RLT_DATA_LOSS, "identifier");
  rlt_error_t error;
  rlt_module_view_t view;
  CHECK_FAILS(rlt_module_open(g_sample.data + 8, g_sample.length - 8, &error, &view), RLT_INVALID_ARGUMENT,
              "multiple of 64");
}

// With its checksum, a file that has any single bit of its metadata flipped is rejected.
static void test_metadata_checksum(void) {
  file_t file = file_read(SAMPLE_PATH);
  open_good(file);
  for (size_t bit = HEADER_SIZE * 8; bit < (HEADER_SIZE + (size_t)load32(8)) * 8; ++bit) {
    file.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    rlt_error_t error;
    rlt_module_view_t view;
    CHECK_FAILS(rlt_module_open(file.data, file.length, &error, &view), RLT_DATA_LOSS, "the file is corrupt");
    file.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  free(file.data);
}

// Every proper prefix is rejected, and as truncated from the header on.
static void test_truncation(void) {
  for (size_t length = 4; length < g_sample.length; length += length < 6000 ? 1 : 97) {
    check_bytes(g_sample.data, length, RLT_DATA_LOSS, "the file is truncated");
  }
}

static size_t position(const void* pointer) { return (size_t)((const uint8_t*)pointer - g_sample.data); }

// Where entry `index` of a vector of tables or strings is.
static size_t element(rlt_module_vector_t vector, uint32_t index) {
  size_t at = position(vector.elements) + index * 4;
  return at + load32(at);
}

// Where the vtable of a table is: before it, or behind when tables share it.
static size_t vtable_of(size_t table) { return (size_t)((int64_t)table - (int32_t)load32(table)); }

// Where field `id` of a table is.
static size_t field(size_t table, uint32_t id) {
  uint16_t offset;
  memcpy(&offset, g_sample.data + vtable_of(table) + 4 + id * 2, sizeof(offset));
  CHECK(offset != 0);
  return table + offset;
}

static void test_flatbuffer_structure(void) {
  rlt_module_view_t view = open_good(g_sample);
  size_t root = 16 + load32(16), vtable = vtable_of(root);
  check_patched(16, 0x7FFFFFF0, 4, RLT_DATA_LOSS, "Module.root: bad offset at byte 0");
  check_patched(16, 0, 4, RLT_DATA_LOSS, "bad offset");
  check_patched(16, load32(16) + 1, 4, RLT_DATA_LOSS, "bad offset");
  check_patched(root, 0x7FFFFFFF, 4, RLT_DATA_LOSS, "bad vtable offset");
  check_patched(root, 0x80000000, 4, RLT_DATA_LOSS, "bad vtable offset");
  check_patched(root, load32(root) + 1, 4, RLT_DATA_LOSS, "bad vtable offset");
  check_patched(vtable, 2, 2, RLT_DATA_LOSS, "bad vtable size");
  check_patched(vtable, 7, 2, RLT_DATA_LOSS, "bad vtable size");
  check_patched(vtable, 0xFFFE, 2, RLT_DATA_LOSS, "bad vtable size");
  check_patched(vtable + 2, 0xFFFF, 2, RLT_DATA_LOSS, "table past the end");
  check_patched(vtable + 2, 3, 2, RLT_DATA_LOSS, "table past the end");
  check_patched(vtable + 4, 0x4000, 2, RLT_DATA_LOSS, "Module.producer: bad field offset");
  check_patched(vtable + 4, 2, 2, RLT_DATA_LOSS, "Module.producer: bad field offset");
  check_patched(vtable + 6, 5, 2, RLT_DATA_LOSS, "Module.imports: bad field offset");

  size_t code_count = position(view.code.elements) - 4;
  check_patched(code_count, 0xFFFFFFFF, 4, RLT_DATA_LOSS, "Module.code: vector past the end");
  size_t imports_count = position(view.imports.elements) - 4;
  check_patched(imports_count, 0x40000000, 4, RLT_DATA_LOSS, "Module.imports: vector past the end");
  size_t name = position(rlt_module_import(&view, 0).name);
  check_patched(name + 8, 'x', 1, RLT_DATA_LOSS, "Import.name: unterminated string");
  check_patched(name + 2, 0, 1, RLT_DATA_LOSS, "Import.name: zero byte in a string");
  check_patched(name - 4, 0xFFFFFFFF, 4, RLT_DATA_LOSS, "Import.name: vector past the end");
  size_t dims = position(rlt_module_tensor(rlt_module_export(&view, 0).inputs, 0).dims.elements);
  size_t dims_field = field(element(rlt_module_export(&view, 0).inputs, 0), 2);
  CHECK_INT(dims_field + load32(dims_field), dims - 4);
  check_patched(dims_field, load32(dims_field) + 4, 4, RLT_DATA_LOSS, "TensorSpec.dims: misaligned vector");
}

static void test_contents(void) {
  rlt_module_view_t view = open_good(g_sample);
  rlt_module_export_t export = rlt_module_export(&view, 0);
  rlt_module_tensor_t x = rlt_module_tensor(export.inputs, 0);
  check_patched(field(element(view.exports, 0), 1), 2, 4, RLT_DATA_LOSS, "no such function (main)");
  check_patched(field(element(view.functions, 1), 6), 99, 4, RLT_DATA_LOSS, "outside the module's code (main)");
  check_patched(field(element(view.functions, 1), 5), 0xFFFFFFFF, 4, RLT_DATA_LOSS, "outside the module's code (main)");
  check_patched(field(element(export.inputs, 0), 1), 8, 1, RLT_DATA_LOSS, "unknown element type (x)");
  check_patched(position(x.dims.elements), (uint64_t)-2, 8, RLT_DATA_LOSS, "a dimension below -1 (x)");
  check_patched(position(x.dims.elements) - 4, 1, 4, RLT_DATA_LOSS, "not one name for each dimension (x)");
  // 65 dimensions fit when the padding behind the metadata counts as part of it.
  file_t file = file_create(g_sample.data, g_sample.length);
  file.data[9] += 4;
  file.data[position(rlt_module_tensor(export.outputs, 0).dims.elements) - 4] = 65;
  file_seal(file);
  check_bytes(file.data, file.length, RLT_DATA_LOSS, "too many dimensions (y)");
  free(file.data);
  check_patched(position(rlt_module_library(&view, 1).entries.elements) - 4, 1, 4, RLT_DATA_LOSS,
                "libraries with different entries (x86-64-v2)");
  check_patched(element(rlt_module_library(&view, 1).entries, 1) + 4, 'S', 1, RLT_DATA_LOSS, "different entries");
  check_patched(position(rlt_module_device(&view, 1).libraries.elements), 2, 4, RLT_DATA_LOSS,
                "a device without its library (other)");
  check_patched(position(view.devices.elements) - 4, 0, 4, RLT_DATA_LOSS, "no device");
}

static void test_segments(void) {
  rlt_module_view_t view = open_good(g_sample);
  size_t constant = element(view.constants, 0);
  check_patched(field(constant, 1), UINT64_MAX, 8, RLT_DATA_LOSS,
                "the file is truncated: constant 0 is 18446744073709551615 bytes at offset");
  check_patched(field(constant, 0), UINT64_MAX - 4095, 8, RLT_DATA_LOSS, "the file is truncated: constant 0");
  check_patched(field(constant, 0), 4096 + 8, 8, RLT_DATA_LOSS, "constant 0 is at offset 4104");
  check_patched(field(constant, 0), 0, 8, RLT_DATA_LOSS, "constant 0 is at offset 0");
  size_t library = element(view.libraries, 1);
  size_t segment_field = field(library, 4), segment = segment_field + load32(segment_field);
  check_patched(field(segment, 0), 4096 + 8, 8, RLT_DATA_LOSS, "library 1 is at offset 4104");
  check_patched(field(segment, 1), g_sample.length, 8, RLT_DATA_LOSS, "the file is truncated: library 1");
  // Leaving the segment out, by its entry in the vtable, which both libraries share.
  check_patched(vtable_of(library) + 4 + 4 * 2, 0, 2, RLT_DATA_LOSS, "without its image (x86-64-v3)");
}

static void test_formats(void) {
  rlt_module_view_t view = open_good(g_sample);
  check_patched(field(element(view.libraries, 1), 1), 3, 1, RLT_INCOMPATIBLE,
                "library 1 (x86-64-v2) has format 3");
}

static void test_checksum(void) {
  file_t file = file_create(g_sample.data, g_sample.length);
  rlt_module_view_t view = open_good(file);
  rlt_error_t error;
  CHECK_OK(rlt_module_check_library(&view, 0, &error));
  CHECK_OK(rlt_module_check_library(&view, 1, &error));
  file.data[rlt_module_library(&view, 1).image.data - file.data + 7] ^= 4;
  CHECK_OK(rlt_module_check_library(&view, 0, &error));
  CHECK_FAILS(rlt_module_check_library(&view, 1, &error), RLT_DATA_LOSS, "checksum of library 1 (x86-64-v2)");
  CHECK_OK(rlt_module_check_constants(&view, &error));
  file.data[rlt_module_constant(&view, 2).data - file.data + 3] ^= 1;
  CHECK_FAILS(rlt_module_check_constants(&view, &error), RLT_DATA_LOSS, "the checksum of constant 2 does not match");
  free(file.data);
}

static void store16(uint8_t* at, uint16_t value) { memcpy(at, &value, sizeof(value)); }
static void store32(uint8_t* at, uint32_t value) { memcpy(at, &value, sizeof(value)); }

// Writes a vector of `count` offsets at `at`, all to `target`; returns what follows it.
static size_t store_offsets(uint8_t* bytes, size_t at, uint32_t count, size_t target) {
  store32(bytes + at, count);
  for (uint32_t i = 0; i < count; ++i) store32(bytes + at + 4 + i * 4, (uint32_t)(target - (at + 4 + i * 4)));
  return at + 4 + count * 4;
}

// A small file whose `COUNT` exports are all the same one, whose COUNT inputs are all the same tensor: checking it must
// not take COUNT squared steps.
static void test_sharing_is_bounded(void) {
  enum { COUNT = 60000, ROOT = 20, EXPORT_VTABLE = 28, TENSOR_VTABLE = 40, EXPORTS = 44 };
  enum { EXPORT = EXPORTS + 4 + COUNT * 4, INPUTS = EXPORT + 8, TENSOR = INPUTS + 4 + COUNT * 4, SIZE = TENSOR + 4 };
  uint8_t* file = calloc(1, 16 + SIZE);
  CHECK(file);
  memcpy(file, "RLM1", 4);
  store32(file + 4, RLT_MODULE_VERSION);
  store32(file + 8, SIZE);
  uint8_t* bytes = file + 16;
  store32(bytes, ROOT);
  memcpy(bytes + 4, "RLM1", 4);
  static const uint16_t root_vtable[] = {12, 8, 0, 0, 0, 4}, export_vtable[] = {10, 8, 0, 0, 4};
  memcpy(bytes + 8, root_vtable, sizeof(root_vtable));
  store32(bytes + ROOT, ROOT - 8);
  store32(bytes + ROOT + 4, EXPORTS - (ROOT + 4));
  memcpy(bytes + EXPORT_VTABLE, export_vtable, sizeof(export_vtable));
  store16(bytes + TENSOR_VTABLE, 4);
  store16(bytes + TENSOR_VTABLE + 2, 4);
  CHECK_INT(store_offsets(bytes, EXPORTS, COUNT, EXPORT), EXPORT);
  store32(bytes + EXPORT, EXPORT - EXPORT_VTABLE);
  store32(bytes + EXPORT + 4, INPUTS - (EXPORT + 4));
  CHECK_INT(store_offsets(bytes, INPUTS, COUNT, TENSOR), TENSOR);
  store32(bytes + TENSOR, TENSOR - TENSOR_VTABLE);
  file_seal((file_t){file, 16 + SIZE});
  check_bytes(file, 16 + SIZE, RLT_DATA_LOSS, "too much shared data");
  free(file);
}

// Each single bit of the metadata, flipped: no crash, and what is accepted can be read.
static void test_bit_flips(void) {
  file_t file = file_create(g_sample.data, g_sample.length);
  size_t metadata_end = 16 + load32(8);
  unsigned accepted = 0;
  for (size_t bit = 0; bit < metadata_end * 8; ++bit) {
    file.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    file_seal(file);
    rlt_error_t error;
    rlt_module_view_t view;
    if (rlt_module_open(file.data, file.length, &error, &view) == RLT_OK) {
      view_visit(&view);
      ++accepted;
    }
    file.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  CHECK(accepted < metadata_end * 8);
  free(file.data);
}

int main(void) {
  g_sample = file_read(SAMPLE_PATH);
  RUN_TEST(test_everything_is_read);
  RUN_TEST(test_runs);
  RUN_TEST(test_header);
  RUN_TEST(test_metadata_checksum);
  RUN_TEST(test_truncation);
  RUN_TEST(test_flatbuffer_structure);
  RUN_TEST(test_contents);
  RUN_TEST(test_segments);
  RUN_TEST(test_formats);
  RUN_TEST(test_checksum);
  RUN_TEST(test_sharing_is_bounded);
  RUN_TEST(test_bit_flips);
  free(g_sample.data);
  return 0;
}
