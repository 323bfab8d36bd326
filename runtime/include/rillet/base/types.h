// Element types of tensors: ONNX's numbering.
#ifndef RILLET_BASE_TYPES_H_
#define RILLET_BASE_TYPES_H_

#include "rillet/base/config.h"

RLT_BEGIN_DECLS

typedef enum rlt_element_type_t {
  RLT_TYPE_F32 = 1,
  RLT_TYPE_U8 = 2,
  RLT_TYPE_I8 = 3,
  RLT_TYPE_U16 = 4,
  RLT_TYPE_I16 = 5,
  RLT_TYPE_I32 = 6,
  RLT_TYPE_I64 = 7,
  RLT_TYPE_BOOL = 9,
  RLT_TYPE_F16 = 10,
  RLT_TYPE_F64 = 11,
  RLT_TYPE_U32 = 12,
  RLT_TYPE_U64 = 13,
  RLT_TYPE_C64 = 14,
  RLT_TYPE_C128 = 15,
  RLT_TYPE_BF16 = 16,
  RLT_TYPE_F8E4M3FN = 17,
  RLT_TYPE_F8E4M3FNUZ = 18,
  RLT_TYPE_F8E5M2 = 19,
  RLT_TYPE_F8E5M2FNUZ = 20,
  RLT_TYPE_U4 = 21,
  RLT_TYPE_I4 = 22,
  RLT_TYPE_F4E2M1 = 23,
  RLT_TYPE_F8E8M0 = 24,
  RLT_TYPE_U2 = 25,
  RLT_TYPE_I2 = 26,
} rlt_element_type_t;

// Bytes one element takes in a buffer (types below eight bits take one byte each); 0 when `code` names no type.
size_t rlt_element_type_size(int64_t code);

// numpy's (or ml_dtypes') name, e.g. "float32", "bfloat16"; "invalid" when `code` names no type. A string constant.
const char* rlt_element_type_name(int64_t code);

RLT_END_DECLS

#endif  // RILLET_BASE_TYPES_H_
