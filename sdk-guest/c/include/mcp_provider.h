/*
 * Providers of MCP resources in C.
 *
 * A provider defines one constant, with the functions that it has:
 *
 *     #include <mcp_provider.h>
 *
 *     static mcp_result list(const char *parent, const char *cursor, uint32_t limit, mcp_page *page) {
 *       mcp_page_add(page, (mcp_entry){.path = "hello", .name = "hello", .mime_type = "text/plain"});
 *       return mcp_ok();
 *     }
 *
 *     static mcp_result read(const char *path, mcp_reading *reading) {
 *       if (strcmp(path, "hello") != 0) return mcp_not_found();
 *       mcp_reading_add_text(reading, (mcp_entry){.path = path, .name = path}, "Hello, world!");
 *       return mcp_ok();
 *     }
 *
 *     const mcp_provider mcp_this_provider = {
 *         .info = {.name = "hello", .version = "1.0.0"}, .list = list, .read = read};
 *
 * Everything is zero by default: a member that an initializer leaves out is "none".
 *
 * MEMORY. Nothing is ever freed by a provider.
 *   - Arguments (paths, cursors, known values) belong to the SDK and are valid until the function returns.
 *   - What a provider returns or adds is copied at once by mcp_*_add; the texts that it points to, and the fields of an entry,
 *     must stay valid until the function returns. Static texts do, and so does what mcp_alloc, mcp_format and the like return:
 *     memory of the call, which the SDK frees when the call has ended.
 *   - Static variables of a provider must not be relied on: the next call may run in another instance.
 *
 * TEXT. All texts are UTF-8 and end with NUL. Paths are percent-encoded, as in a URI.
 */
#ifndef MCP_PROVIDER_H
#define MCP_PROVIDER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MCP_PRINTF(format, first) __attribute__((__format__(__printf__, format, first)))
#else
#define MCP_PRINTF(format, first)
#endif

/* ---- Results ---------------------------------------------------------------------------------------------------- */

typedef enum {
  MCP_OK = 0,
  /* There is no such resource. */
  MCP_NOT_FOUND,
  /* The request makes no sense: a path of an unknown form, a foreign cursor. The client sees the message. */
  MCP_INVALID_REQUEST,
  /* The owner of the data denies access. The client sees the message. */
  MCP_DENIED,
  /* It is temporarily not available. The client sees the message. */
  MCP_UNAVAILABLE,
  /* The provider or its data are at fault. The message goes to the host's log only. */
  MCP_INTERNAL,
} mcp_code;

/* An optional number. MCP_SOME(5) is 5; {0} is none. */
typedef struct {
  bool is_some;
  uint64_t value;
} mcp_option_u64;

typedef struct {
  bool is_some;
  double value;
} mcp_option_f64;

#define MCP_SOME(number) {.is_some = true, .value = (number)}

/* The result of a function: of the value that these functions return. */
typedef struct {
  mcp_code code;
  const char *message;
  mcp_option_u64 retry_after_ms;
} mcp_result;

mcp_result mcp_ok(void);
mcp_result mcp_not_found(void);
mcp_result mcp_invalid_request(const char *format, ...) MCP_PRINTF(1, 2);
mcp_result mcp_denied(const char *format, ...) MCP_PRINTF(1, 2);
mcp_result mcp_unavailable(const char *format, ...) MCP_PRINTF(1, 2);
mcp_result mcp_internal(const char *format, ...) MCP_PRINTF(1, 2);
/* The result for errno: ENOENT is not found, EACCES denied, EBUSY unavailable, everything else internal. `what` is what
   failed, such as "cannot open the index". */
mcp_result mcp_from_errno(int error, const char *what);

/* ---- Resources -------------------------------------------------------------------------------------------------- */

/* The audience of a resource: any of these, combined by |. */
enum { MCP_USER = 1, MCP_ASSISTANT = 2 };

typedef enum { MCP_ANY_THEME = 0, MCP_LIGHT, MCP_DARK } mcp_theme;

