// Command buffers: work recorded once and executed any number of times, each time on another table of buffers.
//
// Commands name the memory they touch as ranges of *slots*; which buffer is in which slot is only known at execution.
// Recording checks what can be checked then, and `end` sums up what each slot must offer, so that executing checks each
// buffer once however many commands there are. After `end` a command buffer is immutable and may be executed by several
// threads at once. Between two barriers commands are independent and may run concurrently.
//
// Pointers must be there unless a comment says that they may be NULL.
#ifndef RILLET_HAL_COMMAND_BUFFER_H_
#define RILLET_HAL_COMMAND_BUFFER_H_

#include "rillet/hal/buffer.h"
#include "rillet/hal/library.h"

RLT_BEGIN_DECLS

typedef struct rlt_device_t rlt_device_t;

typedef enum rlt_command_kind_t {
  RLT_COMMAND_DISPATCH,
  RLT_COMMAND_FILL,
  RLT_COMMAND_COPY,
  RLT_COMMAND_BARRIER,
} rlt_command_kind_t;

// A range of the buffer in a slot.
typedef struct rlt_binding_t {
  uint32_t slot;
  uint32_t access;  // RLT_ACCESS_*: what the command does with it
  uint64_t offset, length;
} rlt_binding_t;

// One recorded command, for drivers to interpret.
typedef struct rlt_command_t {
  rlt_command_kind_t kind;
  uint32_t first_binding;  // in the command buffer's bindings. Fill: the target. Copy: the target, then the source.
  uint32_t binding_count;
  uint64_t unit_count;     // independent pieces of work: workgroups, or RLT_TRANSFER_UNIT bytes of a fill or copy
  union {
    struct {
      uint32_t entry;           // in the command buffer's library
      uint32_t first_constant;  // in the command buffer's constants
      uint32_t workgroup_count[3];
    } dispatch;
    struct {
      uint64_t pattern;       // repeated to eight bytes
    } fill;
  };
} rlt_command_t;

// Transfers are split into pieces of this many bytes.
enum { RLT_TRANSFER_UNIT = 65536 };

// What the buffer in a slot must offer.
typedef struct rlt_slot_t {
  uint64_t extent;  // bytes
  uint32_t access;  // RLT_ACCESS_*; 0: the slot is not used and may be NULL
  uint32_t usage;   // RLT_USAGE_*
} rlt_slot_t;

// The fields are for reading only.
typedef struct rlt_command_buffer_t {
  rlt_object_t base;
  rlt_allocator_t allocator;
  bool ended;
  uint32_t slot_count;
  rlt_slot_t* slots;
  rlt_command_t* commands;
  void* states;  // what the device remembers of each command between executions, command_state_size bytes; 0 at first
  uint32_t command_count, command_capacity;
  rlt_binding_t* bindings;
  uint32_t binding_count, binding_capacity;
  int64_t* constants;
  uint32_t constant_count, constant_capacity;
  uint32_t pending_binding, pending_constant;  // first of the next dispatch
  uint32_t local_memory_size;                  // the most any dispatch needs
  rlt_device_t* device;                        // retained; executes the commands
  rlt_library_t* library;                      // retained; that of all dispatches
} rlt_command_buffer_t;

extern const rlt_object_type_t rlt_command_buffer_type;

// Starts recording for `device` (retained) against tables of `slot_count` buffers (at most
// RLT_COMMAND_BUFFER_MAX_SLOTS). Dispatches call entries of `library` (retained; NULL when there are none).
enum { RLT_COMMAND_BUFFER_MAX_SLOTS = 65535 };
rlt_status_t rlt_command_buffer_create(rlt_device_t* device, uint32_t slot_count, rlt_library_t* library,
                                       rlt_allocator_t allocator, rlt_error_t* error,
                                       rlt_command_buffer_t** out_commands);

// Appends push constants for the next dispatch.
rlt_status_t rlt_command_buffer_constants(rlt_command_buffer_t* commands, uint32_t count, const int64_t* values,
                                          rlt_error_t* error);

// Sets binding number `binding` of the next dispatch; bindings are set in order, from 0. RLT_OUT_OF_RANGE for a slot that
// does not exist or a range that overflows.
rlt_status_t rlt_command_buffer_bind(rlt_command_buffer_t* commands, uint32_t binding, rlt_binding_t range,
                                     rlt_error_t* error);

// Records a dispatch of the entry with ordinal `entry` with the constants and bindings given since the last one.
// RLT_INVALID_ARGUMENT when their numbers are not those the entry takes.
rlt_status_t rlt_command_buffer_dispatch(rlt_command_buffer_t* commands, uint32_t entry, rlt_error_t* error);

// Records filling `length` bytes with a pattern of 1, 2, 4 or 8 bytes, of which `length` must be a multiple.
rlt_status_t rlt_command_buffer_fill(rlt_command_buffer_t* commands, uint32_t slot, uint64_t offset, uint64_t length,
                                     uint64_t pattern, uint32_t pattern_size, rlt_error_t* error);

// Records a copy; ranges of one slot must not overlap.
rlt_status_t rlt_command_buffer_copy(rlt_command_buffer_t* commands, uint32_t target_slot, uint64_t target_offset,
                                     uint32_t source_slot, uint64_t source_offset, uint64_t length,
                                     rlt_error_t* error);

// Commands recorded from here on see what those before wrote.
rlt_status_t rlt_command_buffer_barrier(rlt_command_buffer_t* commands, rlt_error_t* error);

// Freezes the command buffer. RLT_FAILED_PRECONDITION when bindings or constants are left that no dispatch used.
rlt_status_t rlt_command_buffer_end(rlt_command_buffer_t* commands, rlt_error_t* error);

// Checks a binding table against what the commands need: a buffer in each used slot, large enough and with the access
// and the usage. Names the slot at fault.
rlt_status_t rlt_command_buffer_check_table(const rlt_command_buffer_t* commands, uint32_t buffer_count,
                                            rlt_buffer_t* const* buffers, rlt_error_t* error);

#ifdef RLT_HAVE_ATOMICS
static inline void rlt_command_buffer_release(rlt_command_buffer_t* commands) {
  if (commands) rlt_object_release(&commands->base);
}
#endif

RLT_END_DECLS

#endif  // RILLET_HAL_COMMAND_BUFFER_H_
