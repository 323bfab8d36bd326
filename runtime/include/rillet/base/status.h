// Status codes and the error context.
//
// A function that can fail returns a rlt_status_t and takes a `rlt_error_t* error`, owned by the caller (usually on its
// stack), which may be NULL. On failure the function writes the code and one bounded message into it; on success it
// leaves it alone. Nothing is allocated and nothing is global.
#ifndef RILLET_BASE_STATUS_H_
#define RILLET_BASE_STATUS_H_

#include "rillet/base/config.h"

RLT_BEGIN_DECLS

typedef enum rlt_status_t {
  RLT_OK = 0,
  RLT_INVALID_ARGUMENT = 1,     // the caller passed something that can never work
  RLT_OUT_OF_MEMORY = 2,        // an allocator returned NULL
  RLT_NOT_FOUND = 3,            // no such import, export, entry or file
  RLT_FAILED_PRECONDITION = 4,  // the object is in the wrong state for this call
  RLT_OUT_OF_RANGE = 5,         // an index, offset or length outside its object
  RLT_DATA_LOSS = 6,            // a corrupt or truncated file
  RLT_UNIMPLEMENTED = 7,        // valid, but this build or device cannot do it
  RLT_INCOMPATIBLE = 8,         // made for another version, processor or signature
  RLT_RESOURCE_EXHAUSTED = 9,   // a fixed limit (call depth, step limit, slots) was reached
  RLT_INTERNAL = 10,            // a bug in the runtime or a driver
  RLT_TRAP = 11,                // the program stopped itself: division by zero, index out of bounds
  RLT_CANCELLED = 12,           // the caller asked for the work to end (rlt_interrupt_t)
  RLT_DEADLINE_EXCEEDED = 13,   // waiting took longer than the caller allows
  RLT_STATUS_COUNT = 14,
} rlt_status_t;

#ifdef RLT_NO_ERROR_MESSAGES
enum { RLT_ERROR_CAPACITY = 1 };
#else
enum { RLT_ERROR_CAPACITY = 384 };
#endif

// Where a failure is described. Start with `rlt_error_t error = {0};`.
typedef struct rlt_error_t {
  rlt_status_t status;
  uint32_t length;                   // bytes of message, without its terminator
  uint32_t entry;                    // 1 + the ordinal of the kernel that failed on its data, in a session of its entry
                                     // facts; 0: none did. A call of a session begins with 0
  char message[RLT_ERROR_CAPACITY];  // always NUL-terminated; a message that is too long is cut
} rlt_error_t;

// The name of a status code, e.g. "DATA_LOSS"; "UNKNOWN" for any other number. A string constant.
const char* rlt_status_name(rlt_status_t status);

// Writes `status` and the formatted message into `error` (unless it is NULL) and returns `status`, so that a failing
// function can end with `return rlt_error_set(error, ...)`. Replaces what was there.
// Formats: %s %.*s %c %d %i %u %x with the length modifiers l, ll and z; %%. Field widths are not supported.
rlt_status_t rlt_error_set(rlt_error_t* error, rlt_status_t status, const char* format, ...) RLT_PRINTF_FORMAT(3, 4);

// Puts formatted text before the message that `error` (may be NULL) already holds, to say where a failure happened.
// The same formats.
void rlt_error_prefix(rlt_error_t* error, const char* format, ...) RLT_PRINTF_FORMAT(2, 3);

#ifdef RLT_NO_ERROR_MESSAGES
static inline rlt_status_t rlt_error_set_status(rlt_error_t* error, rlt_status_t status) {
  if (error) error->status = status;
  return status;
}
// Arguments are checked but not evaluated, so that texts, and what only serves them, are left out of the program.
#define rlt_error_set(error, status, ...) \
  ((void)sizeof(rlt_error_set(error, status, __VA_ARGS__)), rlt_error_set_status(error, status))
#define rlt_error_prefix(error, ...) ((void)sizeof((rlt_error_prefix(error, __VA_ARGS__), 0)))
#endif

// Returns from the enclosing function when `expression` is not RLT_OK.
#define RLT_RETURN_IF_ERROR(expression)                        \
  do {                                                         \
    rlt_status_t rlt_status_ = (expression);                   \
    if (RLT_UNLIKELY(rlt_status_ != RLT_OK)) return rlt_status_; \
  } while (0)

RLT_END_DECLS

#endif  // RILLET_BASE_STATUS_H_
