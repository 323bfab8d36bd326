// Loads a kernel library from an ELF image without the operating system's dynamic linker.
//
// The image is untrusted data until its entry point is called, so every offset is checked before use. It may hold only
// what a freestanding kernel library needs: loadable segments, a dynamic section, and relative relocations.
#include "base/checked_math.h"
#include "base/strings.h"
#include "drivers/cpu/loaders/loaders.h"
#include "rillet/cpu/code_memory.h"

// The parts of the ELF format that are used, under the names of the System V ABI. Numbers of the width of an address are
// 64-bit in ELF-64 and 32-bit in ELF-32, whose segments have their flags elsewhere.
#if UINTPTR_MAX > 0xFFFFFFFFu
typedef uint64_t elf_word_t;
enum { ELF_CLASS = 2 };
#else
typedef uint32_t elf_word_t;
enum { ELF_CLASS = 1 };
#endif

typedef struct elf_header_t {
  uint8_t e_ident[16];
  uint16_t e_type, e_machine;
  uint32_t e_version;
  elf_word_t e_entry, e_phoff, e_shoff;
  uint32_t e_flags;
  uint16_t e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx;
} elf_header_t;

typedef struct elf_segment_t {
#if UINTPTR_MAX > 0xFFFFFFFFu
  uint32_t p_type, p_flags;
  elf_word_t p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align;
#else
  uint32_t p_type;
  elf_word_t p_offset, p_vaddr, p_paddr, p_filesz, p_memsz;
  uint32_t p_flags, p_align;
#endif
} elf_segment_t;

typedef struct elf_dynamic_t {
  elf_word_t d_tag, d_val;
} elf_dynamic_t;

// Arm keeps addends where the relocated word will be, the others in the relocation.
typedef struct elf_relocation_t {
  elf_word_t r_offset, r_info;
#if !defined(__arm__)
  elf_word_t r_addend;
#endif
} elf_relocation_t;

enum { ET_DYN = 3, PT_LOAD = 1, PT_DYNAMIC = 2, PT_INTERP = 3, PT_TLS = 7, PF_X = 1, PF_W = 2, PF_R = 4 };
#define PT_GNU_STACK 0x6474e551u
enum {
  DT_NULL = 0, DT_NEEDED = 1, DT_PLTRELSZ = 2, DT_RELA = 7, DT_RELASZ = 8, DT_RELAENT = 9, DT_INIT = 12, DT_FINI = 13,
  DT_REL = 17, DT_RELSZ = 18, DT_RELENT = 19, DT_TEXTREL = 22, DT_JMPREL = 23, DT_INIT_ARRAY = 25, DT_FINI_ARRAY = 26, DT_FLAGS = 30,
  DT_PREINIT_ARRAY = 32, DT_RELR = 36, DF_TEXTREL = 4,
};
enum { MAX_SEGMENTS = 16, MAX_DYNAMIC = 64 };
#define MAX_IMAGE_SIZE ((elf_word_t)1 << 30)

// The tags of relocations in this architecture's format, and those of the other.
#if defined(__arm__)
enum { RELOCATIONS = DT_REL, RELOCATIONS_SIZE = DT_RELSZ, RELOCATION_SIZE = DT_RELENT, OTHER_RELOCATIONS = DT_RELA };
#else
enum { RELOCATIONS = DT_RELA, RELOCATIONS_SIZE = DT_RELASZ, RELOCATION_SIZE = DT_RELAENT, OTHER_RELOCATIONS = DT_REL };
#endif

#if defined(__x86_64__)
enum { HOST_MACHINE = 62, R_RELATIVE = 8 };
#elif defined(__aarch64__)
enum { HOST_MACHINE = 183, R_RELATIVE = 1027 };
#elif defined(__riscv)
enum { HOST_MACHINE = 243, R_RELATIVE = 3 };
#elif defined(__arm__)
enum { HOST_MACHINE = 40, R_RELATIVE = 23 };
#else
enum { HOST_MACHINE = -1, R_RELATIVE = -1 };
#endif

typedef struct image_t {
  elf_segment_t loads[MAX_SEGMENTS];
  int load_count;
  elf_segment_t dynamic;
  bool has_dynamic;
  elf_word_t entry;
  elf_word_t size;       // of the address range, from 0, in whole pages
  elf_word_t page_size;
  elf_word_t relocations, relocations_size;
} image_t;

static rlt_status_t malformed(rlt_error_t* error, const char* what) {
  return rlt_error_set(error, RLT_DATA_LOSS, "the embedded kernel library is damaged: %s", what);
}

static rlt_status_t refused(rlt_error_t* error, const char* what) {
  return rlt_error_set(error, RLT_INCOMPATIBLE, "the embedded kernel library cannot be loaded: %s", what);
}

