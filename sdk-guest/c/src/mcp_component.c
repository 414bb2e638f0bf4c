/* The part of the SDK that a component needs: from the generated bindings to the provider's functions and back. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "../bindings/provider.h"

/* The names of the generated bindings, without their prefix. */
#define WIT(name) exports_mcp_host_provider_resource_provider_##name

typedef WIT(entry_t) wit_entry;
typedef WIT(failure_t) wit_failure;

/* The generated code refers to an object file with the type of the component. `mcp-host componentize` embeds that type. */
void __component_type_object_force_link_provider(void) {}

/* ---- From the host ---------------------------------------------------------------------------------------------- */

/* Moves a text of the host into the memory of the call, as a C string; NULL if it has a NUL. Arguments of a call belong to the
   called, so the text is freed. */
static const char *lift(provider_string_t *text) {
  bool has_nul = text->len > 0 && memchr(text->ptr, '\0', text->len) != NULL;
  const char *lifted = has_nul ? NULL : mcp_copy((const char *)text->ptr, text->len);
  provider_string_free(text);
  return lifted;
}

char *mcp_host_config(const char *key) {
  provider_string_t name;
  provider_string_set(&name, key);
  provider_option_string_t value;
  wasi_config_store_error_t error;
  if (!wasi_config_store_get(&name, &value, &error)) {
    wasi_config_store_error_free(&error);
    return NULL;
  }
  if (!value.is_some) return NULL;
  char *copy = mcp_copy((const char *)value.val.ptr, value.val.len);
  provider_option_string_free(&value);
  return copy;
}

void mcp_host_log(mcp_level level, const char *message) {
  provider_string_t context, text;
  provider_string_set(&context, "");
  provider_string_set(&text, message);
  wasi_logging_logging_log((wasi_logging_logging_level_t)level, &context, &text);
}

/* ---- To the host: everything is copied, and the generated code frees it ------------------------------------------ */

static void *checked_alloc(size_t count, size_t size) {
  void *memory = count == 0 ? NULL : calloc(count, size);
  if (count > 0 && memory == NULL) abort();
  return memory;
}

static provider_string_t lower(const char *text) {
  provider_string_t lowered;
  provider_string_dup(&lowered, text == NULL ? "" : text);
  return lowered;
}

static provider_option_string_t lower_option(const char *text) {
  provider_option_string_t lowered = {.is_some = text != NULL};
  if (text != NULL) provider_string_dup(&lowered.val, text);
  return lowered;
}

static provider_option_u64_t lower_number(mcp_option_u64 number) {
  return (provider_option_u64_t){.is_some = number.is_some, .val = number.value};
}

static provider_list_string_t lower_texts(const char *const *texts, size_t count) {
  provider_list_string_t list = {.ptr = checked_alloc(count, sizeof(provider_string_t)), .len = count};
  for (size_t i = 0; i < count; i++) list.ptr[i] = lower(texts[i]);
  return list;
}

static WIT(option_annotations_t) lower_annotations(unsigned audience, mcp_option_f64 priority, const char *modified) {
  WIT(option_annotations_t) lowered = {0};
  lowered.is_some = audience != 0 || priority.is_some || modified != NULL;
  if (!lowered.is_some) return lowered;
  lowered.val.priority = (provider_option_f64_t){.is_some = priority.is_some, .val = priority.value};
  lowered.val.last_modified = lower_option(modified);
  lowered.val.audience.ptr = checked_alloc(2, sizeof(WIT(role_t)));
  if (audience & MCP_USER) {
    lowered.val.audience.ptr[lowered.val.audience.len++] = EXPORTS_MCP_HOST_PROVIDER_RESOURCE_PROVIDER_ROLE_USER;
  }
  if (audience & MCP_ASSISTANT) {
    lowered.val.audience.ptr[lowered.val.audience.len++] = EXPORTS_MCP_HOST_PROVIDER_RESOURCE_PROVIDER_ROLE_ASSISTANT;
  }
  if (lowered.val.audience.len == 0) {
    free(lowered.val.audience.ptr);
    lowered.val.audience.ptr = NULL;
  }
  return lowered;
}

static WIT(list_icon_t) lower_icons(const mcp_icon *icons, size_t count) {
  WIT(list_icon_t) list = {.ptr = checked_alloc(count, sizeof(WIT(icon_t))), .len = count};
  for (size_t i = 0; i < count; i++) {
    size_t sizes = 0;
    while (icons[i].sizes != NULL && icons[i].sizes[sizes] != NULL) sizes++;
    WIT(icon_t) *icon = &list.ptr[i];
    icon->src = lower(icons[i].src);
    icon->mime_type = lower_option(icons[i].mime_type);
    icon->sizes = lower_texts(icons[i].sizes, sizes);
    icon->theme.is_some = icons[i].theme != MCP_ANY_THEME;
    icon->theme.val = icons[i].theme == MCP_DARK ? EXPORTS_MCP_HOST_PROVIDER_RESOURCE_PROVIDER_THEME_DARK
                                                 : EXPORTS_MCP_HOST_PROVIDER_RESOURCE_PROVIDER_THEME_LIGHT;
  }
  return list;
}

