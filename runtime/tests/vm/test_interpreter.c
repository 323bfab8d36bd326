#include <pthread.h>

#include "vm/float64.h"
#include "vm/program.h"

// Loads the program, which must be good.
static rlt_vm_module_t* must_load(program_t* p) {
  rlt_error_t error;
  rlt_vm_module_t* module;
  CHECK_OK(load(p, &error, &module));
  return module;
}

static rlt_status_t call_ints(rlt_vm_module_t* module, uint32_t function, const int64_t* arguments, uint32_t count,
                              int64_t* result, rlt_error_t* error) {
  rlt_vm_call_t call = {
      .int_arguments = arguments, .int_argument_count = count, .int_results = result, .int_result_count = 1};
  return rlt_vm_invoke(module, function, &call, error);
}

// One instruction `opcode` on (a, b), or on a alone.
static rlt_status_t run_opcode(uint16_t opcode, int64_t a, int64_t b, int64_t* result, rlt_error_t* error) {
  program_t p = {0};
  begin_function(&p, "op", "ii", "i", 3, 0);
  if (strcmp(rlt_vm_operands(opcode), "iii") == 0) EMIT(&p, opcode, 2, 0, 1);
  else EMIT(&p, opcode, 2, 0);
  EMIT(&p, OP_RETURN, 1, 2, 0);
  rlt_vm_module_t* module = must_load(&p);
  const int64_t arguments[] = {a, b};
  rlt_status_t status = call_ints(module, 0, arguments, 2, result, error);
  rlt_vm_module_destroy(module);
  return status;
}

typedef struct case_t {
  uint16_t opcode;
  int64_t a, b, expected;
} case_t;

static void test_integers(void) {
  const int64_t min = INT64_MIN, max = INT64_MAX;
  const case_t cases[] = {
      {OP_MOV, 7, 0, 7},
      {OP_ADD, 2, 3, 5}, {OP_ADD, max, 1, min},
      {OP_SUB, 2, 3, -1}, {OP_SUB, min, 1, max},
      {OP_MUL, -4, 3, -12}, {OP_MUL, min, -1, min},
      {OP_DIV_S, -7, 2, -3}, {OP_DIV_S, 7, -2, -3}, {OP_DIV_S, min, 1, min},
      {OP_DIV_U, -1, 2, max}, {OP_DIV_U, 7, 2, 3}, {OP_DIV_U, min, -1, 0},
      {OP_REM_S, -7, 2, -1}, {OP_REM_S, 7, -2, 1}, {OP_REM_S, -7, -1, 0},
      {OP_REM_U, -1, 10, 5}, {OP_REM_U, 7, 4, 3},
      {OP_AND, 12, 10, 8}, {OP_OR, 12, 10, 14}, {OP_XOR, 12, 10, 6},
      {OP_SHL, 1, 63, min}, {OP_SHL, 3, 1, 6}, {OP_SHL, 1, 65, 2},
      {OP_SHR_S, -8, 1, -4}, {OP_SHR_S, -8, 64, -8}, {OP_SHR_U, -1, 63, 1}, {OP_SHR_U, 8, 2, 2},
      {OP_MIN_S, -1, 1, -1}, {OP_MIN_S, 5, 2, 2}, {OP_MAX_S, -1, 1, 1}, {OP_MAX_S, 5, 2, 5},
      {OP_FLOORDIV, 7, 2, 3}, {OP_FLOORDIV, -7, 2, -4}, {OP_FLOORDIV, 7, -2, -4}, {OP_FLOORDIV, -7, -2, 3},
      {OP_FLOORDIV, -8, 2, -4}, {OP_FLOORDIV, 0, -3, 0}, {OP_FLOORDIV, min, 3, min / 3 - 1},
      {OP_CEILDIV, 7, 2, 4}, {OP_CEILDIV, -7, 2, -3}, {OP_CEILDIV, 7, -2, -3}, {OP_CEILDIV, -7, -2, 4},
      {OP_CEILDIV, 8, 2, 4}, {OP_CEILDIV, 0, 5, 0}, {OP_CEILDIV, max, 2, max / 2 + 1},
      {OP_CMP_EQ, 3, 3, 1}, {OP_CMP_EQ, 3, 4, 0}, {OP_CMP_NE, 3, 3, 0}, {OP_CMP_NE, 3, 4, 1},
      {OP_CMP_LT_S, -1, 0, 1}, {OP_CMP_LT_S, 0, 0, 0}, {OP_CMP_LE_S, 0, 0, 1}, {OP_CMP_LE_S, 1, 0, 0},
      {OP_CMP_LT_U, -1, 0, 0}, {OP_CMP_LT_U, 0, -1, 1}, {OP_CMP_LE_U, -1, -1, 1}, {OP_CMP_LE_U, -1, 1, 0},
      {OP_EXT_S8, 0x1FF, 0, -1}, {OP_EXT_S8, 0x17F, 0, 127}, {OP_EXT_S16, 0x18000, 0, -32768},
      {OP_EXT_S32, 0x1FFFFFFFF, 0, -1}, {OP_EXT_U8, -1, 0, 255}, {OP_EXT_U16, -1, 0, 65535},
      {OP_EXT_U32, -1, 0, 0xFFFFFFFF},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    rlt_error_t error;
    int64_t result = 0;
    CHECK_OK(run_opcode(cases[i].opcode, cases[i].a, cases[i].b, &result, &error));
    if (result != cases[i].expected) fprintf(stderr, "opcode %u, case %zu\n", cases[i].opcode, i);
    CHECK_INT(result, cases[i].expected);
  }
}

