// What a program under Bochs gives back: bytes printed on the parallel port, which Bochs writes to a file as they are.
#ifndef RILLET_PLATFORMS_BOCHS_PRINTER_H_
#define RILLET_PLATFORMS_BOCHS_PRINTER_H_

#include <stddef.h>

void printer_write(const void* data, size_t length);

#endif  // RILLET_PLATFORMS_BOCHS_PRINTER_H_
