/*
 * A function is a resource: a provider is a table of functions, each of which reads one resource, or all of a template. Listing by
 * pages, templates, completion and changes follow from it. Compile `src/mcp_helpers.c` and `src/mcp_functions.c`, too.
 *
 *     #include <mcp_functions.h>
 *
 *     static const char *folder(void) { return mcp_config_or("dir", "/data"); }
 *
 *     static mcp_result read_file(const mcp_arguments *of, mcp_body *body) {
 *       const char *file;
 *       mcp_result result = mcp_file_argument(of, "name", folder(), &file);
 *       if (result.code == MCP_OK) mcp_body_file(body, file);
 *       return result;
 *     }
 *
 *     static mcp_result list_files(mcp_listing *listing) { return mcp_listing_folder(listing, folder()); }
 *
 *     static const mcp_resource resources[] = {
 *         {.path_template = "{name}", .name = "file", .read = read_file, .list = list_files},
 *     };
 *     MCP_FUNCTIONS(resources, .name = "folder", .version = "0.1.0");
 */
#ifndef MCP_FUNCTIONS_H
#define MCP_FUNCTIONS_H

#include <mcp_helpers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Arguments -------------------------------------------------------------------------------------------------- */

/* Returns the value of a variable; NULL if it is missing, or empty. */
const char *mcp_argument_text(const mcp_arguments *of, const char *name);
/* Sets *value to the value of a variable, if it has one: a number from `min` to `max`, in canonical form. Any other value
   is an invalid request, which names the variable and what is expected. */
mcp_result mcp_i64_argument(const mcp_arguments *of, const char *name, int64_t min, int64_t max, int64_t *value);
mcp_result mcp_f64_argument(const mcp_arguments *of, const char *name, double *value);
mcp_result mcp_bool_argument(const mcp_arguments *of, const char *name, bool *value);
/* Sets *file to the file in a folder that a variable names. One that is hidden, or leads out of the folder, is not found. */
mcp_result mcp_file_argument(const mcp_arguments *of, const char *name, const char *folder, const char **file);

/* ---- What a function returns ------------------------------------------------------------------------------------ */

typedef struct mcp_body mcp_body;

/* Sets the content: text, JSON, bytes, or a file, which is text if it is UTF-8. Texts and bytes must stay valid until the function
   returns. */
void mcp_body_text(mcp_body *body, const char *text);
void mcp_body_json(mcp_body *body, const char *json);
void mcp_body_bytes(mcp_body *body, const void *bytes, size_t len);
void mcp_body_file(mcp_body *body, const char *file);

/* ---- What a function lists -------------------------------------------------------------------------------------- */

typedef struct mcp_listing mcp_listing;

/* One resource of a listing. */
typedef struct {
  /* The value of the template's variable. */
  const char *value;
  /* Of several variables: their values. */
  const mcp_argument *values;
  size_t value_count;
  /* A file, from which the entry takes its size, MIME type and time of change. NULL for none. */
  const char *file;
  /* Metadata: the entry takes fields that are zero from the resource. */
  mcp_entry entry;
} mcp_item;

/* Adds an item, in any order that stays the same while the data do. False: no more are wanted, so that the function may return. */
bool mcp_listing_add(mcp_listing *listing, mcp_item item);
bool mcp_listing_value(mcp_listing *listing, const char *value);
/* Adds the files of a folder, sorted, without hidden ones. */
mcp_result mcp_listing_folder(mcp_listing *listing, const char *folder);

/* ---- The resources ---------------------------------------------------------------------------------------------- */

/* A function that reads one resource, or all of a template. */
typedef struct {
  /* A path, or an RFC 6570 template. */
  const char *path_template;
  /* Required, and another one for each. */
  const char *name;
  const char *title;
  const char *description;
  /* The MIME type of the content. By default it follows from the returned body. */
  const char *mime_type;
  unsigned audience;
  mcp_option_f64 priority;
  mcp_option_u64 ttl_ms;
  bool is_not_subscribable;
  /* Reads. Required. */
  mcp_result (*read)(const mcp_arguments *of, mcp_body *body);
  /* Lists the resources of a template. */
  mcp_result (*list)(mcp_listing *listing);
  /* Sets what differs when the content does, where reading is expensive. Without it: the size and time of a file, or a digest. */
  mcp_result (*fingerprint)(const mcp_arguments *of, const char **state);
  /* Completes a variable. Without it: by the first listing that has a variable of that name. */
  mcp_result (*complete)(const char *variable, const char *typed, mcp_completion *completion);
} mcp_resource;

typedef struct {
  const mcp_resource *resources;
  size_t count;
} mcp_resource_table;

/* Defined by MCP_FUNCTIONS. Weak, so that a provider without functions can be linked with mcp_functions.c. */
extern const mcp_resource_table mcp_these_resources __attribute__((__weak__));

mcp_result mcp_functions_list(const char *parent, const char *cursor, uint32_t limit, mcp_page *page);
mcp_result mcp_functions_read(const char *path, mcp_reading *reading);
mcp_result mcp_functions_stat(const char *path, mcp_entry *entry);
mcp_result mcp_functions_templates(mcp_templates *templates);
mcp_result mcp_functions_complete(const char *path_template, mcp_argument argument, const mcp_argument *known,
                                  size_t known_count, mcp_completion *completion);
mcp_result mcp_functions_changes(const char *const *watched, size_t count, const char *since, mcp_changes *changes);

/* Defines the provider: an array of its resources, and members of mcp_info. */
#define MCP_FUNCTIONS(array, ...)                                                                                    \
  const mcp_resource_table mcp_these_resources = {.resources = (array), .count = sizeof(array) / sizeof((array)[0])}; \
  const mcp_provider mcp_this_provider = {.info = {__VA_ARGS__, .watches = true},                                    \
                                          .list = mcp_functions_list,                                                \
                                          .read = mcp_functions_read,                                                \
                                          .stat = mcp_functions_stat,                                                \
                                          .templates = mcp_functions_templates,                                      \
                                          .complete = mcp_functions_complete,                                        \
                                          .changes = mcp_functions_changes}

#ifdef __cplusplus
}
#endif
#endif
