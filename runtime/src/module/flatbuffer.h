// FlatBuffers: a checker driven by a description of the schema, and accessors for what it has checked.
//
// Layout: a table starts with a signed 32-bit distance back to its vtable: u16 sizes of the vtable and of the table,
// then for each field a u16 offset from the table's start (0: absent). Strings, vectors and tables are referred to by
// an unsigned 32-bit distance forward from where it is stored. A vector is a u32 count and its elements, a string a
// vector of bytes with a 0 after it.
#ifndef RILLET_MODULE_FLATBUFFER_H_
#define RILLET_MODULE_FLATBUFFER_H_

#include "rillet/base/status.h"

typedef enum fb_kind_t {
  FB_SCALAR,         // `size` bytes in the table
  FB_STRING,
  FB_TABLE,          // of type `table`
  FB_SCALAR_VECTOR,  // of `size` bytes each
  FB_STRING_VECTOR,
  FB_TABLE_VECTOR,   // of type `table`
} fb_kind_t;

typedef struct fb_table_t fb_table_t;

typedef struct fb_field_t {
  const char* name;
  fb_kind_t kind;
  uint8_t size;
  const fb_table_t* table;
} fb_field_t;

// A table type: its fields in the order of their ids. Types must not contain themselves.
struct fb_table_t {
  const char* name;
  const fb_field_t* fields;
  uint32_t field_count;
};

// Checks `size` bytes at `data` as a FlatBuffer with a root of type `root`: every table, vtable, vector, string and
// offset lies inside, is aligned, and does not overflow; strings end in 0 and contain none. Sharing is bounded, so that
// a small buffer cannot take long. Fails with RLT_DATA_LOSS, naming the field. *out is the root table.
rlt_status_t rlt_fb_check(const uint8_t* data, size_t size, const fb_table_t* root, rlt_error_t* error,
                          const uint8_t** out);

// Accessors of checked tables. A field that is absent is 0, "" or empty.
uint64_t rlt_fb_scalar(const uint8_t* table, uint32_t field, uint8_t size);
const char* rlt_fb_string(const uint8_t* table, uint32_t field);
const uint8_t* rlt_fb_table(const uint8_t* table, uint32_t field);                     // NULL when absent
const uint8_t* rlt_fb_vector(const uint8_t* table, uint32_t field, uint32_t* count);  // its elements; NULL when empty

// What the offset stored at `position` refers to: a table, or a vector's or string's count.
const uint8_t* rlt_fb_follow(const uint8_t* position);

#endif  // RILLET_MODULE_FLATBUFFER_H_