static void test_division_traps(void) {
  static const uint16_t by_zero[] = {OP_DIV_S, OP_DIV_U, OP_REM_S, OP_REM_U, OP_FLOORDIV, OP_CEILDIV};
  static const uint16_t overflow[] = {OP_DIV_S, OP_REM_S, OP_FLOORDIV, OP_CEILDIV};
  rlt_error_t error;
  int64_t result;
  for (size_t i = 0; i < 6; ++i) {
    CHECK_FAILS(run_opcode(by_zero[i], 5, 0, &result, &error), RLT_TRAP, "division by zero (in function \"op\")");
  }
  for (size_t i = 0; i < 4; ++i) {
    CHECK_FAILS(run_opcode(overflow[i], INT64_MIN, -1, &result, &error), RLT_TRAP, "does not fit");
  }
}

static void test_floats(void) {
  const struct {
    uint16_t opcode;
    double a, b, expected;
  } cases[] = {
      {OP_F64_ADD, 1.5, 2, 3.5}, {OP_F64_SUB, 1.5, 2, -0.5}, {OP_F64_MUL, 1.5, 2, 3}, {OP_F64_DIV, 3, 2, 1.5},
      {OP_F64_MIN, 3, 2, 2}, {OP_F64_MAX, 3, 2, 3}, {OP_F64_NEG, 1.5, 0, -1.5}, {OP_F64_ABS, -1.5, 0, 1.5},
      {OP_F64_CEIL, 1.2, 0, 2}, {OP_F64_FLOOR, -1.2, 0, -2}, {OP_F64_SQRT, 2.25, 0, 1.5}, {OP_F64_TRUNC, -1.7, 0, -1},
  };
  rlt_error_t error;
  int64_t result;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    CHECK_OK(run_opcode(cases[i].opcode, f64_to_bits(cases[i].a), f64_to_bits(cases[i].b), &result, &error));
    CHECK(f64_of_bits(result) == cases[i].expected);
  }
  const case_t to_int[] = {
      {OP_F64_CMP_EQ, f64_to_bits(0.0), f64_to_bits(-0.0), 1}, {OP_F64_CMP_LT, f64_to_bits(1), f64_to_bits(2), 1},
      {OP_F64_CMP_LT, f64_to_bits(2), f64_to_bits(2), 0},      {OP_F64_CMP_LE, f64_to_bits(2), f64_to_bits(2), 1},
      {OP_F64_CMP_EQ, 0x7FF8000000000000, 0x7FF8000000000000, 0},
      {OP_F64_FROM_I64, -3, 0, f64_to_bits(-3)},               {OP_F64_TO_I64, f64_to_bits(-3.7), 0, -3},
      {OP_F64_FROM_F32, 0x3FC00000, 0, f64_to_bits(1.5)},      {OP_F64_TO_F32, f64_to_bits(-1.5), 0, 0xBFC00000},
  };
  for (size_t i = 0; i < sizeof(to_int) / sizeof(to_int[0]); ++i) {
    CHECK_OK(run_opcode(to_int[i].opcode, to_int[i].a, to_int[i].b, &result, &error));
    CHECK_INT(result, to_int[i].expected);
  }
}

