#include "rillet/base/types.h"

typedef struct type_info_t {
  uint8_t size;
  char name[16];
} type_info_t;

static const type_info_t k_types[] = {
    [RLT_TYPE_F32] = {4, "float32"},
    [RLT_TYPE_U8] = {1, "uint8"},
    [RLT_TYPE_I8] = {1, "int8"},
    [RLT_TYPE_U16] = {2, "uint16"},
    [RLT_TYPE_I16] = {2, "int16"},
    [RLT_TYPE_I32] = {4, "int32"},
    [RLT_TYPE_I64] = {8, "int64"},
    [RLT_TYPE_BOOL] = {1, "bool"},
    [RLT_TYPE_F16] = {2, "float16"},
    [RLT_TYPE_F64] = {8, "float64"},
    [RLT_TYPE_U32] = {4, "uint32"},
    [RLT_TYPE_U64] = {8, "uint64"},
    [RLT_TYPE_C64] = {8, "complex64"},
    [RLT_TYPE_C128] = {16, "complex128"},
    [RLT_TYPE_BF16] = {2, "bfloat16"},
    [RLT_TYPE_F8E4M3FN] = {1, "float8_e4m3fn"},
    [RLT_TYPE_F8E4M3FNUZ] = {1, "float8_e4m3fnuz"},
    [RLT_TYPE_F8E5M2] = {1, "float8_e5m2"},
    [RLT_TYPE_F8E5M2FNUZ] = {1, "float8_e5m2fnuz"},
    [RLT_TYPE_U4] = {1, "uint4"},
    [RLT_TYPE_I4] = {1, "int4"},
    [RLT_TYPE_F4E2M1] = {1, "float4_e2m1fn"},
    [RLT_TYPE_F8E8M0] = {1, "float8_e8m0fnu"},
    [RLT_TYPE_U2] = {1, "uint2"},
    [RLT_TYPE_I2] = {1, "int2"},
};

static bool is_type(int64_t code) {
  return code >= 0 && code < (int64_t)(sizeof(k_types) / sizeof(k_types[0])) && k_types[code].size != 0;
}

size_t rlt_element_type_size(int64_t code) { return is_type(code) ? k_types[code].size : 0; }

const char* rlt_element_type_name(int64_t code) { return is_type(code) ? k_types[code].name : "invalid"; }
