// The bytecode virtual machine: runs the host program of a module.
//
// A module is created from a program (see module.h for one that comes from a file), completely verified, bound to its
// imports, and its initializer run. From then on it is immutable, but for integer globals, and any number of threads
// may invoke it at the same time.
//
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_VM_H_
#define RILLET_VM_H_

#include "rillet/base/allocator.h"
#include "rillet/base/object.h"
#include "rillet/base/status.h"

RLT_BEGIN_DECLS

enum {
  RLT_VM_MAX_CALL_DEPTH = 32,  // frames on the stack of one invocation
  RLT_VM_STACK_POOL_SIZE = 8,  // idle stacks that a module keeps for the next calls
};

// The arguments and results of one call, into the VM or out of it. Signatures are strings of 'i' and 'r'; integers and
// references are listed separately here, each in the order of the signature.
typedef struct rlt_vm_call_t {
  const int64_t* int_arguments;
  rlt_object_t* const* ref_arguments;  // borrowed for the duration of the call; entries may be NULL
  int64_t* int_results;
  rlt_object_t** ref_results;  // the callee writes references that the caller then owns; NULL on entry from the VM
  uint32_t int_argument_count, ref_argument_count;
  uint32_t int_result_count, ref_result_count;
  void* context;  // the caller's, handed on to the native functions that the program calls; may be NULL
} rlt_vm_call_t;

// A function the host offers to programs. The VM has checked the counts in `call` against the signature, but not the
// types of references, which the function checks (rlt_object_is; NULL is possible). On failure it must have released
// what it wrote to ref_results or left it there: the VM releases whatever it finds.
typedef rlt_status_t (*rlt_vm_native_fn_t)(void* self, const rlt_vm_call_t* call, rlt_error_t* error);

typedef struct rlt_vm_native_function_t {
  const char* name;       // e.g. "hal.buffer.allocate"
  const char* arguments;  // e.g. "rii*": a trailing '*' means zero or more of the kind before it
  const char* results;
  rlt_vm_native_fn_t fn;
} rlt_vm_native_function_t;

// A table of native functions and the state they share, which must outlive every module bound to it.
typedef struct rlt_vm_native_module_t {
  void* self;
  const rlt_vm_native_function_t* functions;
  size_t function_count;
} rlt_vm_native_module_t;

typedef struct rlt_vm_function_t {
  const char* name;
  const char* arguments;
  const char* results;
  uint32_t code_offset, code_length;  // in words, into the program's code
  uint16_t int_registers, ref_registers;
} rlt_vm_function_t;

typedef struct rlt_vm_import_t {
  const char* name;
  const char* arguments;
  const char* results;
} rlt_vm_import_t;

typedef struct rlt_vm_export_t {
  const char* name;
  uint32_t function;
} rlt_vm_export_t;

// What a module is made of. Strings and code are used in place and must outlive the module; the arrays of structures
// are only read during rlt_vm_module_create.
typedef struct rlt_vm_program_t {
  const rlt_vm_import_t* imports;
  const rlt_vm_function_t* functions;
  const rlt_vm_export_t* exports;
  const uint16_t* code;
  uint32_t import_count, function_count, export_count;
  uint32_t code_length;  // in words
  uint32_t int_globals, ref_globals;
} rlt_vm_program_t;

// Asks the caller, on the calling thread, whether an invocation should end; `is_pending` is NULL when nobody can ask for
// that. It is called once in RLT_VM_INTERRUPT_STEPS branches and calls, so never in short invocations.
typedef struct rlt_interrupt_t {
  void* self;
  bool (*is_pending)(void* self);
} rlt_interrupt_t;
enum { RLT_VM_INTERRUPT_STEPS = 32 };

typedef struct rlt_vm_module_options_t {
  // Ends an invocation with RLT_RESOURCE_EXHAUSTED after this many branches and calls; 0 = no limit.
  uint64_t step_limit;
  rlt_interrupt_t interrupt;  // ends an invocation with RLT_CANCELLED when it is pending
  void* context;              // of the initializer's call; may be NULL
} rlt_vm_module_options_t;

typedef struct rlt_vm_module_t rlt_vm_module_t;

// Verifies `program`, resolves its imports by name in `natives` (the first table that has it), and runs function 0 when
// its name is "__init". `options` may be NULL.
// Fails with RLT_DATA_LOSS (the program breaks a rule of the bytecode), RLT_NOT_FOUND (an import nobody offers),
// RLT_INCOMPATIBLE (an import with another signature), RLT_OUT_OF_MEMORY, or whatever the initializer failed with.
// On success the caller owns *out and destroys it; on failure *out is NULL.
rlt_status_t rlt_vm_module_create(const rlt_vm_program_t* program, const rlt_vm_native_module_t* natives,
                                  size_t native_count, const rlt_vm_module_options_t* options,
                                  rlt_allocator_t allocator, rlt_error_t* error, rlt_vm_module_t** out);

// Releases the globals and frees the module; no invocation may be running. NULL is ignored.
void rlt_vm_module_destroy(rlt_vm_module_t* module);

// Finds an export. Fails with RLT_NOT_FOUND. *out is a function ordinal for rlt_vm_invoke.
rlt_status_t rlt_vm_module_lookup(const rlt_vm_module_t* module, const char* name, rlt_error_t* error, uint32_t* out);

// Calls a function (by the ordinal of rlt_vm_module_lookup) and waits for it. The counts in `call` must be those of its
// signature. Safe from any thread; a call takes a stack from the module's pool, or allocates one.
// On success the caller owns the references in call->ref_results; on failure they are all NULL.
// Fails with RLT_INVALID_ARGUMENT (counts), RLT_TRAP (division by zero and the like), RLT_RESOURCE_EXHAUSTED (call
// depth, step limit), RLT_CANCELLED (an interrupt), RLT_OUT_OF_MEMORY, a status the program itself traps with, or what an
// import failed with. The module can be called again after any of them.
rlt_status_t rlt_vm_invoke(rlt_vm_module_t* module, uint32_t function, const rlt_vm_call_t* call, rlt_error_t* error);

RLT_END_DECLS

#endif  // RILLET_VM_H_
