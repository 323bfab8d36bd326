#include "base/crc32.h"

// A byte's remainder is the XOR of those of its two halves, so two tables of 16 do the work of one of 256.
static const uint32_t k_low[16] = {
    0x00000000u, 0x77073096u, 0xee0e612cu, 0x990951bau, 0x076dc419u, 0x706af48fu, 0xe963a535u, 0x9e6495a3u,
    0x0edb8832u, 0x79dcb8a4u, 0xe0d5e91eu, 0x97d2d988u, 0x09b64c2bu, 0x7eb17cbdu, 0xe7b82d07u, 0x90bf1d91u,
};
static const uint32_t k_high[16] = {
    0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
    0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu,
};

uint32_t rlt_crc32(uint32_t previous, const void* data, size_t length) {
  const uint8_t* bytes = (const uint8_t*)data;
  uint32_t crc = ~previous;
  for (size_t i = 0; i < length; ++i) {
    uint32_t index = (crc ^ bytes[i]) & 0xFF;
    crc = (crc >> 8) ^ k_low[index & 15] ^ k_high[index >> 4];
  }
  return ~crc;
}
