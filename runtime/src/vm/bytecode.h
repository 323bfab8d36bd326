// The bytecode's opcodes and how their operands are laid out. docs/reference/bytecode.md is the reference.
#ifndef RILLET_VM_BYTECODE_H_
#define RILLET_VM_BYTECODE_H_

#include "rillet/base/config.h"

enum {
  OP_TRAP = 0,
  OP_CONST = 1,
  OP_MOV = 2,
  OP_MOV_REF = 3,
  OP_NULL_REF = 4,
  OP_BRANCH = 5,
  OP_BRANCH_IF = 6,
  OP_CALL = 7,
  OP_RETURN = 8,
  OP_GLOBAL_LOAD = 9,
  OP_GLOBAL_STORE = 10,
  OP_GLOBAL_LOAD_REF = 11,
  OP_GLOBAL_STORE_REF = 12,
  OP_CMP_NULL = 13,
  OP_ADD = 16,
  OP_SUB,
  OP_MUL,
  OP_DIV_S,
  OP_DIV_U,
  OP_REM_S,
  OP_REM_U,
  OP_AND,
  OP_OR,
  OP_XOR,
  OP_SHL,
  OP_SHR_S,
  OP_SHR_U,
  OP_MIN_S,
  OP_MAX_S,
  OP_FLOORDIV,
  OP_CEILDIV,
  OP_CMP_EQ = 40,
  OP_CMP_NE,
  OP_CMP_LT_S,
  OP_CMP_LE_S,
  OP_CMP_LT_U,
  OP_CMP_LE_U,
  OP_SELECT = 50,
  OP_SELECT_REF = 51,
  OP_EXT_S8 = 52,
  OP_EXT_S16,
  OP_EXT_S32,
  OP_EXT_U8,
  OP_EXT_U16,
  OP_EXT_U32,
  OP_F64_ADD = 60,
  OP_F64_SUB,
  OP_F64_MUL,
  OP_F64_DIV,
  OP_F64_MIN,
  OP_F64_MAX,
  OP_F64_CMP_EQ = 70,
  OP_F64_CMP_LT,
  OP_F64_CMP_LE,
  OP_F64_NEG = 80,
  OP_F64_ABS,
  OP_F64_CEIL,
  OP_F64_FLOOR,
  OP_F64_SQRT,
  OP_F64_TRUNC,
  OP_F64_FROM_I64,
  OP_F64_TO_I64,
  OP_F64_FROM_F32,
  OP_F64_TO_F32,
  OP_COUNT,
};

// In the first operand of a call.
enum { RLT_VM_CALL_IMPORT = 0x8000 };

// The operands of an opcode, one letter each: 'i' integer register, 'r' reference register, 'w' word, 'L' code offset
// (2 words), 'q' 64-bit literal (4 words), 'I' and 'R' counted lists of registers. NULL when there is no such opcode.
const char* rlt_vm_operands(uint16_t opcode);

// The words of the (verified) instruction at `code`.
size_t rlt_vm_instruction_length(const uint16_t* code);

static inline uint32_t rlt_vm_read_offset(const uint16_t* words) { return words[0] | (uint32_t)words[1] << 16; }

static inline int64_t rlt_vm_read_literal(const uint16_t* words) {
  return (int64_t)(words[0] | (uint64_t)words[1] << 16 | (uint64_t)words[2] << 32 | (uint64_t)words[3] << 48);
}

#endif  // RILLET_VM_BYTECODE_H_
