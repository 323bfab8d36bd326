#include "drivers/cpu/loaders/loaders.h"
#include "harness.h"
#include "rillet/cpu/features.h"
#include "rillet/hal/driver.h"

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
  CHECK_INT(library->entry_count, 4);
  const rlt_kernel_facts_t facts = library->vtable->facts(library, 2);
  CHECK(strcmp(facts.name, "grid") == 0);
  CHECK_INT(facts.binding_count, 1);
  CHECK_INT(facts.constant_count, 0);
  CHECK_INT(facts.local_memory_size, 4096);
  uint32_t grid[3];
  library->vtable->grid(library, 2, NULL, grid);
  CHECK(grid[0] == 3 && grid[1] == 5 && grid[2] == 7);
  const rlt_kernel_entry_t* entry = rlt_cpu_kernel(library, 3);
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
  rlt_module_library_t source = {.image = {data, size}};
  rlt_library_t* library = NULL;
  CHECK_OK(rlt_elf_load(&source, rlt_allocator_system(), &error, &library));
  free(data);
  check_callable(library);
  rlt_library_release(library);
}

static void test_system_library(void) {
  size_t size = 0;
  uint8_t* data = read_kernels(&size);
  rlt_module_library_t source = {.image = {data, size}};
  rlt_library_t *first = NULL, *second = NULL;
  CHECK_OK(rlt_system_load(&source, rlt_allocator_system(), &error, &first));
  CHECK_OK(rlt_system_load(&source, rlt_allocator_system(), &error, &second));
  check_callable(first);
  check_callable(second);
  CHECK(rlt_cpu_kernel(first, 0) != rlt_cpu_kernel(second, 0));
  rlt_library_release(first);
  rlt_library_release(second);
  source.image.length = 100;
  CHECK_FAILS(rlt_system_load(&source, rlt_allocator_system(), &error, &first), RLT_INCOMPATIBLE, "cannot load");
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
  const rlt_allocator_t system = rlt_allocator_system();
  rlt_library_t* library = NULL;
  CHECK_OK(rlt_static_load(&(rlt_module_library_t){.target = "empty"}, libraries, system, &error, &library));
  rlt_library_release(library);
  CHECK_FAILS(rlt_static_load(&(rlt_module_library_t){.target = "other"}, libraries, system, &error, &library), RLT_NOT_FOUND,
              "no kernel library named 'other'");
  CHECK_FAILS(rlt_static_load(&(rlt_module_library_t){.target = "none"}, libraries, system, &error, &library),
              RLT_INCOMPATIBLE, "another version of the runtime");
}

// A vector of one string: the distance to its length, the length, the string.
static const _Alignas(4) uint8_t features[] = "\4\0\0\0\16\0\0\0flux-capacitor";

static void test_a_device_says_what_it_can_load(void) {
  rlt_device_t* device = NULL;
  CHECK_OK(rlt_cpu_device_create(&(rlt_device_options_t){0}, rlt_allocator_system(), &error, &device));
  rlt_module_library_t source = {.target = "t", .arch = rlt_cpu_architecture(), .format = 9};
  CHECK(device->vtable->can_load(device, &source, NULL));
  source.features = (rlt_module_vector_t){features, 1};
  rlt_error_set(&error, RLT_INCOMPATIBLE, "end");
  CHECK(!device->vtable->can_load(device, &source, &error));
  source.arch = "z80";
  CHECK(!device->vtable->can_load(device, &source, &error));
  CHECK(strstr(error.message, "compiled for t (z80); this CPU is ") == error.message);
  CHECK(strstr(error.message, "; compiled for t; this CPU lacks flux-capacitor; end"));
  rlt_library_t* library = NULL;
  CHECK_FAILS(device->vtable->load(device, &source, rlt_allocator_system(), &error, &library), RLT_UNIMPLEMENTED,
              "no loader for library format 9");
  rlt_device_release(device);
}

int main(void) {
  RUN_TEST(test_embedded_elf);
  RUN_TEST(test_system_library);
  RUN_TEST(test_static_libraries);
  RUN_TEST(test_a_device_says_what_it_can_load);
  return 0;
}