static void test_const_select_branch(void) {
  program_t p = {0};
  begin_function(&p, "f", "i", "i", 4, 0);
  EMIT(&p, OP_CONST, 1, LITERAL(0x123456789ABCDEF0), OP_CONST, 2, LITERAL(-2));  // 12 words
  EMIT(&p, OP_SELECT, 3, 0, 1, 2);                                              // 12..16
  EMIT(&p, OP_BRANCH_IF, 0, OFFSET(26), OFFSET(23));                            // 17..22
  EMIT(&p, OP_BRANCH, OFFSET(30));                                              // 23..25
  EMIT(&p, OP_RETURN, 1, 3, 0);                                                 // 26..29
  EMIT(&p, OP_ADD, 3, 3, 3, OP_RETURN, 1, 3, 0);                                // 30..
  rlt_vm_module_t* module = must_load(&p);
  rlt_error_t error;
  int64_t result, argument = 5;
  CHECK_OK(call_ints(module, 0, &argument, 1, &result, &error));
  CHECK_INT(result, 0x123456789ABCDEF0);
  argument = 0;
  CHECK_OK(call_ints(module, 0, &argument, 1, &result, &error));
  CHECK_INT(result, -4);
  rlt_vm_module_destroy(module);
}

// sum of 1..n by a loop
static void add_loop(program_t* p) {
  begin_function(p, "loop", "i", "i", 3, 0);
  EMIT(p, OP_CONST, 2, LITERAL(1));                     // 0..5
  EMIT(p, OP_BRANCH_IF, 0, OFFSET(12), OFFSET(23));     // 6..11
  EMIT(p, OP_ADD, 1, 1, 0, OP_SUB, 0, 0, 2);            // 12..19
  EMIT(p, OP_BRANCH, OFFSET(6));                        // 20..22
  EMIT(p, OP_RETURN, 1, 1, 0);                          // 23
}

static void test_loop(void) {
  program_t p = {0};
  add_loop(&p);
  rlt_vm_module_t* module = must_load(&p);
  rlt_error_t error;
  int64_t result, argument = 100000;
  CHECK_OK(call_ints(module, 0, &argument, 1, &result, &error));
  CHECK_INT(result, INT64_C(100000) * 100001 / 2);
  rlt_vm_module_destroy(module);
}

static void test_step_limit(void) {
  program_t p = {0};
  begin_function(&p, "f", "", "", 0, 0);
  EMIT(&p, OP_BRANCH, OFFSET(0));
  rlt_error_t error;
  rlt_vm_module_t* module;
  CHECK_OK(load_with(&p, &(rlt_vm_module_options_t){.step_limit = 1000}, &error, &module));
  rlt_vm_call_t call = {0};
  CHECK_FAILS(rlt_vm_invoke(module, 0, &call, &error), RLT_RESOURCE_EXHAUSTED, "step limit");
  rlt_vm_module_destroy(module);
}

// Counts how often it is asked; pending from the third time on.
static bool third_time(void* self) { return ++*(int*)self >= 3; }

static void test_interrupt(void) {
  program_t p = {0};
  begin_function(&p, "f", "", "", 0, 0);
  EMIT(&p, OP_BRANCH, OFFSET(0));
  rlt_error_t error;
  rlt_vm_module_t* module;
  int asked = 0;
  const rlt_vm_module_options_t options = {.step_limit = 1000, .interrupt = {.self = &asked, .is_pending = third_time}};
  CHECK_OK(load_with(&p, &options, &error, &module));
  rlt_vm_call_t call = {0};
  CHECK_FAILS(rlt_vm_invoke(module, 0, &call, &error), RLT_CANCELLED, "interrupted (in function \"f\")");
  CHECK_INT(asked, 3);
  asked = -1000;  // never pending before the limit, which still holds
  CHECK_FAILS(rlt_vm_invoke(module, 0, &call, &error), RLT_RESOURCE_EXHAUSTED, "step limit");
  CHECK_INT(asked, -1000 + 1000 / RLT_VM_INTERRUPT_STEPS);
  rlt_vm_module_destroy(module);
}

