#include "printer.h"

#include "ports.h"

enum { DATA_PORT = 0x378, CONTROL_PORT = 0x37a };
enum { IDLE = 0x0c, STROBE = 0x0d };  // selected, initialized; a byte is taken when the strobe ends

void printer_write(const void* data, size_t length) {
  const uint8_t* bytes = (const uint8_t*)data;
  for (size_t i = 0; i < length; ++i) {
    port_out(DATA_PORT, bytes[i]);
    port_out(CONTROL_PORT, STROBE);
    port_out(CONTROL_PORT, IDLE);
  }
}
