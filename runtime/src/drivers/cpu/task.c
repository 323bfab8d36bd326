// The driver "cpu-task": splits the commands between two barriers over the threads of a pool.
//
// The commands between two barriers are one *run*. Each has a counter from which threads claim its next pieces, so that
// grids are balanced however long a piece takes, and a thread that finds one command claimed goes on to the next.
#include <stdatomic.h>

#include "drivers/cpu/common.h"
#include "drivers/cpu/library.h"
#include "drivers/cpu/thread_pool.h"
#include "rillet/hal/driver.h"

// A run below this many nanoseconds is not shared: handing work over and back costs a microsecond or two.
enum { SHARE_NANOSECONDS = 8000 };
// Shareable work below this many nanoseconds is not worth waking a sleeping thread for.
enum { WAKE_NANOSECONDS = 40000 };
// Executions in which the time of a command's pieces is measured; the shortest counts.
enum { MEASUREMENTS = 4, MEASUREMENT_LIMIT = (1 << 28) - 1 };
// An execution with less shareable work than this goes the way that takes less time, shared or on the calling thread
// alone: how soon workers come depends on what else the machine does. Of every TRIAL_PERIOD executions the first TRIALS go
// the other way. The first SETTLING after a change do not count: workers fall asleep, or wake up. Longer executions are
// always shared.
enum { JUDGED_NANOSECONDS = 500000, TRIAL_PERIOD = 256, TRIALS = 8, SETTLING = 4 };
// What is learned of a command; from the second on in a command buffer's first command, for whole executions.
enum { LEARNED_PIECE, LEARNED_EXECUTIONS, LEARNED_SHARED, LEARNED_ALONE, LEARNED_COUNT };
typedef rlt_atomic_uint32_t learned_t[LEARNED_COUNT];
#define UNKNOWN_COST UINT64_MAX
// Each thread claims about this many times from a command, to balance the end.
enum { CLAIMS_PER_THREAD = 8 };
// Executions at the same time that keep their scratch for the next.
enum { IDLE_SCRATCHES = 32 };

typedef struct execution_t {
  rlt_cpu_scratch_t scratch;
  atomic_uint_fast64_t* claimed;  // for each command, pieces that threads have taken
  uint32_t claimed_capacity;
} execution_t;

typedef struct task_device_t {
  rlt_cpu_device_t base;
  rlt_thread_pool_t* pool;
  uint32_t thread_count;
  rlt_atomic_pointer_t idle[IDLE_SCRATCHES];  // execution_t
  rlt_cpu_scratch_t worker_scratch[];         // local memory of each background thread
} task_device_t;

// The commands [first, last) of one run, and what its threads share.
typedef struct run_t {
  task_device_t* device;
  const rlt_command_buffer_t* commands;
  void* const* addresses;
  atomic_uint_fast64_t* claimed;
  uint32_t first, last;
  uint64_t shareable;            // nanoseconds of shareable work from this run on; 0 while that is not known
  bool alone;                    // nothing is shared
  atomic_uint_fast64_t failure;  // 0, or a command's index + 1 in the high half and its kernel's code in the low
} run_t;

static void execution_free(execution_t* execution, rlt_allocator_t allocator) {
  if (!execution) return;
  rlt_allocator_free(allocator, execution->scratch.block);
  rlt_allocator_free(allocator, execution->claimed);
  rlt_allocator_free(allocator, execution);
}

static void task_destroy(rlt_device_t* base) {
  task_device_t* device = (task_device_t*)base;
  rlt_queue_destroy(&device->base.queue);
  rlt_thread_pool_destroy(device->pool);
  for (int i = 0; i < IDLE_SCRATCHES; ++i) {
    execution_free((execution_t*)rlt_atomic_take_pointer(&device->idle[i]), base->allocator);
  }
  for (uint32_t i = 0; i + 1 < device->thread_count; ++i) {
    rlt_allocator_free(base->allocator, device->worker_scratch[i].block);
  }
  rlt_allocator_free(base->allocator, device);
}

