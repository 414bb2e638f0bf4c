/* The files of a folder: one resource per file, and a template for the first lines of each. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <mcp_provider.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST_LINES "first/{file}"

static const char FIRST[] = "first/";

/* What it would like to be granted: `mcp-host inspect` shows it. */
MCP_NEEDS({
  "dirs": [{ "guest": "/data", "why": "the files" }],
  "config": {
    "dir": { "type": "string", "default": "/data", "why": "the folder, at its guest path" },
    "lines": { "type": "integer", "default": 10, "why": "the number of lines of `first/FILE`" }
  }
});

/* ---- The folder ------------------------------------------------------------------------------------------------- */

static const char *folder(void) {
  const char *dir = mcp_config("dir");
  return dir == NULL ? "/data" : dir;
}

/* Finds the file of that name; hidden ones are left out. */
static bool find_file(const char *name, struct stat *found) {
  if (name == NULL || name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL) return false;
  return stat(mcp_format("%s/%s", folder(), name), found) == 0 && S_ISREG(found->st_mode);
}

typedef struct {
  const char **names;
  size_t count;
} name_list;

static int compare_names(const void *one, const void *two) {
  return strcmp(*(const char *const *)one, *(const char *const *)two);
}

/* Lists the names of the files, sorted. */
static mcp_result list_names(name_list *list) {
  DIR *dir = opendir(folder());
  if (dir == NULL) {
    return mcp_internal("cannot read the folder %s: %s; does `grants.dirs` grant it?", folder(), strerror(errno));
  }
  size_t capacity = 0;
  struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    struct stat found;
    if (!mcp_is_utf8(entry->d_name, strlen(entry->d_name)) || !find_file(entry->d_name, &found)) continue;
    if (list->count == capacity) {
      size_t larger = capacity == 0 ? 32 : capacity * 2;
      list->names = mcp_grow((void *)list->names, capacity * sizeof(char *), larger * sizeof(char *));
      capacity = larger;
    }
    list->names[list->count++] = mcp_copy(entry->d_name, strlen(entry->d_name));
  }
  closedir(dir);
  if (list->count > 0) qsort((void *)list->names, list->count, sizeof(char *), compare_names);
  return mcp_ok();
}

/* The result for a file that is not there: another one if the folder is not there, which no client can help. */
static mcp_result missing_file(void) {
  name_list files = {0};
  mcp_result result = list_names(&files);
  return result.code == MCP_OK ? mcp_not_found() : result;
}

/* Returns the MIME type for a name, or NULL. */
static const char *type_of(const char *name) {
  static const char *const types[][2] = {{".html", "text/html"},
                                         {".json", "application/json"},
                                         {".md", "text/markdown"},
                                         {".png", "image/png"},
                                         {".txt", "text/plain"}};
  const char *extension = strrchr(name, '.');
  for (size_t i = 0; extension != NULL && i < sizeof types / sizeof types[0]; i++) {
    if (strcmp(extension, types[i][0]) == 0) return types[i][1];
  }
  return NULL;
}

static mcp_entry file_entry(const char *name, const struct stat *found) {
  return (mcp_entry){.path = mcp_encode_segment(name),
                     .name = name,
                     .mime_type = type_of(name),
                     .size = MCP_SOME((uint64_t)found->st_size),
                     .subscribable = true};
}

typedef struct {
  char *bytes;
  size_t len;
} file_bytes;

/* Reads a file, with a NUL behind. */
static mcp_result read_file(const char *name, size_t size, file_bytes *read_bytes) {
  FILE *file = fopen(mcp_format("%s/%s", folder(), name), "rb");
  if (file == NULL) return mcp_from_errno(errno, "cannot open a file");
  char *bytes = mcp_alloc(size + 1);
  size_t len = fread(bytes, 1, size, file);
  bool failed = ferror(file) != 0;
  fclose(file);
  if (failed) return mcp_internal("cannot read %s", name);
  *read_bytes = (file_bytes){.bytes = bytes, .len = len};
  return mcp_ok();
}

/* ---- The functions of the contract ------------------------------------------------------------------------------ */

/* Returns the name of the file that a path is about, or NULL. */
static const char *file_name(const char *path, bool *is_template) {
  *is_template = strncmp(path, FIRST, strlen(FIRST)) == 0;
  const char *segment = *is_template ? path + strlen(FIRST) : path;
  return strchr(segment, '?') == NULL ? mcp_decode_segment(segment, strlen(segment)) : NULL;
}

static mcp_result list(const char *parent, const char *cursor, uint32_t limit, mcp_page *page) {
  if (parent != NULL) {
    struct stat found;
    bool is_template;
    if (!find_file(file_name(parent, &is_template), &found)) return missing_file();
    return mcp_invalid_request("expected no parent: a file has no children");
  }
  if (cursor != NULL && cursor[0] != ':') return mcp_invalid_request("expected a cursor of this provider");
  name_list files = {0};
  mcp_result result = list_names(&files);
  if (result.code != MCP_OK) return result;
  size_t start = 0;
  while (cursor != NULL && start < files.count && strcmp(files.names[start], cursor + 1) <= 0) start++;
  size_t end = files.count - start > limit ? start + limit : files.count;
  for (size_t i = start; i < end; i++) {
    struct stat found;
    /* A file that was deleted in the meantime is left out. */
    if (find_file(files.names[i], &found)) mcp_page_add(page, file_entry(files.names[i], &found));
  }
  if (end < files.count) mcp_page_next(page, mcp_format(":%s", files.names[end - 1]));
  return mcp_ok();
}

