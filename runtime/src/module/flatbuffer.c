#include "module/flatbuffer.h"

#include "base/checked_math.h"
#include "base/strings.h"

static uint16_t load16(const uint8_t* at) {
  uint16_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

static uint32_t load32(const uint8_t* at) {
  uint32_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

typedef struct checker_t {
  const uint8_t* data;
  size_t size;
  uint64_t budget;  // what may still be visited: shared parts count each time they are reached
  const char* table_name;
  const char* field_name;
  rlt_error_t* error;
} checker_t;

static rlt_status_t corrupt(const checker_t* c, const char* what, size_t position) {
  return rlt_error_set(c->error, RLT_DATA_LOSS, "the file is corrupt: %s.%s: %s at byte %zu of the metadata",
                       c->table_name, c->field_name, what, position);
}

static rlt_status_t spend(checker_t* c, uint64_t cost, size_t position) {
  if (cost > c->budget) return corrupt(c, "too much shared data", position);
  c->budget -= cost;
  return RLT_OK;
}

// Follows the forward offset at `position`, which is known to lie inside; the target has at least 4 bytes.
static rlt_status_t check_offset(const checker_t* c, size_t position, size_t* target) {
  uint64_t to = (uint64_t)position + load32(c->data + position);
  if (to == position || to % 4 != 0 || !rlt_range_fits(to, 4, c->size)) return corrupt(c, "bad offset", position);
  *target = (size_t)to;
  return RLT_OK;
}

// Checks that the vector at `position` lies inside; *count elements of `element_size` bytes follow its count.
static rlt_status_t check_vector(const checker_t* c, size_t position, uint8_t element_size, uint32_t* count) {
  *count = load32(c->data + position);
  uint64_t start = (uint64_t)position + 4;
  if (start % element_size != 0) return corrupt(c, "misaligned vector", position);
  if (!rlt_range_fits(start, (uint64_t)*count * element_size, c->size)) {
    return corrupt(c, "vector past the end", position);
  }
  return RLT_OK;
}

static rlt_status_t check_string(checker_t* c, size_t position) {
  uint32_t length;
  RLT_RETURN_IF_ERROR(check_vector(c, position, 1, &length));
  RLT_RETURN_IF_ERROR(spend(c, (uint64_t)length + 1, position));
  const uint8_t* bytes = c->data + position + 4;
  if (!rlt_range_fits((uint64_t)position + 4, (uint64_t)length + 1, c->size)) {
    return corrupt(c, "unterminated string", position);
  }
  for (uint32_t i = 0; i < length; ++i) {
    if (bytes[i] == 0) return corrupt(c, "zero byte in a string", position);
  }
  return bytes[length] == 0 ? RLT_OK : corrupt(c, "unterminated string", position);
}

static rlt_status_t check_table(checker_t* c, size_t position, const fb_table_t* type);

// Checks the vector of offsets at `position` and what they refer to: tables of `type`, or strings when it is NULL.
static rlt_status_t check_offset_vector(checker_t* c, size_t position, const fb_table_t* type) {
  uint32_t count;
  RLT_RETURN_IF_ERROR(check_vector(c, position, 4, &count));
  for (uint32_t i = 0; i < count; ++i) {
    size_t target;
    RLT_RETURN_IF_ERROR(check_offset(c, position + 4 + (size_t)i * 4, &target));
    RLT_RETURN_IF_ERROR(type ? check_table(c, target, type) : check_string(c, target));
  }
  return RLT_OK;
}

static rlt_status_t check_field(checker_t* c, size_t position, const fb_field_t* field) {
  if (field->kind == FB_SCALAR) return RLT_OK;
  size_t target;
  RLT_RETURN_IF_ERROR(check_offset(c, position, &target));
  uint32_t count;
  switch (field->kind) {
    case FB_STRING: return check_string(c, target);
    case FB_TABLE: return check_table(c, target, field->table);
    case FB_SCALAR_VECTOR: return check_vector(c, target, field->size, &count);
    case FB_STRING_VECTOR:
    case FB_TABLE_VECTOR: return check_offset_vector(c, target, field->table);
    case FB_SCALAR: break;
  }
  return RLT_OK;
}

static rlt_status_t check_table(checker_t* c, size_t position, const fb_table_t* type) {
  const char* outer_table = c->table_name;
  const char* outer_field = c->field_name;
  RLT_RETURN_IF_ERROR(spend(c, 1, position));
  int64_t vtable = (int64_t)position - (int32_t)load32(c->data + position);
  if (vtable < 0 || vtable % 2 != 0 || !rlt_range_fits((uint64_t)vtable, 4, c->size)) {
    return corrupt(c, "bad vtable offset", position);
  }
  uint16_t vtable_size = load16(c->data + vtable);
  uint16_t table_size = load16(c->data + vtable + 2);
  if (vtable_size < 4 || vtable_size % 2 != 0 || !rlt_range_fits((uint64_t)vtable, vtable_size, c->size)) {
    return corrupt(c, "bad vtable size", (size_t)vtable);
  }
  if (table_size < 4 || !rlt_range_fits(position, table_size, c->size)) {
    return corrupt(c, "table past the end", position);
  }
  c->table_name = type->name;
  uint32_t present = (vtable_size - 4u) / 2;
  for (uint32_t i = 0; i < type->field_count && i < present; ++i) {
    const fb_field_t* field = &type->fields[i];
    c->field_name = field->name;
    uint16_t offset = load16(c->data + vtable + 4 + i * 2);
    if (offset == 0) continue;
    uint8_t size = field->kind == FB_SCALAR ? field->size : 4;
    if (offset < 4 || offset + size > table_size || (position + offset) % size != 0) {
      return corrupt(c, "bad field offset", position);
    }
    RLT_RETURN_IF_ERROR(check_field(c, position + offset, field));
  }
  c->table_name = outer_table;
  c->field_name = outer_field;
  return RLT_OK;
}

rlt_status_t rlt_fb_check(const uint8_t* data, size_t size, const fb_table_t* root, rlt_error_t* error,
                          const uint8_t** out) {
  // Without sharing at most one visit for each byte; string sharing, which writers do, gets some room on top.
  checker_t c = {.data = data, .size = size, .budget = (uint64_t)size * 16, .error = error};
  c.table_name = root->name;
  c.field_name = "root";
  if (size < 8 || size > INT32_MAX) return corrupt(&c, "bad size", 0);
  size_t position;
  RLT_RETURN_IF_ERROR(check_offset(&c, 0, &position));
  RLT_RETURN_IF_ERROR(check_table(&c, position, root));
  *out = data + position;
  return RLT_OK;
}

// Where the field is, or NULL.
static const uint8_t* find_field(const uint8_t* table, uint32_t field) {
  const uint8_t* vtable = table - (int32_t)load32(table);
  if (4 + field * 2 + 2 > load16(vtable)) return NULL;
  uint16_t offset = load16(vtable + 4 + field * 2);
  return offset ? table + offset : NULL;
}

const uint8_t* rlt_fb_follow(const uint8_t* position) { return position + load32(position); }

uint64_t rlt_fb_scalar(const uint8_t* table, uint32_t field, uint8_t size) {
  const uint8_t* at = find_field(table, field);
  uint64_t value = 0;
  if (at) memcpy(&value, at, size);
  return value;
}

const char* rlt_fb_string(const uint8_t* table, uint32_t field) {
  const uint8_t* at = find_field(table, field);
  return at ? (const char*)rlt_fb_follow(at) + 4 : "";
}

const uint8_t* rlt_fb_table(const uint8_t* table, uint32_t field) {
  const uint8_t* at = find_field(table, field);
  return at ? rlt_fb_follow(at) : NULL;
}

const uint8_t* rlt_fb_vector(const uint8_t* table, uint32_t field, uint32_t* count) {
  const uint8_t* at = find_field(table, field);
  *count = 0;
  if (!at) return NULL;
  const uint8_t* vector = rlt_fb_follow(at);
  *count = load32(vector);
  return *count ? vector + 4 : NULL;
}
