// From a module file to the VM.
#include "base/checked_math.h"
#include "rillet/module.h"

// One block for the three tables; the VM copies what it keeps.
static rlt_status_t allocate_program(const rlt_module_view_t* module, rlt_allocator_t allocator, rlt_error_t* error,
                                     void** out) {
  // Counts are those of a file in memory, so that the sum of a few of them cannot overflow 64 bits.
  uint64_t size = (uint64_t)module->functions.count * sizeof(rlt_vm_function_t) +
                  (uint64_t)module->imports.count * sizeof(rlt_vm_import_t) +
                  (uint64_t)module->exports.count * sizeof(rlt_vm_export_t);
  if (size > SIZE_MAX) return rlt_error_set(error, RLT_OUT_OF_MEMORY, "out of memory: too many functions");
  return rlt_allocator_allocate(allocator, (size_t)size, error, out);
}

rlt_status_t rlt_module_create_vm(const rlt_module_view_t* module, const rlt_vm_native_module_t* natives,
                                  size_t native_count, const rlt_vm_module_options_t* options,
                                  rlt_allocator_t allocator, rlt_error_t* error, rlt_vm_module_t** out) {
  *out = NULL;
  void* block;
  RLT_RETURN_IF_ERROR(allocate_program(module, allocator, error, &block));
  rlt_vm_function_t* functions = block;
  rlt_vm_import_t* imports = (rlt_vm_import_t*)(functions + module->functions.count);
  rlt_vm_export_t* exports = (rlt_vm_export_t*)(imports + module->imports.count);
  for (uint32_t i = 0; i < module->functions.count; ++i) functions[i] = rlt_module_function(module, i);
  for (uint32_t i = 0; i < module->imports.count; ++i) imports[i] = rlt_module_import(module, i);
  for (uint32_t i = 0; i < module->exports.count; ++i) {
    rlt_module_export_t export = rlt_module_export(module, i);
    exports[i] = (rlt_vm_export_t){.name = export.name, .function = export.function};
  }
  rlt_vm_program_t program = {
      .imports = imports,
      .functions = functions,
      .exports = exports,
      // Aligned: vectors were checked relative to the metadata, whose start is a multiple of 16.
      .code = (const uint16_t*)(const void*)module->code.elements,
      .import_count = module->imports.count,
      .function_count = module->functions.count,
      .export_count = module->exports.count,
      .code_length = module->code.count,
      .int_globals = module->int_globals,
      .ref_globals = module->ref_globals,
  };
  rlt_status_t status = rlt_vm_module_create(&program, natives, native_count, options, allocator, error, out);
  rlt_allocator_free(allocator, block);
  return status;
}
