/* A folder of CSV files: one resource per file, and a template for rows and columns. The README of `examples/csv` says
   exactly what it does. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mcp_provider.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "csv.h"

#define ROWS "{file}/rows{?from,to,columns}"

MCP_NEEDS({
  "dirs": [{ "guest": "/csv", "why": "the folder of CSV files" }],
  "config": {
    "dir": { "type": "string", "default": "/csv", "why": "the folder, at its guest path" },
    "max-rows": { "type": "integer", "default": 1000, "why": "the maximum number of rows of one read" }
  }
});

/* The number of bytes of a file that are searched for its header. */
enum { HEADER_BYTES = 65536 };

/* ---- The folder ------------------------------------------------------------------------------------------------- */

static const char *file_path(const char *name) {
  const char *dir = mcp_config("dir");
  return mcp_format("%s/%s", dir == NULL ? "/csv" : dir, name);
}

static bool has_csv_name(const char *name) {
  size_t len = strlen(name);
  return len >= 4 && strcmp(name + len - 4, ".csv") == 0 && name[0] != '.' && strchr(name, '/') == NULL;
}

/* Finds the file of that name. */
static bool find_file(const char *name, struct stat *found) {
  return has_csv_name(name) && stat(file_path(name), found) == 0 && S_ISREG(found->st_mode);
}

typedef struct {
  const char **names;
  size_t count;
} name_list;

static int compare_names(const void *one, const void *two) {
  return strcmp(*(const char *const *)one, *(const char *const *)two);
}