static rlt_status_t execution_acquire(task_device_t* device, const rlt_command_buffer_t* commands, rlt_error_t* error,
                                      execution_t** out_execution) {
  *out_execution = NULL;
  void* block = NULL;
  for (int i = 0; i < IDLE_SCRATCHES && !block; ++i) block = rlt_atomic_take_pointer(&device->idle[i]);
  const rlt_allocator_t allocator = device->base.base.allocator;
  if (!block) RLT_RETURN_IF_ERROR(rlt_allocator_allocate(allocator, sizeof(execution_t), error, &block));
  execution_t* execution = (execution_t*)block;
  rlt_status_t status = rlt_cpu_scratch_reserve(&execution->scratch, commands->local_memory_size,
                                                commands->binding_count, allocator, error);
  if (status == RLT_OK && execution->claimed_capacity < commands->command_count) {
    void* claimed = NULL;
    status = rlt_allocator_allocate_array(allocator, commands->command_count, sizeof(atomic_uint_fast64_t), error,
                                          &claimed);
    if (status == RLT_OK) {
      rlt_allocator_free(allocator, execution->claimed);
      execution->claimed = (atomic_uint_fast64_t*)claimed;
      execution->claimed_capacity = commands->command_count;
    }
  }
  if (status != RLT_OK) {
    execution_free(execution, allocator);
    return status;
  }
  *out_execution = execution;
  return RLT_OK;
}

static void execution_give_back(task_device_t* device, execution_t* execution) {
  for (int i = 0; i < IDLE_SCRATCHES; ++i) {
    if (rlt_atomic_put_pointer(&device->idle[i], execution)) return;
  }
  execution_free(execution, device->base.base.allocator);
}

static void report(run_t* run, uint32_t command, int code) {
  uint_fast64_t none = 0;
  atomic_compare_exchange_strong(&run->failure, &none, ((uint64_t)(command + 1) << 32) | (uint32_t)code);
}

// Claims and runs pieces of one command until none are left. `single` claims one piece at most.
static bool work_on(run_t* run, uint32_t index, void* local_memory, bool single) {
  const rlt_command_t* command = &run->commands->commands[index];
  const uint64_t count = command->unit_count;
  uint64_t chunk = count / ((uint64_t)run->device->thread_count * CLAIMS_PER_THREAD);
  if (chunk == 0 || single) chunk = 1;
  while (atomic_load_explicit(&run->failure, memory_order_relaxed) == 0) {
    if (atomic_load_explicit(&run->claimed[index], memory_order_relaxed) >= count) return false;
    const uint64_t begin = atomic_fetch_add_explicit(&run->claimed[index], chunk, memory_order_relaxed);
    if (begin >= count) return false;
    const uint64_t end = count - begin < chunk ? count : begin + chunk;
    const int code = rlt_cpu_run(run->commands, command, run->addresses, local_memory, begin, end);
    if (code != RLT_DISPATCH_OK) report(run, index, code);
    if (single) return true;
  }
  return false;
}

static void work_on_all(run_t* run, void* local_memory) {
  for (uint32_t i = run->first; i < run->last; ++i) work_on(run, i, local_memory, false);
}

static void worker_entry(void* job, uint32_t worker_index) {
  run_t* run = (run_t*)job;
  rlt_cpu_scratch_t* scratch = &run->device->worker_scratch[worker_index];
  // Without memory this thread does not help; the caller does all the work.
  const rlt_status_t status = rlt_cpu_scratch_reserve(scratch, run->commands->local_memory_size, 0,
                                                      run->device->base.base.allocator, NULL);
  if (status == RLT_OK) work_on_all(run, scratch->block);
}

// The driver's notes on a command, kept with its command buffer.
static rlt_atomic_uint32_t* learned_of(const rlt_command_buffer_t* commands, uint32_t index) {
  return ((learned_t*)commands->states)[index];
}

// LEARNED_PIECE holds the shortest time of a piece in the low 28 bits, and how often it was measured above.
static void learn(rlt_atomic_uint32_t* learned, uint64_t elapsed) {
  const uint32_t piece = atomic_load_explicit(&learned[LEARNED_PIECE], memory_order_relaxed);
  const uint32_t times = piece >> 28, shortest = piece & MEASUREMENT_LIMIT;
  if (times >= MEASUREMENTS) return;
  uint32_t time = elapsed < MEASUREMENT_LIMIT ? (uint32_t)elapsed : MEASUREMENT_LIMIT;
  if (times > 0 && shortest < time) time = shortest;
  atomic_store_explicit(&learned[LEARNED_PIECE], (times + 1) << 28 | time, memory_order_relaxed);
}

