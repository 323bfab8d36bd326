#include "harness.h"
#include "rillet/hal/library.h"

static rlt_error_t error;

static uint8_t* read_kernels(size_t* size) {
  FILE* file = fopen(KERNELS, "rb");
  CHECK(file != NULL);
  uint8_t* data = malloc(1 << 20);
  *size = fread(data, 1, 1 << 20, file);
  fclose(file);
  return data;
}

// Calls the entry "negate" of a loaded library.
static void check_callable(const rlt_library_t* library) {
  CHECK_INT(library->table->entry_count, 4);
  CHECK_INT(library->local_memory_size, 4096);
  const rlt_kernel_entry_t* entry = &library->table->entries[3];
  CHECK(strcmp(entry->name, "negate") == 0);
  int8_t values[3] = {1, -2, 3};
  void* bindings[1] = {values};
  const int64_t constants[1] = {3};
  const rlt_dispatch_state_t state = {.bindings = bindings, .constants = constants, .binding_count = 1};
  CHECK_INT(entry->dispatch(&state, (uint32_t[3]){0, 0, 0}), 0);
  CHECK(values[0] == -1 && values[1] == 2 && values[2] == -3);
}

static void test_embedded_elf(void) {
  size_t size = 0;
  uint8_t* data = read_kernels(&size);
  rlt_library_t* library = NULL;
  CHECK_OK(rlt_embedded_elf_load(data, size, rlt_allocator_system(), &error, &library));
  free(data);
  check_callable(library);
  rlt_library_release(library);
}

static void test_system_library(void) {
  size_t size = 0;
  uint8_t* data = read_kernels(&size);
  rlt_library_t *first = NULL, *second = NULL;
  CHECK_OK(rlt_system_library_load(data, size, rlt_allocator_system(), &error, &first));
  CHECK_OK(rlt_system_library_load(data, size, rlt_allocator_system(), &error, &second));
  check_callable(first);
  check_callable(second);
  CHECK(first->table != second->table);
  rlt_library_release(first);
  rlt_library_release(second);
  CHECK_FAILS(rlt_system_library_load(data, 100, rlt_allocator_system(), &error, &first), RLT_INCOMPATIBLE,
              "cannot load");
  free(data);
}

static const rlt_kernel_table_t* query_none(uint32_t abi_version) {
  (void)abi_version;
  return NULL;
}

static const rlt_kernel_table_t* query_empty(uint32_t abi_version) {
  static const rlt_kernel_table_t table = {RLT_KERNEL_ABI_VERSION, 0, NULL};
  (void)abi_version;
  return &table;
}

static void test_static_libraries(void) {
  static const rlt_static_library_t table[] = {{"none", query_none}, {"empty", query_empty}};
  const rlt_static_libraries_t libraries = {table, 2};
  rlt_library_t* library = NULL;
  CHECK_OK(rlt_static_library_load(libraries, "empty", rlt_allocator_system(), &error, &library));
  rlt_library_release(library);
  CHECK_FAILS(rlt_static_library_load(libraries, "other", rlt_allocator_system(), &error, &library), RLT_NOT_FOUND,
              "no kernel library named 'other'");
  CHECK_FAILS(rlt_static_library_load(libraries, "none", rlt_allocator_system(), &error, &library),
              RLT_INCOMPATIBLE, "another version of the runtime");
}

int main(void) {
  RUN_TEST(test_embedded_elf);
  RUN_TEST(test_system_library);
  RUN_TEST(test_static_libraries);
  return 0;
}
