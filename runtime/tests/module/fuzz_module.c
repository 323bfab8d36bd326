// Mutates a module file many times over and reads, verifies and runs each mutant: whatever happens must be a status.
//
//   fuzz_module FILE [MUTATIONS [SEED]]
//
// Imports are stubs with the signatures that the intact file asks for. Most mutants get the checksum that they
// should have, since it would turn nearly all away. Build with RILLET_SANITIZE.
#include "module/file.h"
#include "vm/program.h"

enum { MAX_ARGUMENTS = 64, STEP_LIMIT = 2000 };

static uint64_t g_state;

static uint64_t next_random(void) {
  g_state ^= g_state << 13;
  g_state ^= g_state >> 7;
  g_state ^= g_state << 17;
  return g_state;
}

static size_t below(size_t limit) { return limit ? (size_t)(next_random() % limit) : 0; }

// A stub: fails once in a while, else gives boxes and small numbers.
static rlt_status_t native_stub(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  for (uint32_t i = 0; i < call->ref_argument_count; ++i) {
    if (call->ref_arguments[i]) (void)box_value(call->ref_arguments[i]);
  }
  if (below(64) == 0) return rlt_error_set(error, RLT_OUT_OF_RANGE, "a stub failed");
  for (uint32_t i = 0; i < call->int_result_count; ++i) call->int_results[i] = (int64_t)below(8);
  for (uint32_t i = 0; i < call->ref_result_count; ++i) {
    if (below(8)) call->ref_results[i] = box_create((int64_t)below(8));
  }
  return RLT_OK;
}

// Where mutants differ most usefully: the metadata, which is small beside the segments, half of the time.
static size_t random_position(const file_t* file, size_t metadata_end) {
  return below(next_random() % 2 && metadata_end <= file->length ? metadata_end : file->length);
}

static void overwrite(file_t* file, size_t at, const void* data, size_t size) {
  if (at >= file->length) return;
  memcpy(file->data + at, data, size < file->length - at ? size : file->length - at);
}

static void mutate(file_t* file, size_t metadata_end) {
  static const uint64_t interesting[] = {0, 1, 4, 0x7F, 0x80, 0xFFFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
                                         UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN};
  size_t at = random_position(file, metadata_end);
  if (file->length == 0) return;
  switch (below(6)) {
    case 0:  // one bit
      file->data[at] ^= (uint8_t)(1u << below(8));
      break;
    case 1:  // one byte
      file->data[at] = (uint8_t)next_random();
      break;
    case 2: {  // a number at the edge of something
      uint64_t value = interesting[below(sizeof(interesting) / sizeof(interesting[0]))];
      overwrite(file, at, &value, (size_t)1 << below(4));
      break;
    }
    case 3: {  // a small change of an offset or count
      size_t aligned = at & ~(size_t)3;
      uint32_t value = 0;
      if (aligned + 4 > file->length) break;
      memcpy(&value, file->data + aligned, 4);
      value += (uint32_t)below(65) - 32;
      memcpy(file->data + aligned, &value, 4);
      break;
    }
    case 4: {  // a piece of the file somewhere else in it
      size_t from = random_position(file, metadata_end), size = 1 + below(64);
      if (from + size > file->length || at + size > file->length) break;
      memmove(file->data + at, file->data + from, size);
      break;
    }
    default: {  // truncation, in a block that ends there
      if (below(4)) break;
      file_t shorter = file_create(file->data, at);
      free(file->data);
      *file = shorter;
    }
  }
}

