// Writing small programs: an assembler of words, and a host module to import from.
#ifndef RILLET_TESTS_VM_PROGRAM_H_
#define RILLET_TESTS_VM_PROGRAM_H_

#include "harness.h"
#include "vm/bytecode.h"

#define OFFSET(value) (uint16_t)(value), (uint16_t)((uint32_t)(value) >> 16)
#define LITERAL(value)                                                                             \
  (uint16_t)(uint64_t)(value), (uint16_t)((uint64_t)(value) >> 16), (uint16_t)((uint64_t)(value) >> 32), \
      (uint16_t)((uint64_t)(value) >> 48)
#define IMPORT(ordinal) (uint16_t)(RLT_VM_CALL_IMPORT | (ordinal))

typedef struct program_t {
  uint16_t code[1024];
  rlt_vm_function_t functions[8];
  rlt_vm_import_t imports[8];
  rlt_vm_export_t exports[8];
  rlt_vm_program_t program;
} program_t;

// Starts a function; EMIT adds to the one started last.
static inline void begin_function(program_t* p, const char* name, const char* arguments, const char* results,
                                  uint16_t int_registers, uint16_t ref_registers) {
  CHECK(p->program.function_count < 8);
  p->functions[p->program.function_count++] = (rlt_vm_function_t){
      .name = name,
      .arguments = arguments,
      .results = results,
      .code_offset = p->program.code_length,
      .int_registers = int_registers,
      .ref_registers = ref_registers,
  };
}

static inline void emit(program_t* p, const uint16_t* words, size_t count) {
  CHECK(p->program.code_length + count <= sizeof(p->code) / sizeof(p->code[0]));
  memcpy(p->code + p->program.code_length, words, count * sizeof(*words));
  p->program.code_length += (uint32_t)count;
  p->functions[p->program.function_count - 1].code_length += (uint32_t)count;
}
#define EMIT(p, ...) emit((p), (const uint16_t[]){__VA_ARGS__}, sizeof((const uint16_t[]){__VA_ARGS__}) / 2)

static inline void add_import(program_t* p, const char* name, const char* arguments, const char* results) {
  p->imports[p->program.import_count++] = (rlt_vm_import_t){name, arguments, results};
}

static inline void add_export(program_t* p, const char* name, uint32_t function) {
  p->exports[p->program.export_count++] = (rlt_vm_export_t){name, function};
}

// Objects that count themselves.
typedef struct box_t {
  rlt_object_t object;
  int64_t value;
} box_t;

static rlt_atomic_int64_t g_live_boxes;

static void box_destroy(rlt_object_t* object) {
  atomic_fetch_sub(&g_live_boxes, 1);
  free(object);
}

static const rlt_object_type_t k_box_type = {"test.box", box_destroy};

static inline rlt_object_t* box_create(int64_t value) {
  box_t* box = malloc(sizeof(*box));
  CHECK(box);
  rlt_object_initialize(&box->object, &k_box_type);
  box->value = value;
  atomic_fetch_add(&g_live_boxes, 1);
  return &box->object;
}

static inline int64_t box_value(const rlt_object_t* object) {
  CHECK(rlt_object_is(object, &k_box_type));
  return ((const box_t*)object)->value;
}

// test.box: i -> r
static rlt_status_t native_box(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self, (void)error;
  call->ref_results[0] = box_create(call->int_arguments[0]);
  return RLT_OK;
}

// test.unbox: r -> i
static rlt_status_t native_unbox(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self;
  if (!call->ref_arguments[0]) return rlt_error_set(error, RLT_INVALID_ARGUMENT, "unboxing null");
  call->int_results[0] = box_value(call->ref_arguments[0]);
  return RLT_OK;
}

// test.sum: ri* -> ir, the box plus all integers, as an integer and as a box
static rlt_status_t native_sum(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  (void)self, (void)error;
  int64_t sum = box_value(call->ref_arguments[0]);
  for (uint32_t i = 0; i < call->int_argument_count; ++i) sum += call->int_arguments[i];
  call->int_results[0] = sum;
  call->ref_results[0] = box_create(sum);
  return RLT_OK;
}

// test.fail: r -> rr, fails with a result already written
static rlt_status_t native_fail(void* self, const rlt_vm_call_t* call, rlt_error_t* error) {
  call->ref_results[1] = box_create(1);
  return rlt_error_set(error, RLT_OUT_OF_RANGE, "failed on %s", (const char*)self);
}

static const rlt_vm_native_function_t k_test_functions[] = {
    {"test.box", "i", "r", native_box},
    {"test.unbox", "r", "i", native_unbox},
    {"test.sum", "ri*", "ir", native_sum},
    {"test.fail", "r", "rr", native_fail},
};

static inline void add_test_imports(program_t* p) {
  for (size_t i = 0; i < 4; ++i) {
    add_import(p, k_test_functions[i].name, k_test_functions[i].arguments, k_test_functions[i].results);
  }
}
enum { BOX, UNBOX, SUM, FAIL };

static inline rlt_status_t load_with(program_t* p, const rlt_vm_module_options_t* options, rlt_error_t* error,
                                     rlt_vm_module_t** out) {
  static char self[] = "purpose";
  rlt_vm_native_module_t native = {self, k_test_functions, 4};
  p->program.code = p->code;
  p->program.functions = p->functions;
  p->program.imports = p->imports;
  p->program.exports = p->exports;
  return rlt_vm_module_create(&p->program, &native, 1, options, rlt_allocator_system(), error, out);
}

static inline rlt_status_t load(program_t* p, rlt_error_t* error, rlt_vm_module_t** out) {
  return load_with(p, NULL, error, out);
}

#endif  // RILLET_TESTS_VM_PROGRAM_H_
