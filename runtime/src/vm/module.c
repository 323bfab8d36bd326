#include "base/checked_math.h"
#include "base/strings.h"
#include "vm/internal.h"

// The initializer's name, which makes function 0 one.
static const char k_initializer[] = "__init";

// Code addresses globals by a 16-bit word, so more could not be used.
enum { MAX_GLOBALS = 1 << 16 };

static const rlt_vm_native_function_t* find_native(const rlt_vm_native_module_t* natives, size_t native_count,
                                                   const char* name, void** self) {
  for (size_t i = 0; i < native_count; ++i) {
    for (size_t k = 0; k < natives[i].function_count; ++k) {
      if (!rlt_string_equal(natives[i].functions[k].name, name)) continue;
      *self = natives[i].self;
      return &natives[i].functions[k];
    }
  }
  return NULL;
}

static rlt_status_t resolve_import(const rlt_vm_import_t* wanted, const rlt_vm_native_module_t* natives,
                                   size_t native_count, rlt_error_t* error, import_t* out) {
  void* self = NULL;
  const rlt_vm_native_function_t* found = find_native(natives, native_count, wanted->name, &self);
  if (!found) {
    return rlt_error_set(error, RLT_NOT_FOUND, "the program imports \"%s\", which this runtime does not offer",
                         wanted->name);
  }
  if (!rlt_string_equal(found->arguments, wanted->arguments) || !rlt_string_equal(found->results, wanted->results)) {
    return rlt_error_set(error, RLT_INCOMPATIBLE,
                         "the program imports \"%s\" as (%s) -> (%s), but this runtime offers (%s) -> (%s)",
                         wanted->name, wanted->arguments, wanted->results, found->arguments, found->results);
  }
  *out = (import_t){.self = self, .fn = found->fn, .name = wanted->name};
  return rlt_vm_parse_signature(wanted->arguments, wanted->results, true, error, &out->signature);
}

static rlt_status_t add_function(rlt_vm_module_t* module, const rlt_vm_program_t* program, uint32_t ordinal,
                                 rlt_error_t* error) {
  const rlt_vm_function_t* source = &program->functions[ordinal];
  function_t* function = &module->functions[ordinal];
  if (!rlt_range_fits(source->code_offset, source->code_length, program->code_length)) {
    return rlt_error_set(error, RLT_DATA_LOSS, "bytecode: the code of function \"%s\" is outside the module's code",
                         source->name);
  }
  *function = (function_t){
      .name = source->name,
      .code = program->code + source->code_offset,
      .code_length = source->code_length,
      .int_registers = source->int_registers,
      .ref_registers = source->ref_registers,
  };
  rlt_status_t status =
      rlt_vm_parse_signature(source->arguments, source->results, false, error, &function->signature);
  if (status != RLT_OK) rlt_error_prefix(error, "bytecode: function \"%s\": ", source->name);
  return status;
}

static rlt_status_t check_exports(const rlt_vm_module_t* module, rlt_error_t* error) {
  for (uint32_t i = 0; i < module->export_count; ++i) {
    const rlt_vm_export_t* export = &module->exports[i];
    if (export->function >= module->function_count) {
      return rlt_error_set(error, RLT_DATA_LOSS, "export \"%s\" is function %u, but there are %u", export->name,
                           export->function, module->function_count);
    }
    if (export->function == 0 && module->has_initializer) {
      return rlt_error_set(error, RLT_DATA_LOSS, "export \"%s\" is the initializer", export->name);
    }
  }
  return RLT_OK;
}

static rlt_status_t allocate_tables(rlt_vm_module_t* module, const rlt_vm_program_t* program, rlt_error_t* error) {
  const struct {
    void* table;
    uint32_t count;
    size_t element_size;
  } tables[] = {
      {&module->imports, program->import_count, sizeof(import_t)},
      {&module->functions, program->function_count, sizeof(function_t)},
      {&module->exports, program->export_count, sizeof(rlt_vm_export_t)},
      {&module->int_globals, program->int_globals, sizeof(rlt_atomic_int64_t)},
      {&module->ref_globals, program->ref_globals, sizeof(rlt_object_t*)},
  };
  for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); ++i) {
    void* block;
    RLT_RETURN_IF_ERROR(
        rlt_allocator_allocate_array(module->allocator, tables[i].count, tables[i].element_size, error, &block));
    memcpy(tables[i].table, &block, sizeof(block));
  }
  module->import_count = program->import_count;
  module->function_count = program->function_count;
  module->export_count = program->export_count;
  module->int_global_count = program->int_globals;
  module->ref_global_count = program->ref_globals;
  return RLT_OK;
}

