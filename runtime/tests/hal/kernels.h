// The kernels of kernels.c, linked into a test.
#ifndef RILLET_TESTS_HAL_KERNELS_H_
#define RILLET_TESTS_HAL_KERNELS_H_

#include "rillet/executable.h"

enum { ENTRY_ADD, ENTRY_GATHER, ENTRY_GRID, ENTRY_NEGATE, ENTRY_COUNT };

const rlt_executable_library_t* rlt_executable_query(uint32_t abi_version);

#endif  // RILLET_TESTS_HAL_KERNELS_H_
