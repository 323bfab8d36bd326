#include "base/strings.h"
#include "vm/bytecode.h"
#include "vm/float64.h"
#include "vm/internal.h"

// What ends an invocation early; the text is in k_trap_messages.
typedef enum trap_t { TRAP_ZERO, TRAP_OVERFLOW, TRAP_DEPTH, TRAP_STEPS } trap_t;

static const char* const k_trap_messages[] = {
    [TRAP_ZERO] = "division by zero",
    [TRAP_OVERFLOW] = "a quotient does not fit in 64 bits",
    [TRAP_DEPTH] = "calls are nested too deeply",
    [TRAP_STEPS] = "the step limit was reached",
};

static inline void assign_ref(rlt_object_t** slot, rlt_object_t* value) {
  rlt_object_t* old = *slot;
  rlt_object_retain(value);
  *slot = value;
  rlt_object_release(old);
}

// Makes `frame` a cleared frame of `function` at `memory`; returns the memory that follows it.
static inline uint8_t* enter(frame_t* frame, const function_t* function, uint8_t* memory) {
  memset(memory, 0, function->frame_size);
  frame->function = function;
  frame->ints = (int64_t*)(void*)memory;
  frame->refs = (rlt_object_t**)(void*)(memory + function->int_slots * sizeof(int64_t));
  return memory + function->frame_size;
}

static inline void leave(frame_t* frame) {
  for (uint32_t i = 0; i < frame->function->ref_slots; ++i) rlt_object_release(frame->refs[i]);
}

// Calls an import with the operands of the call instruction at `at`, gathered in the frame's scratch space.
static rlt_status_t call_native(const import_t* import, const frame_t* frame, const uint16_t* list, rlt_error_t* error,
                                const uint16_t** next) {
  int64_t* ints = frame->ints + frame->function->int_registers;
  rlt_object_t** refs = frame->refs + frame->function->ref_registers;
  rlt_vm_call_t call = {.int_arguments = ints, .ref_arguments = refs};
  call.int_argument_count = *list++;
  for (uint32_t i = 0; i < call.int_argument_count; ++i) *ints++ = frame->ints[*list++];
  call.ref_argument_count = *list++;
  // Borrowed: the registers hold the references meanwhile, since only this thread writes them.
  for (uint32_t i = 0; i < call.ref_argument_count; ++i) *refs++ = frame->refs[*list++];
  const uint16_t* int_results = list;
  call.int_result_count = *list++;
  list += call.int_result_count;
  const uint16_t* ref_results = list;
  call.ref_result_count = *list++;
  list += call.ref_result_count;
  call.int_results = ints;
  call.ref_results = refs;
  memset(ints, 0, call.int_result_count * sizeof(*ints));
  memset(refs, 0, call.ref_result_count * sizeof(*refs));

  rlt_status_t status = import->fn(import->self, &call, error);

  // Scratch must not keep borrowed references: leave() releases every slot.
  memset((void*)(frame->refs + frame->function->ref_registers), 0, call.ref_argument_count * sizeof(*refs));
  if (RLT_UNLIKELY(status != RLT_OK)) return status;
  for (uint32_t i = 0; i < call.int_result_count; ++i) frame->ints[int_results[1 + i]] = ints[i];
  for (uint32_t i = 0; i < call.ref_result_count; ++i) {
    rlt_object_t** slot = &frame->refs[ref_results[1 + i]];
    rlt_object_t* old = *slot;
    *slot = refs[i];
    refs[i] = NULL;
    rlt_object_release(old);
  }
  *next = list;
  return RLT_OK;
}

// Copies the arguments that the lists at `list` name into a callee's cleared frame; returns the lists of results.
static const uint16_t* pass_arguments(const frame_t* caller, const frame_t* callee, const uint16_t* list) {
  uint32_t count = *list++;
  for (uint32_t i = 0; i < count; ++i) callee->ints[i] = caller->ints[*list++];
  count = *list++;
  for (uint32_t i = 0; i < count; ++i) {
    callee->refs[i] = caller->refs[*list++];
    rlt_object_retain(callee->refs[i]);
  }
  return list;
}

