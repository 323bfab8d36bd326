// Calls of a session: waited for, or pending.
#include "program/check_inputs.h"
#include "program/session.h"

#ifndef RLT_FREESTANDING
#include <sys/types.h>
#include <unistd.h>

#include "program/call.h"
#endif

// Exports with up to this many inputs and outputs need no allocation for their references.
enum { REFS_ON_STACK = 16 };

// Bytes of a list of nodes that a message may have.
enum { NODES_LENGTH = 200 };

// Puts the source nodes of the kernel that failed, if one did, before the message.
static void blame_nodes(const rlt_session_t* session, rlt_error_t* error) {
#ifdef RLT_NO_ERROR_MESSAGES
  (void)session, (void)error;
#else
  if (!error || error->entry == 0 || error->entry > session->module.entry_facts.count) return;
  const char* nodes = rlt_module_entry_facts(&session->module, error->entry - 1).sources;
  if (!*nodes) return;
  bool several = false;
  int length = 0;
  for (; nodes[length] && length < NODES_LENGTH; ++length) several = several || nodes[length] == ',';
  const char* which = several ? "one of the nodes" : "node";
  rlt_error_prefix(error, "%s '%.*s%s': ", which, length, nodes, nodes[length] ? "..." : "");
#endif
}

// Calls the export's function; `refs` has room for its results and, behind them, its arguments. `context` is for the
// imports.
static rlt_status_t invoke(rlt_session_t* session, const rlt_module_export_t* declared, uint32_t input_count,
                                rlt_buffer_view_t* const* inputs, void* context, rlt_object_t** refs,
                                rlt_error_t* error) {
  rlt_object_t** arguments = refs + declared->outputs.count;
  for (uint32_t i = 0; i < input_count; ++i) arguments[i] = &inputs[i]->base;
  const rlt_vm_call_t call = {
      .ref_arguments = arguments,
      .ref_results = refs,
      .ref_argument_count = input_count,
      .ref_result_count = declared->outputs.count,
      .context = context,
  };
  return rlt_vm_invoke(session->vm, declared->function, &call, error);
}

// Finds the export and checks the inputs against it.
static rlt_status_t check_call(rlt_session_t* session, uint32_t export_ordinal, uint32_t input_count,
                                    rlt_buffer_view_t* const* inputs, rlt_error_t* error,
                                    rlt_module_export_t* out_declared) {
  if (export_ordinal >= session->module.exports.count) {
    return rlt_error_set(error, RLT_NOT_FOUND, "export %u is not below %u", export_ordinal,
                         session->module.exports.count);
  }
  *out_declared = rlt_module_export(&session->module, export_ordinal);
  return rlt_session_check_inputs(out_declared, input_count, inputs, error);
}

static rlt_status_t check_outputs(const rlt_module_export_t* declared, uint32_t output_count,
                                       rlt_error_t* error) {
  if (output_count == declared->outputs.count) return RLT_OK;
  return rlt_error_set(error, RLT_INVALID_ARGUMENT, "'%.*s' has %u outputs, but room for %u was given", 64,
                       declared->name, declared->outputs.count, output_count);
}

// Calls the export's function and waits for what it queued, if it did.
static rlt_status_t invoke_and_wait(rlt_session_t* session, const rlt_module_export_t* declared, uint32_t input_count,
                                    rlt_buffer_view_t* const* inputs, rlt_object_t** refs, rlt_error_t* error) {
#ifdef RLT_FREESTANDING
  const rlt_status_t status = invoke(session, declared, input_count, inputs, NULL, refs, error);
#else
  rlt_call_t call = rlt_call_begin(session->allocator, false);
  rlt_status_t status = invoke(session, declared, input_count, inputs, &call, refs, error);
  const bool returned = status == RLT_OK;
  status = rlt_call_end(&call, status, error);
  for (uint32_t i = 0; returned && status != RLT_OK && i < declared->outputs.count; ++i) rlt_object_release(refs[i]);
#endif
  if (RLT_UNLIKELY(status == RLT_TRAP)) blame_nodes(session, error);
  return status;
}

