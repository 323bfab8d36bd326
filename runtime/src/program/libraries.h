// Which of a program's libraries a device runs. Included once in a build, and inlined for small programs.
#ifndef RILLET_PROGRAM_LIBRARIES_H_
#define RILLET_PROGRAM_LIBRARIES_H_

#include "program/session.h"

static inline bool can_load(const rlt_module_view_t* module, uint32_t ordinal, const rlt_device_t* device,
                            rlt_error_t* error) {
  const rlt_module_library_t library = rlt_module_library(module, ordinal);
  return device->vtable->can_load(device, &library, error);
}

// Chooses the first of the libraries that the program's device `ordinal` can run. RLT_INCOMPATIBLE when it can run none.
static inline rlt_status_t choose_library(rlt_session_t* session, uint32_t ordinal, rlt_error_t* error) {
  const rlt_module_view_t* module = &session->module;
  rlt_session_device_t* target = &session->devices[ordinal];
  const rlt_module_device_t declared = rlt_module_device(module, ordinal);
  target->first_fact = declared.first_fact;
  target->library_ordinal = UINT32_MAX;
  if (declared.libraries.count == 0) return RLT_OK;
  for (uint32_t i = 0; i < declared.libraries.count; ++i) {
    target->library_ordinal = rlt_module_uint(declared.libraries, i);
    if (can_load(module, target->library_ordinal, target->device, NULL)) return RLT_OK;
  }
#ifndef RLT_NO_ERROR_MESSAGES
  // The reasons are put before it, the last one first.
  rlt_error_set(error, RLT_INCOMPATIBLE, "compile the model again for this CPU (target=\"host\")");
  for (uint32_t i = 0; i < declared.libraries.count; ++i) {
    (void)can_load(module, rlt_module_uint(declared.libraries, i), target->device, error);
  }
  return RLT_INCOMPATIBLE;
#else
  return rlt_error_set(error, RLT_INCOMPATIBLE, "");
#endif
}

// Loads what was chosen.
static inline rlt_status_t load_library(rlt_session_t* session, uint32_t ordinal, rlt_error_t* error) {
  rlt_session_device_t* target = &session->devices[ordinal];
  if (target->library_ordinal == UINT32_MAX) return RLT_OK;
  RLT_RETURN_IF_ERROR(rlt_module_check_library(&session->module, target->library_ordinal, error));
  const rlt_module_library_t library = rlt_module_library(&session->module, target->library_ordinal);
  RLT_RETURN_IF_ERROR(
      target->device->vtable->load(target->device, &library, session->allocator, error, &target->library));
  if (library.entries.count == target->library->entry_count) return RLT_OK;
  return rlt_error_set(error, RLT_DATA_LOSS, "the module declares %u kernels, but its library has %u",
                       library.entries.count, target->library->entry_count);
}

#endif  // RILLET_PROGRAM_LIBRARIES_H_
