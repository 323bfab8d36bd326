#include "base/checked_math.h"
#include "base/crc32.h"
#include "base/strings.h"
#include "harness.h"

static void test_error_formats(void) {
  rlt_error_t error = {0};
  rlt_status_t status = rlt_error_set(&error, RLT_OUT_OF_RANGE, "%s %.*s %c %d %u %x %ld %lld %llu %zu %%", "text", 2,
                                      "cut", 'c', -7, 7u, 0xabcu, -8L, (long long)INT64_MIN,
                                      (unsigned long long)UINT64_MAX, (size_t)9);
  CHECK_INT(status, RLT_OUT_OF_RANGE);
  CHECK_INT(error.status, RLT_OUT_OF_RANGE);
  const char* expected = "text cu c -7 7 abc -8 -9223372036854775808 18446744073709551615 9 %";
  CHECK(strcmp(error.message, expected) == 0);
  CHECK_INT(error.length, strlen(expected));
  CHECK_INT(rlt_error_set(NULL, RLT_TRAP, "ignored"), RLT_TRAP);
}

static void test_error_is_bounded(void) {
  rlt_error_t error = {0};
  char longer[2 * RLT_ERROR_CAPACITY];
  memset(longer, 'x', sizeof(longer) - 1);
  longer[sizeof(longer) - 1] = '\0';
  rlt_error_set(&error, RLT_INTERNAL, "%s", longer);
  CHECK_INT(error.length, RLT_ERROR_CAPACITY - 1);
  CHECK_INT(strlen(error.message), RLT_ERROR_CAPACITY - 1);
  rlt_error_prefix(&error, "%s: ", "where");
  CHECK(strncmp(error.message, "where: xxx", 10) == 0);
  CHECK_INT(strlen(error.message), RLT_ERROR_CAPACITY - 1);
  rlt_error_prefix(&error, "%s", longer);
  CHECK_INT(strlen(error.message), RLT_ERROR_CAPACITY - 1);
  rlt_error_prefix(NULL, "ignored");
}

static void test_error_prefix(void) {
  rlt_error_t error = {0};
  rlt_error_set(&error, RLT_NOT_FOUND, "no file");
  rlt_error_prefix(&error, "input %d: ", 3);
  CHECK(strcmp(error.message, "input 3: no file") == 0);
  CHECK_INT(error.length, strlen(error.message));
  CHECK_INT(error.status, RLT_NOT_FOUND);
}

static void test_status_names(void) {
  for (int i = 0; i < RLT_STATUS_COUNT; ++i) CHECK(strcmp(rlt_status_name((rlt_status_t)i), "UNKNOWN") != 0);
  CHECK(strcmp(rlt_status_name((rlt_status_t)99), "UNKNOWN") == 0);
}

static void* failing_allocate(void* self, size_t size, size_t alignment) {
  (void)self, (void)size, (void)alignment;
  return NULL;
}

static void test_allocator(void) {
  rlt_error_t error = {0};
  rlt_allocator_t allocator = rlt_allocator_system();
  void* block;
  CHECK_OK(rlt_allocator_allocate(allocator, 100, &error, &block));
  for (int i = 0; i < 100; ++i) CHECK_INT(((char*)block)[i], 0);
  rlt_allocator_free(allocator, block);
  CHECK_OK(rlt_allocator_allocate(allocator, 0, &error, &block));
  CHECK(block);
  rlt_allocator_free(allocator, block);
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    CHECK_OK(rlt_allocator_allocate_aligned(allocator, 100, alignment, &error, &block));
    CHECK_INT((uintptr_t)block % alignment, 0);
    rlt_allocator_free(allocator, block);
  }
  CHECK_FAILS(rlt_allocator_allocate_aligned(allocator, 1, 48, &error, &block), RLT_INVALID_ARGUMENT, "48");
  CHECK_FAILS(rlt_allocator_allocate_array(allocator, SIZE_MAX / 4, 8, &error, &block), RLT_OUT_OF_MEMORY, "exceed");
  CHECK(block == NULL);
  allocator.allocate = failing_allocate;
  CHECK_FAILS(rlt_allocator_allocate(allocator, 12, &error, &block), RLT_OUT_OF_MEMORY, "12 bytes");
  CHECK(block == NULL);
  rlt_allocator_free(allocator, NULL);
}