/* Lists the names of the files, sorted by their bytes. */
static mcp_result list_names(name_list *list) {
  const char *folder = mcp_config("dir");
  if (folder == NULL) folder = "/csv";
  DIR *dir = opendir(folder);
  if (dir == NULL) {
    return mcp_internal("cannot read the folder %s: %s; does `grants.dirs` grant it?", folder, strerror(errno));
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

typedef struct {
  char *bytes;
  size_t len;
} file_bytes;

/* Reads a file, or its first `max` bytes. */
static mcp_result read_file(const char *name, size_t max, file_bytes *read_bytes) {
  struct stat found;
  if (!find_file(name, &found)) return mcp_not_found();
  int file = open(file_path(name), O_RDONLY);
  if (file < 0) return mcp_from_errno(errno, "cannot open a file");
  size_t wanted = (uint64_t)found.st_size < max ? (size_t)found.st_size : max;
  char *bytes = mcp_alloc(wanted + 1);
  size_t len = 0;
  ssize_t got = 0;
  while (len < wanted && (got = read(file, bytes + len, wanted - len)) > 0) len += (size_t)got;
  int error = errno;
  close(file);
  if (got < 0) return mcp_from_errno(error, "cannot read a file");
  *read_bytes = (file_bytes){.bytes = bytes, .len = len};
  return mcp_ok();
}

/* The names of columns as they are shown. */
static const char *joined(csv_record columns) {
  csv_text text = {0};
  for (size_t i = 0; i < columns.count; i++) {
    if (i > 0) csv_append(&text, ", ", 2);
    csv_append(&text, columns.fields[i], strlen(columns.fields[i]));
  }
  return text.text == NULL ? "" : text.text;
}

/* The length without an incomplete character at the end. */
static size_t without_incomplete(const char *bytes, size_t len) {
  for (size_t cut = 0; cut <= 3 && cut <= len; cut++) {
    if (!mcp_is_utf8(bytes, len - cut)) continue;
    /* What was cut must be the beginning of a longer character. */
    unsigned char first = cut == 0 ? 0 : (unsigned char)bytes[len - cut];
    size_t needed = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
    return cut == 0 || (needed > cut && first <= 0xF4) ? len - cut : len;
  }
  return len;
}

static mcp_result file_entry(const char *name, mcp_entry *entry) {
  struct stat found;
  if (!find_file(name, &found)) return mcp_not_found();
  file_bytes beginning;
  mcp_result result = read_file(name, HEADER_BYTES, &beginning);
  if (result.code != MCP_OK) return result;
  *entry = (mcp_entry){.path = mcp_encode_segment(name),
                       .name = name,
                       .mime_type = "text/csv",
                       .size = MCP_SOME((uint64_t)found.st_size),
                       .subscribable = true};
  size_t len = without_incomplete(beginning.bytes, beginning.len);
  csv_reader reader = csv_open(beginning.bytes, len);
  csv_record header;
  if (mcp_is_utf8(beginning.bytes, len) && csv_next(&reader, &header)) {
    entry->description = mcp_format("Columns: %s.", joined(header));
  }
  return mcp_ok();
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

/* A parsed path: a file, or rows of it. */
typedef struct {
  const char *file;
  bool is_rows;
  uint64_t from;
  uint64_t to;
  const char *columns;
} resource;

static mcp_result row_number(const char *name, const char *text, uint64_t *number) {
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 9 || text[digits] != '\0' || text[0] == '0') {
    return mcp_invalid_request("`%s` must be a row number from 1 on, found \"%s\"", name, text);
  }
  *number = strtoull(text, NULL, 10);
  return mcp_ok();
}

static mcp_result parse_resource(const char *path, resource *parsed) {
  mcp_path parts;
  struct stat found;
  if (!mcp_parse_path(path, &parts) || parts.segment_count == 0) return mcp_not_found();
  *parsed = (resource){.file = parts.segments[0], .from = 1, .to = UINT64_MAX};
  if (!find_file(parsed->file, &found)) return mcp_not_found();
  if (parts.segment_count == 1 && parts.query_count == 0 && strchr(path, '?') == NULL) return mcp_ok();
  if (parts.segment_count != 2 || strcmp(parts.segments[1], "rows") != 0) return mcp_not_found();
  parsed->is_rows = true;
  const char *values[3] = {NULL, NULL, NULL};
  static const char *const names[3] = {"from", "to", "columns"};
  for (size_t i = 0; i < parts.query_count; i++) {
    size_t which = 0;
    while (which < 3 && strcmp(parts.query[i].name, names[which]) != 0) which++;
    if (which == 3 || values[which] != NULL) return mcp_not_found();
    values[which] = parts.query[i].value;
  }
  mcp_result result = mcp_ok();
  if (values[0] != NULL && *values[0] != '\0') result = row_number("from", values[0], &parsed->from);
  if (result.code == MCP_OK && values[1] != NULL && *values[1] != '\0') result = row_number("to", values[1], &parsed->to);
  if (result.code != MCP_OK) return result;
  if (parsed->from > parsed->to) {
    return mcp_invalid_request("`from` must not be greater than `to`, found %" PRIu64 " and %" PRIu64, parsed->from,
                               parsed->to);
  }
  if (values[2] != NULL && *values[2] != '\0') parsed->columns = values[2];
  return mcp_ok();
}

static mcp_result read_text(const char *name, file_bytes *text) {
  mcp_result result = read_file(name, SIZE_MAX, text);
  if (result.code == MCP_OK && !mcp_is_utf8(text->bytes, text->len)) return mcp_internal("%s is not UTF-8", name);
  return result;
}

/* Finds the columns in a header, by their positions. */
static mcp_result find_columns(const char *file, csv_record header, const char *wanted, size_t **positions, size_t *count) {
  csv_reader reader = csv_open(wanted == NULL ? "" : wanted, wanted == NULL ? 0 : strlen(wanted));
  csv_record columns = {0};
  bool is_selected = csv_next(&reader, &columns);
  *count = is_selected ? columns.count : header.count;
  *positions = mcp_alloc(*count * sizeof(size_t));
  for (size_t i = 0; i < *count; i++) {
    size_t at = is_selected ? 0 : i;
    while (is_selected && at < header.count && strcmp(header.fields[at], columns.fields[i]) != 0) at++;
    if (at == header.count) {
      return mcp_invalid_request("no column \"%s\" in %s; its columns are %s", columns.fields[i], file, joined(header));
    }
    (*positions)[i] = at;
  }
  return mcp_ok();
}

static mcp_result read_rows(const resource *rows, csv_text *text) {
  uint64_t left = 1000;
  file_bytes file;
  mcp_result result = mcp_config_u64("max-rows", 0, UINT32_MAX, &left);
  if (result.code == MCP_OK) result = read_text(rows->file, &file);
  if (result.code != MCP_OK) return result;
  csv_reader reader = csv_open(file.bytes, file.len);
  csv_record record;
  csv_append(text, "", 0);
  if (!csv_next(&reader, &record)) return mcp_ok();
  size_t *positions, count;
  result = find_columns(rows->file, record, rows->columns, &positions, &count);
  if (result.code != MCP_OK) return result;
  const char **fields = mcp_alloc(count * sizeof(char *));
  uint64_t number = 0;
  do {
    if (number > 0 && number < rows->from) continue;
    if (number > rows->to || (number > 0 && left-- == 0)) break;
    for (size_t i = 0; i < count; i++) fields[i] = positions[i] < record.count ? record.fields[positions[i]] : "";
    csv_write(text, (csv_record){.fields = fields, .count = count});
  } while (number++, csv_next(&reader, &record));
  return mcp_ok();
}

/* ---- The functions of the contract ------------------------------------------------------------------------------ */

static mcp_result list(const char *parent, const char *cursor, uint32_t limit, mcp_page *page) {
  if (parent != NULL) {
    resource found;
    mcp_result result = parse_resource(parent, &found);
    return result.code == MCP_OK ? mcp_invalid_request("not a container") : result;
  }
  if (cursor != NULL && cursor[0] != ':') return mcp_invalid_request("expected a cursor of this provider");
  name_list files = {0};
  mcp_result result = list_names(&files);
  if (result.code != MCP_OK) return result;
  size_t start = 0;
  while (cursor != NULL && start < files.count && strcmp(files.names[start], cursor + 1) <= 0) start++;
  size_t end = files.count - start > limit ? start + limit : files.count;
  for (size_t i = start; i < end; i++) {
    mcp_entry entry;
    result = file_entry(files.names[i], &entry);
    /* Deleted in the meantime. */
    if (result.code == MCP_NOT_FOUND) continue;
    if (result.code != MCP_OK) return result;
    mcp_page_add(page, entry);
  }
  if (end < files.count) mcp_page_next(page, mcp_format(":%s", files.names[end - 1]));
  return mcp_ok();
}

static mcp_result read_resource(const char *path, mcp_reading *reading) {
  resource found;
  mcp_result result = parse_resource(path, &found);
  if (result.code != MCP_OK) return result;
  if (found.is_rows) {
    csv_text text = {0};
    result = read_rows(&found, &text);
    mcp_entry entry = {.path = path,
                       .name = mcp_format("rows of %s", found.file),
                       .mime_type = "text/csv",
                       .subscribable = true};
    if (result.code == MCP_OK) mcp_reading_add_text(reading, entry, text.text);
    return result;
  }
  mcp_entry entry;
  file_bytes file;
  result = file_entry(found.file, &entry);
  if (result.code == MCP_OK) result = read_file(found.file, SIZE_MAX, &file);
  if (result.code != MCP_OK) return result;
  entry.size = (mcp_option_u64)MCP_SOME(file.len);
  mcp_reading_add_bytes(reading, entry, file.bytes, file.len);
  return mcp_ok();
}

static mcp_result templates(mcp_templates *all) {
  mcp_templates_add(all, (mcp_template){
                             .path_template = ROWS,
                             .name = "rows",
                             .title = "Rows of a CSV file",
                             .description = "Rows from..=to, counted from 1, and columns, separated by commas. By default all "
                                            "columns, and as many rows as one read returns.",
                             .mime_type = "text/csv",
                         });
  return mcp_ok();
}

/* Completes the text behind the last comma to columns that are not named before it. */
static mcp_result complete_columns(const char *file, const char *typed, mcp_completion *completion) {
  file_bytes text;
  mcp_result result = read_text(file, &text);
  if (result.code != MCP_OK) return result;
  csv_reader reader = csv_open(text.bytes, text.len);
  csv_record header, taken = {0};
  if (!csv_next(&reader, &header)) return mcp_ok();
  const char *comma = strrchr(typed, ',');
  size_t kept = comma == NULL ? 0 : (size_t)(comma - typed);
  csv_reader before = csv_open(typed, kept);
  csv_next(&before, &taken);
  const char *prefix = comma == NULL ? typed : comma + 1;
  const char **values = mcp_alloc(header.count * sizeof(char *));
  size_t count = 0;
  for (size_t i = 0; i < header.count; i++) {
    bool is_taken = false;
    for (size_t j = 0; j < taken.count; j++) is_taken |= strcmp(taken.fields[j], header.fields[i]) == 0;
    if (is_taken || strncmp(header.fields[i], prefix, strlen(prefix)) != 0) continue;
    values[count++] = mcp_format("%.*s%s", comma == NULL ? 0 : (int)kept + 1, typed, csv_quote(header.fields[i]));
  }
  mcp_completion_match(completion, values, count, "");
  return mcp_ok();
}

static mcp_result complete(const char *template_, mcp_argument argument, const mcp_argument *known, size_t known_count,
                           mcp_completion *completion) {
  (void)template_;
  if (strcmp(argument.name, "file") == 0) {
    name_list files = {0};
    mcp_result result = list_names(&files);
    if (result.code == MCP_OK) mcp_completion_match(completion, files.names, files.count, argument.value);
    return result;
  }
  for (size_t i = 0; strcmp(argument.name, "columns") == 0 && i < known_count; i++) {
    struct stat found;
    if (strcmp(known[i].name, "file") == 0 && find_file(known[i].value, &found)) {
      return complete_columns(known[i].value, argument.value, completion);
    }
  }
  return mcp_ok();
}

/* The state of a file: its size and time of change, or that it is missing. */
static const char *state_of(const char *name) {
  struct stat found;
  if (name == NULL || !find_file(name, &found)) return "-";
  return mcp_format("%" PRId64 ".%" PRId64 ".%ld", (int64_t)found.st_size, (int64_t)found.st_mtim.tv_sec,
                    found.st_mtim.tv_nsec);
}

static uint64_t hash_text(uint64_t hash, const char *text) {
  /* FNV-1a, with the NUL. */
  do {
    hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
  } while (*text++ != '\0');
  return hash;
}

/* Whether a token has that line. */
static bool has_line(const char *token, const char *line) {
  size_t len = strlen(line);
  for (const char *at = token; (at = strstr(at, line)) != NULL; at += len) {
    if ((at == token || at[-1] == '\n') && (at[len] == '\n' || at[len] == '\0')) return true;
  }
  return false;
}

/* The token has one line for the listing, and one for each watched path. */
static mcp_result changes(const char *const *watched, size_t count, const char *since, mcp_changes *changes) {
  name_list files = {0};
  mcp_result result = list_names(&files);
  if (result.code != MCP_OK) return result;
  uint64_t hash = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0; i < files.count; i++) hash = hash_text(hash_text(hash, files.names[i]), state_of(files.names[i]));
  const char *listing = mcp_format("listing %016" PRIx64, hash);
  csv_text token = {0};
  csv_append(&token, listing, strlen(listing));
  for (size_t i = 0; i < count; i++) {
    const char *name = mcp_decode_segment(watched[i], strcspn(watched[i], "/?"));
    uint64_t path = hash_text(UINT64_C(0xCBF29CE484222325), watched[i]);
    const char *line = mcp_format("%016" PRIx64 " %s", path, state_of(name));
    csv_append(&token, "\n", 1);
    csv_append(&token, line, strlen(line));
    if (since != NULL && !has_line(since, line)) mcp_changes_add(changes, watched[i]);
  }
  mcp_changes_token(changes, token.text);
  if (since != NULL && !has_line(since, listing)) mcp_changes_listing(changes);
  return mcp_ok();
}

const mcp_provider mcp_this_provider = {
    .info = {.name = "csv",
             .version = "0.1.0",
             .title = "CSV files",
             .description = "The CSV files of a folder, and rows of them.",
             .watches = true},
    .list = list,
    .read = read_resource,
    .templates = templates,
    .complete = complete,
    .changes = changes,
};
