// Loads a module file, calls its "main" and prints the outputs; then does the same with damaged copies of the file, which
// may fail in any way but one: crashing.
#include "call.h"

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