rlt_status_t rlt_session_run(rlt_session_t* session, uint32_t export_ordinal, uint32_t input_count,
                             rlt_buffer_view_t* const* inputs, uint32_t output_count, rlt_buffer_view_t** outputs,
                             rlt_error_t* error) {
  if (error) error->entry = 0;
  if (!session) return rlt_session_null_error("session", error);
  if (!outputs && output_count > 0) return rlt_session_null_error("outputs", error);
  for (uint32_t i = 0; i < output_count; ++i) outputs[i] = NULL;
  rlt_module_export_t declared;
  RLT_RETURN_IF_ERROR(check_call(session, export_ordinal, input_count, inputs, error, &declared));
  RLT_RETURN_IF_ERROR(check_outputs(&declared, output_count, error));
  rlt_object_t* on_stack[REFS_ON_STACK];
  void* block = NULL;
  const size_t ref_count = (size_t)input_count + output_count;
  if (ref_count > REFS_ON_STACK) {
    RLT_RETURN_IF_ERROR(
        rlt_allocator_allocate_array(session->allocator, ref_count, sizeof(rlt_object_t*), error, &block));
  }
  rlt_object_t** refs = block ? (rlt_object_t**)block : on_stack;
  rlt_status_t status = invoke_and_wait(session, &declared, input_count, inputs, refs, error);
  if (status == RLT_OK) {
    status = rlt_session_take_outputs(session, &declared, input_count, inputs, refs, outputs, error);
  }
  rlt_allocator_free(session->allocator, block);
  return status;
}

#ifndef RLT_FREESTANDING

struct rlt_pending_t {
  rlt_session_t* session;
  pid_t process;  // after a fork the devices' threads are in the parent only
  rlt_module_export_t declared;
  rlt_call_t call;
  bool settled;  // the work is done and `outputs` hold its results, unless it failed
  rlt_status_t status;
  rlt_error_t error;
  uint32_t input_count;
  rlt_object_t** refs;          // the results of the host program; room for its arguments follows
  rlt_buffer_view_t** inputs;   // retained
  rlt_buffer_view_t** outputs;
};

static void pending_free(rlt_pending_t* pending) {
  rlt_session_t* session = pending->session;
  for (uint32_t i = 0; i < pending->input_count; ++i) rlt_buffer_view_release(pending->inputs[i]);
  rlt_allocator_free(session->allocator, pending);
  rlt_session_release(session);
}

static rlt_status_t pending_create(rlt_session_t* session, const rlt_module_export_t* declared, uint32_t input_count,
                                   rlt_buffer_view_t* const* inputs, rlt_error_t* error, rlt_pending_t** out_pending) {
  const uint32_t output_count = declared->outputs.count;
  const size_t pointers = 2 * ((size_t)input_count + output_count);
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(session->allocator, sizeof(rlt_pending_t) + pointers * sizeof(void*),
                                             error, &block));
  rlt_pending_t* pending = (rlt_pending_t*)block;
  rlt_session_retain(session);
  pending->session = session;
  pending->process = getpid();
  pending->declared = *declared;
  pending->call = rlt_call_begin(session->allocator, true);
  pending->input_count = input_count;
  pending->refs = (rlt_object_t**)(pending + 1);
  pending->inputs = (rlt_buffer_view_t**)(pending->refs + output_count + input_count);
  pending->outputs = pending->inputs + input_count;
  for (uint32_t i = 0; i < input_count; ++i) {
    rlt_buffer_view_retain(inputs[i]);
    pending->inputs[i] = inputs[i];
  }
  *out_pending = pending;
  return RLT_OK;
}