static void invoke(rlt_vm_module_t* module, const rlt_module_view_t* view, uint32_t function) {
  rlt_vm_function_t description = rlt_module_function(view, function);
  int64_t ints[MAX_ARGUMENTS], int_results[MAX_ARGUMENTS];
  rlt_object_t *refs[MAX_ARGUMENTS], *ref_results[MAX_ARGUMENTS];
  rlt_vm_call_t call = {ints, refs, int_results, ref_results, 0, 0, 0, 0, NULL};
  if (strlen(description.arguments) > MAX_ARGUMENTS || strlen(description.results) > MAX_ARGUMENTS) return;
  for (const char* kind = description.arguments; *kind; ++kind) {
    if (*kind == 'i') ints[call.int_argument_count++] = (int64_t)below(8);
    else refs[call.ref_argument_count++] = box_create((int64_t)below(8));
  }
  for (const char* kind = description.results; *kind; ++kind) {
    if (*kind == 'i') ++call.int_result_count;
    else ++call.ref_result_count;
  }
  rlt_error_t error = {0};
  if (rlt_vm_invoke(module, function, &call, &error) != RLT_OK) CHECK(error.length > 0);
  for (uint32_t i = 0; i < call.ref_result_count; ++i) rlt_object_release(ref_results[i]);
  for (uint32_t i = 0; i < call.ref_argument_count; ++i) rlt_object_release(refs[i]);
}

typedef struct counts_t {
  unsigned long opened, verified;
} counts_t;

static void try_file(const file_t* file, const rlt_vm_native_module_t* natives, counts_t* counts) {
  rlt_error_t error = {0};
  rlt_module_view_t view;
  if (rlt_module_open(file->data, file->length, &error, &view) != RLT_OK) {
    CHECK(error.length > 0);
    return;
  }
  ++counts->opened;
  volatile uint64_t sum = view_visit(&view);
  (void)sum;
  for (uint32_t i = 0; i < view.libraries.count; ++i) (void)rlt_module_check_library(&view, i, &error);
  (void)rlt_module_check_constants(&view, &error);
  rlt_vm_module_options_t options = {.step_limit = STEP_LIMIT};
  rlt_vm_module_t* module;
  if (rlt_module_create_vm(&view, natives, 1, &options, rlt_allocator_system(), &error, &module) == RLT_OK) {
    ++counts->verified;
    for (uint32_t i = 0; i < view.exports.count && i < 4; ++i) {
      invoke(module, &view, rlt_module_export(&view, i).function);
    }
    rlt_vm_module_destroy(module);
  }
  CHECK_INT(g_live_boxes, 0);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s FILE [MUTATIONS [SEED]]\n", argv[0]);
    return 2;
  }
  unsigned long mutations = argc > 2 ? strtoul(argv[2], NULL, 10) : 10000;
  g_state = (argc > 3 ? strtoull(argv[3], NULL, 10) : 1) * 0x9E3779B97F4A7C15u | 1;

  file_t original = file_read(argv[1]);
  rlt_error_t error;
  rlt_module_view_t view;
  CHECK_OK(rlt_module_open(original.data, original.length, &error, &view));
  uint32_t metadata_size;
  memcpy(&metadata_size, original.data + 8, sizeof(metadata_size));
  size_t metadata_end = 16 + (size_t)metadata_size;

  rlt_vm_native_function_t* functions = calloc(view.imports.count + 1u, sizeof(*functions));
  CHECK(functions);
  for (uint32_t i = 0; i < view.imports.count; ++i) {
    rlt_vm_import_t import = rlt_module_import(&view, i);
    functions[i] = (rlt_vm_native_function_t){import.name, import.arguments, import.results, native_stub};
  }
  rlt_vm_native_module_t natives = {NULL, functions, view.imports.count};
  counts_t counts = {0, 0};
  for (unsigned long i = 0; i < mutations; ++i) {
    file_t mutant = file_create(original.data, original.length);
    for (size_t k = 1 + below(4); k > 0; --k) mutate(&mutant, metadata_end);
    if (below(16)) file_seal(mutant);
    try_file(&mutant, &natives, &counts);
    free(mutant.data);
  }
  printf("%lu mutants, %lu of them opened, %lu verified and run\n", mutations, counts.opened, counts.verified);
  free(functions);
  free(original.data);
  return 0;
}
