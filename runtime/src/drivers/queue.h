// A queue of work for one device, with a thread of its own that does the entries in order.
//
// Entries wait only for work that was queued before them, here or elsewhere, so that the oldest one that is not done can
// always go on.
#ifndef RILLET_DRIVERS_QUEUE_H_
#define RILLET_DRIVERS_QUEUE_H_

#include "rillet/hal/device.h"

// Where a device has its queue, which its first submission makes. Starts as zero.
typedef struct rlt_queue_slot_t {
  rlt_atomic_pointer_t queue;
} rlt_queue_slot_t;

// A driver's `submit`: the thread waits for the submission's points, then calls `execute` or `transfer` of the device.
rlt_status_t rlt_queue_submit(rlt_queue_slot_t* slot, rlt_device_t* device, const rlt_submission_t* submission,
                              rlt_error_t* error);

// Ends the thread, if there is one. All entries must be done.
void rlt_queue_destroy(rlt_queue_slot_t* slot);

#endif  // RILLET_DRIVERS_QUEUE_H_
