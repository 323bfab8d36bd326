// Input and output ports of a PC.
#ifndef RILLET_PLATFORMS_BOCHS_PORTS_H_
#define RILLET_PLATFORMS_BOCHS_PORTS_H_

#include <stdint.h>

static inline void port_out(uint16_t port, uint8_t value) { __asm__ volatile("outb %0, %1" ::"a"(value), "d"(port)); }

static inline uint8_t port_in(uint16_t port) {
  uint8_t value;
  __asm__ volatile("inb %1, %0" : "=a"(value) : "d"(port));
  return value;
}

#endif  // RILLET_PLATFORMS_BOCHS_PORTS_H_
