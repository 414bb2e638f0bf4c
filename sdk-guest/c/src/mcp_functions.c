/* Providers that are a table of functions. */
#include <mcp_functions.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- Arguments -------------------------------------------------------------------------------------------------- */

static mcp_result expected(const char *name, const char *what, const char *found) {
  /* Cut at a whole character. */
  size_t len = strlen(found) <= 100 ? strlen(found) : 100;
  while (len > 0 && !mcp_is_utf8(found, len)) len--;
  return mcp_invalid_request("`%s` must be %s, found \"%.*s%s\"", name, what, (int)len, found, found[len] == '\0' ? "" : "…");
}

const char *mcp_argument_text(const mcp_arguments *of, const char *name) {
  const char *value = mcp_arguments_get(of, name);
  return value == NULL || *value == '\0' ? NULL : value;
}

mcp_result mcp_i64_argument(const mcp_arguments *of, const char *name, int64_t min, int64_t max, int64_t *value) {
  const char *text = mcp_argument_text(of, name);
  if (text == NULL) return mcp_ok();
  errno = 0;
  int64_t number = strtoll(text, NULL, 10);
  /* One spelling for each number, so that one resource has one path. */
  if (errno != 0 || strcmp(mcp_format("%" PRId64, number), text) != 0) {
    return expected(name, "an integer, such as 7", text);
  }
  if (number < min || number > max) {
    return expected(name, mcp_format("an integer from %" PRId64 " to %" PRId64, min, max), text);
  }
  *value = number;
  return mcp_ok();
}

mcp_result mcp_f64_argument(const mcp_arguments *of, const char *name, double *value) {
  const char *text = mcp_argument_text(of, name);
  if (text == NULL) return mcp_ok();
  char *end;
  double number = strtod(text, &end);
  if (*end != '\0' || text[strspn(text, "-.0123456789")] != '\0') return expected(name, "a number, such as 0.5", text);
  *value = number;
  return mcp_ok();
}

mcp_result mcp_bool_argument(const mcp_arguments *of, const char *name, bool *value) {
  const char *text = mcp_argument_text(of, name);
  if (text == NULL) return mcp_ok();
  if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) return expected(name, "true or false", text);
  *value = strcmp(text, "true") == 0;
  return mcp_ok();
}

mcp_result mcp_file_argument(const mcp_arguments *of, const char *name, const char *folder, const char **file) {
  const char *text = mcp_argument_text(of, name);
  if (text == NULL || !mcp_is_file_name(text)) return mcp_not_found();
  *file = mcp_format("%s/%s", folder, text);
  return mcp_ok();
}

/* ---- What a function returns ------------------------------------------------------------------------------------ */

struct mcp_body {
  bool is_text;
  const void *bytes;
  size_t len;
  const char *file;
  const char *mime_type;
};

void mcp_body_text(mcp_body *body, const char *text) {
  *body = (mcp_body){.is_text = true, .bytes = text, .len = strlen(text), .mime_type = "text/plain"};
}

void mcp_body_json(mcp_body *body, const char *json) {
  *body = (mcp_body){.is_text = true, .bytes = json, .len = strlen(json), .mime_type = "application/json"};
}

void mcp_body_bytes(mcp_body *body, const void *bytes, size_t len) {
  *body = (mcp_body){.bytes = bytes == NULL ? "" : bytes, .len = len, .mime_type = "application/octet-stream"};
}

void mcp_body_file(mcp_body *body, const char *file) { *body = (mcp_body){.file = file}; }

/* ---- The table -------------------------------------------------------------------------------------------------- */

static size_t path_len(const char *path_template) {
  const char *query = strstr(path_template, "{?");
  return query == NULL ? strlen(path_template) : (size_t)(query - path_template);
}

/* Whether there is a variable before the query. */
static bool is_family(const mcp_resource *one) {
  return memchr(one->path_template, '{', path_len(one->path_template)) != NULL;
}

static bool is_listed(const mcp_resource *one) { return one->list != NULL || !is_family(one); }

