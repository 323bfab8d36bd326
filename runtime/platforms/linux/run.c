// rlt-run MODULE OUTPUT [INPUT...]: runs a compiled model once.
//
// Each INPUT is a file with the elements of one input, row-major and little-endian, in the order of the model; inputs
// need static shapes. The outputs are written to OUTPUT, one after the other, and described on standard output.
#include "rillet/base/arena.h"
#include "rillet/session.h"
#include "system.h"

enum { STANDARD_OUTPUT = 1, STANDARD_ERROR = 2, MAX_TENSORS = 64 };

// Address space for everything the session allocates; memory is only taken where it is used.
static const size_t ADDRESS_SPACE = sizeof(void*) > 4 ? (size_t)1 << 32 : (size_t)1 << 28;

typedef struct program_t {
  rlt_error_t error;
  rlt_session_t* session;
  rlt_module_export_t declared;
  rlt_buffer_view_t* inputs[MAX_TENSORS];
  rlt_buffer_view_t* outputs[MAX_TENSORS];
} program_t;

static void print(int file, const char* text) {
  size_t length = 0;
  while (text[length]) ++length;
  (void)system_write(file, text, length);
}

static void print_number(int64_t value) {
  char digits[24];
  size_t at = sizeof(digits);
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  do digits[--at] = (char)('0' + rest % 10);
  while (rest /= 10);
  if (value < 0) digits[--at] = '-';
  (void)system_write(STANDARD_OUTPUT, digits + at, sizeof(digits) - at);
}

static rlt_status_t map(const char* path, rlt_error_t* error, const void** data, size_t* length) {
  const int file = system_open(path, false);
  if (file < 0) return rlt_error_set(error, RLT_NOT_FOUND, "'%.*s' cannot be opened", 192, path);
  *length = system_size(file);
  *data = *length ? system_map(file, *length) : NULL;
  system_close(file);
  if (*data) return RLT_OK;
  return rlt_error_set(error, RLT_DATA_LOSS, "'%.*s' is empty or cannot be mapped", 192, path);
}

static rlt_status_t load(program_t* program, const char* path) {
  static rlt_arena_t arena;
  const void* data = NULL;
  size_t length = 0;
  RLT_RETURN_IF_ERROR(map(path, &program->error, &data, &length));
  void* memory = system_map(-1, ADDRESS_SPACE);
  if (!memory) return rlt_error_set(&program->error, RLT_OUT_OF_MEMORY, "no address space");
  rlt_arena_initialize(&arena, memory, ADDRESS_SPACE);
  RLT_RETURN_IF_ERROR(rlt_session_create(data, length, NULL, NULL, NULL, rlt_arena_allocator(&arena), &program->error,
                                         &program->session));
  program->declared = rlt_module_export(rlt_session_module(program->session), 0);
  const uint32_t most = program->declared.inputs.count > program->declared.outputs.count
                            ? program->declared.inputs.count
                            : program->declared.outputs.count;
  if (most <= MAX_TENSORS) return RLT_OK;
  return rlt_error_set(&program->error, RLT_UNIMPLEMENTED, "%u inputs or outputs are above the limit of %d", most,
                       MAX_TENSORS);
}

static rlt_status_t read_inputs(program_t* program, uint32_t count, char** paths) {
  rlt_error_t* error = &program->error;
  if (count != program->declared.inputs.count) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "the model has %u inputs, but %u files were given",
                         program->declared.inputs.count, count);
  }
  for (uint32_t i = 0; i < count; ++i) {
    const rlt_module_tensor_t tensor = rlt_module_tensor(program->declared.inputs, i);
    int64_t dims[RLT_VIEW_MAX_RANK];
    uint64_t expected = rlt_element_type_size(tensor.dtype);
    if (tensor.dims.count > RLT_VIEW_MAX_RANK) return rlt_error_set(error, RLT_UNIMPLEMENTED, "too many dimensions");
    for (uint32_t axis = 0; axis < tensor.dims.count; ++axis) {
      dims[axis] = rlt_module_dim(tensor.dims, axis);
      expected *= (uint64_t)dims[axis];
      if (dims[axis] >= 0) continue;
      return rlt_error_set(error, RLT_UNIMPLEMENTED, "input '%.*s' has a dynamic shape: compile the model with a fixed one",
                           64, tensor.name);
    }
    const void* data = NULL;
    size_t length = 0;
    RLT_RETURN_IF_ERROR(map(paths[i], error, &data, &length));
    if (length != expected) {
      return rlt_error_set(error, RLT_INVALID_ARGUMENT, "'%.*s' has %llu bytes, but input '%.*s' takes %llu", 96,
                           paths[i], (unsigned long long)length, 64, tensor.name, (unsigned long long)expected);
    }
    RLT_RETURN_IF_ERROR(rlt_session_wrap(program->session, tensor.dtype, tensor.dims.count, dims, data, length, error,
                                         &program->inputs[i]));
  }
  return RLT_OK;
}

static rlt_status_t write_outputs(program_t* program, const char* path) {
  const int file = system_open(path, true);
  bool written = file >= 0;
  for (uint32_t i = 0; i < program->declared.outputs.count; ++i) {
    const rlt_buffer_view_t* view = program->outputs[i];
    print(STANDARD_OUTPUT, rlt_module_tensor(program->declared.outputs, i).name);
    print(STANDARD_OUTPUT, ": ");
    print(STANDARD_OUTPUT, rlt_element_type_name(view->element_type));
    for (uint32_t axis = 0; axis < view->rank; ++axis) {
      print(STANDARD_OUTPUT, axis ? " x " : " ");
      print_number(view->dims[axis]);
    }
    print(STANDARD_OUTPUT, "\n");
    written = written && system_write(file, view->buffer->data, (size_t)view->length);
  }
  if (file >= 0) system_close(file);
  if (written) return RLT_OK;
  return rlt_error_set(&program->error, RLT_FAILED_PRECONDITION, "'%.*s' cannot be written", 192, path);
}

static rlt_status_t run(program_t* program, int argc, char** argv) {
  RLT_RETURN_IF_ERROR(load(program, argv[1]));
  RLT_RETURN_IF_ERROR(read_inputs(program, (uint32_t)argc - 3, argv + 3));
  RLT_RETURN_IF_ERROR(rlt_session_run(program->session, 0, program->declared.inputs.count, program->inputs,
                                      program->declared.outputs.count, program->outputs, &program->error));
  return write_outputs(program, argv[2]);
}

int main(int argc, char** argv) {
  static program_t program;
  if (argc < 3) {
    print(STANDARD_ERROR, "usage: rlt-run MODULE OUTPUT [INPUT...]\n");
    return 2;
  }
  const rlt_status_t status = run(&program, argc, argv);
  if (status == RLT_OK) return 0;
  print(STANDARD_ERROR, "rlt-run: ");
  print(STANDARD_ERROR, program.error.message);
  print(STANDARD_ERROR, "\n");
  return 1;
}
