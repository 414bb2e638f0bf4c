/* The host's side in native unit tests: a config that a test sets, and a log on standard error. */
#include <mcp_native.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { MAX_SETTINGS = 32 };

static struct {
  char key[64];
  char value[512];
} settings[MAX_SETTINGS];
static size_t setting_count;

void mcp_native_config(const char *key, const char *value) {
  if (setting_count == MAX_SETTINGS) abort();
  snprintf(settings[setting_count].key, sizeof(settings[0].key), "%s", key);
  snprintf(settings[setting_count].value, sizeof(settings[0].value), "%s", value);
  setting_count++;
}

char *mcp_host_config(const char *key) {
  for (size_t i = setting_count; i > 0; i--) {
    if (strcmp(settings[i - 1].key, key) == 0) return settings[i - 1].value;
  }
  return NULL;
}

void mcp_host_log(mcp_level level, const char *message) { fprintf(stderr, "log %d: %s\n", (int)level, message); }

mcp_native_read mcp_native_read_path(const char *path) {
  mcp_reading reading = {0};
  mcp_result result = mcp_this_provider.read(path, &reading);
  mcp_native_read read = {.result = result};
  if (result.code == MCP_OK && reading.contents.count > 0) {
    const mcp_content *content = reading.contents.items;
    read.entry = content->entry;
    read.is_text = content->is_text;
    read.text = mcp_copy(content->bytes, content->len);
    read.len = content->len;
  }
  return read;
}

mcp_native_list mcp_native_list_page(const char *cursor, uint32_t limit) {
  mcp_page page = {0};
  mcp_result result = mcp_this_provider.list(NULL, cursor, limit, &page);
  return (mcp_native_list){.result = result,
                           .entries = page.entries.items,
                           .count = page.entries.count,
                           .next_cursor = page.next_cursor};
}

mcp_native_completion mcp_native_complete(const char *template_, mcp_argument argument, const mcp_argument *known,
                                          size_t known_count) {
  mcp_completion completion = {0};
  mcp_result result = mcp_complete(&mcp_this_provider, template_, argument, known, known_count, &completion);
  return (mcp_native_completion){.result = result,
                                 .values = (const char *const *)completion.values.items,
                                 .count = completion.values.count};
}

mcp_native_changes mcp_native_poll(const char *const *watched, size_t count, const char *since) {
  mcp_changes changes = {0};
  mcp_result result = mcp_this_provider.changes(watched, count, since, &changes);
  return (mcp_native_changes){.result = result,
                              .token = changes.token,
                              .changed = (const char *const *)changes.changed.items,
                              .count = changes.changed.count,
                              .listing_changed = changes.listing_changed};
}

void mcp_native_end_call(void) { mcp_end_call(); }
