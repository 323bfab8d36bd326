// Everything the interpreter takes for granted is checked here, once, at load.
#include "base/strings.h"
#include "vm/bytecode.h"
#include "vm/internal.h"

rlt_status_t rlt_vm_parse_signature(const char* arguments, const char* results, bool allow_variadic,
                                    rlt_error_t* error, signature_t* out) {
  *out = (signature_t){0};
  const char* parts[2] = {arguments, results};
  for (int part = 0; part < 2; ++part) {
    uint32_t counts[2] = {0, 0};
    for (const char* kind = parts[part]; *kind; ++kind) {
      if (*kind == '*' && allow_variadic && part == 0 && kind != arguments && kind[1] == '\0') {
        out->variadic = kind[-1];
        --counts[out->variadic == 'r'];
      } else if (*kind == 'i' || *kind == 'r') {
        ++counts[*kind == 'r'];
      } else {
        return rlt_error_set(error, RLT_DATA_LOSS, "\"%s\" is not a signature", parts[part]);
      }
    }
    if (counts[0] > UINT16_MAX || counts[1] > UINT16_MAX) {
      return rlt_error_set(error, RLT_DATA_LOSS, "a signature of more than %d values", UINT16_MAX);
    }
    *(part ? &out->int_results : &out->int_arguments) = counts[0];
    *(part ? &out->ref_results : &out->ref_arguments) = counts[1];
  }
  return RLT_OK;
}

typedef struct verifier_t {
  rlt_vm_module_t* module;
  function_t* function;
  rlt_error_t* error;
  uint8_t* starts;  // one bit for each code word: an instruction starts here
  bool is_initializer;
  uint32_t int_scratch, ref_scratch;
} verifier_t;

static rlt_status_t check_register(verifier_t* v, char kind, uint16_t number) {
  uint32_t count = kind == 'i' ? v->function->int_registers : v->function->ref_registers;
  if (RLT_LIKELY(number < count)) return RLT_OK;
  return rlt_error_set(v->error, RLT_DATA_LOSS, "register %c%u is out of range: the function has %u", kind, number,
                       count);
}

// Checks registers and the words that must be there, and sets *length. Code from `at` on has `available` words.
static rlt_status_t check_operands(verifier_t* v, const uint16_t* at, size_t available, size_t* length) {
  const char* operand = rlt_vm_operands(at[0]);
  if (!operand) return rlt_error_set(v->error, RLT_DATA_LOSS, "unknown opcode %u", at[0]);
  size_t used = 1;
  for (; *operand; ++operand) {
    size_t words = *operand == 'L' ? 2 : *operand == 'q' ? 4 : 1;
    if (words > available - used) goto truncated;
    if (*operand == 'i' || *operand == 'r') RLT_RETURN_IF_ERROR(check_register(v, *operand, at[used]));
    if (*operand == 'I' || *operand == 'R') {
      char kind = *operand == 'I' ? 'i' : 'r';
      size_t count = at[used];
      if (count > available - used - 1) goto truncated;
      for (size_t i = 1; i <= count; ++i) RLT_RETURN_IF_ERROR(check_register(v, kind, at[used + i]));
      words += count;
    }
    used += words;
  }
  *length = used;
  return RLT_OK;

truncated:
  return rlt_error_set(v->error, RLT_DATA_LOSS, "the instruction (opcode %u) is truncated", at[0]);
}

static rlt_status_t check_count(verifier_t* v, const char* callee, const char* what, uint32_t given, uint32_t expected,
                                bool at_least) {
  if (given == expected || (at_least && given > expected)) return RLT_OK;
  return rlt_error_set(v->error, RLT_DATA_LOSS, "%s: %u %s given, the signature has %u%s", callee, given, what,
                       expected, at_least ? " or more" : "");
}