typedef struct {
  /* An `https:` or `data:` URI. */
  const char *src;
  const char *mime_type;
  /* Sizes as `48x48` or `any`, and NULL after the last; NULL for any. */
  const char *const *sizes;
  mcp_theme theme;
} mcp_icon;

/* One resource without its content. The path and the name are required. */
typedef struct {
  const char *path;
  const char *name;
  const char *title;
  const char *description;
  const char *mime_type;
  mcp_option_u64 size;
  unsigned audience;
  /* 0.0 to 1.0. */
  mcp_option_f64 priority;
  /* RFC 3339: 2025-01-12T15:00:58Z */
  const char *last_modified;
  const mcp_icon *icons;
  size_t icon_count;
  bool listable;
  bool subscribable;
  mcp_option_u64 ttl_ms;
  /* The text of one JSON object. */
  const char *meta;
} mcp_entry;

/* A family of resources whose paths are given by an RFC 6570 template. */
typedef struct {
  const char *path_template;
  const char *name;
  const char *title;
  const char *description;
  const char *mime_type;
  unsigned audience;
  mcp_option_f64 priority;
  const char *last_modified;
  const mcp_icon *icons;
  size_t icon_count;
  const char *meta;
} mcp_template;

typedef struct {
  const char *name;
  const char *value;
} mcp_argument;

/* ---- What functions fill in ------------------------------------------------------------------------------------- */

typedef struct mcp_page mcp_page;
typedef struct mcp_reading mcp_reading;
typedef struct mcp_templates mcp_templates;
typedef struct mcp_completion mcp_completion;
typedef struct mcp_changes mcp_changes;

void mcp_page_add(mcp_page *page, mcp_entry entry);
/* Sets the cursor of the next page: not called on the last one. */
void mcp_page_next(mcp_page *page, const char *cursor);

/* Adds a content. Its size is the size of the body, unless the entry has one. */
void mcp_reading_add_text(mcp_reading *reading, mcp_entry entry, const char *text);
void mcp_reading_add_blob(mcp_reading *reading, mcp_entry entry, const void *bytes, size_t len);
/* Adds bytes of unknown kind: as text if they are UTF-8, else as a blob. */
void mcp_reading_add_bytes(mcp_reading *reading, mcp_entry entry, const void *bytes, size_t len);

void mcp_templates_add(mcp_templates *templates, mcp_template template_);

/* Adds a value, best first. At most 1000 are kept; the others are counted. Clients get at most 100 of those that they may
   see. */
void mcp_completion_add(mcp_completion *completion, const char *value);
/* Adds those values that begin with `typed`, each once, and lets clients know how many there are. */
void mcp_completion_match(mcp_completion *completion, const char *const *values, size_t count, const char *typed);

/* Sets the token of the present state. Required. */
void mcp_changes_token(mcp_changes *changes, const char *token);
void mcp_changes_add(mcp_changes *changes, const char *path);
void mcp_changes_listing(mcp_changes *changes);
void mcp_changes_poll_after(mcp_changes *changes, uint64_t milliseconds);

/* ---- The provider ----------------------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  const char *version;
  const char *title;
  const char *description;
  /* Whether `changes` is implemented. */
  bool watches;
} mcp_info;

typedef struct {
  mcp_info info;
  /* Lists the children of `parent`, or, if it is NULL, the resources that are useful to see first. `cursor` is the page's, NULL for
     the first. `limit` entries can be used. Required. */
  mcp_result (*list)(const char *parent, const char *cursor, uint32_t limit, mcp_page *page);
  /* Reads a resource. Required. */
  mcp_result (*read)(const char *path, mcp_reading *reading);
  /* Returns the entry of a resource. Default: the entry of its first content. */
  mcp_result (*stat)(const char *path, mcp_entry *entry);
  /* Lists the templates. Without it: none. */
  mcp_result (*templates)(mcp_templates *templates);
  /* Completes a variable of one of the templates: unknown ones are refused before. Without it: no completions. */
  mcp_result (*complete)(const char *template_, mcp_argument argument, const mcp_argument *known, size_t known_count,
                         mcp_completion *completion);
  /* Reports which of the watched paths changed since the token, NULL for the first call. Required if `info.watches`. */
  mcp_result (*changes)(const char *const *watched, size_t watched_count, const char *since, mcp_changes *changes);
} mcp_provider;