/* The template without the names of its variables, and without its query. */
static const char *shape(const char *path_template) {
  size_t len = path_len(path_template), end = 0;
  char *shape = mcp_alloc(len + 1);
  bool in_name = false;
  for (size_t i = 0; i < len; i++) {
    char c = path_template[i];
    if (c == '}') in_name = false;
    if (!in_name || c == '+') shape[end++] = c;
    if (c == '{') in_name = true;
  }
  return shape;
}

/* Fails if a template cannot be used, or two resources have the same paths or names. */
static mcp_result check(void) {
  static bool is_checked;
  if (is_checked) return mcp_ok();
  if (&mcp_these_resources == NULL) return mcp_internal("the provider has no functions: write MCP_FUNCTIONS");
  const mcp_resource *all = mcp_these_resources.resources;
  for (size_t i = 0; i < mcp_these_resources.count; i++) {
    const char *path_template = all[i].path_template, *problem = mcp_template_problem(path_template);
    if (problem != NULL) return mcp_internal("%s", problem);
    if (path_template[0] == '/') return mcp_internal("the template \"%s\" begins with a slash; leave it out", path_template);
    if (all[i].name == NULL) return mcp_internal("the resource \"%s\" has no name", path_template);
    if (all[i].list != NULL && !is_family(&all[i])) {
      return mcp_internal("\"%s\" is one resource, which is listed by itself; remove the listing", path_template);
    }
    for (size_t j = 0; j < i; j++) {
      if (strcmp(shape(path_template), shape(all[j].path_template)) == 0) {
        return mcp_internal("the paths of \"%s\" are those of \"%s\"; give it other text, such as a first segment", path_template,
                            all[j].path_template);
      }
      if (strcmp(all[i].name, all[j].name) == 0) {
        return mcp_internal("there is a resource named \"%s\" already; give it another name", all[i].name);
      }
    }
  }
  is_checked = true;
  return mcp_ok();
}

/* Finds the resource of a path. A path without variables is preferred to templates. */
static mcp_result find(const char *path, const mcp_resource **found, mcp_arguments *of) {
  mcp_result result = check();
  if (result.code != MCP_OK) return result;
  for (int family = 0; family < 2; family++) {
    for (size_t i = 0; i < mcp_these_resources.count; i++) {
      const mcp_resource *one = &mcp_these_resources.resources[i];
      if (is_family(one) != (family == 1) || !mcp_template_match(one->path_template, path, of)) continue;
      *found = one;
      return mcp_ok();
    }
  }
  return mcp_not_found();
}

