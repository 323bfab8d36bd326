// Everything the runtime offers, in one include.
#ifndef RILLET_RILLET_H_
#define RILLET_RILLET_H_

#include "rillet/base/allocator.h"
#include "rillet/base/arena.h"
#include "rillet/base/atomics.h"
#include "rillet/base/config.h"
#include "rillet/base/object.h"
#include "rillet/base/status.h"
#include "rillet/base/types.h"
#include "rillet/cpu/code_memory.h"
#include "rillet/cpu/kernel_abi.h"
#include "rillet/hal.h"
#include "rillet/module.h"
#include "rillet/session.h"
#include "rillet/vm.h"

#endif  // RILLET_RILLET_H_
