/* A provider that uses each grant, for the end-to-end tests: `http` sends a request to the URL of the config, `keyvalue` performs
   every operation on the bucket `visits`, `sql` queries the database `shop`, and `env` returns the variable `WHO`. `bucket/SIZE` reads a
   value of that size five times, and `body/SIZE` the body of the response to a request of that path below the URL; both return the number
   of bytes. `memo` returns what was made of the file `/data/memo.txt`, and how often this instance made it. */
#include <mcp_helpers.h>
#include <mcp_http.h>
#include <mcp_keyvalue.h>
#include <mcp_provider.h>
#include <mcp_sql.h>
#include <stdlib.h>
#include <string.h>

#define TRY(operation)                             \
  do {                                             \
    mcp_result tried = (operation);                \
    if (tried.code != MCP_OK) return tried;        \
  } while (0)

static mcp_result fetched(const char **body) {
  static const mcp_http_header headers[] = {{"x-test", "é"}};
  mcp_http_request request = {.method = "POST",
                              .url = mcp_config("url"),
                              .headers = headers,
                              .header_count = 1,
                              .body = "sent",
                              .body_len = 4,
                              .timeout_ms = 10000,
                              .max_body = 1024};
  mcp_http_response response;
  TRY(mcp_http_send(&request, &response));
  const char *type = mcp_http_header_of(&response, "content-type");
  if (response.status != 200 || type == NULL || strcmp(type, "text/plain") != 0) {
    return mcp_internal("status %d, type %s", response.status, type == NULL ? "none" : type);
  }
  *body = response.body;
  return mcp_ok();
}

static mcp_value value(const char *text) { return (mcp_value){.bytes = text, .len = strlen(text)}; }

