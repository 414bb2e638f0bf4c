/* The part of the SDK that does not depend on WebAssembly: memory, results, paths, texts. */
#include "internal.h"

#include <mcp_prepare.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory of the call ----------------------------------------------------------------------------------------- */

struct mcp_block {
  mcp_block *next;
  max_align_t data[];
};

static mcp_block *blocks;

void *mcp_alloc(size_t size) {
  mcp_block *made = size <= SIZE_MAX - sizeof(mcp_block) ? calloc(1, sizeof(mcp_block) + size) : NULL;
  if (made == NULL) {
    fputs("out of memory\n", stderr);
    abort();
  }
  made->next = blocks;
  blocks = made;
  return made->data;
}

mcp_block *mcp_exchange_memory(mcp_block *other) {
  mcp_block *before = blocks;
  blocks = other;
  return before;
}

void mcp_add_memory(mcp_block *other) {
  if (other == NULL) return;
  mcp_block *last = other;
  while (last->next != NULL) last = last->next;
  last->next = blocks;
  blocks = other;
}

void *mcp_grow(void *memory, size_t old_size, size_t new_size) {
  void *grown = mcp_alloc(new_size);
  if (old_size > 0) memcpy(grown, memory, old_size < new_size ? old_size : new_size);
  return grown;
}

typedef struct ending {
  struct ending *next;
  void (*drop)(int32_t handle);
  int32_t handle;
} ending;

static ending *endings;

void mcp_at_end_of_call(void (*drop)(int32_t handle), int32_t handle) {
  ending *added = mcp_alloc(sizeof(ending));
  *added = (ending){.next = endings, .drop = drop, .handle = handle};
  endings = added;
}

void mcp_end_call(void) {
  for (; endings != NULL; endings = endings->next) endings->drop(endings->handle);
  while (blocks != NULL) {
    mcp_block *next = blocks->next;
    free(blocks);
    blocks = next;
  }
}

char *mcp_copy(const char *text, size_t len) {
  char *copy = mcp_alloc(len + 1);
  if (len > 0) memcpy(copy, text, len);
  return copy;
}

static char *format_list(const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int len = vsnprintf(NULL, 0, format, arguments);
  if (len < 0) len = 0;
  char *text = mcp_alloc((size_t)len + 1);
  vsnprintf(text, (size_t)len + 1, format, again);
  va_end(again);
  return text;
}

char *mcp_format(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text = format_list(format, arguments);
  va_end(arguments);
  return text;
}

void *mcp_array_push(mcp_array *array, size_t item_size) {
  if (array->count == array->capacity) {
    size_t capacity = array->capacity == 0 ? 8 : array->capacity * 2;
    array->items = mcp_grow(array->items, array->count * item_size, capacity * item_size);
    array->capacity = capacity;
  }
  return (char *)array->items + item_size * array->count++;
}

/* ---- Results ---------------------------------------------------------------------------------------------------- */

mcp_result mcp_ok(void) { return (mcp_result){.code = MCP_OK}; }

mcp_result mcp_not_found(void) { return (mcp_result){.code = MCP_NOT_FOUND}; }

#define FAILURE(result_code)                                     \
  va_list arguments;                                             \
  va_start(arguments, format);                                   \
  const char *message = format_list(format, arguments);          \
  va_end(arguments);                                             \
  return (mcp_result){.code = (result_code), .message = message}

mcp_result mcp_invalid_request(const char *format, ...) { FAILURE(MCP_INVALID_REQUEST); }
mcp_result mcp_denied(const char *format, ...) { FAILURE(MCP_DENIED); }
mcp_result mcp_unavailable(const char *format, ...) { FAILURE(MCP_UNAVAILABLE); }
mcp_result mcp_internal(const char *format, ...) { FAILURE(MCP_INTERNAL); }

mcp_result mcp_being_prepared(void) {
  if (mcp_host_config("mcp-host/limits.prepare.cpu-ms") == NULL) {
    return mcp_unavailable("it has to be prepared, which the config of the host does not allow");
  }
  const char *percent = mcp_host_config("mcp-host/prepare.percent");
  mcp_result result = percent == NULL ? mcp_unavailable("it is being prepared")
                                      : mcp_unavailable("it is being prepared, %s %%", percent);
  result.retry_after_ms = (mcp_option_u64)MCP_SOME(1000);
  return result;
}

