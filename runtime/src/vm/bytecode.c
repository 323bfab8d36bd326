#include "vm/bytecode.h"

// Ranges of opcodes that share their operands, in order.
typedef struct operand_range_t {
  uint8_t first, last;
  char operands[6];
} operand_range_t;

static const operand_range_t k_ranges[] = {
    {OP_TRAP, OP_TRAP, "w"},
    {OP_CONST, OP_CONST, "iq"},
    {OP_MOV, OP_MOV, "ii"},
    {OP_MOV_REF, OP_MOV_REF, "rr"},
    {OP_NULL_REF, OP_NULL_REF, "r"},
    {OP_BRANCH, OP_BRANCH, "L"},
    {OP_BRANCH_IF, OP_BRANCH_IF, "iLL"},
    {OP_CALL, OP_CALL, "wIRIR"},
    {OP_RETURN, OP_RETURN, "IR"},
    {OP_GLOBAL_LOAD, OP_GLOBAL_LOAD, "iw"},
    {OP_GLOBAL_STORE, OP_GLOBAL_STORE, "wi"},
    {OP_GLOBAL_LOAD_REF, OP_GLOBAL_LOAD_REF, "rw"},
    {OP_GLOBAL_STORE_REF, OP_GLOBAL_STORE_REF, "wr"},
    {OP_CMP_NULL, OP_CMP_NULL, "ir"},
    {OP_ADD, OP_CEILDIV, "iii"},
    {OP_CMP_EQ, OP_CMP_LE_U, "iii"},
    {OP_SELECT, OP_SELECT, "iiii"},
    {OP_SELECT_REF, OP_SELECT_REF, "rirr"},
    {OP_EXT_S8, OP_EXT_U32, "ii"},
    {OP_F64_ADD, OP_F64_MAX, "iii"},
    {OP_F64_CMP_EQ, OP_F64_CMP_LE, "iii"},
    {OP_F64_NEG, OP_F64_TO_F32, "ii"},
};

const char* rlt_vm_operands(uint16_t opcode) {
  for (size_t i = 0; i < sizeof(k_ranges) / sizeof(k_ranges[0]); ++i) {
    if (opcode >= k_ranges[i].first && opcode <= k_ranges[i].last) return k_ranges[i].operands;
  }
  return NULL;
}

size_t rlt_vm_instruction_length(const uint16_t* code) {
  size_t length = 1;
  for (const char* operand = rlt_vm_operands(code[0]); *operand; ++operand) {
    switch (*operand) {
      case 'L': length += 2; break;
      case 'q': length += 4; break;
      case 'I':
      case 'R': length += 1u + code[length]; break;
      default: length += 1; break;
    }
  }
  return length;
}