static int compare(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* JSON comes back as it was. */
static mcp_result json_is_kept(mcp_bucket bucket) {
  mcp_json_writer json = {0};
  mcp_json_begin_object(&json, NULL);
  mcp_json_begin_array(&json, "é");
  mcp_json_write_i64(&json, NULL, 1);
  mcp_json_end_array(&json);
  mcp_json_end_object(&json);
  TRY(mcp_bucket_set_json(bucket, "a", &json));
  const mcp_json *value, *none;
  TRY(mcp_bucket_get_json(bucket, "a", &value));
  TRY(mcp_bucket_get_json(bucket, "none", &none));
  int64_t number = 0;
  bool is_kept = mcp_json_i64(mcp_json_at(mcp_json_get(value, "é"), 0), &number) && number == 1 && none == NULL;
  return is_kept ? mcp_ok() : mcp_internal("JSON comes back as it was");
}

static mcp_result operations(const char **report) {
  mcp_bucket bucket;
  TRY(mcp_bucket_open("visits", &bucket));
  TRY(json_is_kept(bucket));
  TRY(mcp_bucket_set(bucket, "a", "1", 1));
  TRY(mcp_bucket_set_many(bucket, (mcp_pair[]){{"b", value("2")}, {"c", value("3")}}, 2));
  bool first, second;
  TRY(mcp_bucket_compare_and_swap(bucket, "a", value("0"), value("9"), &first));
  TRY(mcp_bucket_compare_and_swap(bucket, "a", value("1"), value("9"), &second));
  TRY(mcp_bucket_delete(bucket, "b"));
  TRY(mcp_bucket_delete_many(bucket, (const char *const[]){"c"}, 1));
  mcp_value values[2], deleted;
  TRY(mcp_bucket_get_many(bucket, (const char *const[]){"a", "b"}, 2, values));
  TRY(mcp_bucket_get(bucket, "b", &deleted));
  int64_t two, five;
  TRY(mcp_bucket_increment(bucket, "n", 2, &two));
  TRY(mcp_bucket_increment(bucket, "n", 3, &five));
  mcp_keys page;
  TRY(mcp_bucket_list(bucket, NULL, &page));
  if (page.count != 2 || page.next_cursor != NULL) return mcp_internal("%zu keys", page.count);
  const char *keys[] = {page.keys[0], page.keys[1]};
  qsort(keys, 2, sizeof(keys[0]), compare);
  *report = mcp_format("%lld %lld %d %d %s %s %s ['%s', '%s']", (long long)two, (long long)five, first, second,
                       values[0].bytes, values[1].bytes == NULL ? "None" : values[1].bytes,
                       deleted.bytes == NULL ? "False" : "True", keys[0], keys[1]);
  return mcp_ok();
}

static mcp_result value_read(size_t size, const char **text) {
  mcp_bucket bucket;
  TRY(mcp_bucket_open("visits", &bucket));
  char *list = mcp_alloc(size);
  memset(list, 0, size);
  TRY(mcp_bucket_set(bucket, "list", list, size));
  size_t total = 0;
  for (int count = 0; count < 5; count++) {
    mcp_value value;
    TRY(mcp_bucket_get(bucket, "list", &value));
    total += value.len;
  }
  *text = mcp_format("%zu", total);
  return mcp_ok();
}

static mcp_result body_read(const char *size, const char **text) {
  mcp_http_request request = {.url = mcp_format("%s/%s", mcp_config("url"), size), .timeout_ms = 60000, .max_body = 1 << 30};
  mcp_http_response response;
  TRY(mcp_http_send(&request, &response));
  *text = mcp_format("%zu", response.body_len);
  return mcp_ok();
}

static mcp_result queried(const char **report) {
  mcp_sql_rows rows;
  mcp_sql_info info;
  if (mcp_sql_query("shop", "SELECT 1 FROM missing", NULL, 0, 0, &rows).code != MCP_INTERNAL) {
    return mcp_internal("a table that is missing was queried");
  }
  const char *state = rows.rejection.sqlstate;
  TRY(mcp_sql_describe("shop", &info));
  mcp_sql_value below[] = {mcp_sql_i64(3)};
  TRY(mcp_sql_query("shop", "SELECT name, price, photo FROM items WHERE price < $1 ORDER BY price", below, 1, 2, &rows));
  mcp_json_writer json = {0};
  mcp_json_begin_array(&json, NULL);
  mcp_json_write_text(&json, NULL, state);
  mcp_json_write_text(&json, NULL, info.is_sqlite ? "sqlite" : "postgresql");
  mcp_json_begin_array(&json, NULL);
  for (size_t i = 0; i < rows.column_count; i++) mcp_json_write_text(&json, NULL, rows.columns[i].name);
  mcp_json_end_array(&json);
  mcp_json_begin_array(&json, NULL);
  for (size_t row = 0; row < rows.count; row++) {
    const mcp_sql_value *photo = mcp_sql_at(&rows, row, 2);
    mcp_json_begin_array(&json, NULL);
    mcp_sql_write_value(&json, NULL, mcp_sql_at(&rows, row, 0));
    mcp_sql_write_value(&json, NULL, mcp_sql_at(&rows, row, 1));
    if (photo->type == MCP_SQL_BYTES) {
      mcp_json_begin_array(&json, NULL);
      for (size_t i = 0; i < photo->len; i++) mcp_json_write_i64(&json, NULL, (unsigned char)photo->text[i]);
      mcp_json_end_array(&json);
    } else {
      mcp_sql_write_value(&json, NULL, photo);
    }
    mcp_json_end_array(&json);
  }
  mcp_json_end_array(&json);
  mcp_json_write_bool(&json, NULL, rows.has_more);
  mcp_json_end_array(&json);
  *report = mcp_json_written(&json);
  return mcp_ok();
}

static int made;

static mcp_result make(const char *bytes, size_t len, const void **value) {
  (void)len;
  made++;
  *value = mcp_format("made of %s", bytes);
  return mcp_ok();
}

static mcp_result kept(const char **text) {
  static mcp_memo memo;
  TRY(mcp_memo_get(&memo, "/data/memo.txt", make));
  *text = mcp_format("%s, %d times", (const char *)memo.value, made);
  return mcp_ok();
}

static mcp_result list(const char *parent, const char *cursor, uint32_t limit, mcp_page *page) {
  (void)parent, (void)cursor, (void)limit, (void)page;
  return mcp_ok();
}

static mcp_result read(const char *path, mcp_reading *reading) {
  const char *text = "";
  if (strcmp(path, "http") == 0) {
    TRY(fetched(&text));
  } else if (strcmp(path, "keyvalue") == 0) {
    TRY(operations(&text));
  } else if (strcmp(path, "sql") == 0) {
    TRY(queried(&text));
  } else if (strcmp(path, "memo") == 0) {
    TRY(kept(&text));
  } else if (strcmp(path, "env") == 0) {
    text = getenv("WHO") == NULL ? "" : getenv("WHO");
  } else if (strcmp(path, "trap") == 0) {
    abort();
  } else if (strcmp(path, "null") == 0) {
    *strchr(path, '\t') = 0;
  } else if (strncmp(path, "bucket/", 7) == 0) {
    TRY(value_read(strtoul(path + 7, NULL, 10), &text));
  } else if (strncmp(path, "body/", 5) == 0) {
    TRY(body_read(path + 5, &text));
  } else {
    return mcp_not_found();
  }
  mcp_reading_add_text(reading, (mcp_entry){.path = path, .name = path}, text);
  return mcp_ok();
}

const mcp_provider mcp_this_provider = {.info = {.name = "granted", .version = "1.0.0"}, .list = list, .read = read};
