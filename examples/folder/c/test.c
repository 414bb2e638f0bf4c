/* Unit tests, natively: `make test`. */
#undef NDEBUG
#include <assert.h>
#include <mcp_native.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[] = "/tmp/folder-test-XXXXXX";

static void write_file(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void files_are_listed_by_pages_and_read(void) {
  mcp_native_list first = mcp_native_list_page(NULL, 2);
  assert(first.result.code == MCP_OK && first.count == 2 && strcmp(first.entries[0].path, "a%20b.md") == 0);
  assert(strcmp(first.entries[0].mime_type, "text/markdown") == 0 && first.entries[0].size.value == 6);
  mcp_native_list second = mcp_native_list_page(first.next_cursor, 2);
  assert(second.count == 1 && strcmp(second.entries[0].name, "c.bin") == 0 && second.next_cursor == NULL);
  mcp_native_read lines = mcp_native_read_path("first/a%20b.md?lines=2");
  assert(lines.result.code == MCP_OK && strcmp(lines.text, "1\n2\n") == 0 && strcmp(lines.entry.mime_type, "text/plain") == 0);
  static const char *const missing[] = {"missing", "first/missing", "first/..%2Fsecret", "x/y/z", ".hidden"};
  for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
    assert(mcp_native_read_path(missing[i]).result.code == MCP_NOT_FOUND);
  }
  mcp_result wrong = mcp_native_read_path("first/b.txt?lines=07").result;
  assert(wrong.code == MCP_INVALID_REQUEST && strstr(wrong.message, "`lines` must be an integer, such as 7, found \"07\"") != NULL);
}

static void names_are_completed_and_changes_reported(void) {
  mcp_argument typed = {.name = "name", .value = "a"};
  mcp_native_completion completion = mcp_native_complete("first/{name}{?lines}", typed, NULL, 0);
  assert(completion.count == 1 && strcmp(completion.values[0], "a b.md") == 0);
  static const char *const watched[] = {"b.txt", "first/b.txt?lines=1", "c.bin"};
  mcp_native_changes start = mcp_native_poll(watched, 3, NULL);
  assert(start.result.code == MCP_OK && start.count == 0 && !start.listing_changed);
  mcp_native_changes quiet = mcp_native_poll(watched, 3, start.token);
  assert(quiet.count == 0 && !quiet.listing_changed && strcmp(quiet.token, start.token) == 0);
  write_file("b.txt", "changed\n");
  mcp_native_changes later = mcp_native_poll(watched, 3, start.token);
  assert(later.count == 2 && strcmp(later.changed[1], watched[1]) == 0 && later.listing_changed);
}

int main(void) {
  assert(mkdtemp(folder) != NULL);
  mcp_native_config("dir", folder);
  static const char *const names[] = {"a b.md", "b.txt", "c.bin", ".hidden"};
  for (size_t i = 0; i < 4; i++) write_file(names[i], "1\n2\n3\n");
  files_are_listed_by_pages_and_read();
  mcp_native_end_call();
  names_are_completed_and_changes_reported();
  mcp_native_end_call();
  char command[sizeof folder + 16];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}