static wit_entry lower_entry(const mcp_entry *entry) {
  return (wit_entry){
      .path = lower(entry->path),
      .name = lower(entry->name),
      .title = lower_option(entry->title),
      .description = lower_option(entry->description),
      .mime_type = lower_option(entry->mime_type),
      .size = lower_number(entry->size),
      .annotations = lower_annotations(entry->audience, entry->priority, entry->last_modified),
      .icons = lower_icons(entry->icons, entry->icon_count),
      .listable = entry->listable,
      .subscribable = entry->subscribable,
      .ttl_ms = lower_number(entry->ttl_ms),
      .meta = lower_option(entry->meta),
  };
}

/* Ends a call: true if it succeeded, which is what generated functions return. */
static bool end_call(mcp_result result, wit_failure *failure) {
  switch (result.code) {
    case MCP_OK:
      break;
    case MCP_NOT_FOUND:
      failure->tag = EXPORTS_MCP_HOST_PROVIDER_RESOURCE_PROVIDER_FAILURE_NOT_FOUND;
      break;
    case MCP_INVALID_REQUEST:
      failure->tag = EXPORTS_MCP_HOST_PROVIDER_RESOURCE_PROVIDER_FAILURE_INVALID_REQUEST;
      failure->val.invalid_request = lower(result.message);
      break;
    case MCP_DENIED:
      failure->tag = EXPORTS_MCP_HOST_PROVIDER_RESOURCE_PROVIDER_FAILURE_DENIED;
      failure->val.denied = lower(result.message);
      break;
    case MCP_UNAVAILABLE:
      failure->tag = EXPORTS_MCP_HOST_PROVIDER_RESOURCE_PROVIDER_FAILURE_UNAVAILABLE;
      failure->val.unavailable.reason = lower(result.message);
      failure->val.unavailable.after_ms = lower_number(result.retry_after_ms);
      break;
    default:
      failure->tag = EXPORTS_MCP_HOST_PROVIDER_RESOURCE_PROVIDER_FAILURE_INTERNAL;
      failure->val.internal = lower(result.message);
      break;
  }
  mcp_end_call();
  return result.code == MCP_OK;
}

static mcp_result has_nul(void) { return mcp_invalid_request("expected a text without NUL"); }

/* ---- The functions of the contract ------------------------------------------------------------------------------ */

void WIT(describe)(WIT(provider_info_t) *ret) {
  const mcp_info *info = &mcp_this_provider.info;
  *ret = (WIT(provider_info_t)){
      .name = lower(info->name),
      .version = lower(info->version),
      .title = lower_option(info->title),
      .description = lower_option(info->description),
      .watches = info->watches,
  };
}

bool WIT(list_entries)(provider_string_t *maybe_parent, provider_string_t *maybe_cursor, uint32_t limit,
                       WIT(page_t) *ret, wit_failure *failure) {
  const char *parent = maybe_parent == NULL ? NULL : lift(maybe_parent);
  const char *cursor = maybe_cursor == NULL ? NULL : lift(maybe_cursor);
  bool is_valid = (maybe_parent == NULL) == (parent == NULL) && (maybe_cursor == NULL) == (cursor == NULL);
  if (!is_valid) return end_call(has_nul(), failure);
  mcp_page page = {0};
  mcp_result result = mcp_this_provider.list(parent, cursor, limit, &page);
  if (result.code == MCP_OK) {
    size_t count = page.entries.count;
    const mcp_entry *entries = page.entries.items;
    ret->entries = (WIT(list_entry_t)){.ptr = checked_alloc(count, sizeof(wit_entry)), .len = count};
    for (size_t i = 0; i < count; i++) ret->entries.ptr[i] = lower_entry(&entries[i]);
    ret->next_cursor = lower_option(page.next_cursor);
  }
  return end_call(result, failure);
}

bool WIT(list_templates)(provider_string_t *maybe_cursor, WIT(template_page_t) *ret, wit_failure *failure) {
  if (maybe_cursor != NULL) {
    provider_string_free(maybe_cursor);
    return end_call(mcp_invalid_request("expected a cursor that this provider returned"), failure);
  }
  mcp_templates all = {0};
  mcp_result result = mcp_this_provider.templates == NULL ? mcp_ok() : mcp_this_provider.templates(&all);
  if (result.code == MCP_OK) {
    size_t count = all.templates.count;
    const mcp_template *templates = all.templates.items;
    ret->templates =
        (WIT(list_entry_template_t)){.ptr = checked_alloc(count, sizeof(WIT(entry_template_t))), .len = count};
    for (size_t i = 0; i < count; i++) {
      const mcp_template *one = &templates[i];
      ret->templates.ptr[i] = (WIT(entry_template_t)){
          .path_template = lower(one->path_template),
          .name = lower(one->name),
          .title = lower_option(one->title),
          .description = lower_option(one->description),
          .mime_type = lower_option(one->mime_type),
          .annotations = lower_annotations(one->audience, one->priority, one->last_modified),
          .icons = lower_icons(one->icons, one->icon_count),
          .meta = lower_option(one->meta),
      };
    }
    ret->next_cursor = lower_option(NULL);
  }
  return end_call(result, failure);
}

