#include "rillet/base/status.h"

#include <stdarg.h>

#include "base/strings.h"

const char* rlt_status_name(rlt_status_t status) {
  switch (status) {
    case RLT_OK: return "OK";
    case RLT_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case RLT_OUT_OF_MEMORY: return "OUT_OF_MEMORY";
    case RLT_NOT_FOUND: return "NOT_FOUND";
    case RLT_FAILED_PRECONDITION: return "FAILED_PRECONDITION";
    case RLT_OUT_OF_RANGE: return "OUT_OF_RANGE";
    case RLT_DATA_LOSS: return "DATA_LOSS";
    case RLT_UNIMPLEMENTED: return "UNIMPLEMENTED";
    case RLT_INCOMPATIBLE: return "INCOMPATIBLE";
    case RLT_RESOURCE_EXHAUSTED: return "RESOURCE_EXHAUSTED";
    case RLT_INTERNAL: return "INTERNAL";
    case RLT_TRAP: return "TRAP";
    case RLT_CANCELLED: return "CANCELLED";
    case RLT_DEADLINE_EXCEEDED: return "DEADLINE_EXCEEDED";
    case RLT_STATUS_COUNT: break;
  }
  return "UNKNOWN";
}

#ifndef RLT_NO_ERROR_MESSAGES

// A bounded output: what does not fit is dropped, and room for the terminator is always left.
typedef struct text_t {
  char* data;
  size_t length, capacity;
} text_t;

static void put(text_t* text, char c) {
  if (text->length + 1 < text->capacity) text->data[text->length++] = c;
}

static void put_number(text_t* text, unsigned long long value, unsigned base) {
  char digits[20];  // 2^64 has 20 decimal digits
  int count = 0;
  do {
    digits[count++] = "0123456789abcdef"[value % base];
    value /= base;
  } while (value);
  while (count) put(text, digits[--count]);
}

static void format_text(text_t* text, const char* format, va_list arguments) {
  for (; *format; ++format) {
    if (*format != '%') {
      put(text, *format);
      continue;
    }
    ++format;
    size_t precision = SIZE_MAX;
    if (format[0] == '.' && format[1] == '*') {
      int given = va_arg(arguments, int);
      precision = given < 0 ? SIZE_MAX : (size_t)given;
      format += 2;
    }
    int longs = 0;
    bool size = false;
    for (; *format == 'l' || *format == 'z'; ++format) {
      if (*format == 'l') ++longs;
      else size = true;
    }
    switch (*format) {
      case 's': {
        const char* string = va_arg(arguments, const char*);
        if (!string) string = "(null)";
        for (size_t i = 0; i < precision && string[i]; ++i) put(text, string[i]);
        break;
      }
      case 'c': put(text, (char)va_arg(arguments, int)); break;
      case 'd':
      case 'i': {
        long long value = longs >= 2 ? va_arg(arguments, long long)
                          : longs    ? va_arg(arguments, long)
                          : size     ? (long long)va_arg(arguments, ptrdiff_t)
                                     : va_arg(arguments, int);
        if (value < 0) put(text, '-');
        put_number(text, value < 0 ? 0ull - (unsigned long long)value : (unsigned long long)value, 10);
        break;
      }
      case 'u':
      case 'x': {
        unsigned long long value = longs >= 2 ? va_arg(arguments, unsigned long long)
                                   : longs    ? va_arg(arguments, unsigned long)
                                   : size     ? va_arg(arguments, size_t)
                                              : va_arg(arguments, unsigned);
        put_number(text, value, *format == 'x' ? 16 : 10);
        break;
      }
      case '\0': return;
      default: put(text, *format); break;  // "%%"
    }
  }
}

rlt_status_t rlt_error_set(rlt_error_t* error, rlt_status_t status, const char* format, ...) {
  if (!error) return status;
  text_t text = {error->message, 0, RLT_ERROR_CAPACITY};
  va_list arguments;
  va_start(arguments, format);
  format_text(&text, format, arguments);
  va_end(arguments);
  error->message[text.length] = '\0';
  error->length = (uint32_t)text.length;
  error->status = status;
  return status;
}

void rlt_error_prefix(rlt_error_t* error, const char* format, ...) {
  if (!error) return;
  char prefix[RLT_ERROR_CAPACITY];
  text_t text = {prefix, 0, RLT_ERROR_CAPACITY};
  va_list arguments;
  va_start(arguments, format);
  format_text(&text, format, arguments);
  va_end(arguments);
  size_t room = RLT_ERROR_CAPACITY - 1 - text.length;
  size_t kept = error->length < room ? error->length : room;
  memmove(error->message + text.length, error->message, kept);
  memcpy(error->message, prefix, text.length);
  error->length = (uint32_t)(text.length + kept);
  error->message[error->length] = '\0';
}

#endif  // RLT_NO_ERROR_MESSAGES
