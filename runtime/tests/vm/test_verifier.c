// Each rule of the bytecode: a program that breaks it is rejected, with a message that says how.
#include "vm/program.h"

#define REJECTS(p, text)                                         \
  do {                                                           \
    rlt_error_t error;                                           \
    rlt_vm_module_t* module;                                     \
    CHECK_FAILS(load((p), &error, &module), RLT_DATA_LOSS, text); \
    CHECK(module == NULL);                                       \
  } while (0)

#define ACCEPTS(p)                           \
  do {                                       \
    rlt_error_t error;                       \
    rlt_vm_module_t* module;                 \
    CHECK_OK(load((p), &error, &module));    \
    rlt_vm_module_destroy(module);           \
  } while (0)

// A function (i, r) -> (i, r) with 2 integer and 2 reference registers, after a prefix of the given code.
#define FUNCTION(p, ...)                            \
  program_t p = {0};                                \
  add_test_imports(&p);                             \
  p.program.int_globals = 2;                        \
  p.program.ref_globals = 1;                        \
  begin_function(&p, "f", "ir", "ir", 2, 2);        \
  EMIT(&p, __VA_ARGS__)
#define RETURN OP_RETURN, 1, 0, 1, 0

static void test_unknown_opcode(void) {
  static const uint16_t unknown[] = {14, 15, 33, 39, 46, 49, 58, 59, 66, 73, 79, 90, 255, 256, 0xFFFF};
  for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); ++i) {
    FUNCTION(p, unknown[i], 0, 0, 0, 0, RETURN);
    REJECTS(&p, "unknown opcode");
  }
}

static void test_register_ranges(void) {
  // Every opcode with each of its register operands just out of range.
  for (uint16_t opcode = 0; opcode < OP_COUNT; ++opcode) {
    const char* operands = rlt_vm_operands(opcode);
    if (!operands || opcode == OP_CALL || opcode == OP_RETURN) continue;
    for (size_t bad = 0; operands[bad]; ++bad) {
      if (operands[bad] != 'i' && operands[bad] != 'r') continue;
      program_t p = {0};
      p.program.int_globals = p.program.ref_globals = 1;
      begin_function(&p, "f", "", "", 2, 3);
      EMIT(&p, opcode);
      for (size_t i = 0; operands[i]; ++i) {
        if (operands[i] == 'L') EMIT(&p, OFFSET(0));
        else if (operands[i] == 'q') EMIT(&p, LITERAL(0));
        else if (operands[i] == 'w') EMIT(&p, 0);
        else EMIT(&p, i != bad ? 0 : operands[i] == 'i' ? 2 : 3);
      }
      EMIT(&p, OP_RETURN, 0, 0);
      REJECTS(&p, operands[bad] == 'i' ? "register i2 is out of range: the function has 2"
                                       : "register r3 is out of range: the function has 3");
    }
  }
  FUNCTION(list, OP_RETURN, 1, 0, 1, 2);
  REJECTS(&list, "register r2 is out of range");
}

static void test_where(void) {
  FUNCTION(p, OP_MOV, 0, 1, OP_MOV, 0, 9, RETURN);
  REJECTS(&p, "function \"f\", word 3: register i9");
}

static void test_truncated(void) {
  static const uint16_t whole[] = {OP_CALL, IMPORT(SUM), 2, 0, 1, 1, 0, 1, 0, 1, 1, OP_CONST, 0, LITERAL(5), RETURN};
  for (size_t length = 0; length < sizeof(whole) / 2; ++length) {
    program_t p = {0};
    add_test_imports(&p);
    begin_function(&p, "f", "ir", "ir", 2, 2);
    emit(&p, whole, length);
    bool whole_instructions = length == 0 || length == 11 || length == 17;
    REJECTS(&p, whole_instructions ? "terminator" : "truncated");
  }
  FUNCTION(list, OP_RETURN, 0xFFFF, 0, 0);
  REJECTS(&list, "truncated");
}

static void test_terminators(void) {
  FUNCTION(p, OP_MOV, 0, 1);
  REJECTS(&p, "does not end in a terminator");
  FUNCTION(trap, OP_TRAP, RLT_TRAP);
  ACCEPTS(&trap);
  FUNCTION(branch, OP_BRANCH, OFFSET(0));
  ACCEPTS(&branch);
  FUNCTION(branch_if, OP_BRANCH_IF, 0, OFFSET(0), OFFSET(0));
  ACCEPTS(&branch_if);
}