static void test_trap(void) {
  program_t p = {0};
  begin_function(&p, "f", "", "", 0, 0);
  EMIT(&p, OP_TRAP, RLT_UNIMPLEMENTED);
  rlt_vm_module_t* module = must_load(&p);
  rlt_error_t error;
  rlt_vm_call_t call = {0};
  CHECK_FAILS(rlt_vm_invoke(module, 0, &call, &error), RLT_UNIMPLEMENTED, "UNIMPLEMENTED in function \"f\"");
  rlt_vm_module_destroy(module);
}

// fib(n), with two functions that call each other: fib1(n) gives n - 2 and fib(n - 1).
static void test_calls(void) {
  program_t p = {0};
  begin_function(&p, "fib", "i", "i", 4, 0);
  EMIT(&p, OP_CONST, 1, LITERAL(2), OP_CMP_LT_S, 2, 0, 1);                      // 0..9
  EMIT(&p, OP_BRANCH_IF, 2, OFFSET(16), OFFSET(20));                            // 10..15
  EMIT(&p, OP_RETURN, 1, 0, 0);                                                 // 16..19
  EMIT(&p, OP_CALL, 1, 1, 0, 0, 2, 1, 2, 0);                                    // i1, i2 = n - 2, fib(n - 1)
  EMIT(&p, OP_CALL, 0, 1, 1, 0, 1, 3, 0, OP_ADD, 0, 2, 3, OP_RETURN, 1, 0, 0);
  begin_function(&p, "fib1", "i", "ii", 4, 0);
  EMIT(&p, OP_CONST, 1, LITERAL(1), OP_SUB, 2, 0, 1, OP_CALL, 0, 1, 2, 0, 1, 3, 0, OP_SUB, 2, 2, 1);
  EMIT(&p, OP_RETURN, 2, 2, 3, 0);
  rlt_vm_module_t* module = must_load(&p);
  rlt_error_t error;
  int64_t result, argument = 12;
  CHECK_OK(call_ints(module, 0, &argument, 1, &result, &error));
  CHECK_INT(result, 144);
  argument = 100;
  CHECK_FAILS(call_ints(module, 0, &argument, 1, &result, &error), RLT_RESOURCE_EXHAUSTED, "nested too deeply");
  argument = 5;
  CHECK_OK(call_ints(module, 0, &argument, 1, &result, &error));
  CHECK_INT(result, 5);
  rlt_vm_module_destroy(module);
}

static void test_call_depth(void) {
  // f(n) = n == 0 ? 0 : f(n - 1) + 1 holds a box on each level.
  program_t p = {0};
  add_test_imports(&p);
  begin_function(&p, "f", "i", "i", 3, 1);
  EMIT(&p, OP_BRANCH_IF, 0, OFFSET(6), OFFSET(38));                      // 0..5
  EMIT(&p, OP_CONST, 1, LITERAL(1), OP_SUB, 2, 0, 1);                    // 6..15
  EMIT(&p, OP_CALL, IMPORT(BOX), 1, 0, 0, 0, 1, 0);                      // 16..23
  EMIT(&p, OP_CALL, 0, 1, 2, 0, 1, 0, 0);                                // 24..31
  EMIT(&p, OP_NULL_REF, 0, OP_ADD, 0, 0, 1);                             // 32..37
  EMIT(&p, OP_RETURN, 1, 0, 0);                                          // 38
  rlt_vm_module_t* module = must_load(&p);
  rlt_error_t error;
  int64_t result, argument = 31;
  CHECK_OK(call_ints(module, 0, &argument, 1, &result, &error));
  CHECK_INT(result, 31);
  CHECK_INT(g_live_boxes, 0);
  argument = 32;
  CHECK_FAILS(call_ints(module, 0, &argument, 1, &result, &error), RLT_RESOURCE_EXHAUSTED, "nested too deeply");
  CHECK_INT(g_live_boxes, 0);
  rlt_vm_module_destroy(module);
}