/* The entry of a path, by what is declared. What is declared of a template describes the family. */
static mcp_entry entry_of(const mcp_resource *one, const char *path, const mcp_arguments *of) {
  mcp_entry entry = {.path = path,
                     .name = one->name,
                     .mime_type = one->mime_type,
                     .audience = one->audience,
                     .priority = one->priority,
                     .ttl_ms = one->ttl_ms,
                     .subscribable = !one->is_not_subscribable};
  if (!is_family(one)) {
    entry.title = one->title;
    entry.description = one->description;
    return entry;
  }
  char *name = mcp_format("%s", "");
  size_t query = path_len(one->path_template);
  for (size_t i = 0; i < of->count; i++) {
    const char *at = strstr(one->path_template, mcp_format("%s}", of->values[i].name));
    bool is_in_path = at != NULL && (size_t)(at - one->path_template) < query;
    if (is_in_path && *of->values[i].value != '\0') name = mcp_format("%s%s%s", name, *name == '\0' ? "" : "/", of->values[i].value);
  }
  if (*name != '\0') entry.name = name;
  return entry;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static mcp_result call(const char *path, const mcp_resource **one, mcp_entry *entry, mcp_body *body) {
  mcp_arguments of = {0};
  mcp_result result = find(path, one, &of);
  if (result.code != MCP_OK) return result;
  result = (*one)->read(&of, body);
  if (result.code != MCP_OK) return result;
  *entry = entry_of(*one, path, &of);
  if (body->file != NULL) return mcp_file_entry(body->file, entry);
  if (body->bytes == NULL) return mcp_internal("the function of \"%s\" set no body", (*one)->path_template);
  if (entry->mime_type == NULL) entry->mime_type = body->mime_type;
  entry->size = (mcp_option_u64)MCP_SOME(body->len);
  return mcp_ok();
}

mcp_result mcp_functions_read(const char *path, mcp_reading *reading) {
  const mcp_resource *one;
  mcp_entry entry;
  mcp_body body = {0};
  mcp_result result = call(path, &one, &entry, &body);
  if (result.code != MCP_OK) return result;
  if (body.file != NULL) {
    char *bytes;
    size_t len;
    result = mcp_read_file(body.file, &bytes, &len);
    if (result.code != MCP_OK) return result;
    entry.size = (mcp_option_u64)MCP_SOME(len);
    mcp_reading_add_bytes(reading, entry, bytes, len);
  } else if (body.is_text) {
    mcp_reading_add_text(reading, entry, body.bytes);
  } else {
    mcp_reading_add_blob(reading, entry, body.bytes, body.len);
  }
  return mcp_ok();
}

mcp_result mcp_functions_stat(const char *path, mcp_entry *entry) {
  const mcp_resource *one;
  mcp_body body = {0};
  return call(path, &one, entry, &body);
}

/* ---- Listing ---------------------------------------------------------------------------------------------------- */

/* What is done with each resource of a listing. False: no more are wanted. */
typedef bool (*visitor)(mcp_listing *listing, const char *path, const mcp_arguments *of, const mcp_item *item);

struct mcp_listing {
  const mcp_resource *resource;
  visitor visit;
  void *context;
  mcp_result failure;
};

bool mcp_listing_add(mcp_listing *listing, mcp_item item) {
  const char *path_template = listing->resource->path_template;
  mcp_argument only = {0};
  mcp_arguments of = {.values = item.values, .count = item.value_count};
  if (item.values == NULL) {
    const char *name = strchr(path_template, '{') + 1;
    name += *name == '+';
    only = (mcp_argument){.name = mcp_copy(name, strcspn(name, "}")), .value = item.value == NULL ? "" : item.value};
    of = (mcp_arguments){.values = &only, .count = 1};
  }
  const char *path = mcp_template_expand(path_template, of.values, of.count);
  mcp_arguments found = {0};
  bool is_reached = path != NULL && mcp_template_match(path_template, path, &found) && found.count == of.count;
  for (size_t i = 0; is_reached && i < of.count; i++) {
    const char *value = mcp_arguments_get(&found, of.values[i].name);
    is_reached = value != NULL && strcmp(value, of.values[i].value) == 0;
  }
  if (!is_reached) {
    mcp_log(MCP_WARN, "no path of \"%s\" has the value \"%s\", which is left out", path_template, item.value == NULL ? "" : item.value);
    return true;
  }
  mcp_argument *kept = mcp_alloc(sizeof(mcp_argument) * (found.count + 1));
  if (found.count > 0) memcpy(kept, found.values, sizeof(mcp_argument) * found.count);
  found.values = kept;
  return listing->visit(listing, path, &found, &item);
}

bool mcp_listing_value(mcp_listing *listing, const char *value) { return mcp_listing_add(listing, (mcp_item){.value = value}); }

mcp_result mcp_listing_folder(mcp_listing *listing, const char *folder) {
  const char **names;
  size_t count;
  mcp_result result = mcp_list_files(folder, &names, &count);
  if (result.code != MCP_OK) return result;
  for (size_t i = 0; i < count; i++) {
    if (!mcp_listing_add(listing, (mcp_item){.value = names[i], .file = mcp_format("%s/%s", folder, names[i])})) break;
  }
  return mcp_ok();
}

/* Visits all that is listed of a resource. */
static mcp_result each(const mcp_resource *one, visitor visit, void *context) {
  mcp_listing listing = {.resource = one, .visit = visit, .context = context, .failure = mcp_ok()};
  if (one->list == NULL) {
    mcp_arguments none = {0};
    mcp_item item = {0};
    visit(&listing, mcp_copy(one->path_template, path_len(one->path_template)), &none, &item);
    return listing.failure;
  }
  mcp_result result = one->list(&listing);
  return result.code == MCP_OK ? listing.failure : result;
}

/* The entry of an item. One whose file is gone is not found. */
static mcp_result item_entry(const mcp_resource *one, const char *path, const mcp_arguments *of, const mcp_item *item, mcp_entry *entry) {
  const mcp_entry *given = &item->entry;
  *entry = entry_of(one, path, of);
  if (given->name != NULL) entry->name = given->name;
  if (given->title != NULL) entry->title = given->title;
  if (given->description != NULL) entry->description = given->description;
  if (given->mime_type != NULL) entry->mime_type = given->mime_type;
  if (given->size.is_some) entry->size = given->size;
  if (given->audience != 0) entry->audience = given->audience;
  if (given->priority.is_some) entry->priority = given->priority;
  if (given->ttl_ms.is_some) entry->ttl_ms = given->ttl_ms;
  entry->last_modified = given->last_modified;
  entry->icons = given->icons;
  entry->icon_count = given->icon_count;
  entry->meta = given->meta;
  return item->file == NULL ? mcp_ok() : mcp_file_entry(item->file, entry);
}

/*
 * Pages. A cursor has the number of the resource, the position in its listing, and digests of the last paths before that position. The
 * next page starts behind the last of these that the listing still has, wherever it is now. So the order may be any, as long as it is
 * the same while the data are; entries that are added or removed meanwhile neither repeat nor hide others, unless all of the anchors are
 * gone: then some entries may come twice.
 */
enum { ANCHORS = 16, ANCHOR_LEN = 12 };

typedef struct {
  size_t resource;
  size_t position;
  char anchors[ANCHORS][ANCHOR_LEN + 1];
  size_t anchor_count;
} place;

static const char *anchor_of(const char *path) {
  char *digest = mcp_digest(path, strlen(path));
  digest[ANCHOR_LEN] = '\0';
  return digest;
}

static void add_anchor(place *at, const char *anchor) {
  if (at->anchor_count == ANCHORS) {
    memmove(at->anchors[0], at->anchors[1], sizeof at->anchors - sizeof at->anchors[0]);
    at->anchor_count--;
  }
  memcpy(at->anchors[at->anchor_count++], anchor, ANCHOR_LEN + 1);
}

static bool parse_number(const char **at, size_t *number) {
  size_t digits = strspn(*at, "0123456789");
  if (digits == 0 || digits > 9 || (*at)[digits] != ':') return false;
  *number = strtoul(*at, NULL, 10);
  *at += digits + 1;
  return true;
}

static bool parse_cursor(const char *cursor, place *at) {
  if (!parse_number(&cursor, &at->resource) || !parse_number(&cursor, &at->position)) return false;
  size_t len = strlen(cursor);
  if (at->resource >= mcp_these_resources.count || len % ANCHOR_LEN != 0 || len > ANCHORS * ANCHOR_LEN) return false;
  if (strspn(cursor, "0123456789abcdef") != len) return false;
  for (size_t i = 0; i < len; i += ANCHOR_LEN) add_anchor(at, mcp_copy(cursor + i, ANCHOR_LEN));
  return true;
}

/* Where the listing has to be continued: the position of each anchor that it still has, counted from 1. */
typedef struct {
  const place *from;
  size_t index;
  size_t seen[ANCHORS];
} resumption;

static bool look_for_anchors(mcp_listing *listing, const char *path, const mcp_arguments *of, const mcp_item *item) {
  (void)of, (void)item;
  resumption *found = listing->context;
  const char *anchor = anchor_of(path);
  found->index++;
  for (size_t i = 0; i < found->from->anchor_count; i++) {
    if (strcmp(found->from->anchors[i], anchor) != 0) continue;
    found->seen[i] = found->index;
    if (i + 1 == found->from->anchor_count) return false;
  }
  return true;
}

static mcp_result resume(const mcp_resource *one, place *at) {
  resumption found = {.from = at};
  if (at->anchor_count == 0) {
    at->position = 0;
    return mcp_ok();
  }
  mcp_result result = each(one, look_for_anchors, &found);
  if (result.code != MCP_OK) return result;
  for (size_t i = at->anchor_count; i-- > 0;) {
    if (found.seen[i] == 0) continue;
    at->position = found.seen[i];
    at->anchor_count = i + 1;
    return mcp_ok();
  }
  at->position = at->position > at->anchor_count ? at->position - at->anchor_count : 0;
  at->anchor_count = 0;
  return mcp_ok();
}

typedef struct {
  place at;
  size_t index;
  uint32_t limit;
  bool is_full;
  mcp_page *page;
} paging;

static bool add_to_page(mcp_listing *listing, const char *path, const mcp_arguments *of, const mcp_item *item) {
  paging *state = listing->context;
  if (++state->index <= state->at.position) return true;
  if (state->page->entries.count >= (state->limit == 0 ? 1 : state->limit)) {
    state->is_full = true;
    return false;
  }
  state->at.position = state->index;
  add_anchor(&state->at, anchor_of(path));
  mcp_entry entry;
  mcp_result result = item_entry(listing->resource, path, of, item, &entry);
  if (result.code == MCP_OK) mcp_page_add(state->page, entry);
  if (result.code != MCP_OK && result.code != MCP_NOT_FOUND) listing->failure = result;
  return listing->failure.code == MCP_OK;
}

mcp_result mcp_functions_list(const char *parent, const char *cursor, uint32_t limit, mcp_page *page) {
  mcp_result result = check();
  if (result.code != MCP_OK) return result;
  if (parent != NULL) {
    mcp_entry entry;
    result = mcp_functions_stat(parent, &entry);
    return result.code == MCP_OK ? mcp_invalid_request("expected no parent: this resource has no children") : result;
  }
  paging state = {.limit = limit, .page = page};
  if (cursor != NULL && !parse_cursor(cursor, &state.at)) {
    return mcp_invalid_request("expected a cursor that this provider returned");
  }
  for (; state.at.resource < mcp_these_resources.count; state.at = (place){.resource = state.at.resource + 1}) {
    const mcp_resource *one = &mcp_these_resources.resources[state.at.resource];
    if (!is_listed(one)) continue;
    result = resume(one, &state.at);
    if (result.code != MCP_OK) return result;
    state.index = 0;
    result = each(one, add_to_page, &state);
    if (result.code != MCP_OK) return result;
    if (!state.is_full) continue;
    char *next = mcp_format("%zu:%zu:", state.at.resource, state.at.position);
    for (size_t i = 0; i < state.at.anchor_count; i++) next = mcp_format("%s%s", next, state.at.anchors[i]);
    mcp_page_next(page, next);
    return mcp_ok();
  }
  return mcp_ok();
}

mcp_result mcp_functions_templates(mcp_templates *templates) {
  mcp_result result = check();
  if (result.code != MCP_OK) return result;
  for (size_t i = 0; i < mcp_these_resources.count; i++) {
    const mcp_resource *one = &mcp_these_resources.resources[i];
    if (strchr(one->path_template, '{') == NULL) continue;
    mcp_templates_add(templates, (mcp_template){.path_template = one->path_template,
                                                .name = one->name,
                                                .title = one->title,
                                                .description = one->description,
                                                .mime_type = one->mime_type,
                                                .audience = one->audience,
                                                .priority = one->priority});
  }
  return mcp_ok();
}

/* ---- Completion ------------------------------------------------------------------------------------------------- */

typedef struct {
  const char *variable;
  mcp_arguments known;
  mcp_array values;
} completing;

static bool collect_value(mcp_listing *listing, const char *path, const mcp_arguments *of, const mcp_item *item) {
  (void)path, (void)item;
  completing *state = listing->context;
  for (size_t i = 0; i < state->known.count; i++) {
    const mcp_argument *known = &state->known.values[i];
    const char *value = mcp_arguments_get(of, known->name);
    if (strcmp(known->name, state->variable) != 0 && value != NULL && strcmp(value, known->value) != 0) return true;
  }
  const char *value = mcp_arguments_get(of, state->variable);
  for (size_t i = 0; i < state->values.count; i++) {
    if (strcmp(((const char **)state->values.items)[i], value) == 0) return true;
  }
  *(const char **)mcp_array_push(&state->values, sizeof(char *)) = value;
  return true;
}

static bool lists_variable(const mcp_resource *one, const char *variable) {
  size_t len = path_len(one->path_template);
  const char *path = mcp_copy(one->path_template, len);
  return one->list != NULL && (strstr(path, mcp_format("{%s}", variable)) != NULL || strstr(path, mcp_format("{+%s}", variable)) != NULL);
}

mcp_result mcp_functions_complete(const char *path_template, mcp_argument argument, const mcp_argument *known,
                                  size_t known_count, mcp_completion *completion) {
  const mcp_resource *lists = NULL;
  for (size_t i = 0; i < mcp_these_resources.count; i++) {
    const mcp_resource *one = &mcp_these_resources.resources[i];
    bool is_asked = strcmp(one->path_template, path_template) == 0;
    if (is_asked && one->complete != NULL) return one->complete(argument.name, argument.value, completion);
    if (lists_variable(one, argument.name) && (is_asked || lists == NULL)) lists = one;
  }
  if (lists == NULL) return mcp_ok();
  completing state = {.variable = argument.name, .known = {.values = known, .count = known_count}};
  mcp_result result = each(lists, collect_value, &state);
  if (result.code == MCP_OK) {
    mcp_completion_match(completion, (const char *const *)state.values.items, state.values.count, argument.value);
  }
  return result;
}

/* ---- Changes ---------------------------------------------------------------------------------------------------- */

static const char *text_or_empty(const char *text) { return text == NULL ? "" : text; }

static bool collect_state(mcp_listing *listing, const char *path, const mcp_arguments *of, const mcp_item *item) {
  mcp_entry entry;
  mcp_result result = item_entry(listing->resource, path, of, item, &entry);
  if (result.code == MCP_NOT_FOUND) return true;
  if (result.code != MCP_OK) {
    listing->failure = result;
    return false;
  }
  const char *state = item->file == NULL ? "" : text_or_empty(mcp_file_state(item->file));
  char *all = mcp_format("%s\n%s\n%s\n%s\n%s\n%" PRIu64 "\n%s\n%s\n%s", path, entry.name, text_or_empty(entry.title),
                         text_or_empty(entry.description), text_or_empty(entry.mime_type), entry.size.value, state,
                         text_or_empty(entry.last_modified), text_or_empty(entry.meta));
  *(const char **)mcp_array_push(listing->context, sizeof(char *)) = mcp_digest(all, strlen(all));
  return true;
}

static int compare_digests(const void *one, const void *other) {
  return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* What differs when the content of a path does. */
static mcp_result state_of(const char *path, const char **state) {
  const mcp_resource *one;
  mcp_arguments of = {0};
  mcp_result result = find(path, &one, &of);
  if (result.code == MCP_OK && one->fingerprint != NULL) {
    result = one->fingerprint(&of, state);
  } else if (result.code == MCP_OK) {
    mcp_body body = {0};
    result = one->read(&of, &body);
    if (result.code == MCP_OK) {
      *state = body.file != NULL ? mcp_file_state(body.file) : mcp_digest(body.bytes == NULL ? "" : body.bytes, body.len);
    }
  }
  if (result.code == MCP_NOT_FOUND) return mcp_ok();
  if (result.code != MCP_INVALID_REQUEST && result.code != MCP_DENIED) return result;
  *state = result.message;
  return mcp_ok();
}

mcp_result mcp_functions_changes(const char *const *watched, size_t count, const char *since, mcp_changes *changes) {
  mcp_result result = check();
  if (result.code != MCP_OK) return result;
  mcp_array states = {0};
  for (size_t i = 0; i < mcp_these_resources.count; i++) {
    const mcp_resource *one = &mcp_these_resources.resources[i];
    if (!is_listed(one)) continue;
    result = each(one, collect_state, &states);
    if (result.code != MCP_OK) return result;
  }
  if (states.count > 0) qsort(states.items, states.count, sizeof(char *), compare_digests);
  char *listing = mcp_alloc(states.count * 16 + 1);
  for (size_t i = 0; i < states.count; i++) memcpy(listing + i * 16, ((const char **)states.items)[i], 16);
  return mcp_changes_compare(watched, count, since, listing, state_of, changes);
}