// The load segment that holds [address, address + length) of memory and has all of `flags`; NULL when none does.
static const elf_segment_t* segment_of(const image_t* image, uint64_t address, uint64_t length, uint32_t flags) {
  for (int i = 0; i < image->load_count; ++i) {
    const elf_segment_t* load = &image->loads[i];
    if (address < load->p_vaddr || (load->p_flags & flags) != flags) continue;
    if (rlt_range_fits(address - load->p_vaddr, length, load->p_memsz)) return load;
  }
  return NULL;
}

static rlt_status_t check_load(image_t* image, const elf_segment_t* load, size_t file_size, rlt_error_t* error) {
  if (image->load_count == MAX_SEGMENTS) return refused(error, "it has too many segments");
  if (!rlt_range_fits(load->p_offset, load->p_filesz, file_size)) return malformed(error, "a segment exceeds the file");
  if (load->p_filesz > load->p_memsz) return malformed(error, "a segment is larger in the file than in memory");
  if (!rlt_range_fits(load->p_vaddr, load->p_memsz, MAX_IMAGE_SIZE)) return malformed(error, "a segment is too large");
  if ((load->p_flags & PF_W) && (load->p_flags & PF_X)) return refused(error, "a segment is writable and executable");
  const elf_word_t begin = load->p_vaddr & ~(image->page_size - 1);
  if (image->load_count > 0) {
    const elf_segment_t* last = &image->loads[image->load_count - 1];
    if (load->p_vaddr < last->p_vaddr + last->p_memsz) return malformed(error, "segments overlap or are out of order");
    // Two segments on one page would have to share its protection.
    if (begin < image->size && load->p_flags != last->p_flags) {
      return refused(error, "its segments are aligned for smaller pages than this system's");
    }
  }
  image->size = (load->p_vaddr + load->p_memsz + image->page_size - 1) & ~(image->page_size - 1);
  image->loads[image->load_count++] = *load;
  return RLT_OK;
}

static rlt_status_t read_headers(image_t* image, const uint8_t* data, size_t size, rlt_error_t* error) {
  static const uint8_t ident[7] = {0x7f, 'E', 'L', 'F', ELF_CLASS, 1 /* little-endian */, 1};
  elf_header_t header;
  if (size < sizeof(header)) return malformed(error, "it is truncated");
  memcpy(&header, data, sizeof(header));
  if (memcmp(header.e_ident, ident, sizeof(ident)) != 0) {
    return malformed(error, "it is no little-endian ELF of this word size");
  }
  if (header.e_machine != HOST_MACHINE) return refused(error, "it is for another processor architecture");
  if (header.e_type != ET_DYN) return refused(error, "it is not position-independent");
  if (header.e_phentsize != sizeof(elf_segment_t)) return malformed(error, "its program headers have a wrong size");
  if (!rlt_range_fits(header.e_phoff, (uint64_t)header.e_phnum * sizeof(elf_segment_t), size)) {
    return malformed(error, "its program headers exceed the file");
  }
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    elf_segment_t segment;
    memcpy(&segment, data + header.e_phoff + i * sizeof(segment), sizeof(segment));
    switch (segment.p_type) {
      case PT_LOAD:
        if (segment.p_memsz != 0) RLT_RETURN_IF_ERROR(check_load(image, &segment, size, error));
        break;
      case PT_DYNAMIC:
        image->dynamic = segment;
        image->has_dynamic = true;
        break;
      case PT_INTERP:
        return refused(error, "it asks for a program interpreter");
      case PT_TLS:
        return refused(error, "it has thread-local storage");
      case PT_GNU_STACK:
        if (segment.p_flags & PF_X) return refused(error, "it asks for an executable stack");
        break;
      default:
        break;
    }
  }
  if (image->load_count == 0) return malformed(error, "it has nothing to load");
  image->entry = header.e_entry;
  if (!segment_of(image, image->entry, 1, PF_X)) return malformed(error, "its entry point is outside its code");
  return RLT_OK;
}

static rlt_status_t read_dynamic(image_t* image, const uint8_t* data, size_t size, rlt_error_t* error) {
  if (!image->has_dynamic) return RLT_OK;
  const elf_segment_t* dynamic = &image->dynamic;
  if (!rlt_range_fits(dynamic->p_offset, dynamic->p_filesz, size)) {
    return malformed(error, "its dynamic section exceeds the file");
  }
  const uint64_t count = dynamic->p_filesz / sizeof(elf_dynamic_t);
  if (count > MAX_DYNAMIC) return refused(error, "its dynamic section is too long");
  elf_word_t relocation_size = sizeof(elf_relocation_t);
  for (uint64_t i = 0; i < count; ++i) {
    elf_dynamic_t entry;
    memcpy(&entry, data + dynamic->p_offset + i * sizeof(entry), sizeof(entry));
    if (entry.d_tag == DT_NULL) break;
    switch (entry.d_tag) {
      case RELOCATIONS: image->relocations = entry.d_val; break;
      case RELOCATIONS_SIZE: image->relocations_size = entry.d_val; break;
      case RELOCATION_SIZE: relocation_size = entry.d_val; break;
      case DT_NEEDED: return refused(error, "it depends on other libraries");
      case DT_PLTRELSZ:
      case DT_JMPREL: return refused(error, "it imports functions");
      case DT_INIT: case DT_FINI: case DT_INIT_ARRAY: case DT_FINI_ARRAY: case DT_PREINIT_ARRAY:
        return refused(error, "it has initializers");
      case OTHER_RELOCATIONS:
      case DT_RELR: return refused(error, "its relocations have an unsupported format");
      case DT_TEXTREL: return refused(error, "it relocates its code");
      case DT_FLAGS:
        if (entry.d_val & DF_TEXTREL) return refused(error, "it relocates its code");
        break;
      default: break;
    }
  }
  if (image->relocations_size == 0) return RLT_OK;
  if (relocation_size != sizeof(elf_relocation_t) || image->relocations_size % sizeof(elf_relocation_t) != 0) {
    return malformed(error, "its relocations have a wrong size");
  }
  if (!segment_of(image, image->relocations, image->relocations_size, 0)) return malformed(error, "its relocations lie outside it");
  return RLT_OK;
}

