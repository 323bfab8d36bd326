// Devices that modules share: those for one thread, and those for a thread on each core. The first module makes one, the
// last one releases it. All of this happens while the GIL is held.
#include <unistd.h>

#include "python/native.h"

bool native_device_take(native_state_t* state, native_sharing_t sharing, uint32_t thread_count, rlt_error_t* error,
                        rlt_device_t** out_device) {
  *out_device = NULL;
  if (sharing == NATIVE_DEVICE_OWN) return true;
  native_shared_device_t* shared = &state->shared[sharing];
  const long process = (long)getpid();
  // A fork has none of its parent's threads: the modules that it was born with keep the device for themselves.
  if (shared->device && shared->process != process) *shared = (native_shared_device_t){0};
  if (!shared->device) {
    const rlt_device_options_t options = {.thread_count = thread_count};
    if (rlt_cpu_device_create(&options, rlt_allocator_system(), error, &shared->device) != RLT_OK) {
      return false;
    }
    shared->process = process;
  }
  ++shared->users;
  *out_device = shared->device;
  return true;
}

void native_device_give_back(native_state_t* state, rlt_device_t* device) {
  for (int i = 0; device && i < NATIVE_DEVICE_OWN; ++i) {
    native_shared_device_t* shared = &state->shared[i];
    if (shared->device != device || --shared->users > 0) continue;
    rlt_device_release(shared->device);
    shared->device = NULL;
  }
}
