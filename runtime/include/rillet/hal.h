// The hardware abstraction layer in one include.
#ifndef RILLET_HAL_H_
#define RILLET_HAL_H_

#include "rillet/hal/buffer.h"
#include "rillet/hal/command_buffer.h"
#include "rillet/hal/device.h"
#include "rillet/hal/driver.h"
#include "rillet/hal/library.h"
#include "rillet/hal/semaphore.h"

#endif  // RILLET_HAL_H_
