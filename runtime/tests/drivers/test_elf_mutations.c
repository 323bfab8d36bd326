// The ELF loader on damaged files: it must refuse them or load them, never read or write outside of them. What a mutated
// library would do when called is not its business, so nothing is called here: the loader is compiled into this test with
// a rlt_cpu_library_create that only looks at the entry point.
#define _DEFAULT_SOURCE  // before the first system header
#include "drivers/cpu/loaders/elf.c"
#include "harness.h"

enum { MUTATIONS = 10000, HEADERS = 64 + 10 * 56 };

static rlt_error_t error;
static int loaded;

rlt_status_t rlt_cpu_library_create(rlt_kernel_query_fn_t query, void (*unload)(void* handle, size_t handle_size),
                                void* handle, size_t handle_size, rlt_allocator_t allocator, rlt_error_t* out_error,
                                rlt_library_t** out_library) {
  (void)allocator;
  (void)out_error;
  *out_library = NULL;
  uintptr_t entry = 0;
  memcpy(&entry, &query, sizeof(entry));
  CHECK(entry >= (uintptr_t)handle && entry < (uintptr_t)handle + handle_size);
  unload(handle, handle_size);
  ++loaded;
  return RLT_OK;
}

static rlt_status_t load_exactly(const uint8_t* data, size_t size) {
  uint8_t* copy = malloc(size ? size : 1);  // of exactly this size, for AddressSanitizer
  memcpy(copy, data, size);
  memset(&error, 0, sizeof(error));
  rlt_library_t* library = NULL;
  const rlt_module_library_t source = {.image = {copy, size}};
  const rlt_status_t status = rlt_elf_load(&source, rlt_allocator_system(), &error, &library);
  CHECK((status == RLT_OK) == (error.message[0] == '\0'));
  free(copy);
  return status;
}

static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

// The file offset of the dynamic section.
static size_t find_dynamic(const uint8_t* data, size_t* size) {
  elf_header_t header;
  memcpy(&header, data, sizeof(header));
  for (int i = 0; i < header.e_phnum; ++i) {
    elf_segment_t segment;
    memcpy(&segment, data + header.e_phoff + i * sizeof(segment), sizeof(segment));
    *size = segment.p_filesz;
    if (segment.p_type == PT_DYNAMIC) return segment.p_offset;
  }
  return 0;
}

static void test_mutations(const uint8_t* data, size_t size) {
  static const uint64_t interesting[] = {0, 1, 7, 8, 0x1000, 0x7fffffff, 0xffffffff, UINT64_MAX, UINT64_MAX - 0xfff};
  uint64_t state = 20261127;
  size_t dynamic_size = 0;
  const size_t dynamic = find_dynamic(data, &dynamic_size);
  CHECK(dynamic != 0);
  uint8_t* mutant = malloc(size);
  for (int i = 0; i < MUTATIONS; ++i) {
    memcpy(mutant, data, size);
    const uint64_t count = 1 + next_random(&state) % 4;
    for (uint64_t k = 0; k < count; ++k) {
      const uint64_t where = next_random(&state) % 3;
      const size_t at = where == 0   ? next_random(&state) % HEADERS
                        : where == 1 ? dynamic + next_random(&state) % dynamic_size
                                     : next_random(&state) % size;
      if (next_random(&state) % 2) {
        mutant[at] ^= (uint8_t)(1u << next_random(&state) % 8);
      } else {
        const uint64_t value = interesting[next_random(&state) % (sizeof(interesting) / sizeof(interesting[0]))];
        const size_t aligned = at / 8 * 8;
        if (aligned + 8 <= size) memcpy(mutant + aligned, &value, 8);
      }
    }
    load_exactly(mutant, next_random(&state) % 8 ? size : next_random(&state) % size);
  }
  free(mutant);
  printf("%d of %d mutants loaded\n", loaded, MUTATIONS);
}

static void test_truncations(const uint8_t* data, size_t size) {
  for (size_t length = 0; length < size; length += length < 1024 ? 1 : 97) load_exactly(data, length);
}

// Replaces a dynamic entry's tag.
static void with_tag(const uint8_t* data, size_t size, uint64_t tag, const char* message) {
  size_t dynamic_size = 0;
  const size_t dynamic = find_dynamic(data, &dynamic_size);
  uint8_t* mutant = malloc(size);
  memcpy(mutant, data, size);
  memcpy(mutant + dynamic, &tag, sizeof(tag));
  CHECK(load_exactly(mutant, size) == RLT_INCOMPATIBLE);
  if (!strstr(error.message, message)) fprintf(stderr, "%s\n", error.message);
  CHECK(strstr(error.message, message));
  free(mutant);
}

static void test_what_is_refused(const uint8_t* data, size_t size) {
  CHECK(load_exactly(data, size) == RLT_OK);
  with_tag(data, size, DT_NEEDED, "depends on other libraries");
  with_tag(data, size, DT_JMPREL, "imports functions");
  with_tag(data, size, DT_INIT, "initializers");
  with_tag(data, size, DT_INIT_ARRAY, "initializers");
  with_tag(data, size, DT_TEXTREL, "relocates its code");
  with_tag(data, size, DT_REL, "unsupported format");
  uint8_t* mutant = malloc(size);
  memcpy(mutant, data, size);
  mutant[18] ^= 0x55;
  CHECK(load_exactly(mutant, size) == RLT_INCOMPATIBLE && strstr(error.message, "another processor"));
  memcpy(mutant, data, size);
  mutant[16] = 2;
  CHECK(load_exactly(mutant, size) == RLT_INCOMPATIBLE && strstr(error.message, "position-independent"));
  memcpy(mutant, data, size);
  elf_header_t header;
  memcpy(&header, data, sizeof(header));
  for (int i = 0; i < header.e_phnum; ++i) {
    uint8_t* flags = mutant + header.e_phoff + i * sizeof(elf_segment_t) + 4;
    if (*flags & PF_X) *flags |= PF_W;
  }
  CHECK(load_exactly(mutant, size) == RLT_INCOMPATIBLE && strstr(error.message, "writable and executable"));
  free(mutant);
}

int main(void) {
  FILE* file = fopen(KERNELS, "rb");
  CHECK(file != NULL);
  static uint8_t data[1 << 17];
  const size_t size = fread(data, 1, sizeof(data), file);
  fclose(file);
  CHECK(size > 0 && size < sizeof(data));
  test_what_is_refused(data, size);
  test_truncations(data, size);
  test_mutations(data, size);
  return 0;
}