static void test_branch_targets(void) {
  FUNCTION(inside, OP_BRANCH, OFFSET(1), RETURN);
  REJECTS(&inside, "branch to word 1, where no instruction starts");
  FUNCTION(end, OP_BRANCH, OFFSET(8), RETURN);
  REJECTS(&end, "branch to word 8");
  FUNCTION(far, OP_BRANCH, OFFSET(0xFFFFFFFF), RETURN);
  REJECTS(&far, "branch to word 4294967295");
  FUNCTION(first, OP_BRANCH_IF, 0, OFFSET(2), OFFSET(6), RETURN);
  REJECTS(&first, "branch to word 2");
  FUNCTION(second, OP_BRANCH_IF, 0, OFFSET(6), OFFSET(7), RETURN);
  REJECTS(&second, "branch to word 7");
  FUNCTION(good, OP_BRANCH_IF, 0, OFFSET(6), OFFSET(0), RETURN);
  ACCEPTS(&good);
}

static void test_trap_status(void) {
  FUNCTION(ok, OP_TRAP, RLT_OK);
  REJECTS(&ok, "trap with 0");
  FUNCTION(unknown, OP_TRAP, RLT_STATUS_COUNT);
  REJECTS(&unknown, "trap with 14");
}

static void test_calls(void) {
  FUNCTION(import, OP_CALL, IMPORT(4), 0, 0, 0, 0, RETURN);
  REJECTS(&import, "call of import 4, which does not exist");
  FUNCTION(function, OP_CALL, 1, 0, 0, 0, 0, RETURN);
  REJECTS(&function, "call of function 1, which does not exist");
  FUNCTION(few, OP_CALL, IMPORT(BOX), 0, 0, 0, 1, 0, RETURN);
  REJECTS(&few, "test.box: 0 integer arguments given, the signature has 1");
  FUNCTION(many, OP_CALL, IMPORT(BOX), 2, 0, 0, 0, 0, 1, 0, RETURN);
  REJECTS(&many, "test.box: 2 integer arguments given");
  FUNCTION(refs, OP_CALL, IMPORT(UNBOX), 0, 2, 0, 0, 1, 0, 0, RETURN);
  REJECTS(&refs, "test.unbox: 2 reference arguments given");
  FUNCTION(results, OP_CALL, IMPORT(UNBOX), 0, 1, 0, 0, 0, RETURN);
  REJECTS(&results, "test.unbox: 0 integer results given");
  FUNCTION(ref_results, OP_CALL, IMPORT(BOX), 1, 0, 0, 0, 0, RETURN);
  REJECTS(&ref_results, "test.box: 0 reference results given");
  FUNCTION(variadic_ref, OP_CALL, IMPORT(SUM), 3, 0, 0, 0, 0, 1, 0, 1, 0, RETURN);
  REJECTS(&variadic_ref, "test.sum: 0 reference arguments given, the signature has 1");
  FUNCTION(none, OP_CALL, IMPORT(SUM), 0, 1, 0, 1, 0, 1, 0, RETURN);
  ACCEPTS(&none);
  FUNCTION(some, OP_CALL, IMPORT(SUM), 3, 0, 1, 0, 1, 0, 1, 0, 1, 0, RETURN);
  ACCEPTS(&some);
  FUNCTION(recursive, OP_CALL, 0, 1, 0, 1, 0, 1, 0, 1, 0, RETURN);
  ACCEPTS(&recursive);
}

static void test_variadic_needs_what_comes_before(void) {
  program_t p = {0};
  begin_function(&p, "f", "", "", 1, 1);
  EMIT(&p, OP_CALL, IMPORT(0), 1, 0, 0, 0, 0, OP_RETURN, 0, 0);
  add_import(&p, "host.dims", "rii*", "");
  static const rlt_vm_native_function_t functions[] = {{"host.dims", "rii*", "", native_box}};
  rlt_vm_native_module_t native = {NULL, functions, 1};
  p.program.code = p.code, p.program.functions = p.functions, p.program.imports = p.imports;
  rlt_error_t error;
  rlt_vm_module_t* module;
  CHECK_FAILS(rlt_vm_module_create(&p.program, &native, 1, NULL, rlt_allocator_system(), &error, &module),
              RLT_DATA_LOSS, "host.dims: 0 reference arguments given, the signature has 1");
}

static void test_returns(void) {
  FUNCTION(few, OP_RETURN, 0, 1, 0);
  REJECTS(&few, "return: 0 integers given, the signature has 1");
  FUNCTION(many, OP_RETURN, 1, 0, 2, 0, 0);
  REJECTS(&many, "return: 2 references given");
}

static void test_globals(void) {
  FUNCTION(load_int, OP_GLOBAL_LOAD, 0, 2, RETURN);
  REJECTS(&load_int, "global 2 is out of range: the module has 2");
  FUNCTION(store_int, OP_GLOBAL_STORE, 2, 0, RETURN);
  REJECTS(&store_int, "global 2 is out of range");
  FUNCTION(load_ref, OP_GLOBAL_LOAD_REF, 0, 1, RETURN);
  REJECTS(&load_ref, "global 1 is out of range");
  FUNCTION(store_ref, OP_GLOBAL_STORE_REF, 0, 0, RETURN);
  REJECTS(&store_ref, "only the initializer");
  program_t many = {0};
  many.program.int_globals = 65537;
  REJECTS(&many, "more than 65536 globals");
}

