// Checking the inputs of a call against what the export declares.
#ifndef RILLET_PROGRAM_CHECK_INPUTS_H_
#define RILLET_PROGRAM_CHECK_INPUTS_H_

#include "rillet/hal/buffer.h"
#include "rillet/module.h"

// RLT_INVALID_ARGUMENT with a message that names the input when something differs.
rlt_status_t rlt_session_check_inputs(const rlt_module_export_t* declared, uint32_t input_count,
                                      rlt_buffer_view_t* const* inputs, rlt_error_t* error);

#endif  // RILLET_PROGRAM_CHECK_INPUTS_H_
