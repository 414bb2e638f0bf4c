/*
 * What most providers need: templates that are matched and expanded, pages of a listing, and changes.
 * Compile `src/mcp_helpers.c`, too. A provider whose resources are functions needs none of it: see mcp_functions.h.
 */
#ifndef MCP_HELPERS_H
#define MCP_HELPERS_H

#include <mcp_provider.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Templates -------------------------------------------------------------------------------------------------- */

/* Values of a template's variables, decoded. */
typedef struct {
  const mcp_argument *values;
  size_t count;
} mcp_arguments;

/*
 * Matches a path with an RFC 6570 template, and returns whether it matches.
 *
 * {var} matches at least one character, all in one segment; {+var} any number of segments; {?a,b} a query with any of these variables,
 * each at most once, in any order, or none. A template with anything else matches nothing: see mcp_template_problem.
 */
bool mcp_template_match(const char *path_template, const char *path, mcp_arguments *arguments);
/* Returns the value of a variable; NULL if it has none. */
const char *mcp_arguments_get(const mcp_arguments *arguments, const char *name);
/* Expands a template to a path in the host's normal form. Values are not percent-encoded. NULL if a value of the path is
   missing, or the value of {var} is empty. */
char *mcp_template_expand(const char *path_template, const mcp_argument *values, size_t count);
/* Returns what is wrong with a template; NULL if it can be matched. */
const char *mcp_template_problem(const char *path_template);

/* ---- Pages ------------------------------------------------------------------------------------------------------ */

/* Makes the entry of a key. One that was removed in the meantime is MCP_NOT_FOUND, and is left out. */
typedef mcp_result (*mcp_entry_of)(const char *key, mcp_entry *entry);

/* Adds the page after `cursor`, NULL for the first. The keys, each of at most 4000 bytes, may be in any order; pages are sorted by key.
   A cursor has the last key of the page before: it needs no state, and stays valid while keys are added and removed. */
mcp_result mcp_paginate(const char *const *keys, size_t count, const char *cursor, uint32_t limit, mcp_entry_of entry,
                        mcp_page *page);

/* ---- Changes ---------------------------------------------------------------------------------------------------- */

/* Sets a text that identifies the state of a path, as mcp_file_state does; it stays NULL if there is no such resource. */
typedef mcp_result (*mcp_state_of)(const char *path, const char **state);

/* Compares the state of the watched paths, and of the listing, with that at the token, NULL for the first call. The token has digests
   of both. */
mcp_result mcp_changes_compare(const char *const *watched, size_t count, const char *since, const char *listing,
                               mcp_state_of state, mcp_changes *changes);
/* Returns the size and the modification time of a file as a text; NULL if there is no such file. */
const char *mcp_file_state(const char *file);
/* A digest of a text, the same in every instance: 16 hexadecimal digits. */
char *mcp_digest(const char *text, size_t len);

/* ---- Files ------------------------------------------------------------------------------------------------------ */

/* Whether a name leads to no hidden file, and not out of the folder that it is joined with. */
bool mcp_is_file_name(const char *name);
/* Lists the names of a folder's files, sorted, without hidden ones and folders. A folder that cannot be read is an internal failure, as
   it is the config's. */
mcp_result mcp_list_files(const char *folder, const char ***names, size_t *count);
/* Reads a file, with a NUL behind. One that is not there is not found; if not even a folder above it is, that is an internal failure. */
mcp_result mcp_read_file(const char *file, char **bytes, size_t *len);
/* Adds to an entry what is known of a file: MIME type, size and time. */
mcp_result mcp_file_entry(const char *file, mcp_entry *entry);
/* Returns the MIME type for a name; NULL if it is not known. */
const char *mcp_mime_type(const char *name);

/*
 * A value that was computed from a file, cached until the size or the modification time of the file changes: within a call, and across
 * calls if the host reuses instances. It is a static variable, initially empty, and caches the last file only.
 *
 *     static mcp_memo calendar;
 *
 *     static mcp_result parse(const char *bytes, size_t len, const void **value) { … }
 *
 *     mcp_result result = mcp_memo_get(&calendar, file, parse);
 *     if (result.code != MCP_OK) return result;
 *     const struct events *events = calendar.value;
 */
typedef struct {
  const void *value;
  /* Internal to the SDK. */
  const char *file;
  const char *state;
  void *memory;
} mcp_memo;

/* Computes a value from the bytes of a file, which a NUL follows. Memory that it allocates, and the bytes, are kept with the value, which
   must not point to other memory of the call. */
typedef mcp_result (*mcp_make_of_file)(const char *bytes, size_t len, const void **value);

/* Sets the value to the result of `make`, from the cache if the file is unchanged. It is valid until the call ends. A missing file is not
   found; if `make` fails, nothing is cached. */
mcp_result mcp_memo_get(mcp_memo *memo, const char *file, mcp_make_of_file make);

#ifdef __cplusplus
}
#endif
#endif
