/* Templates, pages, changes and files. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include <mcp_helpers.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#include "internal.h"

/* ---- Templates -------------------------------------------------------------------------------------------------- */

typedef enum { LITERAL, SEGMENT, REST, QUERY } part_kind;

/* A literal, or the name of a variable. */
typedef struct {
  part_kind kind;
  const char *text;
  size_t len;
} part;

typedef struct {
  const part *parts;
  /* The parts before the query. */
  size_t path_count;
  size_t count;
  const char *problem;
} template_parts;

static bool is_name(const char *text, size_t len) {
  for (size_t i = 0; i < len; i++) {
    char c = text[i];
    if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_')) return false;
  }
  return len > 0;
}

static bool has_variable(const mcp_array *parts, const char *name, size_t len) {
  const part *all = parts->items;
  for (size_t i = 0; i < parts->count; i++) {
    if (all[i].kind != LITERAL && all[i].len == len && memcmp(all[i].text, name, len) == 0) return true;
  }
  return false;
}

static template_parts parse(const char *path_template) {
  mcp_array parts = {0};
  template_parts parsed = {0};
  bool in_query = false;
  for (const char *at = path_template; *at != '\0' && parsed.problem == NULL;) {
    size_t literal = strcspn(at, "{");
    if (in_query) {
      parsed.problem = "has something behind its query";
    } else if (literal > 0) {
      if (strcspn(at, "}?") < literal) parsed.problem = "has `}` or `?` outside of an expression";
      *(part *)mcp_array_push(&parts, sizeof(part)) = (part){LITERAL, at, literal};
      at += literal;
    } else {
      const char *end = strchr(at, '}');
      part_kind kind = at[1] == '?' ? QUERY : at[1] == '+' ? REST : SEGMENT;
      const char *name = at + (kind == SEGMENT ? 1 : 2);
      in_query = kind == QUERY;
      if (end == NULL) {
        parsed.problem = "has `{` without `}`";
        break;
      }
      at = end + 1;
      if (!in_query) parsed.path_count = parts.count + 1;
      for (bool more = true; more; name++) {
        size_t len = strcspn(name, in_query ? ",}" : "}");
        if (!is_name(name, len) || has_variable(&parts, name, len)) {
          parsed.problem = "has an expression that is not supported; supported are {var}, {+var} and {?a,b}, each variable once";
        }
        *(part *)mcp_array_push(&parts, sizeof(part)) = (part){kind, name, len};
        name += len;
        more = *name == ',';
      }
    }
    if (!in_query) parsed.path_count = parts.count;
  }
  parsed.parts = parts.items;
  parsed.count = parts.count;
  return parsed;
}

const char *mcp_template_problem(const char *path_template) {
  const char *problem = parse(path_template).problem;
  return problem == NULL ? NULL : mcp_format("the template \"%s\" %s", path_template, problem);
}

/* Where a text is split into parts. */
typedef struct {
  const part *parts;
  size_t count;
  /* The end of the text, and of each part. */
  const char *end;
  const char **ends;
  /* By the number of the part and of bytes: whether it is known not to match, so that none is tried twice. */
  unsigned char *failed;
  size_t width;
} splitting;

/* Splits a text into the parts from `index` on; earlier variables are greedy. */
static bool split(splitting *at, size_t index, const char *text) {
  if (index == at->count) return text == at->end;
  const part *one = &at->parts[index];
  size_t left = (size_t)(at->end - text);
  if (one->kind == LITERAL) {
    at->ends[index] = text + one->len;
    return left >= one->len && memcmp(text, one->text, one->len) == 0 && split(at, index + 1, text + one->len);
  }
  unsigned char *failed = &at->failed[index * at->width + left];
  if (*failed) return false;
  size_t shortest = one->kind == REST ? 0 : 1, longest = left;
  if (one->kind == SEGMENT) {
    const char *slash = memchr(text, '/', left);
    if (slash != NULL) longest = (size_t)(slash - text);
  }
  for (size_t len = longest + 1; len-- > shortest;) {
    if (split(at, index + 1, text + len)) {
      at->ends[index] = text + len;
      return true;
    }
  }
  *failed = 1;
  return false;
}

static size_t count_of(const char *text, size_t len, char c) {
  size_t count = 0;
  for (size_t i = 0; i < len; i++) count += text[i] == c;
  return count;
}

static const char *name_of(const part *one) { return mcp_copy(one->text, one->len); }