// The nanoseconds that one thread takes for the commands [first, last), or UNKNOWN_COST. What cannot be shared costs 0.
static uint64_t run_cost(const rlt_command_buffer_t* commands, uint32_t first, uint32_t last) {
  uint64_t cost = 0, units = 0;
  bool known = true;
  for (uint32_t i = first; i < last; ++i) {
    const rlt_command_t* command = &commands->commands[i];
    const uint32_t piece = atomic_load_explicit(&learned_of(commands, i)[LEARNED_PIECE], memory_order_relaxed);
    units += command->unit_count;
    cost += (piece & MEASUREMENT_LIMIT) * command->unit_count;
    known = known && (piece >> 28 >= MEASUREMENTS || command->unit_count == 0);
  }
  if (units <= 1) return 0;
  return known ? cost : UNKNOWN_COST;
}

static uint32_t run_end(const rlt_command_buffer_t* commands, uint32_t first) {
  while (first < commands->command_count && commands->commands[first].kind != RLT_COMMAND_BARRIER) ++first;
  return first;
}

// The nanoseconds of all runs worth sharing; 0 while that is not known.
static uint64_t shareable_cost(const rlt_command_buffer_t* commands) {
  uint64_t total = 0;
  for (uint32_t first = 0, last; first < commands->command_count; first = last + 1) {
    last = run_end(commands, first);
    const uint64_t cost = run_cost(commands, first, last);
    if (cost == UNKNOWN_COST) return 0;
    if (cost >= SHARE_NANOSECONDS) total += cost;
  }
  return total;
}

// Works on an open run whose cost is not known: times one piece of each command, and wakes threads as soon as what is
// left is seen to be worth it.
static void work_and_learn(run_t* run, void* local_memory) {
  bool woken = false;
  for (uint32_t i = run->first; i < run->last; ++i) {
    const rlt_command_t* command = &run->commands->commands[i];
    const uint64_t start = rlt_thread_pool_now();
    if (work_on(run, i, local_memory, true)) {
      const uint64_t elapsed = rlt_thread_pool_now() - start;
      learn(learned_of(run->commands, i), elapsed);
      if (!woken && elapsed * (command->unit_count - 1) >= WAKE_NANOSECONDS) {
        rlt_thread_pool_wake(run->device->pool);
        woken = true;
      }
    }
    work_on(run, i, local_memory, false);
  }
}

static void run_one(run_t* run, void* local_memory) {
  rlt_thread_pool_t* pool = run->device->pool;
  const uint64_t cost = run_cost(run->commands, run->first, run->last);
  if (run->alone || cost < SHARE_NANOSECONDS || !rlt_thread_pool_try_open(pool, worker_entry, run)) {
    work_on_all(run, local_memory);
    return;
  }
  if (cost == UNKNOWN_COST) {
    work_and_learn(run, local_memory);
  } else {
    // Threads that are awake stay so from one run to the next, unless what lies between is long.
    if (run->shareable >= WAKE_NANOSECONDS) rlt_thread_pool_wake(pool);
    run->shareable = run->shareable > cost ? run->shareable - cost : 0;
    work_on_all(run, local_memory);
  }
  rlt_thread_pool_close(pool);
}

// How one execution goes, and whether its time counts.
typedef struct trial_t {
  bool alone, counts;
} trial_t;

static trial_t choose_trial(rlt_atomic_uint32_t* first) {
  const uint32_t number = atomic_fetch_add_explicit(&first[LEARNED_EXECUTIONS], 1, memory_order_relaxed);
  const uint32_t shared = atomic_load_explicit(&first[LEARNED_SHARED], memory_order_relaxed);
  const uint32_t alone = atomic_load_explicit(&first[LEARNED_ALONE], memory_order_relaxed);
  const uint32_t phase = number % TRIAL_PERIOD;
  const bool settled = (phase < TRIALS ? phase : phase - TRIALS) >= SETTLING;
  if (shared == 0) return (trial_t){.alone = false, .counts = settled};
  if (alone == 0) return (trial_t){.alone = true, .counts = settled};
  return (trial_t){.alone = (alone < shared) != (phase < TRIALS), .counts = settled};
}