static int g_destroyed;
static void destroy(rlt_object_t* object) {
  (void)object;
  ++g_destroyed;
}

static void test_object(void) {
  static const rlt_object_type_t type = {"test.object", destroy}, other = {"test.other", destroy};
  rlt_object_t object;
  rlt_object_initialize(&object, &type);
  CHECK(rlt_object_is(&object, &type));
  CHECK(!rlt_object_is(&object, &other));
  CHECK(!rlt_object_is(NULL, &type));
  rlt_object_retain(&object);
  rlt_object_release(&object);
  CHECK_INT(g_destroyed, 0);
  rlt_object_release(&object);
  CHECK_INT(g_destroyed, 1);
  rlt_object_retain(NULL);
  rlt_object_release(NULL);
}

static void test_checked_math(void) {
  size_t size;
  uint64_t unsigned_sum;
  int64_t product;
  CHECK(rlt_checked_add_size(1, 2, &size) && size == 3);
  CHECK(!rlt_checked_add_size(SIZE_MAX, 1, &size));
  CHECK(rlt_checked_mul_size(0, SIZE_MAX, &size) && size == 0);
  CHECK(!rlt_checked_mul_size(SIZE_MAX / 2 + 1, 2, &size));
  CHECK(!rlt_checked_add_u64(UINT64_MAX, 1, &unsigned_sum));
  CHECK(rlt_checked_mul_i64(-3, 5, &product) && product == -15);
  CHECK(!rlt_checked_mul_i64(INT64_MIN, -1, &product));
  CHECK(!rlt_checked_mul_i64(-1, INT64_MIN, &product));
  CHECK(!rlt_checked_mul_i64(INT64_C(1) << 32, INT64_C(1) << 31, &product));
  CHECK(rlt_checked_mul_i64(INT64_C(1) << 32, -(INT64_C(1) << 31), &product) && product == INT64_MIN);
  CHECK(rlt_range_fits(10, 0, 10));
  CHECK(!rlt_range_fits(11, 0, 10));
  CHECK(!rlt_range_fits(5, UINT64_MAX, 10));
}

static void test_crc32(void) {
  CHECK_INT(rlt_crc32(0, "123456789", 9), 0xCBF43926);  // the check value every CRC catalogue gives
  CHECK_INT(rlt_crc32(rlt_crc32(0, "12345", 5), "6789", 4), 0xCBF43926);
  CHECK_INT(rlt_crc32(0, "", 0), 0);
}

static void test_strings(void) {
  CHECK(rlt_string_equal("", ""));
  CHECK(rlt_string_equal("abc", "abc"));
  CHECK(!rlt_string_equal("abc", "ab"));
  CHECK(!rlt_string_equal("ab", "abc"));
  CHECK_INT(rlt_string_length(""), 0);
  CHECK_INT(rlt_string_length("abc"), 3);
}

static void test_types(void) {
  CHECK_INT(rlt_element_type_size(RLT_TYPE_F32), 4);
  CHECK_INT(rlt_element_type_size(RLT_TYPE_C128), 16);
  CHECK_INT(rlt_element_type_size(RLT_TYPE_I4), 1);
  CHECK_INT(rlt_element_type_size(0), 0);
  CHECK_INT(rlt_element_type_size(8), 0);
  CHECK_INT(rlt_element_type_size(27), 0);
  CHECK_INT(rlt_element_type_size(-1), 0);
  CHECK(strcmp(rlt_element_type_name(RLT_TYPE_F8E4M3FNUZ), "float8_e4m3fnuz") == 0);
  CHECK(strcmp(rlt_element_type_name(8), "invalid") == 0);
}

int main(void) {
  RUN_TEST(test_error_formats);
  RUN_TEST(test_error_is_bounded);
  RUN_TEST(test_error_prefix);
  RUN_TEST(test_status_names);
  RUN_TEST(test_allocator);
  RUN_TEST(test_object);
  RUN_TEST(test_checked_math);
  RUN_TEST(test_crc32);
  RUN_TEST(test_strings);
  RUN_TEST(test_types);
  return 0;
}
