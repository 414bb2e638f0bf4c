/*
 * Persistent state: buckets of the host, which the administrator grants by name (`grants.keyvalue = ["visits"]`).
 *
 *     #include <mcp_keyvalue.h>
 *
 *     mcp_bucket visits;
 *     mcp_result result = mcp_bucket_open("visits", &visits);
 *     if (result.code != MCP_OK) return result;
 *     int64_t count;
 *     result = mcp_bucket_increment(visits, path, 1, &count);
 *
 * A bucket is private to the plugin; all its calls share it, concurrent ones, too. Writes are durable. mcp_bucket_increment and
 * mcp_bucket_compare_and_swap are atomic; a read that is followed by a write is not. A key is text of 1 to 1024 bytes. A bucket
 * that is not granted is an internal failure; a store that fails or is full is unavailable.
 *
 * MEMORY. Keys and values that are passed must be valid until the function returns. Values and keys that are returned are memory
 * of the call. A bucket is closed by the SDK when the call has ended: open it in each call that needs it.
 *
 * A component imports `wasi:keyvalue` if it calls one of these functions. There is no host in native tests: a test defines those
 * that its provider uses.
 */
#ifndef MCP_KEYVALUE_H
#define MCP_KEYVALUE_H

#include <mcp_json.h>
#include <mcp_provider.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int32_t handle;
} mcp_bucket;

/* The value of a key: any bytes, with a NUL behind those that are returned. `bytes` is NULL if there is no such key. */
typedef struct {
  const char *bytes;
  size_t len;
} mcp_value;

typedef struct {
  const char *key;
  mcp_value value;
} mcp_pair;

/* A page of keys, in no particular order. */
typedef struct {
  const char *const *keys;
  size_t count;
  /* The cursor of the next page; NULL on the last. */
  const char *next_cursor;
} mcp_keys;

mcp_result mcp_bucket_open(const char *name, mcp_bucket *bucket);
mcp_result mcp_bucket_get(mcp_bucket bucket, const char *key, mcp_value *value);
mcp_result mcp_bucket_set(mcp_bucket bucket, const char *key, const void *bytes, size_t len);
/* Deletes a key, if it exists. */
mcp_result mcp_bucket_delete(mcp_bucket bucket, const char *key);
/* Lists a page of the keys; `cursor` is NULL for the first. */
mcp_result mcp_bucket_list(mcp_bucket bucket, const char *cursor, mcp_keys *keys);

/* Adds to the number that is the value of a key, atomically. A missing key counts as 0. */
mcp_result mcp_bucket_increment(mcp_bucket bucket, const char *key, int64_t delta, int64_t *sum);
/* Sets the value of a key if it is `expected` (`bytes` is NULL: if there is no such key), atomically. `is_set` says whether it did;
   it may also be false after a concurrent write: get the value again and retry. */
mcp_result mcp_bucket_compare_and_swap(mcp_bucket bucket, const char *key, mcp_value expected, mcp_value value,
                                       bool *is_set);

/* Gets the values of at most 1000 keys into an array of as many, in the same order. */
mcp_result mcp_bucket_get_many(mcp_bucket bucket, const char *const *keys, size_t count, mcp_value *values);
/* Sets at most 1000 values: all of them, or none on failure. */
mcp_result mcp_bucket_set_many(mcp_bucket bucket, const mcp_pair *pairs, size_t count);
/* Deletes at most 1000 keys, those that exist: all of them, or none on failure. */
mcp_result mcp_bucket_delete_many(mcp_bucket bucket, const char *const *keys, size_t count);

/* ---- JSON in buckets: see mcp_json.h ----------------------------------------------------------------------------- */

/* Sets *value to the value of a key; to NULL if there is no such key. A value that is not JSON is an internal failure. */
static inline mcp_result mcp_bucket_get_json(mcp_bucket bucket, const char *key, const mcp_json **value) {
  mcp_value found;
  *value = NULL;
  mcp_result result = mcp_bucket_get(bucket, key, &found);
  if (result.code != MCP_OK || found.bytes == NULL) return result;
  result = mcp_json_parse(found.bytes, found.len, value);
  if (result.code == MCP_OK) return result;
  return mcp_internal("the value of the key `%s` cannot be read: %s", key, result.message);
}

/* Sets the value of a key to what was written. */
static inline mcp_result mcp_bucket_set_json(mcp_bucket bucket, const char *key, const mcp_json_writer *json) {
  const char *text = mcp_json_written(json);
  return mcp_bucket_set(bucket, key, text, strlen(text));
}

#ifdef __cplusplus
}
#endif
#endif
