/* Unit tests, natively: `make test`. */
#undef NDEBUG
#include <assert.h>
#include <mcp_native.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "csv.h"

static char folder[] = "/tmp/csv-test-XXXXXX";

static void write_file(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void rows_and_columns_of_a_file_are_read(void) {
  write_file("a.csv", "x,y\n1,2\n3,4\n5,6\n");
  mcp_native_read rows = mcp_native_read_path("a.csv/rows?from=2&columns=y,x");
  assert(rows.result.code == MCP_OK && strcmp(rows.text, "y,x\n4,3\n6,5\n") == 0);
  rows = mcp_native_read_path("a.csv/rows");
  assert(strcmp(rows.text, "x,y\n1,2\n3,4\n") == 0 && rows.entry.size.value == 12);
  rows = mcp_native_read_path("a.csv/rows?from=2&to=1");
  assert(rows.result.code == MCP_INVALID_REQUEST && strstr(rows.result.message, "found 2 and 1") != NULL);
  assert(mcp_native_read_path("b.csv").result.code == MCP_NOT_FOUND);
  assert(mcp_native_read_path("..%2Fa.csv").result.code == MCP_NOT_FOUND);
}

static void csv_is_read_leniently(void) {
  static const struct {
    const char *text;
    const char *fields[3];
  } cases[] = {{"\"a\"b,c\"d\"", {"ab", "c\"d\""}}, {"a,\"b", {"a", "b"}}, {"\n\r\n\"x, \"\"y\"\"\"\r\n", {"x, \"y\""}}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    csv_reader reader = csv_open(cases[i].text, strlen(cases[i].text));
    csv_record record;
    assert(csv_next(&reader, &record));
    for (size_t j = 0; j < record.count; j++) assert(strcmp(record.fields[j], cases[i].fields[j]) == 0);
    assert(cases[i].fields[record.count] == NULL && !csv_next(&reader, &record));
  }
}

static void columns_complete_behind_the_last_comma(void) {
  write_file("p.csv", "name,age,city\n");
  mcp_argument file = {.name = "file", .value = "p.csv"}, typed = {.name = "columns", .value = "name,ci"};
  mcp_native_completion completion = mcp_native_complete("{file}/rows{?from,to,columns}", typed, &file, 1);
  assert(completion.count == 1 && strcmp(completion.values[0], "name,city") == 0);
  typed.name = "x";
  completion = mcp_native_complete("{file}/rows{?from,to,columns}", typed, &file, 1);
  assert(completion.result.code == MCP_INVALID_REQUEST);
}

static void a_file_that_is_written_is_reported(void) {
  write_file("c.csv", "x\n");
  static const char *const watched[] = {"a.csv", "c.csv/rows"};
  mcp_native_changes start = mcp_native_poll(watched, 2, NULL);
  mcp_native_changes quiet = mcp_native_poll(watched, 2, start.token);
  assert(quiet.count == 0 && !quiet.listing_changed && strcmp(quiet.token, start.token) == 0);
  write_file("c.csv", "x\n1\n");
  mcp_native_changes later = mcp_native_poll(watched, 2, start.token);
  assert(later.count == 1 && strcmp(later.changed[0], "c.csv/rows") == 0 && later.listing_changed);
}

static void a_listing_continues_behind_its_cursor(void) {
  mcp_native_list first = mcp_native_list_page(NULL, 1);
  assert(first.count == 1 && strcmp(first.entries[0].name, "a.csv") == 0 && strcmp(first.next_cursor, ":a.csv") == 0);
  assert(strcmp(first.entries[0].description, "Columns: x, y.") == 0);
  assert(strcmp(mcp_native_list_page(first.next_cursor, 1).entries[0].name, "c.csv") == 0);
  assert(mcp_native_list_page("x", 1).result.code == MCP_INVALID_REQUEST);
}

int main(void) {
  assert(mkdtemp(folder) != NULL);
  mcp_native_config("dir", folder);
  mcp_native_config("max-rows", "2");
  void (*const tests[])(void) = {rows_and_columns_of_a_file_are_read, csv_is_read_leniently,
                                 columns_complete_behind_the_last_comma, a_file_that_is_written_is_reported,
                                 a_listing_continues_behind_its_cursor};
  size_t count = sizeof tests / sizeof tests[0];
  for (size_t i = 0; i < count; i++) {
    tests[i]();
    mcp_native_end_call();
  }
  char command[300];
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert(system(command) == 0);
  printf("%zu tests passed\n", count);
  return 0;
}