bool WIT(read)(provider_string_t *requested, WIT(list_contents_t) *ret, wit_failure *failure) {
  const char *path = lift(requested);
  if (path == NULL) return end_call(has_nul(), failure);
  mcp_reading reading = {0};
  mcp_result result = mcp_this_provider.read(path, &reading);
  if (result.code == MCP_OK) {
    size_t count = reading.contents.count;
    const mcp_content *contents = reading.contents.items;
    *ret = (WIT(list_contents_t)){.ptr = checked_alloc(count, sizeof(WIT(contents_t))), .len = count};
    for (size_t i = 0; i < count; i++) {
      ret->ptr[i].entry = lower_entry(&contents[i].entry);
      WIT(body_t) *body = &ret->ptr[i].body;
      provider_list_u8_t bytes = {.ptr = checked_alloc(contents[i].len, 1), .len = contents[i].len};
      if (bytes.len > 0) memcpy(bytes.ptr, contents[i].bytes, bytes.len);
      body->tag = contents[i].is_text ? EXPORTS_MCP_HOST_PROVIDER_RESOURCE_PROVIDER_BODY_TEXT_BYTES
                                      : EXPORTS_MCP_HOST_PROVIDER_RESOURCE_PROVIDER_BODY_BLOB;
      body->val.blob = bytes;
    }
  }
  return end_call(result, failure);
}

bool WIT(stat)(provider_string_t *requested, wit_entry *ret, wit_failure *failure) {
  const char *path = lift(requested);
  if (path == NULL) return end_call(has_nul(), failure);
  mcp_entry entry = {0};
  mcp_result result = mcp_stat(&mcp_this_provider, path, &entry);
  if (result.code == MCP_OK) *ret = lower_entry(&entry);
  return end_call(result, failure);
}

bool WIT(complete)(provider_string_t *template_, WIT(argument_t) *argument, WIT(list_argument_t) *known,
                   WIT(completion_t) *ret, wit_failure *failure) {
  const char *path_template = lift(template_), *name = lift(&argument->name), *value = lift(&argument->value);
  bool is_valid = path_template != NULL && name != NULL && value != NULL;
  mcp_argument *values = mcp_alloc(known->len * sizeof(mcp_argument));
  for (size_t i = 0; i < known->len; i++) {
    values[i] = (mcp_argument){.name = lift(&known->ptr[i].name), .value = lift(&known->ptr[i].value)};
    is_valid &= values[i].name != NULL && values[i].value != NULL;
  }
  if (known->len > 0) free(known->ptr);
  if (!is_valid) return end_call(has_nul(), failure);
  mcp_completion completion = {0};
  mcp_result result = mcp_complete(&mcp_this_provider, path_template, (mcp_argument){.name = name, .value = value}, values,
                                   known->len, &completion);
  if (result.code == MCP_OK) {
    ret->values = lower_texts(completion.values.items, completion.values.count);
    ret->has_more = completion.total > completion.values.count;
    ret->total = (provider_option_u32_t){.is_some = completion.has_total, .val = (uint32_t)completion.total};
  }
  return end_call(result, failure);
}

bool WIT(changes)(provider_list_string_t *watched, provider_string_t *maybe_since, WIT(change_set_t) *ret,
                  wit_failure *failure) {
  const char *since = maybe_since == NULL ? NULL : lift(maybe_since);
  bool is_valid = (maybe_since == NULL) == (since == NULL);
  const char **paths = mcp_alloc(watched->len * sizeof(char *));
  for (size_t i = 0; i < watched->len; i++) {
    paths[i] = lift(&watched->ptr[i]);
    is_valid &= paths[i] != NULL;
  }
  if (watched->len > 0) free(watched->ptr);
  if (!is_valid) return end_call(has_nul(), failure);
  mcp_changes changes = {0};
  mcp_result result = mcp_this_provider.changes == NULL
                          ? mcp_internal("`changes` is not implemented")
                          : mcp_this_provider.changes(paths, watched->len, since, &changes);
  if (result.code == MCP_OK) {
    ret->token = lower(changes.token);
    ret->changed = lower_texts(changes.changed.items, changes.changed.count);
    ret->listing_changed = changes.listing_changed;
    ret->poll_after_ms = lower_number(changes.poll_after_ms);
  }
  return end_call(result, failure);
}
