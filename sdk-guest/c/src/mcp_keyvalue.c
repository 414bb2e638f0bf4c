/* Buckets: from mcp_keyvalue.h to the generated bindings of `wasi:keyvalue`. */
#include <mcp_keyvalue.h>

#include <string.h>

#include "internal.h"

#include "../bindings/provider.h"

#define STORE(name) wasi_keyvalue_store_##name
#define ATOMICS(name) wasi_keyvalue_atomics_##name
#define BATCH(name) wasi_keyvalue_batch_##name

/* ---- To the host, which copies: nothing is freed ----------------------------------------------------------------- */

static provider_string_t text(const char *text) {
  return (provider_string_t){.ptr = (uint8_t *)text, .len = strlen(text)};
}

static provider_list_u8_t bytes_of(mcp_value value) {
  return (provider_list_u8_t){.ptr = (uint8_t *)value.bytes, .len = value.len};
}

static provider_list_string_t texts(const char *const *keys, size_t count) {
  provider_list_string_t list = {.ptr = mcp_alloc(count * sizeof(provider_string_t)), .len = count};
  for (size_t i = 0; i < count; i++) list.ptr[i] = text(keys[i]);
  return list;
}

static STORE(borrow_bucket_t) borrow(mcp_bucket bucket) { return (STORE(borrow_bucket_t)){bucket.handle}; }

/* ---- From the host: copied into memory of the call, and freed ---------------------------------------------------- */

static mcp_result failure(const char *name, STORE(error_t) * error) {
  mcp_result result;
  switch (error->tag) {
    case WASI_KEYVALUE_STORE_ERROR_OTHER:
      result = mcp_unavailable("%.*s", (int)error->val.other.len, (const char *)error->val.other.ptr);
      break;
    case WASI_KEYVALUE_STORE_ERROR_NO_SUCH_STORE:
      result = mcp_internal("the bucket `%s` is not granted: add it to `grants.keyvalue`", name);
      break;
    default:
      result = mcp_internal("access to the bucket is denied");
      break;
  }
  STORE(error_free)(error);
  return result;
}

static mcp_value lift(provider_list_u8_t *bytes) {
  mcp_value value = {.bytes = mcp_copy((const char *)bytes->ptr, bytes->len), .len = bytes->len};
  provider_list_u8_free(bytes);
  return value;
}

static mcp_value lift_option(provider_option_list_u8_t *bytes) {
  return bytes->is_some ? lift(&bytes->val) : (mcp_value){0};
}

/* ---- Buckets ----------------------------------------------------------------------------------------------------- */

static void close_bucket(int32_t handle) { STORE(bucket_drop_own)((STORE(own_bucket_t)){handle}); }

mcp_result mcp_bucket_open(const char *name, mcp_bucket *bucket) {
  provider_string_t identifier = text(name);
  STORE(own_bucket_t) opened;
  STORE(error_t) error;
  if (!STORE(open)(&identifier, &opened, &error)) return failure(name, &error);
  mcp_at_end_of_call(close_bucket, opened.__handle);
  bucket->handle = opened.__handle;
  return mcp_ok();
}

mcp_result mcp_bucket_get(mcp_bucket bucket, const char *key, mcp_value *value) {
  provider_string_t name = text(key);
  provider_option_list_u8_t found;
  STORE(error_t) error;
  if (!STORE(method_bucket_get)(borrow(bucket), &name, &found, &error)) return failure("", &error);
  *value = lift_option(&found);
  return mcp_ok();
}

mcp_result mcp_bucket_set(mcp_bucket bucket, const char *key, const void *bytes, size_t len) {
  provider_string_t name = text(key);
  provider_list_u8_t value = {.ptr = (uint8_t *)bytes, .len = len};
  STORE(error_t) error;
  if (!STORE(method_bucket_set)(borrow(bucket), &name, &value, &error)) return failure("", &error);
  return mcp_ok();
}

mcp_result mcp_bucket_delete(mcp_bucket bucket, const char *key) {
  provider_string_t name = text(key);
  STORE(error_t) error;
  if (!STORE(method_bucket_delete)(borrow(bucket), &name, &error)) return failure("", &error);
  return mcp_ok();
}

