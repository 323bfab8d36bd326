#define _DEFAULT_SOURCE  // nanosleep
#include <pthread.h>
#include <time.h>

#include "harness.h"
#include "rillet/hal/semaphore.h"

static rlt_error_t error;

static void* signal_later(void* semaphore) {
  nanosleep(&(struct timespec){0, 2000000}, NULL);
  CHECK(rlt_semaphore_signal(semaphore, 5, NULL) == RLT_OK);
  return NULL;
}

static void test_waits_for_another_thread(void) {
  rlt_semaphore_t* semaphore = NULL;
  CHECK_OK(rlt_semaphore_create(2, rlt_allocator_system(), &error, &semaphore));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, signal_later, semaphore) == 0);
  CHECK_OK(rlt_semaphore_wait(semaphore, 5, UINT64_MAX, &error));
  CHECK_INT(rlt_semaphore_query(semaphore), 5);
  pthread_join(thread, NULL);
  rlt_semaphore_release(semaphore);
}

static void test_errors(void) {
  rlt_semaphore_t* semaphore = NULL;
  CHECK_OK(rlt_semaphore_create(2, rlt_allocator_system(), &error, &semaphore));
  CHECK_FAILS(rlt_semaphore_signal(semaphore, 2, &error), RLT_INVALID_ARGUMENT, "at 2 cannot be signalled to 2");
  CHECK_FAILS(rlt_semaphore_wait(semaphore, 3, 1000000, &error), RLT_DEADLINE_EXCEEDED, "too long");
  rlt_error_t first = {.entry = 7}, second = {0};
  rlt_error_set(&first, RLT_TRAP, "an index is out of bounds");
  rlt_error_set(&second, RLT_INTERNAL, "later");
  rlt_semaphore_fail(semaphore, &first);
  rlt_semaphore_fail(semaphore, &second);
  CHECK_FAILS(rlt_semaphore_wait(semaphore, 3, UINT64_MAX, &error), RLT_TRAP, "an index is out of bounds");
  CHECK_INT(error.entry, 7);
  CHECK_OK(rlt_semaphore_wait(semaphore, 2, UINT64_MAX, &error));  // was reached before
  rlt_semaphore_release(semaphore);
}

int main(void) {
  RUN_TEST(test_waits_for_another_thread);
  RUN_TEST(test_errors);
  return 0;
}
