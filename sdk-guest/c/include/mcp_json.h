/*
 * JSON, read and written: lists and tables of the config, values of buckets, contents. Compile `src/mcp_json.c`, too.
 *
 *     const mcp_json *feeds;
 *     mcp_result result = mcp_config_json("feeds", &feeds);
 *     if (result.code != MCP_OK) return result;
 *     for (size_t i = 0; i < mcp_json_count(feeds); i++) {
 *       const char *url = mcp_json_text(mcp_json_get(mcp_json_at(feeds, i), "url"));
 *     }
 *
 *     mcp_json_writer json = {0};
 *     mcp_json_begin_object(&json, NULL);
 *     mcp_json_write_text(&json, "name", name);
 *     mcp_json_write_i64(&json, "count", 3);
 *     mcp_json_end_object(&json);
 *     mcp_body_json(body, mcp_json_written(&json));
 *
 * A value that is missing is NULL, and every function takes NULL: it has no members, no elements, and is of no type. Values are in
 * the memory of the call.
 */
#ifndef MCP_JSON_H
#define MCP_JSON_H

#include <mcp_provider.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

typedef enum {
  MCP_JSON_NULL,
  MCP_JSON_BOOL,
  MCP_JSON_NUMBER,
  MCP_JSON_STRING,
  MCP_JSON_ARRAY,
  MCP_JSON_OBJECT,
} mcp_json_type;

typedef struct mcp_json mcp_json;

struct mcp_json {
  mcp_json_type type;
  /* Of a member of an object. */
  const char *name;
  bool boolean;
  /* A decoded string, which a NUL follows, or a number as it is written. */
  const char *text;
  size_t len;
  /* The elements of an array, or the members of an object, in their order. */
  const mcp_json *items;
  size_t count;
};

/* Parses one value (RFC 8259), of at most 64 levels of arrays and objects. Any other text is an internal failure, with the position in
   bytes, from 0, and what is expected there. */
mcp_result mcp_json_parse(const char *text, size_t len, const mcp_json **value);

/* Returns the last member of an object with this name; NULL if there is none, or if the value is not an object. */
const mcp_json *mcp_json_get(const mcp_json *object, const char *name);
/* Returns an element of an array, or a member of an object; NULL if there are not that many. */
const mcp_json *mcp_json_at(const mcp_json *value, size_t index);
/* Returns the number of elements or members. */
size_t mcp_json_count(const mcp_json *value);
/* Returns a string; NULL if the value is not a string, or contains a NUL. */
const char *mcp_json_text(const mcp_json *value);
/* Sets *number if the value is a number; an integer must be written as an integer of 64 bits. Returns whether it did. */
bool mcp_json_i64(const mcp_json *value, int64_t *number);
bool mcp_json_f64(const mcp_json *value, double *number);
/* Sets *boolean, if the value is true or false. Returns whether it did. */
bool mcp_json_bool(const mcp_json *value, bool *boolean);

/* Sets *value to a list or a table of the config, or to any other value that is not a string; to NULL if there is no such key. A value
   that is not JSON is an internal failure. */
mcp_result mcp_config_json(const char *key, const mcp_json **value);

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

/* {0} is empty. `name` is the name of a member in an object, and NULL in an array and outside of both. */
typedef struct {
  char *text;
  size_t len;
  size_t capacity;
  bool needs_comma;
} mcp_json_writer;

void mcp_json_begin_object(mcp_json_writer *json, const char *name);
void mcp_json_end_object(mcp_json_writer *json);
void mcp_json_begin_array(mcp_json_writer *json, const char *name);
void mcp_json_end_array(mcp_json_writer *json);
/* Writes a string; NULL is `null`. */
void mcp_json_write_text(mcp_json_writer *json, const char *name, const char *text);
void mcp_json_write_i64(mcp_json_writer *json, const char *name, int64_t number);
/* Writes a number so that a parser gets the same number. Infinity and NaN, which JSON does not have, are `null`. */
void mcp_json_write_f64(mcp_json_writer *json, const char *name, double number);
void mcp_json_write_bool(mcp_json_writer *json, const char *name, bool boolean);
/* Writes bytes as a string, in base64. */
void mcp_json_write_bytes(mcp_json_writer *json, const char *name, const void *bytes, size_t len);
/* Writes a text that is JSON. */
void mcp_json_write_json(mcp_json_writer *json, const char *name, const char *text);
/* Returns the written text. It is valid until the next write. */
const char *mcp_json_written(const mcp_json_writer *json);

#ifdef __cplusplus
}
#endif
#endif