static mcp_result read_resource(const char *path, mcp_reading *reading) {
  bool is_template;
  const char *name = file_name(path, &is_template);
  struct stat found;
  if (!find_file(name, &found)) return missing_file();
  file_bytes file;
  mcp_result result = read_file(name, (size_t)found.st_size, &file);
  if (result.code != MCP_OK) return result;
  if (!is_template) {
    mcp_entry entry = file_entry(name, &found);
    entry.size = (mcp_option_u64)MCP_SOME(file.len);
    mcp_reading_add_bytes(reading, entry, file.bytes, file.len);
    return mcp_ok();
  }
  uint64_t lines = 10;
  result = mcp_config_u64("lines", 0, UINT32_MAX, &lines);
  if (result.code != MCP_OK) return result;
  if (!mcp_is_utf8(file.bytes, file.len)) return mcp_invalid_request("expected a text file; %s is not UTF-8", name);
  size_t end = 0;
  for (; lines > 0 && end < file.len; lines--) {
    while (end < file.len && file.bytes[end++] != '\n') continue;
  }
  mcp_entry entry = {.path = path,
                     .name = mcp_format("first lines of %s", name),
                     .mime_type = "text/plain",
                     .subscribable = true};
  mcp_reading_add_text(reading, entry, mcp_copy(file.bytes, end));
  return mcp_ok();
}

static mcp_result templates(mcp_templates *all) {
  mcp_template first_lines = {.path_template = FIRST_LINES,
                              .name = "first-lines",
                              .title = "First lines of a file",
                              .mime_type = "text/plain"};
  mcp_templates_add(all, first_lines);
  return mcp_ok();
}

static mcp_result complete(const char *template_, mcp_argument argument, const mcp_argument *known, size_t known_count,
                           mcp_completion *completion) {
  (void)template_, (void)known, (void)known_count;
  name_list files = {0};
  mcp_result result = list_names(&files);
  if (result.code == MCP_OK) mcp_completion_match(completion, files.names, files.count, argument.value);
  return result;
}

/* The state of a file: its size and time of change, or that it is missing. */
static const char *state_of(const char *name) {
  struct stat found;
  if (!find_file(name, &found)) return "-";
  return mcp_format("%" PRId64 ".%" PRId64 ".%ld", (int64_t)found.st_size, (int64_t)found.st_mtim.tv_sec,
                    found.st_mtim.tv_nsec);
}

/* FNV-1a, with the NUL. */
static uint64_t hash_text(uint64_t hash, const char *text) {
  do {
    hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
  } while (*text++ != '\0');
  return hash;
}

static const uint64_t EMPTY_HASH = UINT64_C(0xCBF29CE484222325);

/* Whether a token has that line; every line ends with a line feed. */
static bool has_line(const char *token, const char *line) {
  size_t len = strlen(line);
  for (const char *at = token; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n') {
    if (strncmp(at, line, len) == 0) return true;
  }
  return false;
}

/* The token has one line for the listing, and one for each watched path. */
static mcp_result changes(const char *const *watched, size_t count, const char *since, mcp_changes *changes) {
  name_list files = {0};
  mcp_result result = list_names(&files);
  if (result.code != MCP_OK) return result;
  uint64_t hash = EMPTY_HASH;
  for (size_t i = 0; i < files.count; i++) hash = hash_text(hash_text(hash, files.names[i]), state_of(files.names[i]));
  const char *listing = mcp_format("listing %016" PRIx64 "\n", hash);
  if (since != NULL && !has_line(since, listing)) mcp_changes_listing(changes);
  size_t len = strlen(listing);
  char *token = mcp_copy(listing, len);
  for (size_t i = 0; i < count; i++) {
    bool is_template;
    const char *state = state_of(file_name(watched[i], &is_template));
    const char *line = mcp_format("%016" PRIx64 " %s\n", hash_text(EMPTY_HASH, watched[i]), state);
    if (since != NULL && !has_line(since, line)) mcp_changes_add(changes, watched[i]);
    size_t line_len = strlen(line);
    token = mcp_grow(token, len + 1, len + line_len + 1);
    memcpy(token + len, line, line_len + 1);
    len += line_len;
  }
  mcp_changes_token(changes, token);
  return mcp_ok();
}

const mcp_provider mcp_this_provider = {
    .info = {.name = "{{name}}", .version = "0.1.0", .description = "The files of a folder.", .watches = true},
    .list = list,
    .read = read_resource,
    .templates = templates,
    .complete = complete,
    .changes = changes,
};
