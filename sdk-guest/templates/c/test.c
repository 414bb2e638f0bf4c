/* The provider outside of a component. */
#undef NDEBUG
#include <assert.h>
#include <mcp_native.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/files-XXXXXX";

static const char *path_of(const char *name) { return mcp_format("%s/%s", folder, name); }

static void write_file(const char *name, const char *bytes, size_t len) {
  FILE *file = fopen(path_of(name), "wb");
  assert(file != NULL && fwrite(bytes, 1, len, file) == len && fclose(file) == 0);
}

static void files_are_listed_and_read(void) {
  mcp_native_list page = mcp_native_list_page(NULL, 10);
  assert(page.count == 2 && strcmp(page.entries[0].name, "a.md") == 0);
  mcp_native_read binary = mcp_native_read_path("b.bin");
  assert(!binary.is_text && binary.len == 2 && memcmp(binary.text, "\xff\0", 2) == 0);
  mcp_native_read lines = mcp_native_read_path("first/a.md");
  assert(lines.result.code == MCP_OK && strcmp(lines.text, "one\ntwo\n") == 0);
  assert(mcp_native_read_path("c.md").result.code == MCP_NOT_FOUND);
  mcp_argument typed = {.name = "name", .value = "a"};
  mcp_native_completion completion = mcp_native_complete("first/{name}", typed, NULL, 0);
  assert(completion.count == 1 && strcmp(completion.values[0], "a.md") == 0);
}

static void a_file_that_is_written_is_reported(void) {
  static const char *const watched[] = {"first/a.md", "b.bin"};
  mcp_native_changes start = mcp_native_poll(watched, 2, NULL);
  mcp_native_changes quiet = mcp_native_poll(watched, 2, start.token);
  assert(quiet.count == 0 && !quiet.listing_changed && strcmp(quiet.token, start.token) == 0);
  write_file("a.md", "changed\n", 8);
  mcp_native_changes later = mcp_native_poll(watched, 2, start.token);
  assert(later.count == 1 && strcmp(later.changed[0], "first/a.md") == 0 && later.listing_changed);
}

static void a_folder_that_is_not_granted_is_a_fault_of_the_config(void) {
  mcp_native_config("dir", path_of("missing"));
  mcp_result result = mcp_native_list_page(NULL, 10).result;
  assert(result.code == MCP_INTERNAL && strstr(result.message, "grants.dirs") != NULL);
  mcp_native_config("dir", folder);
}

int main(void) {
  assert(mkdtemp(folder) != NULL);
  mcp_native_config("dir", folder);
  mcp_native_config("lines", "2");
  write_file("a.md", "one\ntwo\nthree\n", 14);
  write_file("b.bin", "\xff\0", 2);
  files_are_listed_and_read();
  mcp_native_end_call();
  a_file_that_is_written_is_reported();
  a_folder_that_is_not_granted_is_a_fault_of_the_config();
  assert(unlink(path_of("a.md")) == 0 && unlink(path_of("b.bin")) == 0 && rmdir(folder) == 0);
  mcp_native_end_call();
  printf("all tests passed\n");
  return 0;
}
