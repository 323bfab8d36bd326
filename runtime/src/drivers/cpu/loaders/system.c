// Loads a kernel library through the operating system's dynamic linker, so that debuggers and profilers know it.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // memfd_create
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/cpu/loaders/loaders.h"

// `file` stays open as long as the library is loaded: the linker takes two libraries with one path for the same, and the
// path of a memory file is its number.
static void close_library(void* handle, size_t file) {
  dlclose(handle);
  close((int)file);
}

// The linker wants a path. On Linux that is an unnamed memory file, elsewhere a temporary file that is unlinked at once.
static int open_file(char* path, size_t path_size) {
#ifdef __linux__
  const int file = memfd_create("rillet-kernels", MFD_CLOEXEC);
  if (file >= 0) snprintf(path, path_size, "/proc/self/fd/%d", file);
  return file;
#else
  const char* folder = getenv("TMPDIR");
  snprintf(path, path_size, "%s/rillet-kernels-XXXXXX", folder ? folder : "/tmp");
  return mkstemp(path);
#endif
}

static bool write_all(int file, const uint8_t* data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(file, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    size -= (size_t)written;
  }
  return true;
}

rlt_status_t rlt_system_load(const rlt_module_library_t* source, rlt_allocator_t allocator, rlt_error_t* error,
                             rlt_library_t** out_library) {
  *out_library = NULL;
  char path[256];
  const int file = open_file(path, sizeof(path));
  if (file < 0) {
    return rlt_error_set(error, RLT_FAILED_PRECONDITION, "cannot make a file for the kernel library: %s",
                         strerror(errno));
  }
  const bool written = write_all(file, source->image.data, (size_t)source->image.length);
  const int write_error = errno;
  void* library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
#ifndef __linux__
  unlink(path);
#endif
  if (!written) {
    close(file);
    return rlt_error_set(error, RLT_FAILED_PRECONDITION, "cannot write the kernel library: %s", strerror(write_error));
  }
  if (!library) {
    close(file);
    return rlt_error_set(error, RLT_INCOMPATIBLE, "cannot load the kernel library: %s", dlerror());
  }
  const void* symbol = dlsym(library, "rlt_kernel_query");
  if (!symbol) {
    close_library(library, (size_t)file);
    return rlt_error_set(error, RLT_DATA_LOSS, "the kernel library does not export rlt_kernel_query");
  }
  rlt_kernel_query_fn_t query = NULL;
  memcpy(&query, &symbol, sizeof(query));
  const rlt_status_t status =
      rlt_cpu_library_create(query, close_library, library, (size_t)file, allocator, error, out_library);
  if (status != RLT_OK) close_library(library, (size_t)file);
  return status;
}
