// Runs the cases that the disk describes, and prints what each of them gives.
//
// All numbers are 64-bit; a place is counted from the start of the disk, which is read to 16 MiB. It begins with its
// number of sectors, that of bytes of memory, that of cases, and for each case: kind, place and length of a module file
// or of kernels as an embedded ELF; then for
//   a module: the number of inputs, and for each its element type, rank, dimensions, place, length;
//   a kernel, the first of its library: the numbers of push constants, of bindings, and of those that are inputs only;
//   the constants, and for each binding its place and length.
// Printed are for each case its status and the number of its parts, and for each part its length and its bytes: the
// outputs of a module, the other bindings of a kernel, or, where the status is not 0, a message.
#include <string.h>

#include "disk.h"
#include "drivers/cpu/loaders/loaders.h"
#include "printer.h"
#include "rillet/base/arena.h"
#include "rillet/session.h"

enum { MODULE, KERNEL };
enum { MOST = 64 };

static uint8_t* const disk = (uint8_t*)0x1000000;
static const uint64_t* next = (const uint64_t*)0x1000000;
static rlt_arena_t arena;

static uint64_t number(void) { return *next++; }

static const void* place(void) { return disk + number(); }

static void print_number(uint64_t value) { printer_write(&value, sizeof value); }

static void print_part(const void* data, uint64_t length) {
  print_number(length);
  printer_write(data, length);
}

static rlt_status_t run_module(const void* file, uint64_t length, rlt_error_t* error) {
  rlt_allocator_t allocator = rlt_arena_allocator(&arena);
  rlt_session_t* session = NULL;
  rlt_buffer_view_t *inputs[MOST] = {0}, *outputs[MOST] = {0};
  const uint64_t count = number();
  rlt_status_t status = rlt_session_create(file, length, NULL, NULL, NULL, allocator, error, &session);
  for (uint64_t i = 0; i < count; ++i) {
    const rlt_element_type_t type = (rlt_element_type_t)number();
    const uint32_t rank = (uint32_t)number();
    const int64_t* dims = (const int64_t*)next;
    next += rank;
    const void* data = place();
    const uint64_t bytes = number();
    if (status == RLT_OK) status = rlt_session_wrap(session, type, rank, dims, data, bytes, error, &inputs[i]);
  }
  const uint32_t results = status == RLT_OK ? rlt_module_export(rlt_session_module(session), 0).outputs.count : 0;
  if (status == RLT_OK) status = rlt_session_run(session, 0, (uint32_t)count, inputs, results, outputs, error);
  if (status == RLT_OK) {
    print_number(RLT_OK), print_number(results);
    for (uint32_t i = 0; i < results; ++i) print_part(outputs[i]->buffer->data, outputs[i]->length);
  }
  for (uint32_t i = 0; i < results; ++i) rlt_buffer_view_release(outputs[i]);
  for (uint64_t i = 0; i < count; ++i) rlt_buffer_view_release(inputs[i]);
  if (session) rlt_session_release(session);
  return status;
}

static rlt_status_t run_grid(const rlt_kernel_entry_t* entry, rlt_dispatch_state_t* state) {
  entry->workgroup_count(state->constants, state->workgroup_count);
  uint32_t id[3];
  for (id[2] = 0; id[2] < state->workgroup_count[2]; ++id[2]) {
    for (id[1] = 0; id[1] < state->workgroup_count[1]; ++id[1]) {
      for (id[0] = 0; id[0] < state->workgroup_count[0]; ++id[0]) {
        if (entry->dispatch(state, id)) return RLT_TRAP;
      }
    }
  }
  return RLT_OK;
}

static rlt_status_t run_kernel(const void* elf, uint64_t length, rlt_error_t* error) {
  rlt_allocator_t allocator = rlt_arena_allocator(&arena);
  const rlt_module_library_t source = {.image = {(const uint8_t*)elf, length}};
  rlt_library_t* library = NULL;
  void *bindings[MOST], *scratch = NULL;
  uint64_t lengths[MOST];
  rlt_dispatch_state_t state = {.bindings = bindings};
  const uint64_t constants = number();
  state.binding_count = (uint32_t)number();
  const uint32_t inputs = (uint32_t)number();
  state.constants = (const int64_t*)next;
  next += constants;
  rlt_status_t status = RLT_OK;
  for (uint32_t i = 0; i < state.binding_count && status == RLT_OK; ++i) {
    const void* data = place();
    lengths[i] = number();
    status = rlt_allocator_allocate_aligned(allocator, lengths[i] + 1, 64, error, &bindings[i]);
    if (status == RLT_OK) memcpy(bindings[i], data, lengths[i]);
  }
  if (status == RLT_OK) status = rlt_elf_load(&source, allocator, error, &library);
  if (status != RLT_OK) return status;
  state.local_memory_size = rlt_cpu_kernel(library, 0)->local_memory_size;
  status = rlt_allocator_allocate_aligned(allocator, state.local_memory_size + 1, 64, error, &scratch);
  state.local_memory = scratch;
  if (status == RLT_OK) status = run_grid(rlt_cpu_kernel(library, 0), &state);
  if (status == RLT_OK) {
    print_number(RLT_OK), print_number(state.binding_count - inputs);
    for (uint32_t i = inputs; i < state.binding_count; ++i) print_part(bindings[i], lengths[i]);
  }
  rlt_library_release(library);
  return status;
}

int main(void) {
  disk_read(disk, 0, 1);
  const uint64_t sectors = number();
  disk_read(disk, 0, (uint32_t)sectors);
  uint8_t* heap = disk + sectors * DISK_SECTOR;
  const uint64_t heap_size = number() - (uintptr_t)heap, count = number();
  for (uint64_t i = 0; i < count; ++i) {
    rlt_error_t error = {0};
    const uint64_t kind = number();
    const void* code = place();
    const uint64_t length = number();
    rlt_arena_initialize(&arena, heap, heap_size);
    const rlt_status_t status = (kind == MODULE ? run_module : run_kernel)(code, length, &error);
    memset(heap, 0xff, arena.peak);  // not-a-numbers for the next one, if it reads what it has not written
    if (status == RLT_OK) continue;
    print_number((uint64_t)status), print_number(1);
    print_part(error.message, sizeof error.message);
  }
  return 0;
}
