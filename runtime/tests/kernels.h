// The kernels of kernels.c, linked into a test.
#ifndef RILLET_TESTS_KERNELS_H_
#define RILLET_TESTS_KERNELS_H_

#include "rillet/cpu/kernel_abi.h"

enum { ENTRY_ADD, ENTRY_GATHER, ENTRY_GRID, ENTRY_NEGATE, ENTRY_COUNT };

const rlt_kernel_table_t* rlt_kernel_query(uint32_t abi_version);

#endif  // RILLET_TESTS_KERNELS_H_