// Copies results from the registers that `from` lists in the callee to those that `to` lists in the caller; returns
// what follows `to`.
static const uint16_t* pass_results(const frame_t* callee, const frame_t* caller, const uint16_t* from,
                                    const uint16_t* to) {
  uint32_t count = *from++;
  ++to;
  for (uint32_t i = 0; i < count; ++i) caller->ints[*to++] = callee->ints[*from++];
  count = *from++;
  ++to;
  for (uint32_t i = 0; i < count; ++i) assign_ref(&caller->refs[*to++], callee->refs[*from++]);
  return to;
}

static void return_results(const frame_t* frame, const uint16_t* from, const rlt_vm_call_t* call) {
  uint32_t count = *from++;
  for (uint32_t i = 0; i < count; ++i) call->int_results[i] = frame->ints[*from++];
  count = *from++;
  for (uint32_t i = 0; i < count; ++i) {
    call->ref_results[i] = frame->refs[*from++];
    rlt_object_retain(call->ref_results[i]);
  }
}

// Integer arithmetic wraps; these keep the compiler from assuming that it does not.
#define WRAP(a, op, b) ((int64_t)((uint64_t)(a) op (uint64_t)(b)))

#define INT_OP(opcode, expression)         \
  case opcode: {                           \
    int64_t a = ints[at[2]], b = ints[at[3]]; \
    ints[at[1]] = (expression);            \
    at += 4;                               \
    break;                                 \
  }
#define DIVIDE_OP(opcode, expression)                                  \
  case opcode: {                                                       \
    int64_t a = ints[at[2]], b = ints[at[3]];                          \
    if (RLT_UNLIKELY(b == 0)) TRAP(RLT_TRAP, TRAP_ZERO);               \
    if (RLT_UNLIKELY(b == -1 && a == INT64_MIN)) TRAP(RLT_TRAP, TRAP_OVERFLOW); \
    ints[at[1]] = (expression);                                        \
    at += 4;                                                           \
    break;                                                             \
  }
#define UNSIGNED_DIVIDE_OP(opcode, expression)           \
  case opcode: {                                         \
    uint64_t a = (uint64_t)ints[at[2]], b = (uint64_t)ints[at[3]]; \
    if (RLT_UNLIKELY(b == 0)) TRAP(RLT_TRAP, TRAP_ZERO); \
    ints[at[1]] = (int64_t)(expression);                 \
    at += 4;                                             \
    break;                                               \
  }
#define INT_UNARY_OP(opcode, expression) \
  case opcode: {                         \
    int64_t a = ints[at[2]];             \
    ints[at[1]] = (expression);          \
    at += 3;                             \
    break;                               \
  }
#define F64_OP(opcode, expression)                                        \
  case opcode: {                                                          \
    double a = f64_of_bits(ints[at[2]]), b = f64_of_bits(ints[at[3]]);    \
    ints[at[1]] = (expression);                                           \
    at += 4;                                                              \
    break;                                                                \
  }
#define F64_UNARY_OP(opcode, expression)   \
  case opcode: {                           \
    double a = f64_of_bits(ints[at[2]]);   \
    ints[at[1]] = (expression);            \
    at += 3;                               \
    break;                                 \
  }
#define TRAP(code, what) \
  do {                   \
    status = (code);     \
    trap = (what);       \
    goto trapped;        \
  } while (0)
// Loops and recursion pass through here, and nothing else can run for long.
#define COUNT_STEP()                                                            \
  do {                                                                          \
    if (RLT_UNLIKELY(steps-- == 0)) TRAP(RLT_RESOURCE_EXHAUSTED, TRAP_STEPS); \
  } while (0)

