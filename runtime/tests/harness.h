// A tiny test harness: tests are functions, a failed CHECK prints where and ends the program with status 1.
#ifndef RILLET_TESTS_HARNESS_H_
#define RILLET_TESTS_HARNESS_H_

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rillet/rillet.h"

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

#define CHECK_INT(actual, expected)                                                                          \
  do {                                                                                                       \
    int64_t actual_ = (int64_t)(actual), expected_ = (int64_t)(expected);                                    \
    if (actual_ != expected_) {                                                                              \
      fprintf(stderr, "%s:%d: %s is %" PRId64 ", expected %" PRId64 "\n", __FILE__, __LINE__, #actual, actual_, \
              expected_);                                                                                    \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

// `expression` must fail with `code` and a message that contains `text`; it must use a variable `error`.
#define CHECK_FAILS(expression, code, text)                                                                     \
  do {                                                                                                          \
    memset(&error, 0, sizeof(error));                                                                           \
    rlt_status_t status_ = (expression);                                                                        \
    if (status_ != (code) || error.status != (code) || !strstr(error.message, (text))) {                        \
      fprintf(stderr, "%s:%d: %s gave %s \"%s\", expected %s \"%s\"\n", __FILE__, __LINE__, #expression,        \
              rlt_status_name(status_), error.message, rlt_status_name(code), (text));                          \
      exit(1);                                                                                                  \
    }                                                                                                           \
  } while (0)

// `expression` must succeed; it must use a variable `error`.
#define CHECK_OK(expression)                                                                                     \
  do {                                                                                                           \
    memset(&error, 0, sizeof(error));                                                                            \
    rlt_status_t status_ = (expression);                                                                         \
    if (status_ != RLT_OK) {                                                                                     \
      fprintf(stderr, "%s:%d: %s gave %s \"%s\"\n", __FILE__, __LINE__, #expression, rlt_status_name(status_),    \
              error.message);                                                                                    \
      exit(1);                                                                                                   \
    }                                                                                                            \
  } while (0)

#define RUN_TEST(test)             \
  do {                             \
    printf("%s\n", #test);         \
    fflush(stdout);                \
    test();                        \
  } while (0)

#endif  // RILLET_TESTS_HARNESS_H_
