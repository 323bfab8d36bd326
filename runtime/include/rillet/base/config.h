// Build configuration shared by every public header.
//
//   RLT_FREESTANDING       no libc but memcpy, memmove, memset and memcmp; no system allocator, no files, no threads
//   RLT_SINGLE_THREADED    reference counts are plain integers (targets without atomic instructions)
//   RLT_NO_ERROR_MESSAGES  errors are status codes only, which saves code and stack
//
// The runtime and what uses it must be compiled with the same configuration.
#ifndef RILLET_BASE_CONFIG_H_
#define RILLET_BASE_CONFIG_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define RLT_BEGIN_DECLS extern "C" {
#define RLT_END_DECLS }
#else
#define RLT_BEGIN_DECLS
#define RLT_END_DECLS
#endif

#if defined(__GNUC__)
#define RLT_PRINTF_FORMAT(string, first) __attribute__((__format__(__printf__, string, first)))
#define RLT_WARN_UNUSED __attribute__((warn_unused_result))
#define RLT_LIKELY(x) __builtin_expect(!!(x), 1)
#define RLT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define RLT_PRINTF_FORMAT(string, first)
#define RLT_WARN_UNUSED
#define RLT_LIKELY(x) (x)
#define RLT_UNLIKELY(x) (x)
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Rillet's file formats are little-endian and read in place; big-endian machines are not supported"
#endif

#endif  // RILLET_BASE_CONFIG_H_