// Adds the load address to the pointers in the image.
static rlt_status_t relocate(const image_t* image, uint8_t* base, rlt_error_t* error) {
  for (elf_word_t at = 0; at < image->relocations_size; at += sizeof(elf_relocation_t)) {
    elf_relocation_t relocation;
    memcpy(&relocation, base + image->relocations + at, sizeof(relocation));
    // The symbol index, in the high part, is 0 in a relative relocation.
    if (relocation.r_info != (elf_word_t)R_RELATIVE) return refused(error, "it refers to symbols outside of it");
    if (!segment_of(image, relocation.r_offset, sizeof(elf_word_t), PF_W)) {
      return malformed(error, "a relocation lies outside its data");
    }
#if defined(__arm__)
    elf_word_t addend;
    memcpy(&addend, base + relocation.r_offset, sizeof(addend));
#else
    const elf_word_t addend = relocation.r_addend;
#endif
    if (addend > image->size) return malformed(error, "a relocation points outside it");
    const elf_word_t value = (elf_word_t)(uintptr_t)base + addend;
    memcpy(base + relocation.r_offset, &value, sizeof(value));
  }
  return RLT_OK;
}

static rlt_status_t protect(const image_t* image, uint8_t* base, rlt_error_t* error) {
  for (int i = 0; i < image->load_count; ++i) {
    const elf_segment_t* load = &image->loads[i];
    const elf_word_t mask = image->page_size - 1;
    const elf_word_t begin = load->p_vaddr & ~mask;
    const elf_word_t end = (load->p_vaddr + load->p_memsz + mask) & ~mask;
    // PF_X, PF_W and PF_R are RLT_CODE_EXECUTE, _WRITE and _READ.
    if (!rlt_code_memory_protect(base + begin, end - begin, load->p_flags & (PF_R | PF_W | PF_X))) {
      return rlt_error_set(error, RLT_FAILED_PRECONDITION, "the system does not allow executable memory");
    }
  }
  return RLT_OK;
}

static void free_image(void* handle, size_t handle_size) { rlt_code_memory_free(handle, handle_size); }

static rlt_status_t load_into(const image_t* image, const uint8_t* data, uint8_t* base, rlt_allocator_t allocator,
                              rlt_error_t* error, rlt_library_t** out_library) {
  for (int i = 0; i < image->load_count; ++i) {
    const elf_segment_t* load = &image->loads[i];
    memcpy(base + load->p_vaddr, data + load->p_offset, load->p_filesz);
  }
  RLT_RETURN_IF_ERROR(relocate(image, base, error));
  RLT_RETURN_IF_ERROR(protect(image, base, error));
  rlt_kernel_query_fn_t query = NULL;
  const void* entry = base + image->entry;
  memcpy(&query, &entry, sizeof(query));
  return rlt_cpu_library_create(query, free_image, base, image->size, allocator, error, out_library);
}

rlt_status_t rlt_elf_load(const rlt_module_library_t* source, rlt_allocator_t allocator, rlt_error_t* error,
                          rlt_library_t** out_library) {
  *out_library = NULL;
  image_t image;
  memset(&image, 0, sizeof(image));
  image.page_size = (elf_word_t)rlt_code_memory_page_size();
  RLT_RETURN_IF_ERROR(read_headers(&image, source->image.data, (size_t)source->image.length, error));
  RLT_RETURN_IF_ERROR(read_dynamic(&image, source->image.data, (size_t)source->image.length, error));
  void* base = rlt_code_memory_allocate((size_t)image.size);
  if (!base) {
    return rlt_error_set(error, RLT_OUT_OF_MEMORY, "no memory for a kernel library of %llu bytes",
                         (unsigned long long)image.size);
  }
  const rlt_status_t status = load_into(&image, source->image.data, (uint8_t*)base, allocator, error, out_library);
  if (status != RLT_OK) free_image(base, (size_t)image.size);
  return status;
}