mcp_result mcp_from_errno(int error, const char *what) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
      return mcp_not_found();
    case EACCES:
    case EPERM:
      return mcp_denied("the file system denies access to it");
    case EBUSY:
    case EAGAIN:
    case ETIMEDOUT:
    case ENOMEM:
      return mcp_unavailable("the file system is busy; try again later");
    case ENOSPC:
    case EDQUOT:
      return mcp_unavailable("the disk is full");
    default:
      return mcp_internal("%s: %s", what, strerror(error));
  }
}

/* ---- What functions fill in ------------------------------------------------------------------------------------- */

void mcp_page_add(mcp_page *page, mcp_entry entry) {
  *(mcp_entry *)mcp_array_push(&page->entries, sizeof(mcp_entry)) = entry;
}

void mcp_page_next(mcp_page *page, const char *cursor) { page->next_cursor = cursor; }

static void add_content(mcp_reading *reading, mcp_entry entry, bool is_text, const void *bytes, size_t len) {
  if (!entry.size.is_some) entry.size = (mcp_option_u64)MCP_SOME(len);
  mcp_content *content = mcp_array_push(&reading->contents, sizeof(mcp_content));
  *content = (mcp_content){.entry = entry, .is_text = is_text, .bytes = bytes, .len = len};
}

void mcp_reading_add_text(mcp_reading *reading, mcp_entry entry, const char *text) {
  add_content(reading, entry, true, text, strlen(text));
}

void mcp_reading_add_blob(mcp_reading *reading, mcp_entry entry, const void *bytes, size_t len) {
  add_content(reading, entry, false, bytes, len);
}

void mcp_reading_add_bytes(mcp_reading *reading, mcp_entry entry, const void *bytes, size_t len) {
  add_content(reading, entry, mcp_is_utf8(bytes, len), bytes, len);
}

void mcp_templates_add(mcp_templates *templates, mcp_template template_) {
  *(mcp_template *)mcp_array_push(&templates->templates, sizeof(mcp_template)) = template_;
}

void mcp_completion_add(mcp_completion *completion, const char *value) {
  completion->total++;
  if (completion->values.count < MCP_MAX_COMPLETIONS) {
    *(const char **)mcp_array_push(&completion->values, sizeof(char *)) = value;
  }
}

/* A value that begins with what was typed, and its position. */
typedef struct {
  const char *text;
  size_t at;
} candidate;

static int compare_candidates(const void *left, const void *right) {
  const candidate *a = left, *b = right;
  int order = strcmp(a->text, b->text);
  return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

void mcp_completion_match(mcp_completion *completion, const char *const *values, size_t count, const char *typed) {
  completion->has_total = true;
  if (count == 0) return;
  candidate *fitting = mcp_alloc(count * sizeof *fitting);
  bool *is_chosen = mcp_alloc(count * sizeof *is_chosen);
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (strncmp(values[i], typed, strlen(typed)) == 0) fitting[found++] = (candidate){.text = values[i], .at = i};
  }
  /* Equal values are side by side, the first one of them first. */
  qsort(fitting, found, sizeof *fitting, compare_candidates);
  for (size_t i = 0; i < found; i++) {
    is_chosen[fitting[i].at] = i == 0 || strcmp(fitting[i - 1].text, fitting[i].text) != 0;
  }
  for (size_t i = 0; i < count; i++) {
    if (is_chosen[i]) mcp_completion_add(completion, values[i]);
  }
}

void mcp_changes_token(mcp_changes *changes, const char *token) { changes->token = token; }

void mcp_changes_add(mcp_changes *changes, const char *path) {
  *(const char **)mcp_array_push(&changes->changed, sizeof(char *)) = path;
}

void mcp_changes_listing(mcp_changes *changes) { changes->listing_changed = true; }

void mcp_changes_poll_after(mcp_changes *changes, uint64_t milliseconds) {
  changes->poll_after_ms = (mcp_option_u64)MCP_SOME(milliseconds);
}

/* ---- Defaults of functions -------------------------------------------------------------------------------------- */