rlt_status_t rlt_vm_interpret(rlt_vm_module_t* module, stack_t* stack, const function_t* function,
                              const rlt_vm_call_t* call, rlt_error_t* error) {
  frame_t* frame = stack->frames;
  uint8_t* top = enter(frame, function, (uint8_t*)stack->registers);
  if (call->int_argument_count) memcpy(frame->ints, call->int_arguments, call->int_argument_count * sizeof(int64_t));
  for (uint32_t i = 0; i < call->ref_argument_count; ++i) {
    frame->refs[i] = call->ref_arguments[i];
    rlt_object_retain(frame->refs[i]);
  }

  const uint16_t* at = function->code;
  int64_t* ints = frame->ints;
  rlt_object_t** refs = frame->refs;
  uint64_t steps = module->step_limit;
  rlt_status_t status = RLT_OK;
  trap_t trap = TRAP_ZERO;
  for (;;) {
    switch (at[0]) {
      case OP_TRAP:
        status = (rlt_status_t)at[1];
        rlt_error_set(error, status, "the program failed with %s in function \"%s\"", rlt_status_name(status),
                      frame->function->name);
        goto failed;
      case OP_CONST:
        ints[at[1]] = rlt_vm_read_literal(at + 2);
        at += 6;
        break;
      INT_UNARY_OP(OP_MOV, a)
      case OP_MOV_REF:
        assign_ref(&refs[at[1]], refs[at[2]]);
        at += 3;
        break;
      case OP_NULL_REF:
        assign_ref(&refs[at[1]], NULL);
        at += 2;
        break;
      case OP_BRANCH:
        COUNT_STEP();
        at = frame->function->code + rlt_vm_read_offset(at + 1);
        break;
      case OP_BRANCH_IF:
        COUNT_STEP();
        at = frame->function->code + rlt_vm_read_offset(ints[at[1]] ? at + 2 : at + 4);
        break;
      case OP_CALL: {
        COUNT_STEP();
        uint16_t target = at[1];
        if (target & RLT_VM_CALL_IMPORT) {
          const import_t* import = &module->imports[target & (RLT_VM_CALL_IMPORT - 1)];
          status = call_native(import, frame, at + 2, error, &at);
          if (RLT_UNLIKELY(status != RLT_OK)) goto failed;
          break;
        }
        if (RLT_UNLIKELY(frame == stack->frames + RLT_VM_MAX_CALL_DEPTH - 1)) TRAP(RLT_RESOURCE_EXHAUSTED, TRAP_DEPTH);
        frame_t* callee = frame + 1;
        top = enter(callee, &module->functions[target], top);
        callee->return_to = pass_arguments(frame, callee, at + 2);
        frame = callee;
        ints = frame->ints;
        refs = frame->refs;
        at = frame->function->code;
        break;
      }
      case OP_RETURN:
        if (frame == stack->frames) {
          return_results(frame, at + 1, call);
          leave(frame);
          return RLT_OK;
        }
        at = pass_results(frame, frame - 1, at + 1, frame->return_to);
        leave(frame);
        top -= frame->function->frame_size;
        --frame;
        ints = frame->ints;
        refs = frame->refs;
        break;
      case OP_GLOBAL_LOAD:
        ints[at[1]] = rlt_atomic_load_int64(&module->int_globals[at[2]]);
        at += 3;
        break;
      case OP_GLOBAL_STORE:
        rlt_atomic_store_int64(&module->int_globals[at[1]], ints[at[2]]);
        at += 3;
        break;
      case OP_GLOBAL_LOAD_REF:
        assign_ref(&refs[at[1]], module->ref_globals[at[2]]);
        at += 3;
        break;
      case OP_GLOBAL_STORE_REF:
        assign_ref(&module->ref_globals[at[1]], refs[at[2]]);
        at += 3;
        break;
      case OP_CMP_NULL:
        ints[at[1]] = refs[at[2]] == NULL;
        at += 3;
        break;
      INT_OP(OP_ADD, WRAP(a, +, b))
      INT_OP(OP_SUB, WRAP(a, -, b))
      INT_OP(OP_MUL, WRAP(a, *, b))
      DIVIDE_OP(OP_DIV_S, a / b)
      UNSIGNED_DIVIDE_OP(OP_DIV_U, a / b)
      DIVIDE_OP(OP_REM_S, a % b)
      UNSIGNED_DIVIDE_OP(OP_REM_U, a % b)
      INT_OP(OP_AND, a & b)
      INT_OP(OP_OR, a | b)
      INT_OP(OP_XOR, a ^ b)
      INT_OP(OP_SHL, WRAP(a, <<, b & 63))
      INT_OP(OP_SHR_S, a >> (b & 63))
      INT_OP(OP_SHR_U, WRAP(a, >>, b & 63))
      INT_OP(OP_MIN_S, a < b ? a : b)
      INT_OP(OP_MAX_S, a > b ? a : b)
      DIVIDE_OP(OP_FLOORDIV, a / b - (a % b != 0 && (a < 0) != (b < 0)))
      DIVIDE_OP(OP_CEILDIV, a / b + (a % b != 0 && (a < 0) == (b < 0)))
      INT_OP(OP_CMP_EQ, a == b)
      INT_OP(OP_CMP_NE, a != b)
      INT_OP(OP_CMP_LT_S, a < b)
      INT_OP(OP_CMP_LE_S, a <= b)
      INT_OP(OP_CMP_LT_U, (uint64_t)a < (uint64_t)b)
      INT_OP(OP_CMP_LE_U, (uint64_t)a <= (uint64_t)b)
      case OP_SELECT:
        ints[at[1]] = ints[at[2]] ? ints[at[3]] : ints[at[4]];
        at += 5;
        break;
      case OP_SELECT_REF:
        assign_ref(&refs[at[1]], ints[at[2]] ? refs[at[3]] : refs[at[4]]);
        at += 5;
        break;
      INT_UNARY_OP(OP_EXT_S8, (int8_t)a)
      INT_UNARY_OP(OP_EXT_S16, (int16_t)a)
      INT_UNARY_OP(OP_EXT_S32, (int32_t)a)
      INT_UNARY_OP(OP_EXT_U8, (uint8_t)a)
      INT_UNARY_OP(OP_EXT_U16, (uint16_t)a)
      INT_UNARY_OP(OP_EXT_U32, (uint32_t)a)
      F64_OP(OP_F64_ADD, f64_to_bits(a + b))
      F64_OP(OP_F64_SUB, f64_to_bits(a - b))
      F64_OP(OP_F64_MUL, f64_to_bits(a * b))
      F64_OP(OP_F64_DIV, f64_to_bits(a / b))
      F64_OP(OP_F64_MIN, f64_to_bits(f64_min(a, b)))
      F64_OP(OP_F64_MAX, f64_to_bits(f64_max(a, b)))
      F64_OP(OP_F64_CMP_EQ, a == b)
      F64_OP(OP_F64_CMP_LT, a < b)
      F64_OP(OP_F64_CMP_LE, a <= b)
      INT_UNARY_OP(OP_F64_NEG, a ^ INT64_MIN)
      INT_UNARY_OP(OP_F64_ABS, a & INT64_MAX)
      F64_UNARY_OP(OP_F64_CEIL, f64_to_bits(f64_ceil(a)))
      F64_UNARY_OP(OP_F64_FLOOR, f64_to_bits(f64_floor(a)))
      F64_UNARY_OP(OP_F64_SQRT, f64_to_bits(rlt_f64_sqrt(a)))
      F64_UNARY_OP(OP_F64_TRUNC, f64_to_bits(f64_trunc(a)))
      INT_UNARY_OP(OP_F64_FROM_I64, f64_to_bits((double)a))
      F64_UNARY_OP(OP_F64_TO_I64, f64_to_i64(a))
      INT_UNARY_OP(OP_F64_FROM_F32, f64_to_bits(f64_of_f32_bits(a)))
      F64_UNARY_OP(OP_F64_TO_F32, f64_to_f32_bits(a))
      default:
        // The verifier lets no other opcode through.
        status = rlt_error_set(error, RLT_INTERNAL, "unverified opcode %u", at[0]);
        goto failed;
    }
  }

trapped:
  rlt_error_set(error, status, "%s (in function \"%s\")", k_trap_messages[trap], frame->function->name);
failed:
  for (;; --frame) {
    leave(frame);
    if (frame == stack->frames) return status;
  }
}
