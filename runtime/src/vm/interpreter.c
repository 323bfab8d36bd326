#include "base/strings.h"
#include "vm/bytecode.h"
#include "vm/float64.h"
#include "vm/internal.h"

// What ends an invocation early; the text is in k_trap_messages.
typedef enum trap_t { TRAP_ZERO, TRAP_OVERFLOW, TRAP_DEPTH, TRAP_STEPS, TRAP_INTERRUPT } trap_t;

static const char* const k_trap_messages[] = {
    [TRAP_ZERO] = "division by zero",
    [TRAP_OVERFLOW] = "a quotient does not fit in 64 bits",
    [TRAP_DEPTH] = "calls are nested too deeply",
    [TRAP_STEPS] = "the step limit was reached",
    [TRAP_INTERRUPT] = "interrupted",
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
static rlt_status_t call_native(const import_t* import, const frame_t* frame, const uint16_t* list, void* context,
                                rlt_error_t* error, const uint16_t** next) {
  int64_t* ints = frame->ints + frame->function->int_registers;
  rlt_object_t** refs = frame->refs + frame->function->ref_registers;
  rlt_vm_call_t call = {.int_arguments = ints, .ref_arguments = refs, .context = context};
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

// Integer arithmetic wraps; this keeps the compiler from assuming that it does not.
#define WRAP(a, op, b) ((int64_t)((uint64_t)(a) op (uint64_t)(b)))

static bool is_binary(uint16_t opcode) {
  return (opcode >= OP_ADD && opcode <= OP_CMP_LE_U) || (opcode >= OP_F64_ADD && opcode <= OP_F64_CMP_LE);
}

static bool is_unary(uint16_t opcode) {
  return (opcode >= OP_EXT_S8 && opcode <= OP_EXT_U32) || (opcode >= OP_F64_NEG && opcode <= OP_F64_TO_F32);
}

static bool is_signed_division(uint16_t opcode) {
  return opcode == OP_DIV_S || opcode == OP_REM_S || opcode == OP_FLOORDIV || opcode == OP_CEILDIV;
}

static bool is_division(uint16_t opcode) {
  return is_signed_division(opcode) || opcode == OP_DIV_U || opcode == OP_REM_U;
}

// One function for all, so that operands are read and results are written in one place: code is small, and arithmetic
// is a small part of what host programs do. Divisors are checked.
static int64_t binary(uint16_t opcode, int64_t a, int64_t b) {
  const double x = f64_of_bits(a), y = f64_of_bits(b);
  switch (opcode) {
    case OP_ADD: return WRAP(a, +, b);
    case OP_SUB: return WRAP(a, -, b);
    case OP_MUL: return WRAP(a, *, b);
    case OP_DIV_S: return a / b;
    case OP_DIV_U: return (int64_t)((uint64_t)a / (uint64_t)b);
    case OP_REM_S: return a % b;
    case OP_REM_U: return (int64_t)((uint64_t)a % (uint64_t)b);
    case OP_AND: return a & b;
    case OP_OR: return a | b;
    case OP_XOR: return a ^ b;
    case OP_SHL: return WRAP(a, <<, b & 63);
    case OP_SHR_S: return a >> (b & 63);
    case OP_SHR_U: return WRAP(a, >>, b & 63);
    case OP_MIN_S: return a < b ? a : b;
    case OP_MAX_S: return a > b ? a : b;
    case OP_FLOORDIV: return a / b - (a % b != 0 && (a < 0) != (b < 0));
    case OP_CEILDIV: return a / b + (a % b != 0 && (a < 0) == (b < 0));
    case OP_CMP_EQ: return a == b;
    case OP_CMP_NE: return a != b;
    case OP_CMP_LT_S: return a < b;
    case OP_CMP_LE_S: return a <= b;
    case OP_CMP_LT_U: return (uint64_t)a < (uint64_t)b;
    case OP_CMP_LE_U: return (uint64_t)a <= (uint64_t)b;
    case OP_F64_ADD: return f64_to_bits(x + y);
    case OP_F64_SUB: return f64_to_bits(x - y);
    case OP_F64_MUL: return f64_to_bits(x * y);
    case OP_F64_DIV: return f64_to_bits(x / y);
    case OP_F64_MIN: return f64_to_bits(f64_min(x, y));
    case OP_F64_MAX: return f64_to_bits(f64_max(x, y));
    case OP_F64_CMP_EQ: return x == y;
    case OP_F64_CMP_LT: return x < y;
    case OP_F64_CMP_LE: return x <= y;
    default: return 0;  // the verifier lets no other opcode through
  }
}

static int64_t unary(uint16_t opcode, int64_t a) {
  const double x = f64_of_bits(a);
  switch (opcode) {
    case OP_EXT_S8: return (int8_t)a;
    case OP_EXT_S16: return (int16_t)a;
    case OP_EXT_S32: return (int32_t)a;
    case OP_EXT_U8: return (uint8_t)a;
    case OP_EXT_U16: return (uint16_t)a;
    case OP_EXT_U32: return (uint32_t)a;
    case OP_F64_NEG: return a ^ INT64_MIN;
    case OP_F64_ABS: return a & INT64_MAX;
    case OP_F64_CEIL: return f64_to_bits(f64_ceil(x));
    case OP_F64_FLOOR: return f64_to_bits(f64_floor(x));
    case OP_F64_SQRT: return f64_to_bits(rlt_f64_sqrt(x));
    case OP_F64_TRUNC: return f64_to_bits(f64_trunc(x));
    case OP_F64_FROM_I64: return f64_to_bits((double)a);
    case OP_F64_TO_I64: return f64_to_i64(x);
    case OP_F64_FROM_F32: return f64_to_bits(f64_of_f32_bits(a));
    case OP_F64_TO_F32: return f64_to_f32_bits(x);
    default: return 0;  // the verifier lets no other opcode through
  }
}

#define TRAP(code, what) \
  do {                   \
    status = (code);     \
    trap = (what);       \
    goto trapped;        \
  } while (0)

// How many steps will be left when something must be looked at again: whether there is an interrupt, or the limit.
static uint64_t next_pause(const rlt_vm_module_t* module, uint64_t steps) {
  return module->interrupt.is_pending && steps > RLT_VM_INTERRUPT_STEPS ? steps - RLT_VM_INTERRUPT_STEPS : 0;
}

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
  uint64_t steps = module->step_limit, pause = next_pause(module, steps);
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
      case OP_MOV:
        ints[at[1]] = ints[at[2]];
        at += 3;
        break;
      case OP_MOV_REF:
        assign_ref(&refs[at[1]], refs[at[2]]);
        at += 3;
        break;
      case OP_NULL_REF:
        assign_ref(&refs[at[1]], NULL);
        at += 2;
        break;
      case OP_BRANCH:
      case OP_BRANCH_IF:
      case OP_CALL: {
        // Loops and recursion pass through here, and nothing else can run for long.
        if (RLT_UNLIKELY(steps == pause)) {
          if (steps == 0) TRAP(RLT_RESOURCE_EXHAUSTED, TRAP_STEPS);
          if (module->interrupt.is_pending(module->interrupt.self)) TRAP(RLT_CANCELLED, TRAP_INTERRUPT);
          pause = next_pause(module, steps);
        }
        --steps;
        if (at[0] == OP_BRANCH) {
          at = frame->function->code + rlt_vm_read_offset(at + 1);
          break;
        }
        if (at[0] == OP_BRANCH_IF) {
          at = frame->function->code + rlt_vm_read_offset(ints[at[1]] ? at + 2 : at + 4);
          break;
        }
        uint16_t target = at[1];
        if (target & RLT_VM_CALL_IMPORT) {
          const import_t* import = &module->imports[target & (RLT_VM_CALL_IMPORT - 1)];
          status = call_native(import, frame, at + 2, call->context, error, &at);
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
      case OP_SELECT:
        ints[at[1]] = ints[at[2]] ? ints[at[3]] : ints[at[4]];
        at += 5;
        break;
      case OP_SELECT_REF:
        assign_ref(&refs[at[1]], ints[at[2]] ? refs[at[3]] : refs[at[4]]);
        at += 5;
        break;
      default: {
        const uint16_t opcode = at[0];
        if (is_binary(opcode)) {
          const int64_t a = ints[at[2]], b = ints[at[3]];
          if (RLT_UNLIKELY(b == 0 && is_division(opcode))) TRAP(RLT_TRAP, TRAP_ZERO);
          if (RLT_UNLIKELY(b == -1 && a == INT64_MIN && is_signed_division(opcode))) TRAP(RLT_TRAP, TRAP_OVERFLOW);
          ints[at[1]] = binary(opcode, a, b);
          at += 4;
          break;
        }
        if (is_unary(opcode)) {
          ints[at[1]] = unary(opcode, ints[at[2]]);
          at += 3;
          break;
        }
        // The verifier lets no other opcode through.
        status = rlt_error_set(error, RLT_INTERNAL, "unverified opcode %u", opcode);
        goto failed;
      }
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
