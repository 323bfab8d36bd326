// What a program under Bochs starts from: the first disk of the first ATA channel, read with programmed input.
#ifndef RILLET_PLATFORMS_BOCHS_DISK_H_
#define RILLET_PLATFORMS_BOCHS_DISK_H_

#include <stddef.h>
#include <stdint.h>

enum { DISK_SECTOR = 512 };  // bytes

// Reads `count` sectors from number `first` (of 28 bits) on.
void disk_read(void* to, uint32_t first, uint32_t count);

#endif  // RILLET_PLATFORMS_BOCHS_DISK_H_
