/*
 * Native unit tests of a provider: compile it with any C compiler, `src/mcp_provider.c` and `src/mcp_native.c`, and call it by
 * these functions. Memory of a call lives until mcp_native_end_call.
 */
#ifndef MCP_NATIVE_H
#define MCP_NATIVE_H

#include <mcp_provider.h>

/* Sets a key of the config. */
void mcp_native_config(const char *key, const char *value);

/* The first content of a resource. */
typedef struct {
  mcp_result result;
  mcp_entry entry;
  bool is_text;
  /* The body, with a NUL behind. */
  const char *text;
  size_t len;
} mcp_native_read;
mcp_native_read mcp_native_read_path(const char *path);

typedef struct {
  mcp_result result;
  const mcp_entry *entries;
  size_t count;
  const char *next_cursor;
} mcp_native_list;
mcp_native_list mcp_native_list_page(const char *cursor, uint32_t limit);

typedef struct {
  mcp_result result;
  const char *const *values;
  size_t count;
} mcp_native_completion;
mcp_native_completion mcp_native_complete(const char *template_, mcp_argument argument, const mcp_argument *known,
                                          size_t known_count);

typedef struct {
  mcp_result result;
  const char *token;
  const char *const *changed;
  size_t count;
  bool listing_changed;
} mcp_native_changes;
mcp_native_changes mcp_native_poll(const char *const *watched, size_t count, const char *since);

void mcp_native_end_call(void);

#endif
