/* Unit tests of JSON, of what is kept of files, and of values of databases, natively. */
#undef NDEBUG
#include <assert.h>
#include <math.h>
#include <mcp_helpers.h>
#include <mcp_keyvalue.h>
#include <mcp_native.h>
#include <mcp_sql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../src/internal.h"

const mcp_provider mcp_this_provider = {.info = {.name = "values", .version = "1.0.0"}};

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static const mcp_json *parsed(const char *text) {
  const mcp_json *value = NULL;
  mcp_result result = mcp_json_parse(text, strlen(text), &value);
  if (result.code != MCP_OK) fprintf(stderr, "%s: %s\n", text, result.message);
  assert(result.code == MCP_OK && value != NULL);
  return value;
}

static void json_is_parsed(void) {
  const mcp_json *value = parsed(" { \"a\" : [1, -2.5e3, true, null, \"\"], \"b\": {}, \"\\u00e9\\ud83d\\ude00\\n\\\"/\\/\": \"x\", \"a\": 7 } ");
  assert(value->type == MCP_JSON_OBJECT && mcp_json_count(value) == 4);
  int64_t number = 0;
  assert(mcp_json_i64(mcp_json_get(value, "a"), &number) && number == 7);
  const mcp_json *list = mcp_json_at(value, 0);
  assert(strcmp(list->name, "a") == 0 && mcp_json_count(list) == 5);
  double real = 0;
  assert(mcp_json_f64(mcp_json_at(list, 1), &real) && real == -2500 && !mcp_json_i64(mcp_json_at(list, 1), &number));
  bool flag = false;
  assert(mcp_json_bool(mcp_json_at(list, 2), &flag) && flag && mcp_json_at(list, 3)->type == MCP_JSON_NULL);
  assert(strcmp(mcp_json_text(mcp_json_at(list, 4)), "") == 0);
  assert(strcmp(mcp_json_text(mcp_json_get(value, "\xc3\xa9\xf0\x9f\x98\x80\n\"//")), "x") == 0);
  assert(mcp_json_count(mcp_json_get(value, "b")) == 0);
  assert(mcp_json_i64(parsed("9223372036854775807"), &number) && number == INT64_MAX);
  assert(mcp_json_i64(parsed("-9223372036854775808"), &number) && number == INT64_MIN);
  assert(!mcp_json_i64(parsed("9223372036854775808"), &number) && number == INT64_MIN);
  assert(parsed("\"a\\u0000b\"")->len == 3 && mcp_json_text(parsed("\"a\\u0000b\"")) == NULL);
}

static void what_is_missing_is_null(void) {
  int64_t number = 5;
  bool flag = true;
  const mcp_json *value = parsed("{\"a\": 1}"), *none = mcp_json_get(value, "b");
  assert(none == NULL && mcp_json_get(none, "c") == NULL && mcp_json_at(none, 0) == NULL && mcp_json_text(none) == NULL);
  assert(mcp_json_at(value, 1) == NULL && mcp_json_get(mcp_json_at(value, 0), "a") == NULL);
  assert(mcp_json_text(mcp_json_at(value, 0)) == NULL && !mcp_json_bool(mcp_json_at(value, 0), &flag));
  assert(!mcp_json_i64(none, &number) && number == 5);
}

