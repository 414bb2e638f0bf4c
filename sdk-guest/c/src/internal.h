/* What the parts of the SDK share: the results of functions as they are collected. */
#ifndef MCP_INTERNAL_H
#define MCP_INTERNAL_H

#include <mcp_provider.h>

/* A growing array in the memory of the call. */
typedef struct {
  void *items;
  size_t count;
  size_t capacity;
} mcp_array;

/* Appends room for an item, and returns it. */
void *mcp_array_push(mcp_array *array, size_t item_size);

typedef struct {
  mcp_entry entry;
  bool is_text;
  const void *bytes;
  size_t len;
} mcp_content;

struct mcp_page {
  mcp_array entries;
  const char *next_cursor;
};

struct mcp_reading {
  mcp_array contents;
};

struct mcp_templates {
  mcp_array templates;
};

struct mcp_completion {
  mcp_array values;
  size_t total;
  bool has_total;
};

struct mcp_changes {
  const char *token;
  mcp_array changed;
  bool listing_changed;
  mcp_option_u64 poll_after_ms;
};

/* Decodes a part of a path; NULL if it is malformed, not UTF-8 or has a NUL. */
char *mcp_decode_part(const char *text, size_t len);

/* The number of completions that the host takes. Clients get at most 100 of those that they may see. */
enum { MCP_MAX_COMPLETIONS = 1000 };

/* Has a handle of the host dropped when the call ends. */
void mcp_at_end_of_call(void (*drop)(int32_t handle), int32_t handle);

/* Memory: a list of blocks. What is allocated belongs to the call, unless other memory was exchanged for it meanwhile. */
typedef struct mcp_block mcp_block;
/* Sets the memory to which allocations belong, and returns the previous one. */
mcp_block *mcp_exchange_memory(mcp_block *other);
/* Adds memory to the memory to which allocations belong. */
void mcp_add_memory(mcp_block *other);

/* Drops the handles of the call, the last one first, and frees its memory. */
void mcp_end_call(void);

/* Calls the provider's `stat`, or in its place `read`. */
mcp_result mcp_stat(const mcp_provider *provider, const char *path, mcp_entry *entry);
/* Refuses variables that the template does not have, then completes. */
mcp_result mcp_complete(const mcp_provider *provider, const char *template_, mcp_argument argument,
                        const mcp_argument *known, size_t known_count, mcp_completion *completion);

/* The host: config and log. In a component they are imports, in native tests there are others (mcp_native.c). */
char *mcp_host_config(const char *key);
void mcp_host_log(mcp_level level, const char *message);

#endif