rlt_status_t rlt_session_submit(rlt_session_t* session, uint32_t export_ordinal, uint32_t input_count,
                                rlt_buffer_view_t* const* inputs, rlt_error_t* error, rlt_pending_t** out_pending) {
  *out_pending = NULL;
  if (error) error->entry = 0;
  if (!session) return rlt_session_null_error("session", error);
  rlt_module_export_t declared;
  RLT_RETURN_IF_ERROR(check_call(session, export_ordinal, input_count, inputs, error, &declared));
  rlt_pending_t* pending = NULL;
  RLT_RETURN_IF_ERROR(pending_create(session, &declared, input_count, inputs, error, &pending));
  rlt_status_t status =
      invoke(session, &declared, input_count, inputs, &pending->call, pending->refs, error);
  if (status == RLT_OK) {
    *out_pending = pending;
    return RLT_OK;
  }
  status = rlt_call_end(&pending->call, status, error);
  if (status == RLT_TRAP) blame_nodes(session, error);
  pending_free(pending);
  return status;
}

// Turns the host program's results into outputs once the work is done, or drops them when it failed.
static void settle(rlt_pending_t* pending, rlt_status_t status) {
  const uint32_t count = pending->declared.outputs.count;
  rlt_session_t* session = pending->session;
  status = rlt_call_end(&pending->call, status, &pending->error);
  if (status == RLT_OK) {
    status = rlt_session_take_outputs(session, &pending->declared, pending->input_count, pending->inputs,
                                      pending->refs, pending->outputs, &pending->error);
  } else {
    for (uint32_t i = 0; i < count; ++i) rlt_object_release(pending->refs[i]);
  }
  if (status == RLT_TRAP) blame_nodes(session, &pending->error);
  pending->status = status;
  pending->settled = true;
}

rlt_status_t rlt_pending_wait(rlt_pending_t* pending, uint64_t timeout_ns, uint32_t output_count,
                              rlt_buffer_view_t** outputs, rlt_error_t* error) {
  if (error) error->entry = 0;
  if (!pending) return rlt_session_null_error("pending", error);
  if (!outputs && output_count > 0) return rlt_session_null_error("outputs", error);
  for (uint32_t i = 0; i < output_count; ++i) outputs[i] = NULL;
  RLT_RETURN_IF_ERROR(check_outputs(&pending->declared, output_count, error));
  if (!pending->settled) {
    if (pending->process != getpid()) {
      return rlt_error_set(error, RLT_FAILED_PRECONDITION, "the call was made by the process that this one is a fork of");
    }
    const rlt_status_t status = rlt_call_await(&pending->call, timeout_ns, &pending->error);
    if (status == RLT_DEADLINE_EXCEEDED) return rlt_error_set(error, status, "the call is not done yet");
    settle(pending, status);
  }
  if (pending->status != RLT_OK) {
    if (error) *error = pending->error;
    return pending->status;
  }
  for (uint32_t i = 0; i < output_count; ++i) {
    rlt_buffer_view_retain(pending->outputs[i]);
    outputs[i] = pending->outputs[i];
  }
  return RLT_OK;
}

bool rlt_pending_is_done(rlt_pending_t* pending) {
  if (pending->settled) return true;
  if (pending->process != getpid()) return false;
  const rlt_status_t status = rlt_call_await(&pending->call, 0, &pending->error);
  if (status == RLT_DEADLINE_EXCEEDED) return false;
  settle(pending, status);
  return true;
}

void rlt_pending_release(rlt_pending_t* pending) {
  if (!pending) return;
  if (!pending->settled) {
    // In a fork nobody does the work, and what the parent's threads held cannot be known: it is left alone.
    if (pending->process != getpid()) return;
    settle(pending, rlt_call_await(&pending->call, UINT64_MAX, &pending->error));
  }
  for (uint32_t i = 0; i < pending->declared.outputs.count; ++i) rlt_buffer_view_release(pending->outputs[i]);
  pending_free(pending);
}

#endif  // RLT_FREESTANDING
