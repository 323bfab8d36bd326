// Reading single elements of a tensor.
#ifndef RILLET_HAL_ELEMENT_H_
#define RILLET_HAL_ELEMENT_H_

#include "rillet/base/types.h"

// The element at `data` as the VM holds it: integers sign- or zero-extended, floats as the bits of a double. False for
// types the VM cannot hold (complex).
bool rlt_element_load(int64_t element_type, const void* data, int64_t* out_value);

#endif  // RILLET_HAL_ELEMENT_H_