static rlt_status_t load(rlt_vm_module_t* module, const rlt_vm_program_t* program,
                         const rlt_vm_native_module_t* natives, size_t native_count, void* context,
                         rlt_error_t* error) {
  if (program->int_globals > MAX_GLOBALS || program->ref_globals > MAX_GLOBALS) {
    return rlt_error_set(error, RLT_DATA_LOSS, "bytecode: more than %d globals", (int)MAX_GLOBALS);
  }
  RLT_RETURN_IF_ERROR(allocate_tables(module, program, error));
  if (program->export_count) {
    memcpy(module->exports, program->exports, program->export_count * sizeof(*program->exports));
  }
  for (uint32_t i = 0; i < program->import_count; ++i) {
    RLT_RETURN_IF_ERROR(resolve_import(&program->imports[i], natives, native_count, error, &module->imports[i]));
  }
  uint64_t code_length = 0;
  for (uint32_t i = 0; i < program->function_count; ++i) {
    RLT_RETURN_IF_ERROR(add_function(module, program, i, error));
    code_length += program->functions[i].code_length;
  }
  // So that verification takes time in proportion to the code.
  if (code_length > program->code_length) {
    return rlt_error_set(error, RLT_DATA_LOSS, "bytecode: functions share code");
  }
  module->has_initializer = program->function_count && rlt_string_equal(program->functions[0].name, k_initializer);
  if (module->has_initializer && (*program->functions[0].arguments || *program->functions[0].results)) {
    return rlt_error_set(error, RLT_DATA_LOSS, "bytecode: the initializer takes or returns something");
  }
  RLT_RETURN_IF_ERROR(check_exports(module, error));
  for (uint32_t i = 0; i < program->function_count; ++i) RLT_RETURN_IF_ERROR(rlt_vm_verify_function(module, i, error));
  rlt_vm_compute_stack_sizes(module);
  if (!module->has_initializer) return RLT_OK;
  rlt_vm_call_t call = {.context = context};
  return rlt_vm_invoke(module, 0, &call, error);
}

rlt_status_t rlt_vm_module_create(const rlt_vm_program_t* program, const rlt_vm_native_module_t* natives,
                                  size_t native_count, const rlt_vm_module_options_t* options,
                                  rlt_allocator_t allocator, rlt_error_t* error, rlt_vm_module_t** out) {
  *out = NULL;
  void* block;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(allocator, sizeof(rlt_vm_module_t), error, &block));
  rlt_vm_module_t* module = block;
  module->allocator = allocator;
  module->step_limit = options && options->step_limit ? options->step_limit : UINT64_MAX;
  if (options) module->interrupt = options->interrupt;
  rlt_status_t status = load(module, program, natives, native_count, options ? options->context : NULL, error);
  if (status != RLT_OK) {
    rlt_vm_module_destroy(module);
    return status;
  }
  *out = module;
  return RLT_OK;
}

void rlt_vm_module_destroy(rlt_vm_module_t* module) {
  if (!module) return;
  for (uint32_t i = 0; i < module->ref_global_count; ++i) rlt_object_release(module->ref_globals[i]);
  for (int i = 0; i < RLT_VM_STACK_POOL_SIZE; ++i) {
    rlt_allocator_free(module->allocator, rlt_atomic_take_pointer(&module->stacks[i]));
  }
  rlt_allocator_free(module->allocator, module->imports);
  rlt_allocator_free(module->allocator, module->functions);
  rlt_allocator_free(module->allocator, module->exports);
  rlt_allocator_free(module->allocator, module->int_globals);
  rlt_allocator_free(module->allocator, module->ref_globals);
  rlt_allocator_free(module->allocator, module);
}

rlt_status_t rlt_vm_module_lookup(const rlt_vm_module_t* module, const char* name, rlt_error_t* error, uint32_t* out) {
  for (uint32_t i = 0; i < module->export_count; ++i) {
    if (!rlt_string_equal(module->exports[i].name, name)) continue;
    *out = module->exports[i].function;
    return RLT_OK;
  }
  return rlt_error_set(error, RLT_NOT_FOUND, "the module exports no function \"%s\"", name);
}

static rlt_status_t acquire_stack(rlt_vm_module_t* module, rlt_error_t* error, stack_t** out) {
  for (int i = 0; i < RLT_VM_STACK_POOL_SIZE; ++i) {
    *out = rlt_atomic_take_pointer(&module->stacks[i]);
    if (*out) return RLT_OK;
  }
  void* block;
  // Frames are cleared as they are entered, so the stack need not be.
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate_aligned(module->allocator, sizeof(stack_t) + module->stack_size,
                                                     _Alignof(stack_t), error, &block));
  *out = block;
  return RLT_OK;
}

static void release_stack(rlt_vm_module_t* module, stack_t* stack) {
  for (int i = 0; i < RLT_VM_STACK_POOL_SIZE; ++i) {
    if (rlt_atomic_put_pointer(&module->stacks[i], stack)) return;
  }
  rlt_allocator_free(module->allocator, stack);
}

rlt_status_t rlt_vm_invoke(rlt_vm_module_t* module, uint32_t function, const rlt_vm_call_t* call, rlt_error_t* error) {
  for (uint32_t i = 0; i < call->ref_result_count; ++i) call->ref_results[i] = NULL;
  if (function >= module->function_count) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "the module has no function %u", function);
  }
  const function_t* callee = &module->functions[function];
  const signature_t* signature = &callee->signature;
  if (call->int_argument_count != signature->int_arguments || call->ref_argument_count != signature->ref_arguments ||
      call->int_result_count != signature->int_results || call->ref_result_count != signature->ref_results) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT,
                         "function \"%s\" has %u integer and %u reference arguments, %u integer and %u reference "
                         "results; called with %u, %u, %u and %u",
                         callee->name, signature->int_arguments, signature->ref_arguments, signature->int_results,
                         signature->ref_results, call->int_argument_count, call->ref_argument_count,
                         call->int_result_count, call->ref_result_count);
  }
  stack_t* stack;
  RLT_RETURN_IF_ERROR(acquire_stack(module, error, &stack));
  rlt_status_t status = rlt_vm_interpret(module, stack, callee, call, error);
  release_stack(module, stack);
  return status;
}
