// Profiles: when each dispatch began and ended, kept until Python takes them.
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "python/native.h"

enum { EVENT_CAPACITY = 1 << 16 };  // later events are dropped until the profile is taken

typedef struct event_t {
  const char* entry;
  uint64_t begun, ended;  // nanoseconds of the monotonic clock
} event_t;

struct native_profile_t {
  atomic_uint_fast32_t count;  // also counts what was dropped
  event_t events[EVENT_CAPACITY];
};

static uint64_t begin(void* self) {
  (void)self;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void end(void* self, const char* kernel, uint64_t begun) {
  native_profile_t* profile = (native_profile_t*)self;
  const uint64_t ended = begin(self);
  const uint_fast32_t index = atomic_fetch_add(&profile->count, 1);
  if (index >= EVENT_CAPACITY) return;
  profile->events[index] = (event_t){.entry = kernel, .begun = begun, .ended = ended};
}

native_profile_t* native_profile_create(rlt_dispatch_observer_t* out_observer) {
  native_profile_t* profile = (native_profile_t*)calloc(1, sizeof(*profile));
  if (profile) *out_observer = (rlt_dispatch_observer_t){.self = profile, .begin = begin, .end = end};
  return profile;
}

void native_profile_free(native_profile_t* profile) { free(profile); }

PyObject* native_module_take_profile(PyObject* self, PyObject* unused) {
  (void)unused;
  native_profile_t* profile = ((native_module_t*)self)->profile;
  PyObject* list = PyList_New(0);
  if (!list || !profile) return list;
  uint_fast32_t count = atomic_exchange(&profile->count, 0);
  if (count > EVENT_CAPACITY) count = EVENT_CAPACITY;
  for (uint_fast32_t i = 0; i < count; ++i) {
    const event_t* event = &profile->events[i];
    PyObject* item = Py_BuildValue("(sKK)", event->entry, (unsigned long long)event->begun,
                                   (unsigned long long)event->ended);
    const bool appended = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    if (appended) continue;
    Py_DECREF(list);
    return NULL;
  }
  return list;
}