static bool match_query(const template_parts *parsed, const char *query, mcp_array *values) {
  for (const char *at = query; *at != '\0';) {
    size_t pair = strcspn(at, "&"), name = strcspn(at, "=&");
    const char *value = name < pair ? mcp_decode_part(at + name + 1, pair - name - 1) : "";
    mcp_arguments known = {.values = values->items, .count = values->count};
    const char *given = mcp_copy(at, name);
    bool is_variable = false;
    for (size_t i = parsed->path_count; i < parsed->count; i++) {
      is_variable |= parsed->parts[i].len == name && memcmp(parsed->parts[i].text, at, name) == 0;
    }
    if (value == NULL || !is_variable || mcp_arguments_get(&known, given) != NULL) return false;
    *(mcp_argument *)mcp_array_push(values, sizeof(mcp_argument)) = (mcp_argument){.name = given, .value = value};
    at += pair;
    if (*at == '&') at++;
  }
  return true;
}

bool mcp_template_match(const char *path_template, const char *path, mcp_arguments *arguments) {
  template_parts parsed = parse(path_template);
  if (parsed.problem != NULL) return false;
  size_t len = strcspn(path, "?");
  splitting at = {.parts = parsed.parts, .count = parsed.path_count, .end = path + len, .width = len + 1};
  at.ends = mcp_alloc(sizeof(char *) * (parsed.path_count + 1));
  at.failed = mcp_alloc(parsed.path_count * at.width);
  if (!split(&at, 0, path)) return false;
  mcp_array values = {0};
  const char *start = path;
  for (size_t i = 0; i < parsed.path_count; start = at.ends[i], i++) {
    const part *one = &parsed.parts[i];
    if (one->kind == LITERAL) continue;
    size_t encoded = (size_t)(at.ends[i] - start);
    const char *value = mcp_decode_part(start, encoded);
    /* No name of a file has a slash, so an encoded one is no part of a path of several segments. */
    bool is_valid = value != NULL && (one->kind != REST || count_of(value, strlen(value), '/') == count_of(start, encoded, '/'));
    if (!is_valid) return false;
    *(mcp_argument *)mcp_array_push(&values, sizeof(mcp_argument)) = (mcp_argument){.name = name_of(one), .value = value};
  }
  if (path[len] == '?' && !match_query(&parsed, path + len + 1, &values)) return false;
  *arguments = (mcp_arguments){.values = values.items, .count = values.count};
  return true;
}

const char *mcp_arguments_get(const mcp_arguments *arguments, const char *name) {
  for (size_t i = 0; i < arguments->count; i++) {
    if (strcmp(arguments->values[i].name, name) == 0) return arguments->values[i].value;
  }
  return NULL;
}

/* Encodes each segment of a path. */
static const char *encode_segments(const char *path) {
  char *encoded = mcp_format("%s", "");
  for (const char *at = path;; at++) {
    size_t len = strcspn(at, "/");
    encoded = mcp_format("%s%s", encoded, mcp_encode_segment(mcp_copy(at, len)));
    at += len;
    if (*at == '\0') return encoded;
    encoded = mcp_format("%s/", encoded);
  }
}

char *mcp_template_expand(const char *path_template, const mcp_argument *values, size_t count) {
  template_parts parsed = parse(path_template);
  mcp_arguments given = {.values = values, .count = count};
  char *path = mcp_format("%s", "");
  char separator = '?';
  if (parsed.problem != NULL) return NULL;
  for (size_t i = 0; i < parsed.count; i++) {
    const part *one = &parsed.parts[i];
    const char *value = one->kind == LITERAL ? NULL : mcp_arguments_get(&given, name_of(one));
    if (one->kind == LITERAL) {
      path = mcp_format("%s%.*s", path, (int)one->len, one->text);
    } else if (one->kind == QUERY) {
      if (value == NULL) continue;
      path = mcp_format("%s%c%s=%s", path, separator, name_of(one), mcp_encode_query(value));
      separator = '&';
    } else if (value == NULL || (one->kind == SEGMENT && *value == '\0')) {
      return NULL;
    } else {
      path = mcp_format("%s%s", path, one->kind == REST ? encode_segments(value) : mcp_encode_segment(value));
    }
  }
  return path;
}

/* ---- Pages ------------------------------------------------------------------------------------------------------ */

static int compare_texts(const void *one, const void *other) {
  return strcmp(*(const char *const *)one, *(const char *const *)other);
}

static void sort_texts(const char **texts, size_t count) {
  if (count > 0) qsort((void *)texts, count, sizeof(char *), compare_texts);
}