static void test_references(void) {
  // (i, r) -> (i, r, r, r): box, move, select, compare, release.
  program_t p = {0};
  add_test_imports(&p);
  begin_function(&p, "f", "ir", "iirrr", 3, 5);
  EMIT(&p, OP_CALL, IMPORT(BOX), 1, 0, 0, 0, 1, 1);        // r1 = box(i0)
  EMIT(&p, OP_MOV_REF, 2, 1, OP_MOV_REF, 2, 2);            // r2 = r1, and onto itself
  EMIT(&p, OP_SELECT_REF, 3, 0, 0, 1);                     // r3 = i0 ? r0 : r1
  EMIT(&p, OP_NULL_REF, 1, OP_CMP_NULL, 1, 1, OP_CMP_NULL, 2, 2);
  EMIT(&p, OP_CALL, IMPORT(BOX), 1, 0, 0, 0, 1, 4);        // overwritten at once
  EMIT(&p, OP_CALL, IMPORT(BOX), 1, 0, 0, 0, 1, 4);
  EMIT(&p, OP_RETURN, 2, 1, 2, 3, 2, 3, 2);                // r2 twice
  rlt_vm_module_t* module = must_load(&p);
  rlt_error_t error;
  for (int64_t choose = 0; choose < 2; ++choose) {
    rlt_object_t* argument = box_create(40);
    int64_t ints[2];
    rlt_object_t* refs[3];
    rlt_vm_call_t call = {&choose, &argument, ints, refs, 1, 1, 2, 3, NULL};
    CHECK_OK(rlt_vm_invoke(module, 0, &call, &error));
    CHECK_INT(ints[0], 1);
    CHECK_INT(ints[1], 0);
    CHECK_INT(box_value(refs[0]), choose);
    CHECK_INT(box_value(refs[1]), choose ? 40 : 0);
    CHECK(refs[2] == refs[0]);
    for (int i = 0; i < 3; ++i) rlt_object_release(refs[i]);
    rlt_object_release(argument);
    CHECK_INT(g_live_boxes, 0);
  }
  rlt_vm_module_destroy(module);
}

static void test_references_through_calls(void) {
  // outer(r) -> r: swaps through an inner function, then adds with a variadic import into the register it came from.
  program_t p = {0};
  add_test_imports(&p);
  begin_function(&p, "outer", "r", "ir", 2, 2);
  EMIT(&p, OP_CONST, 0, LITERAL(7), OP_CONST, 1, LITERAL(100));
  EMIT(&p, OP_CALL, IMPORT(BOX), 1, 0, 0, 0, 1, 1);
  EMIT(&p, OP_CALL, 1, 0, 2, 0, 1, 0, 2, 0, 1);                          // (r0, r1) = swap(r0, r1)
  EMIT(&p, OP_CALL, IMPORT(SUM), 3, 1, 1, 0, 1, 0, 1, 0, 1, 0);          // (i0, r0) = sum(r0, i1, i1, i0)
  EMIT(&p, OP_CALL, IMPORT(UNBOX), 0, 1, 1, 1, 1, 0);                    // i1 = unbox(r1)
  EMIT(&p, OP_ADD, 0, 0, 1, OP_RETURN, 1, 0, 1, 0);
  begin_function(&p, "swap", "rr", "rr", 0, 2);
  EMIT(&p, OP_RETURN, 0, 2, 1, 0);
  rlt_vm_module_t* module = must_load(&p);
  rlt_error_t error;
  rlt_object_t *argument = box_create(1000), *result_ref;
  int64_t result;
  rlt_vm_call_t call = {NULL, &argument, &result, &result_ref, 0, 1, 1, 1, NULL};
  CHECK_OK(rlt_vm_invoke(module, 0, &call, &error));
  CHECK_INT(result, 7 + 100 + 100 + 7 + 1000);
  CHECK_INT(box_value(result_ref), 7 + 100 + 100 + 7);
  rlt_object_release(result_ref);
  rlt_object_release(argument);
  CHECK_INT(g_live_boxes, 0);
  rlt_vm_module_destroy(module);
}