mcp_result mcp_bucket_list(mcp_bucket bucket, const char *cursor, mcp_keys *keys) {
  provider_string_t from = text(cursor == NULL ? "" : cursor);
  STORE(key_response_t) page;
  STORE(error_t) error;
  if (!STORE(method_bucket_list_keys)(borrow(bucket), cursor == NULL ? NULL : &from, &page, &error)) {
    return failure("", &error);
  }
  const char **copies = mcp_alloc(page.keys.len * sizeof(char *));
  for (size_t i = 0; i < page.keys.len; i++) {
    copies[i] = mcp_copy((const char *)page.keys.ptr[i].ptr, page.keys.ptr[i].len);
  }
  *keys = (mcp_keys){.keys = copies, .count = page.keys.len};
  if (page.cursor.is_some) keys->next_cursor = mcp_copy((const char *)page.cursor.val.ptr, page.cursor.val.len);
  STORE(key_response_free)(&page);
  return mcp_ok();
}

mcp_result mcp_bucket_increment(mcp_bucket bucket, const char *key, int64_t delta, int64_t *sum) {
  provider_string_t name = text(key);
  STORE(error_t) error;
  if (!ATOMICS(increment)(borrow(bucket), &name, delta, sum, &error)) return failure("", &error);
  return mcp_ok();
}

mcp_result mcp_bucket_compare_and_swap(mcp_bucket bucket, const char *key, mcp_value expected, mcp_value value,
                                       bool *is_set) {
  provider_string_t name = text(key);
  STORE(error_t) error;
  ATOMICS(own_cas_t) cas;
  if (!ATOMICS(static_cas_new)(borrow(bucket), &name, &cas, &error)) return failure("", &error);
  provider_option_list_u8_t found;
  if (!ATOMICS(method_cas_current)(ATOMICS(borrow_cas)(cas), &found, &error)) {
    ATOMICS(cas_drop_own)(cas);
    return failure("", &error);
  }
  mcp_value current = lift_option(&found);
  *is_set = (current.bytes == NULL) == (expected.bytes == NULL) && current.len == expected.len &&
            (current.len == 0 || memcmp(current.bytes, expected.bytes, current.len) == 0);
  if (!*is_set) {
    ATOMICS(cas_drop_own)(cas);
    return mcp_ok();
  }
  provider_list_u8_t bytes = bytes_of(value);
  ATOMICS(cas_error_t) refused;
  if (ATOMICS(swap)(cas, &bytes, &refused)) return mcp_ok();
  if (refused.tag == WASI_KEYVALUE_ATOMICS_CAS_ERROR_STORE_ERROR) return failure("", &refused.val.store_error);
  ATOMICS(cas_drop_own)(refused.val.cas_failed);
  *is_set = false;
  return mcp_ok();
}

mcp_result mcp_bucket_get_many(mcp_bucket bucket, const char *const *keys, size_t count, mcp_value *values) {
  provider_list_string_t names = texts(keys, count);
  provider_list_option_tuple2_string_list_u8_t found;
  STORE(error_t) error;
  if (!BATCH(get_many)(borrow(bucket), &names, &found, &error)) return failure("", &error);
  for (size_t i = 0; i < count; i++) {
    bool is_some = i < found.len && found.ptr[i].is_some;
    values[i] = (mcp_value){0};
    if (!is_some) continue;
    values[i] = lift(&found.ptr[i].val.f1);
    found.ptr[i].val.f1 = (provider_list_u8_t){0};
  }
  provider_list_option_tuple2_string_list_u8_free(&found);
  return mcp_ok();
}

mcp_result mcp_bucket_set_many(mcp_bucket bucket, const mcp_pair *pairs, size_t count) {
  provider_list_tuple2_string_list_u8_t list = {.len = count};
  list.ptr = mcp_alloc(count * sizeof(provider_tuple2_string_list_u8_t));
  for (size_t i = 0; i < count; i++) {
    list.ptr[i] = (provider_tuple2_string_list_u8_t){.f0 = text(pairs[i].key), .f1 = bytes_of(pairs[i].value)};
  }
  STORE(error_t) error;
  if (!BATCH(set_many)(borrow(bucket), &list, &error)) return failure("", &error);
  return mcp_ok();
}

mcp_result mcp_bucket_delete_many(mcp_bucket bucket, const char *const *keys, size_t count) {
  provider_list_string_t names = texts(keys, count);
  STORE(error_t) error;
  if (!BATCH(delete_many)(borrow(bucket), &names, &error)) return failure("", &error);
  return mcp_ok();
}
