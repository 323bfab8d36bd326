#include "disk.h"

#include "ports.h"

enum { DATA = 0x1f0, COUNT = 0x1f2, SECTOR_0 = 0x1f3, SECTOR_8 = 0x1f4, SECTOR_16 = 0x1f5, DEVICE = 0x1f6, COMMAND = 0x1f7 };
enum { MASTER_BY_SECTOR = 0xe0, READ_SECTORS = 0x20 };
enum { BUSY = 0x80, DATA_READY = 0x08 };

static void read_sector(uint8_t* to, uint32_t number) {
  port_out(DEVICE, (uint8_t)(MASTER_BY_SECTOR | number >> 24));
  port_out(COUNT, 1);
  port_out(SECTOR_0, (uint8_t)number);
  port_out(SECTOR_8, (uint8_t)(number >> 8));
  port_out(SECTOR_16, (uint8_t)(number >> 16));
  port_out(COMMAND, READ_SECTORS);
  while ((port_in(COMMAND) & (BUSY | DATA_READY)) != DATA_READY) {
  }
  size_t words = DISK_SECTOR / 2;
  __asm__ volatile("rep insw" : "+D"(to), "+c"(words) : "d"(DATA) : "memory");
}

void disk_read(void* to, uint32_t first, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) read_sector((uint8_t*)to + (size_t)i * DISK_SECTOR, first + i);
}