static void test_failing_import(void) {
  program_t p = {0};
  add_test_imports(&p);
  begin_function(&p, "outer", "", "r", 1, 1);
  EMIT(&p, OP_CALL, IMPORT(BOX), 1, 0, 0, 0, 1, 0);
  EMIT(&p, OP_CALL, 1, 0, 1, 0, 0, 0);
  EMIT(&p, OP_RETURN, 0, 1, 0);
  begin_function(&p, "inner", "r", "", 1, 3);
  EMIT(&p, OP_CALL, IMPORT(BOX), 1, 0, 0, 0, 1, 1);
  EMIT(&p, OP_CALL, IMPORT(FAIL), 0, 1, 1, 0, 2, 0, 2, OP_RETURN, 0, 0);
  rlt_vm_module_t* module = must_load(&p);
  rlt_error_t error;
  rlt_object_t* result = (rlt_object_t*)&p;  // must be cleared
  rlt_vm_call_t call = {.ref_results = &result, .ref_result_count = 1};
  CHECK_FAILS(rlt_vm_invoke(module, 0, &call, &error), RLT_OUT_OF_RANGE, "failed on purpose");
  CHECK(result == NULL);
  CHECK_INT(g_live_boxes, 0);
  rlt_vm_module_destroy(module);
}

static void test_globals_and_initializer(void) {
  program_t p = {0};
  add_test_imports(&p);
  p.program.int_globals = 2;
  p.program.ref_globals = 2;
  begin_function(&p, "__init", "", "", 1, 1);
  EMIT(&p, OP_CONST, 0, LITERAL(77), OP_GLOBAL_STORE, 1, 0);
  EMIT(&p, OP_CALL, IMPORT(BOX), 1, 0, 0, 0, 1, 0, OP_GLOBAL_STORE_REF, 1, 0, OP_RETURN, 0, 0);
  begin_function(&p, "get", "", "iiir", 3, 2);
  EMIT(&p, OP_GLOBAL_LOAD, 0, 0, OP_GLOBAL_LOAD, 1, 1, OP_GLOBAL_LOAD_REF, 0, 0, OP_GLOBAL_LOAD_REF, 1, 1);
  EMIT(&p, OP_CMP_NULL, 2, 0, OP_RETURN, 3, 0, 1, 2, 1, 1);
  add_export(&p, "get", 1);
  rlt_vm_module_t* module = must_load(&p);
  CHECK_INT(g_live_boxes, 1);
  rlt_error_t error;
  uint32_t function;
  CHECK_OK(rlt_vm_module_lookup(module, "get", &error, &function));
  CHECK_INT(function, 1);
  CHECK_FAILS(rlt_vm_module_lookup(module, "main", &error, &function), RLT_NOT_FOUND, "\"main\"");
  int64_t ints[3];
  rlt_object_t* ref;
  rlt_vm_call_t call = {.int_results = ints, .int_result_count = 3, .ref_results = &ref, .ref_result_count = 1};
  CHECK_OK(rlt_vm_invoke(module, 1, &call, &error));
  CHECK_INT(ints[0], 0);
  CHECK_INT(ints[1], 77);
  CHECK_INT(ints[2], 1);
  rlt_vm_module_destroy(module);
  CHECK_INT(box_value(ref), 77);  // the caller's reference outlives the module
  rlt_object_release(ref);
  CHECK_INT(g_live_boxes, 0);
}

static void test_failing_initializer(void) {
  program_t p = {0};
  add_test_imports(&p);
  p.program.ref_globals = 1;
  begin_function(&p, "__init", "", "", 1, 2);
  EMIT(&p, OP_CALL, IMPORT(BOX), 1, 0, 0, 0, 1, 0, OP_GLOBAL_STORE_REF, 0, 0);
  EMIT(&p, OP_CALL, IMPORT(UNBOX), 0, 1, 1, 1, 0, 0, OP_RETURN, 0, 0);
  rlt_error_t error;
  rlt_vm_module_t* module;
  CHECK_FAILS(load(&p, &error, &module), RLT_INVALID_ARGUMENT, "unboxing null");
  CHECK(module == NULL);
  CHECK_INT(g_live_boxes, 0);
}

static void test_invoke_arguments(void) {
  program_t p = {0};
  add_loop(&p);
  rlt_vm_module_t* module = must_load(&p);
  rlt_error_t error;
  int64_t result, arguments[2] = {0, 0};
  CHECK_FAILS(call_ints(module, 1, arguments, 1, &result, &error), RLT_INVALID_ARGUMENT, "no function 1");
  CHECK_FAILS(call_ints(module, 0, arguments, 2, &result, &error), RLT_INVALID_ARGUMENT,
              "function \"loop\" has 1 integer and 0 reference arguments, 1 integer and 0 reference results; called "
              "with 2, 0, 1 and 0");
  rlt_vm_module_destroy(module);
}

