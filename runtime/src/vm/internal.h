// What the verifier, the interpreter and the module share.
#ifndef RILLET_VM_INTERNAL_H_
#define RILLET_VM_INTERNAL_H_

#include "rillet/vm.h"

// A signature as counts. `variadic` is 'i' or 'r' when any number of such arguments may follow, else 0.
typedef struct signature_t {
  uint32_t int_arguments, ref_arguments, int_results, ref_results;
  char variadic;
} signature_t;

typedef struct import_t {
  void* self;
  rlt_vm_native_fn_t fn;
  const char* name;
  signature_t signature;
} import_t;

// A frame is an array of integers followed by an array of references: first the registers, then scratch space in which
// the arguments and results of a native call are put side by side.
typedef struct function_t {
  const char* name;
  const uint16_t* code;
  uint32_t code_length;  // in words
  uint32_t int_registers, ref_registers;
  uint32_t int_slots, ref_slots;  // registers and scratch
  size_t frame_size;              // in bytes, a multiple of 8
  size_t stack_size;              // in bytes: of its frame and of the deepest chain of calls from it
  size_t next_stack_size;         // while that is being computed
  signature_t signature;
  bool calls_functions;
} function_t;

typedef struct frame_t {
  const function_t* function;
  const uint16_t* return_to;  // in the caller: its instruction's lists of result registers
  int64_t* ints;
  rlt_object_t** refs;
} frame_t;

// The stack of one invocation; the frames' registers follow it.
typedef struct stack_t {
  frame_t frames[RLT_VM_MAX_CALL_DEPTH];
  int64_t registers[];
} stack_t;

struct rlt_vm_module_t {
  rlt_allocator_t allocator;
  import_t* imports;
  function_t* functions;
  rlt_vm_export_t* exports;
  rlt_atomic_int64_t* int_globals;
  rlt_object_t** ref_globals;
  uint32_t import_count, function_count, export_count;
  uint32_t int_global_count, ref_global_count;
  uint64_t step_limit;  // UINT64_MAX: none
  rlt_interrupt_t interrupt;
  size_t stack_size;    // in bytes: enough for any function
  bool has_initializer;
  rlt_atomic_pointer_t stacks[RLT_VM_STACK_POOL_SIZE];  // idle ones
};

// Parses a pair of signature strings; "*" only where `allow_variadic`. Fails with RLT_DATA_LOSS.
rlt_status_t rlt_vm_parse_signature(const char* arguments, const char* results, bool allow_variadic,
                                    rlt_error_t* error, signature_t* out);

// Verifies one function of `module`, whose signatures are all parsed, and sets its frame's size. Fails with
// RLT_DATA_LOSS and RLT_OUT_OF_MEMORY.
rlt_status_t rlt_vm_verify_function(rlt_vm_module_t* module, uint32_t ordinal, rlt_error_t* error);

// Sets stack_size of every (verified) function and of the module.
void rlt_vm_compute_stack_sizes(rlt_vm_module_t* module);

// Runs `function` on `stack`, with `call` already checked. As rlt_vm_invoke.
rlt_status_t rlt_vm_interpret(rlt_vm_module_t* module, stack_t* stack, const function_t* function,
                              const rlt_vm_call_t* call, rlt_error_t* error);

#endif  // RILLET_VM_INTERNAL_H_