static rlt_status_t check_call(verifier_t* v, const uint16_t* at) {
  const rlt_vm_module_t* module = v->module;
  uint16_t target = at[1];
  bool is_import = (target & RLT_VM_CALL_IMPORT) != 0;
  uint32_t ordinal = target & (RLT_VM_CALL_IMPORT - 1);
  if (ordinal >= (is_import ? module->import_count : module->function_count)) {
    return rlt_error_set(v->error, RLT_DATA_LOSS, "call of %s %u, which does not exist",
                         is_import ? "import" : "function", ordinal);
  }
  if (!is_import && ordinal == 0 && module->has_initializer) {
    return rlt_error_set(v->error, RLT_DATA_LOSS, "call of the initializer");
  }
  const signature_t* signature =
      is_import ? &module->imports[ordinal].signature : &module->functions[ordinal].signature;
  const char* callee = is_import ? module->imports[ordinal].name : module->functions[ordinal].name;
  const uint16_t* list = at + 2;
  uint32_t int_arguments = list[0];
  list += 1 + list[0];
  uint32_t ref_arguments = list[0];
  list += 1 + list[0];
  uint32_t int_results = list[0];
  list += 1 + list[0];
  uint32_t ref_results = list[0];
  RLT_RETURN_IF_ERROR(check_count(v, callee, "integer arguments", int_arguments, signature->int_arguments,
                                  signature->variadic == 'i'));
  RLT_RETURN_IF_ERROR(check_count(v, callee, "reference arguments", ref_arguments, signature->ref_arguments,
                                  signature->variadic == 'r'));
  RLT_RETURN_IF_ERROR(check_count(v, callee, "integer results", int_results, signature->int_results, false));
  RLT_RETURN_IF_ERROR(check_count(v, callee, "reference results", ref_results, signature->ref_results, false));
  if (!is_import) {
    v->function->calls_functions = true;
    return RLT_OK;
  }
  if (int_arguments + int_results > v->int_scratch) v->int_scratch = int_arguments + int_results;
  if (ref_arguments + ref_results > v->ref_scratch) v->ref_scratch = ref_arguments + ref_results;
  return RLT_OK;
}

static rlt_status_t check_global(verifier_t* v, uint32_t number, uint32_t count) {
  if (number < count) return RLT_OK;
  return rlt_error_set(v->error, RLT_DATA_LOSS, "global %u is out of range: the module has %u", number, count);
}

// What an opcode asks beyond its operands being there. Branch targets come later, when all starts are known.
static rlt_status_t check_instruction(verifier_t* v, const uint16_t* at) {
  const signature_t* signature = &v->function->signature;
  switch (at[0]) {
    case OP_TRAP:
      if (at[1] > RLT_OK && at[1] < RLT_STATUS_COUNT) return RLT_OK;
      return rlt_error_set(v->error, RLT_DATA_LOSS, "trap with %u, which is not the status of a failure", at[1]);
    case OP_CALL: return check_call(v, at);
    case OP_RETURN:
      RLT_RETURN_IF_ERROR(check_count(v, "return", "integers", at[1], signature->int_results, false));
      return check_count(v, "return", "references", at[2 + at[1]], signature->ref_results, false);
    case OP_GLOBAL_LOAD: return check_global(v, at[2], v->module->int_global_count);
    case OP_GLOBAL_STORE: return check_global(v, at[1], v->module->int_global_count);
    case OP_GLOBAL_LOAD_REF: return check_global(v, at[2], v->module->ref_global_count);
    case OP_GLOBAL_STORE_REF:
      if (!v->is_initializer) {
        return rlt_error_set(v->error, RLT_DATA_LOSS, "only the initializer may store a reference in a global");
      }
      return check_global(v, at[1], v->module->ref_global_count);
    default: return RLT_OK;
  }
}

static rlt_status_t check_target(verifier_t* v, uint32_t target) {
  if (target < v->function->code_length && (v->starts[target >> 3] >> (target & 7) & 1)) return RLT_OK;
  return rlt_error_set(v->error, RLT_DATA_LOSS, "branch to word %u, where no instruction starts", target);
}

static bool is_terminator(uint16_t opcode) {
  return opcode == OP_TRAP || opcode == OP_BRANCH || opcode == OP_BRANCH_IF || opcode == OP_RETURN;
}