/* Defined by the provider. */
extern const mcp_provider mcp_this_provider;

/* ---- Config and log --------------------------------------------------------------------------------------------- */

/* Returns the value of a key of the plugin's config, or NULL. Strings come as they are, other values as JSON. */
const char *mcp_config(const char *key);
/* Returns the value of a key, or another text if there is no such key. */
const char *mcp_config_or(const char *key, const char *otherwise);
/* Sets *value to the value of a key, if it has one: a number from `min` to `max`. Any other value is an internal failure. */
mcp_result mcp_config_u64(const char *key, uint64_t min, uint64_t max, uint64_t *value);
mcp_result mcp_config_f64(const char *key, double *value);
mcp_result mcp_config_bool(const char *key, bool *value);

typedef enum { MCP_TRACE, MCP_DEBUG, MCP_INFO, MCP_WARN, MCP_ERROR } mcp_level;
/* Writes a line to the host's log. */
void mcp_log(mcp_level level, const char *format, ...) MCP_PRINTF(2, 3);

/* ---- Memory of the call ----------------------------------------------------------------------------------------- */

/* Returns zeroed memory that lives until the call ends. Never NULL: a provider without memory is ended by the host. */
void *mcp_alloc(size_t size);
/* Grows memory of the call, or makes a larger copy. */
void *mcp_grow(void *memory, size_t old_size, size_t new_size);
char *mcp_copy(const char *text, size_t len);
char *mcp_format(const char *format, ...) MCP_PRINTF(1, 2);

/* ---- Paths ------------------------------------------------------------------------------------------------------ */

/* Percent-encodes a text as one segment of a path. */
char *mcp_encode_segment(const char *text);
/* Percent-encodes a text as one value of a query, as a client does that expands `{?name}`. */
char *mcp_encode_query(const char *text);
/* Decodes a segment; NULL if it is malformed, not UTF-8, or has a NUL or a slash. */
char *mcp_decode_segment(const char *segment, size_t len);

/* A path in parts, decoded. */
typedef struct {
  const char *const *segments;
  size_t segment_count;
  const mcp_argument *query;
  size_t query_count;
} mcp_path;

/* Splits and decodes a path; false if a part of it is malformed. */
bool mcp_parse_path(const char *path, mcp_path *parts);
/* Returns the value of a variable of the query, NULL if it has none. */
const char *mcp_query(const mcp_path *parts, const char *name);

/* Whether bytes are UTF-8. */
bool mcp_is_utf8(const void *bytes, size_t len);

/* ---- What the provider asks for ---------------------------------------------------------------------------------- */

/*
 * Declares what the provider would like to be granted: `mcp-host inspect` shows it as an entry of the config. Asking grants nothing.
 * The argument is a JSON object, written as it is, once in a component, outside of functions:
 *
 *     MCP_NEEDS({
 *       "dirs": [{ "guest": "/data", "mode": "ro", "why": "the files" }],
 *       "http": [{ "origin": "https://docs.rs" }],
 *       "keyvalue": [{ "bucket": "pages" }],
 *       "env": [{ "name": "LANG" }],
 *       "config": { "max-rows": { "type": "integer", "default": 1000, "why": "the largest answer" } }
 *     });
 *
 * It becomes the custom section `mcp-host:needs/v1` of the component, of at most 64 KiB. Natively it is nothing.
 */
#define MCP_NEEDS(...) MCP_NEEDS_SECTION(#__VA_ARGS__)
#if defined(__wasm__)
/* A variable with the attribute `section` would become a segment of memory. */
#define MCP_NEEDS_SECTION(json) \
  __asm__(".section \".custom_section.mcp-host:needs/v1\",\"\",@\n.ascii " MCP_NEEDS_STRING(json) "\n.text\n")
#define MCP_NEEDS_STRING(json) #json
#else
#define MCP_NEEDS_SECTION(json) struct mcp_needs_of_components
#endif

#ifdef __cplusplus
}
#endif
#endif