// Moves a remembered time a quarter of the way to `elapsed`, of which no more counts than twice what is remembered.
static void remember(rlt_atomic_uint32_t* remembered, uint64_t elapsed) {
  const int64_t before = atomic_load_explicit(remembered, memory_order_relaxed);
  int64_t time = elapsed < MEASUREMENT_LIMIT ? (int64_t)elapsed : MEASUREMENT_LIMIT;
  if (before > 0) time = before + ((time < 2 * before ? time : 2 * before) - before) / 4;
  atomic_store_explicit(remembered, time > 0 ? (uint32_t)time : 1, memory_order_relaxed);
}

static rlt_status_t run_all(task_device_t* device, const rlt_command_buffer_t* commands, execution_t* execution,
                            rlt_error_t* error) {
  run_t run = {.device = device, .commands = commands, .claimed = execution->claimed};
  run.addresses = rlt_cpu_scratch_addresses(&execution->scratch);
  run.shareable = shareable_cost(commands);
  const bool judged = run.shareable > 0 && run.shareable < JUDGED_NANOSECONDS;
  const trial_t trial = judged ? choose_trial(learned_of(commands, 0)) : (trial_t){0};
  const uint64_t start = trial.counts ? rlt_thread_pool_now() : 0;
  run.alone = trial.alone;
  for (run.first = 0; run.first < commands->command_count; run.first = run.last + 1) {
    run.last = run_end(commands, run.first);
    for (uint32_t i = run.first; i < run.last; ++i) atomic_store_explicit(&run.claimed[i], 0, memory_order_relaxed);
    run_one(&run, execution->scratch.block);
    const uint64_t failure = atomic_load_explicit(&run.failure, memory_order_relaxed);
    if (RLT_LIKELY(failure == 0)) continue;
    return rlt_cpu_kernel_error(commands, &commands->commands[(failure >> 32) - 1], (int)(uint32_t)failure, error);
  }
  if (trial.counts) {
    const int way = trial.alone ? LEARNED_ALONE : LEARNED_SHARED;
    remember(&learned_of(commands, 0)[way], rlt_thread_pool_now() - start);
  }
  return RLT_OK;
}

static rlt_status_t task_execute(rlt_device_t* base, const rlt_command_buffer_t* commands,
                                 rlt_buffer_t* const* buffers, rlt_error_t* error) {
  task_device_t* device = (task_device_t*)base;
  execution_t* execution = NULL;
  RLT_RETURN_IF_ERROR(execution_acquire(device, commands, error, &execution));
  rlt_cpu_resolve(commands, buffers, rlt_cpu_scratch_addresses(&execution->scratch));
  const rlt_status_t status = run_all(device, commands, execution, error);
  execution_give_back(device, execution);
  return status;
}

static const rlt_device_vtable_t task_vtable = {.name = "cpu-task",
                                                .command_state_size = sizeof(learned_t),
                                                .destroy = task_destroy,
                                                .execute = task_execute,
                                                RLT_CPU_FUNCTIONS};

rlt_status_t rlt_cpu_task_device_create(const rlt_device_options_t* options, rlt_allocator_t allocator,
                                        rlt_error_t* error, rlt_device_t** out_device) {
  *out_device = NULL;
  const uint32_t thread_count = options->thread_count > 0 ? options->thread_count : 1;
  if (options->observer) {
    return rlt_error_set(error, RLT_UNIMPLEMENTED, "dispatches of the driver 'cpu-task' cannot be observed");
  }
  if (thread_count > RLT_CPU_TASK_MAX_THREADS) {
    return rlt_error_set(error, RLT_INVALID_ARGUMENT, "%u threads are not between 1 and %d", thread_count,
                         RLT_CPU_TASK_MAX_THREADS);
  }
  void* block = NULL;
  RLT_RETURN_IF_ERROR(rlt_allocator_allocate(
      allocator, sizeof(task_device_t) + thread_count * sizeof(rlt_cpu_scratch_t), error, &block));
  task_device_t* device = (task_device_t*)block;
  rlt_device_initialize(&device->base.base, &task_vtable, allocator);
  device->base.static_libraries = options->static_libraries;
  device->thread_count = thread_count;
  const rlt_status_t status = rlt_thread_pool_create(thread_count - 1, allocator, error, &device->pool);
  if (status != RLT_OK) {
    rlt_allocator_free(allocator, device);
    return status;
  }
  *out_device = &device->base.base;
  return RLT_OK;
}
