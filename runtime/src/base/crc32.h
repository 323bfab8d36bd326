// CRC-32 (ISO-HDLC: polynomial 0x04C11DB7 reflected, initial value and final XOR 0xFFFFFFFF), as in zlib and PNG.
#ifndef RILLET_BASE_CRC32_H_
#define RILLET_BASE_CRC32_H_

#include "rillet/base/config.h"

// The CRC of `length` bytes following those whose CRC is `previous`; 0 to begin.
uint32_t rlt_crc32(uint32_t previous, const void* data, size_t length);

#endif  // RILLET_BASE_CRC32_H_