static void test_initializer(void) {
  program_t second = {0};
  second.program.ref_globals = 1;
  begin_function(&second, "f", "", "", 0, 0);
  EMIT(&second, OP_RETURN, 0, 0);
  begin_function(&second, "__init", "", "", 0, 1);
  EMIT(&second, OP_GLOBAL_STORE_REF, 0, 0, OP_RETURN, 0, 0);
  REJECTS(&second, "only the initializer");

  program_t arguments = {0};
  begin_function(&arguments, "__init", "i", "", 1, 0);
  EMIT(&arguments, OP_RETURN, 0, 0);
  REJECTS(&arguments, "initializer takes or returns");

  program_t range = {0};
  begin_function(&range, "__init", "", "", 0, 1);
  EMIT(&range, OP_GLOBAL_STORE_REF, 0, 0, OP_RETURN, 0, 0);
  REJECTS(&range, "global 0 is out of range");

  program_t called = {0};
  begin_function(&called, "__init", "", "", 0, 0);
  EMIT(&called, OP_RETURN, 0, 0);
  begin_function(&called, "f", "", "", 0, 0);
  EMIT(&called, OP_CALL, 0, 0, 0, 0, 0, OP_RETURN, 0, 0);
  REJECTS(&called, "call of the initializer");

  program_t exported = {0};
  begin_function(&exported, "__init", "", "", 0, 0);
  EMIT(&exported, OP_RETURN, 0, 0);
  add_export(&exported, "main", 0);
  REJECTS(&exported, "export \"main\" is the initializer");
}

static void test_functions(void) {
  program_t registers = {0};
  begin_function(&registers, "f", "iir", "", 1, 1);
  EMIT(&registers, OP_RETURN, 0, 0);
  REJECTS(&registers, "fewer registers than arguments");

  static const char* const bad[] = {"x", "ri*", "*", "i ", "ii**"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
    program_t p = {0};
    begin_function(&p, "f", bad[i], "", 4, 4);
    EMIT(&p, OP_RETURN, 0, 0);
    REJECTS(&p, "is not a signature");
  }
  program_t results = {0};
  begin_function(&results, "f", "", "i*", 4, 4);
  EMIT(&results, OP_RETURN, 0, 0);
  REJECTS(&results, "is not a signature");

  program_t outside = {0};
  begin_function(&outside, "f", "", "", 0, 0);
  EMIT(&outside, OP_RETURN, 0, 0);
  outside.functions[0].code_length = 4;
  REJECTS(&outside, "outside the module's code");
  outside.functions[0].code_offset = 0xFFFFFFFF;
  REJECTS(&outside, "outside the module's code");

  program_t shared = {0};
  begin_function(&shared, "f", "", "", 0, 0);
  EMIT(&shared, OP_RETURN, 0, 0);
  begin_function(&shared, "g", "", "", 0, 0);
  EMIT(&shared, OP_RETURN, 0, 0);
  shared.functions[1] = shared.functions[0];
  ACCEPTS(&shared);
  shared.program.code_length = 3;
  REJECTS(&shared, "functions share code");

  program_t no_function = {0};
  add_export(&no_function, "main", 0);
  REJECTS(&no_function, "export \"main\" is function 0, but there are 0");
}

static void test_imports(void) {
  rlt_error_t error;
  rlt_vm_module_t* module;
  program_t missing = {0};
  add_import(&missing, "test.absent", "i", "");
  CHECK_FAILS(load(&missing, &error, &module), RLT_NOT_FOUND, "\"test.absent\"");
  program_t other = {0};
  add_import(&other, "test.box", "ii", "r");
  CHECK_FAILS(load(&other, &error, &module), RLT_INCOMPATIBLE, "as (ii) -> (r), but this runtime offers (i) -> (r)");
}

int main(void) {
  RUN_TEST(test_unknown_opcode);
  RUN_TEST(test_register_ranges);
  RUN_TEST(test_where);
  RUN_TEST(test_truncated);
  RUN_TEST(test_terminators);
  RUN_TEST(test_branch_targets);
  RUN_TEST(test_trap_status);
  RUN_TEST(test_calls);
  RUN_TEST(test_variadic_needs_what_comes_before);
  RUN_TEST(test_returns);
  RUN_TEST(test_globals);
  RUN_TEST(test_initializer);
  RUN_TEST(test_functions);
  RUN_TEST(test_imports);
  return 0;
}