static void what_is_no_json_is_refused_with_its_position(void) {
  static const char *const wrong[][2] = {
      {"", "a value at byte 0"},
      {"nul", "a value at byte 0"},
      {"{", "a name in quotes at byte 1"},
      {"{\"a\" 1}", "`:` at byte 5"},
      {"{\"a\": 1,}", "a name in quotes at byte 8"},
      {"[1 2]", "`,` or `]` at byte 3"},
      {"[1,]", "a value at byte 3"},
      {"1 2", "the end at byte 2"},
      {"01", "the end at byte 1"},
      {"-", "a digit at byte 1"},
      {"1.", "a digit at byte 2"},
      {"1e+", "a digit at byte 3"},
      {"\"a", "`\"` at byte 2"},
      {"\"\\", "`\"` at byte 2"},
      {"\"\\\"", "`\"` at byte 3"},
      {"\"\\x\"", "an escape of JSON at byte 2"},
      {"\"\\u12\"", "four hexadecimal digits at byte 5"},
      {"\"\\ud800\"", "a low surrogate at byte 7"},
      {"\"\\ud800\\u0041\"", "a low surrogate at byte 13"},
      {"\"\\udc00\"", "no low surrogate without a high one at byte 7"},
      {"\"a\nb\"", "no control character in a string at byte 2"},
      {"\"\xff\"", "not UTF-8"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    const mcp_json *value = NULL;
    mcp_result result = mcp_json_parse(wrong[i][0], strlen(wrong[i][0]), &value);
    bool is_refused = result.code == MCP_INTERNAL && value == NULL && strstr(result.message, wrong[i][1]) != NULL;
    if (!is_refused) fprintf(stderr, "%s: %s\n", wrong[i][0], result.message == NULL ? "no failure" : result.message);
    assert(is_refused);
  }
  char deep[65 * 2 + 1] = {0};
  memset(deep, '[', 65), memset(deep + 65, ']', 65);
  const mcp_json *value;
  assert(mcp_json_parse(deep + 1, 128, &value).code == MCP_OK);
  assert(mcp_json_parse(deep, 130, &value).code == MCP_INTERNAL);
  /* The NUL behind a text is none of its bytes. */
  assert(mcp_json_parse("1\0", 2, &value).code == MCP_INTERNAL && mcp_json_parse("12", 1, &value).code == MCP_OK);
}

static void what_is_written_is_read_again(void) {
  mcp_json_writer json = {0};
  assert(strcmp(mcp_json_written(&json), "") == 0);
  mcp_json_begin_object(&json, NULL);
  mcp_json_write_text(&json, "text", "a\"\\\x01\n\xc3\xa9");
  mcp_json_write_text(&json, "none", NULL);
  mcp_json_begin_array(&json, "list");
  mcp_json_write_i64(&json, NULL, INT64_MIN);
  mcp_json_write_f64(&json, NULL, 0.1);
  mcp_json_write_f64(&json, NULL, 1.0 / 3);
  mcp_json_write_f64(&json, NULL, HUGE_VAL);
  mcp_json_begin_object(&json, NULL);
  mcp_json_end_object(&json);
  mcp_json_write_bool(&json, NULL, true);
  mcp_json_end_array(&json);
  mcp_json_begin_array(&json, "bytes");
  mcp_json_write_bytes(&json, NULL, "", 0);
  mcp_json_write_bytes(&json, NULL, "\xff\0a", 3);
  mcp_json_write_bytes(&json, NULL, "ab", 2);
  mcp_json_write_bytes(&json, NULL, "abcd", 4);
  mcp_json_end_array(&json);
  mcp_json_write_json(&json, "json", "[1]");
  mcp_json_end_object(&json);
  static const char expected[] =
      "{\"text\":\"a\\\"\\\\\\u0001\\u000a\xc3\xa9\",\"none\":null,\"list\":[-9223372036854775808,0.1,0.3333333333333333,null,{},true],"
      "\"bytes\":[\"\",\"/wBh\",\"YWI=\",\"YWJjZA==\"],\"json\":[1]}";
  if (strcmp(mcp_json_written(&json), expected) != 0) fprintf(stderr, "%s\n", mcp_json_written(&json));
  assert(strcmp(mcp_json_written(&json), expected) == 0);
  assert(strcmp(mcp_json_text(mcp_json_get(parsed(expected), "text")), "a\"\\\x01\n\xc3\xa9") == 0);
}

static void lists_and_tables_of_the_config_are_json(void) {
  const mcp_json *value = parsed("1");
  assert(mcp_config_json("feeds", &value).code == MCP_OK && value == NULL);
  mcp_native_config("feeds", "[{\"url\": \"https://a.example\"}]");
  assert(mcp_config_json("feeds", &value).code == MCP_OK && mcp_json_count(value) == 1);
  assert(strcmp(mcp_json_text(mcp_json_get(mcp_json_at(value, 0), "url")), "https://a.example") == 0);
  mcp_native_config("feeds", "all");
  mcp_result result = mcp_config_json("feeds", &value);
  assert(result.code == MCP_INTERNAL && value == NULL);
  assert(strstr(result.message, "the config key `feeds` should be a list or a table, found `all`") != NULL);
}

/* ---- A bucket with one key --------------------------------------------------------------------------------------- */

static char stored[64];

mcp_result mcp_bucket_get(mcp_bucket bucket, const char *key, mcp_value *value) {
  (void)bucket;
  bool is_there = strcmp(key, "index") == 0;
  *value = (mcp_value){.bytes = is_there ? stored : NULL, .len = is_there ? strlen(stored) : 0};
  return mcp_ok();
}

mcp_result mcp_bucket_set(mcp_bucket bucket, const char *key, const void *bytes, size_t len) {
  (void)bucket;
  assert(strcmp(key, "index") == 0 && len < sizeof stored);
  memcpy(stored, bytes, len);
  stored[len] = '\0';
  return mcp_ok();
}

static void values_of_buckets_are_json(void) {
  mcp_bucket bucket = {.handle = 1};
  mcp_json_writer json = {0};
  mcp_json_begin_array(&json, NULL);
  mcp_json_write_text(&json, NULL, "a");
  mcp_json_end_array(&json);
  assert(mcp_bucket_set_json(bucket, "index", &json).code == MCP_OK);
  const mcp_json *value;
  assert(mcp_bucket_get_json(bucket, "index", &value).code == MCP_OK && mcp_json_count(value) == 1);
  assert(mcp_bucket_get_json(bucket, "none", &value).code == MCP_OK && value == NULL);
  strcpy(stored, "[");
  mcp_result result = mcp_bucket_get_json(bucket, "index", &value);
  assert(result.code == MCP_INTERNAL && value == NULL && strstr(result.message, "the key `index` cannot be read") != NULL);
}

/* ---- What is kept of files --------------------------------------------------------------------------------------- */

static char file[] = "/tmp/memo-test-XXXXXX";
static int made;

typedef struct {
  const char *text;
  size_t len;
} kept;

static mcp_result make(const char *bytes, size_t len, const void **value) {
  made++;
  if (strncmp(bytes, "wrong", 5) == 0) return mcp_internal("the file is %s", bytes);
  kept *keep = mcp_alloc(sizeof(kept));
  *keep = (kept){.text = mcp_format("made of %s", bytes), .len = len};
  *value = keep;
  return mcp_ok();
}

static void write_file(const char *text) {
  FILE *opened = fopen(file, "w");
  assert(opened != NULL && fputs(text, opened) >= 0 && fclose(opened) == 0);
}

static void what_was_made_of_a_file_outlives_the_call_until_the_file_changes(void) {
  static mcp_memo memo;
  int descriptor = mkstemp(file);
  assert(descriptor >= 0);
  write_file("one");
  for (int call = 0; call < 3; call++) {
    assert(mcp_memo_get(&memo, file, make).code == MCP_OK && made == 1);
    const kept *value = memo.value;
    assert(strcmp(value->text, "made of one") == 0 && value->len == 3);
    mcp_native_end_call();
  }
  const kept *before = memo.value;
  write_file("three");
  assert(mcp_memo_get(&memo, file, make).code == MCP_OK && made == 2);
  assert(strcmp(((const kept *)memo.value)->text, "made of three") == 0);
  assert(strcmp(before->text, "made of one") == 0);
  mcp_native_end_call();

  write_file("wrong!");
  for (int call = 0; call < 2; call++) {
    mcp_result result = mcp_memo_get(&memo, file, make);
    assert(result.code == MCP_INTERNAL && strcmp(result.message, "the file is wrong!") == 0 && made == 3 + call);
    mcp_native_end_call();
  }
  assert(unlink(file) == 0 && mcp_memo_get(&memo, file, make).code == MCP_NOT_FOUND && made == 4);
  mcp_result missing = mcp_memo_get(&memo, "/no/folder/file", make);
  assert(missing.code == MCP_INTERNAL && strstr(missing.message, "grants.dirs") != NULL);
  mcp_native_end_call();
  assert(close(descriptor) == 0);
  /* Else a sanitizer would call it a leak. */
  mcp_add_memory(memo.memory);
  mcp_native_end_call();
}

/* ---- Values of databases ----------------------------------------------------------------------------------------- */

static void rows_are_written_as_json(void) {
  static const uint32_t dimensions[] = {2, 2};
  const mcp_sql_value numbers[] = {mcp_sql_i64(1), mcp_sql_i64(2), mcp_sql_i64(3), {0}};
  const mcp_sql_value array = {.type = MCP_SQL_ARRAY, .elements = numbers, .count = 4, .dimensions = dimensions, .dimension_count = 2};
  const mcp_sql_value values[] = {mcp_sql_text("hidden"), mcp_sql_text("fig"), mcp_sql_f64(2.5), mcp_sql_bytes("\xff", 1), array,
                                  mcp_sql_bool(true), mcp_sql_text(NULL), {.type = MCP_SQL_DECIMAL, .text = "-1.50"},
                                  {.type = MCP_SQL_JSON, .text = "{\"a\": 1}"}, {.type = MCP_SQL_ARRAY}};
  static const mcp_sql_column columns[] = {{"name", "text"}, {"name", "text"}, {"price", ""}, {"photo", "bytea"}, {"grid", "_int4"}};
  const mcp_sql_rows rows = {.columns = columns, .column_count = 5, .values = values, .count = 2};
  mcp_json_writer json = {0};
  mcp_sql_write_rows(&json, NULL, &rows);
  static const char expected[] =
      "[{\"name\":\"fig\",\"price\":2.5,\"photo\":\"/w==\",\"grid\":[[1,2],[3,null]]},"
      "{\"name\":null,\"price\":\"-1.50\",\"photo\":{\"a\": 1},\"grid\":[]}]";
  if (strcmp(mcp_json_written(&json), expected) != 0) fprintf(stderr, "%s\n", mcp_json_written(&json));
  assert(strcmp(mcp_json_written(&json), expected) == 0);
  assert(mcp_sql_at(&rows, 1, 0)->boolean && mcp_sql_at(&rows, 0, 2)->number == 2.5);
  assert(mcp_sql_at(&rows, 2, 0)->type == MCP_SQL_NULL && mcp_sql_at(&rows, 0, 5)->type == MCP_SQL_NULL);
}

int main(void) {
  json_is_parsed();
  what_is_missing_is_null();
  what_is_no_json_is_refused_with_its_position();
  what_is_written_is_read_again();
  lists_and_tables_of_the_config_are_json();
  values_of_buckets_are_json();
  mcp_native_end_call();
  what_was_made_of_a_file_outlives_the_call_until_the_file_changes();
  rows_are_written_as_json();
  mcp_native_end_call();
  printf("all tests passed\n");
  return 0;
}