static void* countdown_allocate(void* self, size_t size, size_t alignment) {
  int* left = self;
  if (*left == 0) return NULL;
  --*left;
  return rlt_allocator_system().allocate(NULL, size, alignment);
}

static void countdown_free(void* self, void* block) {
  (void)self;
  free(block);
}

// Whichever allocation fails, the error is clean and nothing leaks.
static void test_out_of_memory(void) {
  program_t p = {0};
  begin_function(&p, "__init", "", "", 0, 0);
  EMIT(&p, OP_RETURN, 0, 0);
  p.program.code = p.code, p.program.functions = p.functions;
  int allocations = 0;
  for (;; ++allocations) {
    int left = allocations;
    rlt_allocator_t allocator = {&left, countdown_allocate, countdown_free};
    rlt_error_t error = {0};
    rlt_vm_module_t* module;
    rlt_status_t status = rlt_vm_module_create(&p.program, NULL, 0, NULL, allocator, &error, &module);
    rlt_vm_module_destroy(module);
    if (status == RLT_OK) break;
    CHECK_INT(status, RLT_OUT_OF_MEMORY);
  }
  CHECK(allocations > 5);
}

typedef struct worker_t {
  pthread_t thread;
  rlt_vm_module_t* module;
  int64_t base;
} worker_t;

static void* work(void* argument) {
  worker_t* worker = argument;
  for (int64_t i = 0; i < 3000; ++i) {
    int64_t value = worker->base + i;
    rlt_object_t* ref;
    rlt_error_t error;
    rlt_vm_call_t call = {
        .int_arguments = &value, .int_argument_count = 1, .ref_results = &ref, .ref_result_count = 1};
    CHECK_OK(rlt_vm_invoke(worker->module, 1, &call, &error));
    CHECK_INT(box_value(ref), value + 5);
    rlt_object_release(ref);
  }
  return NULL;
}

static void test_threads(void) {
  // f(i) -> r: a box shared in a global, plus the argument.
  program_t p = {0};
  add_test_imports(&p);
  p.program.ref_globals = 1;
  begin_function(&p, "__init", "", "", 1, 1);
  EMIT(&p, OP_CONST, 0, LITERAL(5), OP_CALL, IMPORT(BOX), 1, 0, 0, 0, 1, 0, OP_GLOBAL_STORE_REF, 0, 0, OP_RETURN, 0, 0);
  begin_function(&p, "f", "i", "r", 1, 2);
  EMIT(&p, OP_GLOBAL_LOAD_REF, 0, 0, OP_CALL, IMPORT(SUM), 1, 0, 1, 0, 1, 0, 1, 1, OP_RETURN, 0, 1, 1);
  rlt_vm_module_t* module = must_load(&p);
  enum { THREADS = 12 };  // more than the pool of stacks holds
  worker_t workers[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    workers[i].module = module;
    workers[i].base = i * 1000000;
    CHECK_INT(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i) CHECK_INT(pthread_join(workers[i].thread, NULL), 0);
  rlt_vm_module_destroy(module);
  CHECK_INT(g_live_boxes, 0);
}

int main(void) {
  rlt_vm_module_destroy(NULL);
  RUN_TEST(test_integers);
  RUN_TEST(test_division_traps);
  RUN_TEST(test_floats);
  RUN_TEST(test_const_select_branch);
  RUN_TEST(test_loop);
  RUN_TEST(test_step_limit);
  RUN_TEST(test_interrupt);
  RUN_TEST(test_trap);
  RUN_TEST(test_calls);
  RUN_TEST(test_call_depth);
  RUN_TEST(test_references);
  RUN_TEST(test_references_through_calls);
  RUN_TEST(test_failing_import);
  RUN_TEST(test_globals_and_initializer);
  RUN_TEST(test_failing_initializer);
  RUN_TEST(test_invoke_arguments);
  RUN_TEST(test_out_of_memory);
  RUN_TEST(test_threads);
  return 0;
}