// First all instructions, then all branches; *word says where a failure is.
static rlt_status_t check_code(verifier_t* v, uint32_t* word) {
  const function_t* function = v->function;
  uint16_t last_opcode = OP_COUNT;
  for (*word = 0; *word < function->code_length;) {
    const uint16_t* at = function->code + *word;
    size_t length = 0;
    RLT_RETURN_IF_ERROR(check_operands(v, at, function->code_length - *word, &length));
    RLT_RETURN_IF_ERROR(check_instruction(v, at));
    v->starts[*word >> 3] |= (uint8_t)(1u << (*word & 7));
    last_opcode = at[0];
    *word += (uint32_t)length;
  }
  if (!is_terminator(last_opcode)) {
    return rlt_error_set(v->error, RLT_DATA_LOSS, "the function does not end in a terminator");
  }
  for (*word = 0; *word < function->code_length;) {
    const uint16_t* at = function->code + *word;
    if (at[0] == OP_BRANCH) RLT_RETURN_IF_ERROR(check_target(v, rlt_vm_read_offset(at + 1)));
    if (at[0] == OP_BRANCH_IF) {
      RLT_RETURN_IF_ERROR(check_target(v, rlt_vm_read_offset(at + 2)));
      RLT_RETURN_IF_ERROR(check_target(v, rlt_vm_read_offset(at + 4)));
    }
    *word += (uint32_t)rlt_vm_instruction_length(at);
  }
  return RLT_OK;
}

rlt_status_t rlt_vm_verify_function(rlt_vm_module_t* module, uint32_t ordinal, rlt_error_t* error) {
  function_t* function = &module->functions[ordinal];
  verifier_t v = {.module = module, .function = function, .error = error};
  v.is_initializer = ordinal == 0 && module->has_initializer;
  if (function->signature.int_arguments > function->int_registers ||
      function->signature.ref_arguments > function->ref_registers) {
    return rlt_error_set(error, RLT_DATA_LOSS, "bytecode: function \"%s\" has fewer registers than arguments",
                         function->name);
  }
  void* starts;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(module->allocator, function->code_length / 8 + 1, error, &starts));
  v.starts = starts;
  uint32_t word = 0;
  rlt_status_t status = check_code(&v, &word);
  rlt_allocator_free(module->allocator, starts);
  if (status != RLT_OK) {
    rlt_error_prefix(error, "bytecode: function \"%s\", word %u: ", function->name, word);
    return status;
  }
  function->int_slots = function->int_registers + v.int_scratch;
  function->ref_slots = function->ref_registers + v.ref_scratch;
  size_t size = function->int_slots * sizeof(int64_t) + function->ref_slots * sizeof(rlt_object_t*);
  function->frame_size = (size + 7) & ~(size_t)7;
  return RLT_OK;
}

// The deepest chain from `function` when calls may nest one level more than the callees' stack_size already covers.
static size_t chain_size(const rlt_vm_module_t* module, const function_t* function) {
  size_t deepest = 0;
  for (uint32_t word = 0; word < function->code_length;) {
    const uint16_t* at = function->code + word;
    if (at[0] == OP_CALL && !(at[1] & RLT_VM_CALL_IMPORT)) {
      size_t size = module->functions[at[1]].stack_size;
      if (size > deepest) deepest = size;
    }
    word += (uint32_t)rlt_vm_instruction_length(at);
  }
  return function->frame_size + deepest;
}

// Each round lets calls nest exactly one level more; recursion ends at the call depth, other programs as soon as
// nothing grows.
void rlt_vm_compute_stack_sizes(rlt_vm_module_t* module) {
  function_t* functions = module->functions;
  for (uint32_t i = 0; i < module->function_count; ++i) functions[i].stack_size = functions[i].frame_size;
  bool grew = true;
  for (int depth = 1; depth < RLT_VM_MAX_CALL_DEPTH && grew; ++depth) {
    grew = false;
    for (uint32_t i = 0; i < module->function_count; ++i) {
      functions[i].next_stack_size =
          functions[i].calls_functions ? chain_size(module, &functions[i]) : functions[i].frame_size;
    }
    for (uint32_t i = 0; i < module->function_count; ++i) {
      grew |= functions[i].next_stack_size > functions[i].stack_size;
      functions[i].stack_size = functions[i].next_stack_size;
    }
  }
  for (uint32_t i = 0; i < module->function_count; ++i) {
    if (functions[i].stack_size > module->stack_size) module->stack_size = functions[i].stack_size;
  }
}