mcp_result mcp_stat(const mcp_provider *provider, const char *path, mcp_entry *entry) {
  if (provider->stat != NULL) return provider->stat(path, entry);
  mcp_reading reading = {0};
  mcp_result result = provider->read(path, &reading);
  if (result.code != MCP_OK) return result;
  const mcp_content *contents = reading.contents.items;
  for (size_t i = 0; i < reading.contents.count; i++) {
    if (strcmp(contents[i].entry.path, path) == 0) {
      *entry = contents[i].entry;
      return mcp_ok();
    }
  }
  return mcp_not_found();
}

/* Calls `each` for each variable of a template, until it returns true. */
static bool any_variable(const char *template_, bool (*each)(const char *name, size_t len, void *context), void *context) {
  const char *at = template_;
  while ((at = strchr(at, '{')) != NULL) {
    at++;
    if (*at != '\0' && strchr("+#./;?&", *at) != NULL) at++;
    while (*at != '\0' && *at != '}') {
      size_t whole = strcspn(at, ",}"), name = strcspn(at, ",}:*");
      if (each(at, name, context)) return true;
      at += whole;
      if (*at == ',') at++;
    }
  }
  return false;
}

static bool is_variable(const char *name, size_t len, void *wanted) {
  return strlen(wanted) == len && memcmp(name, wanted, len) == 0;
}

static bool append_variable(const char *name, size_t len, void *list) {
  char **names = list;
  *names = mcp_format("%s%s%.*s", *names, **names == '\0' ? "" : ", ", (int)len, name);
  return false;
}

mcp_result mcp_complete(const mcp_provider *provider, const char *template_, mcp_argument argument,
                        const mcp_argument *known, size_t known_count, mcp_completion *completion) {
  mcp_templates all = {0};
  mcp_result result = provider->templates == NULL ? mcp_ok() : provider->templates(&all);
  if (result.code != MCP_OK) return result;
  const mcp_template *templates = all.templates.items;
  bool is_known = false;
  for (size_t i = 0; i < all.templates.count; i++) is_known |= strcmp(templates[i].path_template, template_) == 0;
  if (!is_known) return mcp_invalid_request("expected a template as `resources/templates/list` has it, found \"%s\"", template_);
  if (!any_variable(template_, is_variable, (void *)argument.name)) {
    char *names = mcp_format("%s", "");
    any_variable(template_, append_variable, &names);
    return mcp_invalid_request("expected a variable of \"%s\" (%s), found \"%s\"", template_, names, argument.name);
  }
  if (provider->complete == NULL) return mcp_ok();
  return provider->complete(template_, argument, known, known_count, completion);
}

/* ---- Config and log --------------------------------------------------------------------------------------------- */

const char *mcp_config(const char *key) { return mcp_host_config(key); }

mcp_result mcp_config_u64(const char *key, uint64_t min, uint64_t max, uint64_t *value) {
  const char *text = mcp_config(key);
  if (text == NULL) return mcp_ok();
  size_t digits = strspn(text, "0123456789");
  errno = 0;
  uint64_t number = strtoull(text, NULL, 10);
  if (digits == 0 || text[digits] != '\0' || errno != 0 || number < min || number > max) {
    return mcp_internal("the config key `%s` should be a number from %llu to %llu, found `%s`", key,
                        (unsigned long long)min, (unsigned long long)max, text);
  }
  *value = number;
  return mcp_ok();
}

const char *mcp_config_or(const char *key, const char *otherwise) {
  const char *value = mcp_config(key);
  return value == NULL ? otherwise : value;
}

mcp_result mcp_config_f64(const char *key, double *value) {
  const char *text = mcp_config(key);
  if (text == NULL) return mcp_ok();
  char *end;
  double number = strtod(text, &end);
  if (end == text || *end != '\0') return mcp_internal("the config key `%s` should be a number, found `%s`", key, text);
  *value = number;
  return mcp_ok();
}

mcp_result mcp_config_bool(const char *key, bool *value) {
  const char *text = mcp_config(key);
  if (text == NULL) return mcp_ok();
  if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
    return mcp_internal("the config key `%s` should be true or false, found `%s`", key, text);
  }
  *value = strcmp(text, "true") == 0;
  return mcp_ok();
}

void mcp_log(mcp_level level, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  mcp_host_log(level, format_list(format, arguments));
  va_end(arguments);
}

/* ---- Paths ------------------------------------------------------------------------------------------------------ */

