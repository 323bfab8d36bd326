// Runs the function "main" of a module file on one input of zeros and prints what comes out.
#include <rillet/session.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const rlt_error_t* error) {
  fprintf(stderr, "%s: %s\n", rlt_status_name(error->status), error->message);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: %s MODEL.rlm\n", argv[0]), 2;
  rlt_error_t error = {0};
  rlt_session_t* session = NULL;
  if (rlt_session_open(argv[1], NULL, rlt_allocator_system(), &error, &session) != RLT_OK) return fail(&error);

  uint32_t entry = 0;
  if (rlt_session_find_export(session, "main", &error, &entry) != RLT_OK) return fail(&error);
  const rlt_module_tensor_t input = rlt_module_tensor(rlt_module_export(rlt_session_module(session), entry).inputs, 0);
  int64_t dims[RLT_VIEW_MAX_RANK];
  if (input.dims.count > RLT_VIEW_MAX_RANK) return fprintf(stderr, "'%s' has too many dimensions\n", input.name), 1;
  uint64_t length = rlt_element_type_size(input.dtype);
  for (uint32_t i = 0; i < input.dims.count; ++i) {
    dims[i] = rlt_module_dim(input.dims, i) < 0 ? 1 : rlt_module_dim(input.dims, i);  // -1: dynamic
    length *= (uint64_t)dims[i];
  }

  void* data = calloc(1, length);
  rlt_buffer_view_t *x = NULL, *y = NULL;
  rlt_status_t status =
      rlt_session_wrap(session, input.dtype, input.dims.count, dims, data, length, &error, &x);
  if (status == RLT_OK) status = rlt_session_run(session, entry, 1, &x, 1, &y, &error);
  if (status != RLT_OK) return fail(&error);
  printf("%s", rlt_element_type_name(y->element_type));
  for (uint32_t i = 0; i < y->rank; ++i) printf(" %lld", (long long)y->dims[i]);
  printf("\n");

  rlt_buffer_view_release(y);
  rlt_buffer_view_release(x);
  rlt_session_release(session);
  free(data);
  return 0;
}
