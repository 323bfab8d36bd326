// Everything the runtime offers, in one include.
#ifndef RILLET_RILLET_H_
#define RILLET_RILLET_H_

#include "rillet/allocator.h"
#include "rillet/arena.h"
#include "rillet/atomics.h"
#include "rillet/code_memory.h"
#include "rillet/config.h"
#include "rillet/kernel_abi.h"
#include "rillet/hal.h"
#include "rillet/module.h"
#include "rillet/object.h"
#include "rillet/session.h"
#include "rillet/status.h"
#include "rillet/types.h"
#include "rillet/vm.h"

#endif  // RILLET_RILLET_H_