mcp_result mcp_paginate(const char *const *keys, size_t count, const char *cursor, uint32_t limit, mcp_entry_of entry,
                        mcp_page *page) {
  if (cursor != NULL && cursor[0] != ':') return mcp_invalid_request("expected a cursor that this provider returned");
  const char **sorted = mcp_alloc(count * sizeof(char *));
  if (count > 0) memcpy((void *)sorted, (const void *)keys, count * sizeof(char *));
  sort_texts(sorted, count);
  size_t start = 0;
  while (cursor != NULL && start < count && strcmp(sorted[start], cursor + 1) <= 0) start++;
  size_t most = limit == 0 ? 1 : limit, end = count - start > most ? start + most : count;
  for (size_t i = start; i < end; i++) {
    mcp_entry made = {0};
    mcp_result result = entry(sorted[i], &made);
    if (result.code == MCP_OK) mcp_page_add(page, made);
    if (result.code != MCP_OK && result.code != MCP_NOT_FOUND) return result;
  }
  if (end < count) mcp_page_next(page, mcp_format(":%s", sorted[end - 1]));
  return mcp_ok();
}

/* ---- Changes ---------------------------------------------------------------------------------------------------- */

char *mcp_digest(const char *text, size_t len) {
  uint64_t hash = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0; i < len; i++) hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001B3);
  return mcp_format("%016" PRIx64, hash);
}

static char *digest_of(const char *text) { return mcp_digest(text, strlen(text)); }

/* Whether a token has that line, behind its first one. */
static bool has_line(const char *token, const char *line) {
  size_t len = strlen(line);
  for (const char *at = strchr(token, '\n'); at != NULL; at = strchr(at, '\n')) {
    at++;
    if (strncmp(at, line, len) == 0 && (at[len] == '\n' || at[len] == '\0')) return true;
  }
  return false;
}

mcp_result mcp_changes_compare(const char *const *watched, size_t count, const char *since, const char *listing,
                               mcp_state_of state, mcp_changes *changes) {
  static const size_t LINE = 1 + 16 + 16;
  const char *of_listing = digest_of(listing);
  size_t first = strlen(of_listing);
  if (since != NULL && (strncmp(since, of_listing, first) != 0 || (since[first] != '\n' && since[first] != '\0'))) {
    mcp_changes_listing(changes);
  }
  char *token = mcp_alloc(first + count * LINE + 1), *end = token + first;
  memcpy(token, of_listing, first);
  for (size_t i = 0; i < count; i++) {
    const char *now = NULL;
    mcp_result result = state(watched[i], &now);
    if (result.code != MCP_OK) return result;
    const char *line = mcp_format("%s%s", digest_of(watched[i]), digest_of(now == NULL ? "" : now));
    if (since != NULL && !has_line(since, line)) mcp_changes_add(changes, watched[i]);
    *end++ = '\n';
    memcpy(end, line, LINE - 1);
    end += LINE - 1;
  }
  mcp_changes_token(changes, token);
  return mcp_ok();
}

/* ---- Files ------------------------------------------------------------------------------------------------------ */

/* Finds a regular file. One that is not there is not found; if not even a folder above it is, that is the config's fault. */
static mcp_result find_file(const char *file, struct stat *found) {
  if (stat(file, found) == 0) return S_ISREG(found->st_mode) ? mcp_ok() : mcp_not_found();
  if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG) {
    return mcp_internal("cannot read %s: %s; does `grants.dirs` grant it?", file, strerror(errno));
  }
  char *folder = mcp_copy(file, strlen(file));
  for (char *slash = strrchr(folder, '/'); slash != NULL && slash != folder; slash = strrchr(folder, '/')) {
    *slash = '\0';
    struct stat above;
    if (stat(folder, &above) == 0 && S_ISDIR(above.st_mode)) return mcp_not_found();
  }
  return mcp_internal("cannot read %s: there is no folder %s; does `grants.dirs` grant it?", file, folder);
}

