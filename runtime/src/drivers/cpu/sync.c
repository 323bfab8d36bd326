// The driver "cpu-sync": runs commands in order on the calling thread.
#include "drivers/cpu/common.h"
#include "drivers/cpu/library.h"
#include "rillet/hal/driver.h"

// Executions at the same time that keep their scratch for the next.
#ifdef RLT_FREESTANDING
enum { IDLE_SCRATCHES = 1 };
#else
enum { IDLE_SCRATCHES = 32 };
#endif

typedef struct sync_device_t {
  rlt_cpu_device_t base;
  rlt_atomic_pointer_t idle[IDLE_SCRATCHES];  // rlt_cpu_scratch_t
  rlt_dispatch_observer_t observer;           // begin is NULL when nobody observes
} sync_device_t;

static void scratch_free(rlt_cpu_scratch_t* scratch, rlt_allocator_t allocator) {
  if (!scratch) return;
  rlt_allocator_free(allocator, scratch->block);
  rlt_allocator_free(allocator, scratch);
}

static void sync_destroy(rlt_device_t* base) {
  sync_device_t* device = (sync_device_t*)base;
#ifndef RLT_FREESTANDING
  rlt_queue_destroy(&device->base.queue);
#endif
  for (int i = 0; i < IDLE_SCRATCHES; ++i) {
    scratch_free((rlt_cpu_scratch_t*)rlt_atomic_take_pointer(&device->idle[i]), base->allocator);
  }
  rlt_allocator_free(base->allocator, device);
}

static int run_observed(const rlt_dispatch_observer_t* observer, const rlt_command_buffer_t* commands,
                        const rlt_command_t* command, void* const* addresses, void* local_memory) {
  const uint64_t begun = observer->begin(observer->self);
  const int code = rlt_cpu_run(commands, command, addresses, local_memory, 0, command->unit_count);
  observer->end(observer->self, rlt_cpu_kernel(commands->library, command->dispatch.entry)->name, begun);
  return code;
}

static rlt_status_t run_all(const rlt_dispatch_observer_t* observer, const rlt_command_buffer_t* commands,
                            void* const* addresses, void* local_memory, rlt_error_t* error) {
  for (uint32_t i = 0; i < commands->command_count; ++i) {
    const rlt_command_t* command = &commands->commands[i];
    if (command->unit_count == 0) continue;  // a barrier, or an empty grid
    const bool observed = observer->begin && command->kind == RLT_COMMAND_DISPATCH;
    const int code = observed ? run_observed(observer, commands, command, addresses, local_memory)
                              : rlt_cpu_run(commands, command, addresses, local_memory, 0, command->unit_count);
    if (RLT_UNLIKELY(code != RLT_DISPATCH_OK)) return rlt_cpu_kernel_error(commands, command, code, error);
  }
  return RLT_OK;
}

static rlt_status_t sync_execute(rlt_device_t* base, const rlt_command_buffer_t* commands,
                                 rlt_buffer_t* const* buffers, rlt_error_t* error) {
  sync_device_t* device = (sync_device_t*)base;
  void* block = NULL;
  for (int i = 0; i < IDLE_SCRATCHES && !block; ++i) block = rlt_atomic_take_pointer(&device->idle[i]);
  if (!block) {
    RLT_RETURN_IF_ERROR(rlt_allocator_allocate(base->allocator, sizeof(rlt_cpu_scratch_t), error, &block));
  }
  rlt_cpu_scratch_t* scratch = (rlt_cpu_scratch_t*)block;
  rlt_status_t status = rlt_cpu_scratch_reserve(scratch, commands->local_memory_size, commands->binding_count,
                                                base->allocator, error);
  if (status == RLT_OK) {
    void** addresses = rlt_cpu_scratch_addresses(scratch);
    rlt_cpu_resolve(commands, buffers, addresses);
    status = run_all(&device->observer, commands, addresses, scratch->block, error);
  }
  bool kept = false;
  for (int i = 0; i < IDLE_SCRATCHES && !kept; ++i) kept = rlt_atomic_put_pointer(&device->idle[i], scratch);
  if (!kept) scratch_free(scratch, base->allocator);
  return status;
}

static const rlt_device_vtable_t sync_vtable = {
    .name = "cpu-sync", .destroy = sync_destroy, .execute = sync_execute, RLT_CPU_FUNCTIONS};

rlt_status_t rlt_cpu_sync_device_create(const rlt_device_options_t* options, rlt_allocator_t allocator,
                                        rlt_error_t* error, rlt_device_t** out_device) {
  *out_device = NULL;
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(allocator, sizeof(sync_device_t), error, &block));
  sync_device_t* device = (sync_device_t*)block;
  rlt_device_initialize(&device->base.base, &sync_vtable, allocator);
  device->base.static_libraries = options->static_libraries;
  if (options->observer) device->observer = *options->observer;
  *out_device = &device->base.base;
  return RLT_OK;
}
