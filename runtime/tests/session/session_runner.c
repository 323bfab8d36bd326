// Loads a module file, calls its "main" and prints the outputs; then does the same with damaged copies of the file, which
// may fail in any way but one: crashing. Elements of inputs are 0, 1, 2, ... in their type; dynamic dimensions are 3.
#include "harness.h"
#include "rillet/session.h"

enum { DYNAMIC_DIMENSION = 3, MAX_TENSORS = 8, MAX_BYTES = 1 << 16 };

static _Alignas(64) uint8_t memory[MAX_TENSORS][MAX_BYTES];

static void fill(uint8_t* data, uint32_t element_type, uint64_t length) {
  for (uint64_t i = 0; i < length; ++i) data[i] = 0;
  for (uint64_t i = 0; element_type == RLT_TYPE_F32 && i < length / 4; ++i) ((float*)(void*)data)[i] = (float)i;
  for (uint64_t i = 0; element_type == RLT_TYPE_I64 && i < length / 8; ++i) ((int64_t*)(void*)data)[i] = (int64_t)i;
}

// An input as the module declares it; NULL when this program has no room for it.
static rlt_buffer_view_t* make_input(rlt_session_t* session, rlt_module_tensor_t tensor, uint32_t ordinal) {
  int64_t dims[RLT_VIEW_MAX_RANK];
  uint64_t length = rlt_element_type_size(tensor.dtype);
  if (tensor.dims.count > RLT_VIEW_MAX_RANK || ordinal >= MAX_TENSORS) return NULL;
  for (uint32_t i = 0; i < tensor.dims.count; ++i) {
    dims[i] = rlt_module_dim(tensor.dims, i);
    if (dims[i] < 0) dims[i] = DYNAMIC_DIMENSION;
    if (dims[i] > MAX_BYTES) return NULL;
    length *= (uint64_t)dims[i];
    if (length > MAX_BYTES) return NULL;
  }
  fill(memory[ordinal], tensor.dtype, length);
  rlt_buffer_view_t* view = NULL;
  rlt_session_wrap(session, tensor.dtype, tensor.dims.count, dims, memory[ordinal], length, NULL, &view);
  return view;
}

static void print_output(const rlt_buffer_view_t* view) {
  printf("%s [", rlt_element_type_name(view->element_type));
  for (uint32_t i = 0; i < view->rank; ++i) printf("%s%lld", i ? ", " : "", (long long)view->dims[i]);
  double sum = 0;
  for (uint64_t i = 0; view->element_type == RLT_TYPE_F32 && i < view->length / 4; ++i) {
    sum += (double)((const float*)(const void*)view->buffer->data)[i];
  }
  printf("] sum %g\n", sum);
}

static rlt_status_t call(rlt_session_t* session, bool print, rlt_error_t* error) {
  uint32_t entry = 0;
  RLT_RETURN_IF_ERROR(rlt_session_find_export(session, "main", error, &entry));
  const rlt_module_export_t declared = rlt_module_export(rlt_session_module(session), entry);
  if (declared.inputs.count > MAX_TENSORS || declared.outputs.count > MAX_TENSORS) {
    return rlt_error_set(error, RLT_RESOURCE_EXHAUSTED, "too many tensors");
  }
  rlt_buffer_view_t *inputs[MAX_TENSORS] = {NULL}, *outputs[MAX_TENSORS] = {NULL};
  bool complete = true;
  for (uint32_t i = 0; i < declared.inputs.count; ++i) {
    inputs[i] = make_input(session, rlt_module_tensor(declared.inputs, i), i);
    complete = complete && inputs[i];
  }
  rlt_status_t status = RLT_RESOURCE_EXHAUSTED;
  if (complete) {
    status = rlt_session_run(session, entry, declared.inputs.count, inputs, declared.outputs.count, outputs, error);
  }
  for (uint32_t i = 0; i < declared.inputs.count; ++i) rlt_buffer_view_release(inputs[i]);
  for (uint32_t i = 0; i < declared.outputs.count; ++i) {
    if (outputs[i] && print) print_output(outputs[i]);
    rlt_buffer_view_release(outputs[i]);
  }
  return status;
}

static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void run_mutants(const char* path, long count, uint64_t state) {
  static _Alignas(64) uint8_t original[1 << 20];
  FILE* file = fopen(path, "rb");
  CHECK(file != NULL);
  const size_t size = fread(original, 1, sizeof(original), file);
  fclose(file);
  CHECK(size > 0 && size < sizeof(original));
  uint8_t* mutant = aligned_alloc(64, (size + 63) / 64 * 64);
  long loaded = 0;
  for (long i = 0; i < count; ++i) {
    memcpy(mutant, original, size);
    for (uint64_t k = next_random(&state) % 4 + 1; k-- > 0;) {
      mutant[next_random(&state) % size] ^= (uint8_t)(1u << next_random(&state) % 8);
    }
    rlt_error_t error = {0};
    rlt_session_t* session = NULL;
    const size_t length = next_random(&state) % 8 ? size : next_random(&state) % size;
    const rlt_session_options_t options = {.step_limit = 100000};
    if (rlt_session_create(mutant, length, NULL, NULL, &options, rlt_allocator_system(), &error, &session) != RLT_OK) {
      CHECK(session == NULL && error.message[0]);
      continue;
    }
    ++loaded;
    call(session, false, &error);
    rlt_session_release(session);
  }
  free(mutant);
  fprintf(stderr, "%ld of %ld mutants loaded\n", loaded, count);
}

int main(int argc, char** argv) {
  CHECK(argc == 4 || argc == 6);
  rlt_error_t error = {0};
  rlt_session_t* session = NULL;
  const rlt_session_options_t options = {.thread_count = (uint32_t)atoi(argv[2])};
  rlt_status_t status = rlt_session_open(argv[1], &options, rlt_allocator_system(), &error, &session);
  for (int run = 0; run < atoi(argv[3]) && status == RLT_OK; ++run) status = call(session, true, &error);
  rlt_session_release(session);
  if (status != RLT_OK) {
    printf("%s: %s\n", rlt_status_name(status), error.message);
    return 1;
  }
  if (argc == 6) run_mutants(argv[1], atol(argv[4]), strtoull(argv[5], NULL, 10));
  return 0;
}