/* Percent-encodes all but letters, digits and the plain characters. */
static char *encode(const char *text, const char *plain) {
  static const char hex[] = "0123456789ABCDEF";
  char *encoded = mcp_alloc(strlen(text) * 3 + 1), *end = encoded;
  for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
    bool is_plain = (*c >= '0' && *c <= '9') || (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') ||
                    strchr(plain, *c) != NULL;
    if (is_plain) {
      *end++ = (char)*c;
    } else {
      *end++ = '%';
      *end++ = hex[*c >> 4];
      *end++ = hex[*c & 15];
    }
  }
  return encoded;
}

char *mcp_encode_segment(const char *text) {
  /* Dot segments would be removed. */
  bool is_dots = strcmp(text, ".") == 0 || strcmp(text, "..") == 0;
  return encode(text, is_dots ? "" : "-._~!$&'()*+,;=:@");
}

char *mcp_encode_query(const char *text) { return encode(text, "-._~!$'()*:@"); }

static int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

char *mcp_decode_part(const char *text, size_t len) {
  char *decoded = mcp_alloc(len + 1);
  size_t end = 0;
  for (size_t i = 0; i < len; i++) {
    char c = text[i];
    if (c == '%') {
      if (len - i < 3) return NULL;
      int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
      if (high < 0 || low < 0 || (high == 0 && low == 0)) return NULL;
      c = (char)(high * 16 + low);
      i += 2;
    }
    decoded[end++] = c;
  }
  return mcp_is_utf8(decoded, end) ? decoded : NULL;
}

char *mcp_decode_segment(const char *segment, size_t len) {
  if (memchr(segment, '/', len) != NULL) return NULL;
  char *decoded = mcp_decode_part(segment, len);
  return decoded != NULL && strchr(decoded, '/') == NULL ? decoded : NULL;
}

bool mcp_parse_path(const char *path, mcp_path *parts) {
  mcp_array segments = {0}, query = {0};
  size_t len = strcspn(path, "?");
  for (const char *at = path, *end = path + len; at <= end;) {
    const char *slash = memchr(at, '/', (size_t)(end - at));
    if (slash == NULL) slash = end;
    char *segment = mcp_decode_segment(at, (size_t)(slash - at));
    if (segment == NULL) return false;
    *(const char **)mcp_array_push(&segments, sizeof(char *)) = segment;
    at = slash + 1;
  }
  for (const char *at = path + len; *at != '\0';) {
    at++;
    size_t pair = strcspn(at, "&"), name = strcspn(at, "=&");
    mcp_argument *argument = mcp_array_push(&query, sizeof(mcp_argument));
    argument->name = mcp_decode_part(at, name);
    argument->value = name < pair ? mcp_decode_part(at + name + 1, pair - name - 1) : "";
    if (argument->name == NULL || argument->value == NULL) return false;
    at += pair;
  }
  *parts = (mcp_path){.segments = (const char *const *)segments.items,
                      .segment_count = segments.count,
                      .query = query.items,
                      .query_count = query.count};
  return true;
}

const char *mcp_query(const mcp_path *parts, const char *name) {
  for (size_t i = 0; i < parts->query_count; i++) {
    if (strcmp(parts->query[i].name, name) == 0) return parts->query[i].value;
  }
  return NULL;
}

/* The length of the character that begins here, by RFC 3629; 0 if there is none. */
static size_t utf8_len(const unsigned char *at, size_t left) {
  unsigned char c = at[0];
  if (c < 0x80) return 1;
  size_t len = c >= 0xC2 && c <= 0xDF ? 2 : c >= 0xE0 && c <= 0xEF ? 3 : c >= 0xF0 && c <= 0xF4 ? 4 : 0;
  if (len == 0 || len > left) return 0;
  for (size_t i = 1; i < len; i++) {
    if ((at[i] & 0xC0) != 0x80) return 0;
  }
  bool is_overlong = (c == 0xE0 && at[1] < 0xA0) || (c == 0xF0 && at[1] < 0x90);
  bool is_beyond = (c == 0xED && at[1] > 0x9F) || (c == 0xF4 && at[1] > 0x8F);
  return is_overlong || is_beyond ? 0 : len;
}

bool mcp_is_utf8(const void *bytes, size_t len) {
  const unsigned char *at = bytes, *end = at + len;
  while (at < end) {
    size_t character = utf8_len(at, (size_t)(end - at));
    if (character == 0) return false;
    at += character;
  }
  return true;
}