const char *mcp_file_state(const char *file) {
  struct stat found;
  if (find_file(file, &found).code != MCP_OK) return NULL;
  return mcp_format("%" PRId64 ".%" PRId64 ".%ld", (int64_t)found.st_size, (int64_t)found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
}

bool mcp_is_file_name(const char *name) {
  for (const char *at = name;; at++) {
    size_t len = strcspn(at, "/");
    if (len == 0 || *at == '.' || memchr(at, '\\', len) != NULL) return false;
    at += len;
    if (*at == '\0') return true;
  }
}

mcp_result mcp_list_files(const char *folder, const char ***names, size_t *count) {
  DIR *dir = opendir(folder);
  if (dir == NULL) {
    return mcp_internal("cannot read the folder %s: %s; does `grants.dirs` grant it?", folder, strerror(errno));
  }
  mcp_array found = {0};
  struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    struct stat status;
    const char *name = entry->d_name;
    if (!mcp_is_utf8(name, strlen(name)) || !mcp_is_file_name(name)) continue;
    if (stat(mcp_format("%s/%s", folder, name), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    *(const char **)mcp_array_push(&found, sizeof(char *)) = mcp_copy(name, strlen(name));
  }
  closedir(dir);
  *names = (const char **)found.items;
  *count = found.count;
  sort_texts(*names, *count);
  return mcp_ok();
}

mcp_result mcp_read_file(const char *file, char **bytes, size_t *len) {
  struct stat found;
  mcp_result result = find_file(file, &found);
  if (result.code != MCP_OK) return result;
  FILE *opened = fopen(file, "rb");
  if (opened == NULL) return mcp_from_errno(errno, "cannot open a file");
  size_t size = (size_t)found.st_size;
  char *read = mcp_alloc(size + 1);
  size_t count = fread(read, 1, size, opened);
  bool failed = ferror(opened) != 0;
  fclose(opened);
  if (failed) return mcp_internal("cannot read %s", file);
  *bytes = read;
  *len = count;
  return mcp_ok();
}

mcp_result mcp_file_entry(const char *file, mcp_entry *entry) {
  struct stat found;
  mcp_result result = find_file(file, &found);
  if (result.code != MCP_OK) return result;
  if (entry->mime_type == NULL) entry->mime_type = mcp_mime_type(file);
  entry->size = (mcp_option_u64)MCP_SOME((uint64_t)found.st_size);
  struct tm time;
  if (entry->last_modified == NULL && gmtime_r(&found.st_mtim.tv_sec, &time) != NULL) {
    char text[sizeof "2026-11-28T09:00:00Z"];
    if (strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &time) > 0) entry->last_modified = mcp_copy(text, strlen(text));
  }
  return mcp_ok();
}

const char *mcp_mime_type(const char *name) {
  static const char *const types[][2] = {
      {".c", "text/x-c"},           {".css", "text/css"},          {".csv", "text/csv"},         {".gif", "image/gif"},
      {".go", "text/x-go"},         {".h", "text/x-c"},            {".htm", "text/html"},        {".html", "text/html"},
      {".ics", "text/calendar"},    {".jpeg", "image/jpeg"},       {".jpg", "image/jpeg"},       {".js", "text/javascript"},
      {".json", "application/json"}, {".md", "text/markdown"},     {".pdf", "application/pdf"},  {".png", "image/png"},
      {".py", "text/x-python"},     {".rs", "text/x-rust"},        {".svg", "image/svg+xml"},    {".toml", "application/toml"},
      {".ts", "text/x-typescript"}, {".txt", "text/plain"},        {".webp", "image/webp"},      {".xml", "application/xml"},
      {".yaml", "application/yaml"}, {".yml", "application/yaml"}, {".zip", "application/zip"}};
  const char *slash = strrchr(name, '/');
  const char *extension = strrchr(slash == NULL ? name : slash, '.');
  for (size_t i = 0; extension != NULL && i < sizeof types / sizeof types[0]; i++) {
    if (strcasecmp(extension, types[i][0]) == 0) return types[i][1];
  }
  return NULL;
}

/* ---- Values computed from files --------------------------------------------------------------------------------- */

/* Reads a file and computes its value, in the current memory. */
static mcp_result make_memo(mcp_memo *memo, const char *file, mcp_make_of_file make) {
  /* The state from before the reading: a file that is written meanwhile is read again. */
  const char *state = mcp_file_state(file);
  char *bytes;
  size_t len;
  mcp_result result = mcp_read_file(file, &bytes, &len);
  if (result.code != MCP_OK) return result;
  *memo = (mcp_memo){.file = mcp_copy(file, strlen(file)), .state = state};
  return make(bytes, len, &memo->value);
}

mcp_result mcp_memo_get(mcp_memo *memo, const char *file, mcp_make_of_file make) {
  const char *now = mcp_file_state(file);
  bool is_same = now != NULL && memo->state != NULL && strcmp(memo->state, now) == 0 && strcmp(memo->file, file) == 0;
  if (is_same) return mcp_ok();
  mcp_memo made = {0};
  mcp_block *outer = mcp_exchange_memory(NULL);
  mcp_result result = make_memo(&made, file, make);
  made.memory = mcp_exchange_memory(outer);
  if (result.code == MCP_OK && made.state != NULL) {
    /* The call may still have pointers into the value before. */
    mcp_add_memory(memo->memory);
    *memo = made;
    return result;
  }
  /* The message of a failure is in this memory. */
  mcp_add_memory(made.memory);
  return result.code == MCP_OK ? mcp_not_found() : result;
}
