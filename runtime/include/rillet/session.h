// The short way from a module file to results: load, wrap inputs, run.
//
//   rlt_error_t error = {0};
//   rlt_session_t* session = NULL;
//   rlt_session_open("model.rlm", NULL, rlt_allocator_system(), &error, &session);
//   uint32_t entry = 0;
//   rlt_session_find_export(session, "main", &error, &entry);
//   rlt_buffer_view_t *input = NULL, *output = NULL;
//   rlt_session_wrap(session, RLT_TYPE_F32, 2, (int64_t[]){1, 4}, data, sizeof(data), &error, &input);
//   rlt_session_run(session, entry, 1, &input, 1, &output, &error);
//   ... output->buffer->data, output->dims ...
//   rlt_buffer_view_release(output), rlt_buffer_view_release(input), rlt_session_release(session);
//
// Arguments that are NULL or cannot be are RLT_INVALID_ARGUMENT with a message; out-parameters must be there. The other
// headers do not check: what they point to must be there unless a comment says otherwise.
#ifndef RILLET_SESSION_H_
#define RILLET_SESSION_H_

#include "rillet/hal.h"
#include "rillet/module.h"

RLT_BEGIN_DECLS

typedef struct rlt_session_t rlt_session_t;

typedef struct rlt_session_options_t {
  // Devices to run on, which programs share: their threads and their transient memory. Each device that the program asks
  // for is the first of these whose name fits, else one that a driver of that name makes, else the program's first device
  // or, when that is missing too, the first of these or of the drivers. Without an operating system it is the first of
  // these, or a CPU.
  rlt_device_t* const* devices;
  uint32_t device_count;
  rlt_drivers_t drivers;                    // none: the built-in ones, unless there are devices
  uint32_t thread_count;                    // of devices that drivers make; see rlt_device_options_t, and for the next
  rlt_static_libraries_t static_libraries;  // two
  const rlt_dispatch_observer_t* observer;
  uint64_t step_limit;                      // see rlt_vm_module_options_t
  rlt_interrupt_t interrupt;                // the same: asked in calls that take many steps, long loops say
  bool check_constants;                     // compare them with their checksums, which reads all of them
} rlt_session_options_t;

// Loads the module in `length` bytes at `data` (a multiple of RLT_MODULE_DATA_ALIGNMENT), which must stay unchanged until
// `owner_release(owner)` (may be NULL) is called; that happens once, also when this fails. `options` may be NULL. Fails
// with what reading, verifying and loading fail with; RLT_INCOMPATIBLE when a device can run none of the libraries that it
// is to run, with a message that says what each of them lacks.
rlt_status_t rlt_session_create(const void* data, size_t length, void* owner, void (*owner_release)(void* owner),
                                const rlt_session_options_t* options, rlt_allocator_t allocator, rlt_error_t* error,
                                rlt_session_t** out_session);

#ifndef RLT_FREESTANDING
// Maps the file and loads it. RLT_NOT_FOUND when it cannot be opened.
rlt_status_t rlt_session_open(const char* path, const rlt_session_options_t* options, rlt_allocator_t allocator,
                              rlt_error_t* error, rlt_session_t** out_session);
#endif

void rlt_session_retain(rlt_session_t* session);

// No call may be running when the last reference goes. Results may outlive the session.
void rlt_session_release(rlt_session_t* session);

// What the file holds.
const rlt_module_view_t* rlt_session_module(const rlt_session_t* session);

// A device that the program asks for, and what it runs.
typedef struct rlt_session_device_t {
  rlt_device_t* device;
  rlt_library_t* library;    // NULL when the program has no kernels for it
  uint32_t library_ordinal;  // in the module; UINT32_MAX when there is no library
  uint32_t first_fact;       // of its kernels, in the module's entry_facts
} rlt_session_device_t;

// The program's devices by ordinal.
const rlt_session_device_t* rlt_session_devices(const rlt_session_t* session, uint32_t* out_count);

#ifndef RLT_FREESTANDING
// Whether `device` can run library `ordinal` of a module; if not, puts the reason before the message of `error`.
bool rlt_session_can_load(const rlt_module_view_t* module, uint32_t ordinal, const rlt_device_t* device,
                          rlt_error_t* error);
#endif

// The ordinal of an export. RLT_NOT_FOUND when there is none of that name.
rlt_status_t rlt_session_find_export(const rlt_session_t* session, const char* name, rlt_error_t* error,
                                     uint32_t* out_export);

// Makes a view of the caller's memory, which must stay as it is until the view is released and start at a multiple of its
// elements' size (of 8 for larger ones); kernels cannot write to it.
rlt_status_t rlt_session_wrap(rlt_session_t* session, rlt_element_type_t element_type, uint32_t rank,
                              const int64_t* dims, const void* data, uint64_t length, rlt_error_t* error,
                              rlt_buffer_view_t** out_view);

// Makes a view of the default of an input that a call may leave out. *out_view is NULL where the input has none.
rlt_status_t rlt_session_default_input(rlt_session_t* session, uint32_t export_ordinal, uint32_t input,
                                       rlt_error_t* error, rlt_buffer_view_t** out_view);

// Calls an export. Inputs are checked against its declaration: number, element type, rank, fixed dimensions, and that
// dimensions of one name agree; the message names the input. On success the caller owns the outputs, which share no
// memory with the inputs, the module or each other; on failure they are NULL. Where a kernel fails on its data
// (RLT_TRAP), `error->entry` tells which, and the message names the nodes of the source model that it computes, if the
// module lists them. Safe from any thread.
rlt_status_t rlt_session_run(rlt_session_t* session, uint32_t export_ordinal, uint32_t input_count,
                             rlt_buffer_view_t* const* inputs, uint32_t output_count, rlt_buffer_view_t** outputs,
                             rlt_error_t* error);

#ifndef RLT_FREESTANDING

// A call that goes on by itself.
typedef struct rlt_pending_t rlt_pending_t;

// As rlt_session_run, but returns when the host program has given all work to the devices' queues; where it needs results
// to go on, it waits for them here. The inputs' memory must stay as it is until the work is done. Any number of calls may be
// pending. Fails with what the host program itself fails with. The session's allocator and those of its devices must be safe
// from any thread.
rlt_status_t rlt_session_submit(rlt_session_t* session, uint32_t export_ordinal, uint32_t input_count,
                                rlt_buffer_view_t* const* inputs, rlt_error_t* error, rlt_pending_t** out_pending);

// Waits for the work and hands out the outputs, which the caller then owns, as those of rlt_session_run; each call hands
// out the same. Fails with the error of the work, or with RLT_DEADLINE_EXCEEDED after `timeout_ns` (UINT64_MAX: no limit),
// and can be called again then. RLT_FAILED_PRECONDITION in a fork, whose parent has the work. From one thread at a time.
rlt_status_t rlt_pending_wait(rlt_pending_t* pending, uint64_t timeout_ns, uint32_t output_count,
                              rlt_buffer_view_t** outputs, rlt_error_t* error);

// Whether rlt_pending_wait would not wait. False in a fork. From one thread at a time.
bool rlt_pending_is_done(rlt_pending_t* pending);

// Waits for the work, but not in a fork, and gives up the call. NULL is ignored.
void rlt_pending_release(rlt_pending_t* pending);

#endif  // RLT_FREESTANDING

RLT_END_DECLS

#endif  // RILLET_SESSION_H_
