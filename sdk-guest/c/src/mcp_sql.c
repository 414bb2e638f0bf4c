/* Databases: from mcp_sql.h to the generated bindings of `mcp-host:sql`. */
#include <mcp_sql.h>

#include <string.h>

#include "internal.h"

#include "../bindings/provider.h"

#define SQL(name) mcp_host_sql_databases_##name
#define SCALAR(name) MCP_HOST_SQL_DATABASES_SCALAR_##name

typedef SQL(scalar_t) wit_scalar;
typedef SQL(value_t) wit_value;

/* ---- To the host, which copies: nothing is freed ----------------------------------------------------------------- */

static provider_string_t text(const char *text) { return (provider_string_t){.ptr = (uint8_t *)text, .len = strlen(text)}; }

/* The tags of the types that are text. */
static const uint8_t text_tags[] = {
    [MCP_SQL_DECIMAL] = SCALAR(DECIMAL),
    [MCP_SQL_TEXT] = SCALAR(TEXT),
    [MCP_SQL_DATE] = SCALAR(DATE),
    [MCP_SQL_TIME] = SCALAR(TIME),
    [MCP_SQL_TIMESTAMP] = SCALAR(TIMESTAMP),
    [MCP_SQL_INSTANT] = SCALAR(INSTANT),
    [MCP_SQL_UUID] = SCALAR(UUID),
    [MCP_SQL_JSON] = SCALAR(JSON),
    [MCP_SQL_OTHER] = SCALAR(OTHER),
};

static bool is_text(mcp_sql_type type) { return type >= MCP_SQL_DECIMAL && type <= MCP_SQL_OTHER; }

/* An array in an array is NULL, because SQL does not have it. */
static wit_scalar lower_scalar(const mcp_sql_value *value) {
  wit_scalar scalar = {.tag = SCALAR(NULL)};
  if (value->type == MCP_SQL_BOOL) {
    scalar.tag = SCALAR(BOOLEAN);
    scalar.val.boolean = value->boolean;
  } else if (value->type == MCP_SQL_INTEGER) {
    scalar.tag = SCALAR(INTEGER);
    scalar.val.integer = value->integer;
  } else if (value->type == MCP_SQL_FLOAT) {
    scalar.tag = SCALAR(FLOAT);
    scalar.val.float_ = value->number;
  } else if (value->type == MCP_SQL_BYTES) {
    scalar.tag = SCALAR(BYTES);
    scalar.val.bytes = (provider_list_u8_t){.ptr = (uint8_t *)value->text, .len = value->len};
  } else if (is_text(value->type) && value->text != NULL) {
    scalar.tag = text_tags[value->type];
    scalar.val.text = text(value->text);
    if (value->len > 0) scalar.val.text.len = value->len;
  }
  return scalar;
}

static wit_value lower(const mcp_sql_value *value) {
  wit_value lowered = {.tag = MCP_HOST_SQL_DATABASES_VALUE_SCALAR};
  if (value->type != MCP_SQL_ARRAY) {
    lowered.val.scalar = lower_scalar(value);
    return lowered;
  }
  lowered.tag = MCP_HOST_SQL_DATABASES_VALUE_SQL_ARRAY;
  SQL(sql_array_t) *array = &lowered.val.sql_array;
  array->dimensions = (provider_list_u32_t){.ptr = (uint32_t *)value->dimensions, .len = value->dimension_count};
  array->elements.ptr = mcp_alloc(value->count * sizeof(wit_scalar));
  array->elements.len = value->count;
  for (size_t i = 0; i < value->count; i++) array->elements.ptr[i] = lower_scalar(&value->elements[i]);
  return lowered;
}

/* ---- From the host: copied into memory of the call, and freed ---------------------------------------------------- */

static const char *copy(const provider_string_t *text) { return mcp_copy((const char *)text->ptr, text->len); }

static mcp_sql_value lift_scalar(const wit_scalar *scalar) {
  mcp_sql_value value = {0};
  switch (scalar->tag) {
    case SCALAR(NULL):
      return value;
    case SCALAR(BOOLEAN):
      return mcp_sql_bool(scalar->val.boolean);
    case SCALAR(INTEGER):
      return mcp_sql_i64(scalar->val.integer);
    case SCALAR(FLOAT):
      return mcp_sql_f64(scalar->val.float_);
    case SCALAR(BYTES):
      return mcp_sql_bytes(mcp_copy((const char *)scalar->val.bytes.ptr, scalar->val.bytes.len), scalar->val.bytes.len);
    default:
      value.type = MCP_SQL_OTHER;
      for (mcp_sql_type type = MCP_SQL_DECIMAL; type < MCP_SQL_OTHER; type++) {
        if (text_tags[type] == scalar->tag) value.type = type;
      }
      value.text = copy(&scalar->val.text);
      value.len = scalar->val.text.len;
      return value;
  }
}

static mcp_sql_value lift(const wit_value *value) {
  if (value->tag == MCP_HOST_SQL_DATABASES_VALUE_SCALAR) return lift_scalar(&value->val.scalar);
  const SQL(sql_array_t) *array = &value->val.sql_array;
  mcp_sql_value *elements = mcp_alloc(array->elements.len * sizeof(mcp_sql_value));
  for (size_t i = 0; i < array->elements.len; i++) elements[i] = lift_scalar(&array->elements.ptr[i]);
  size_t count = array->dimensions.len;
  return (mcp_sql_value){.type = MCP_SQL_ARRAY,
                         .elements = elements,
                         .count = array->elements.len,
                         .dimensions = (const uint32_t *)mcp_copy((const char *)array->dimensions.ptr, count * sizeof(uint32_t)),
                         .dimension_count = count};
}

static mcp_result failure(const char *database, SQL(query_failure_t) * failure, mcp_sql_rejection *rejection) {
  mcp_result result;
  const provider_string_t *why = &failure->val.too_large;
  switch (failure->tag) {
    case MCP_HOST_SQL_DATABASES_QUERY_FAILURE_NOT_GRANTED:
      result = mcp_internal("the database `%s` is not granted: add it to `grants.sql`", database);
      break;
    case MCP_HOST_SQL_DATABASES_QUERY_FAILURE_REJECTED: {
      const SQL(rejection_t) *rejected = &failure->val.rejected;
      *rejection = (mcp_sql_rejection){.sqlstate = copy(&rejected->sqlstate),
                                       .message = copy(&rejected->message),
                                       .position = rejected->position.is_some ? rejected->position.val : 0};
      result = mcp_internal("the database refused the statement (%s): %s", rejection->sqlstate, rejection->message);
      break;
    }
    case MCP_HOST_SQL_DATABASES_QUERY_FAILURE_TOO_LARGE:
      result = mcp_invalid_request("%.*s", (int)why->len, (const char *)why->ptr);
      break;
    case MCP_HOST_SQL_DATABASES_QUERY_FAILURE_UNAVAILABLE:
      result = mcp_unavailable("%.*s", (int)why->len, (const char *)why->ptr);
      break;
    default:
      result = mcp_unavailable("the query took too long");
      break;
  }
  SQL(query_failure_free)(failure);
  return result;
}

/* ---- Databases --------------------------------------------------------------------------------------------------- */

mcp_result mcp_sql_query(const char *database, const char *sql, const mcp_sql_value *parameters, size_t count, uint32_t max_rows,
                         mcp_sql_rows *rows) {
  provider_string_t name = text(database), statement = text(sql);
  SQL(list_value_t) lowered = {.ptr = mcp_alloc(count * sizeof(wit_value)), .len = count};
  for (size_t i = 0; i < count; i++) lowered.ptr[i] = lower(&parameters[i]);
  SQL(rows_t) found;
  SQL(query_failure_t) error;
  *rows = (mcp_sql_rows){0};
  if (!SQL(query)(&name, &statement, &lowered, max_rows == 0 ? NULL : &max_rows, &found, &error)) {
    return failure(database, &error, &rows->rejection);
  }
  mcp_sql_column *columns = mcp_alloc(found.columns.len * sizeof(mcp_sql_column));
  for (size_t i = 0; i < found.columns.len; i++) {
    columns[i] = (mcp_sql_column){.name = copy(&found.columns.ptr[i].name), .type_name = copy(&found.columns.ptr[i].type_name)};
  }
  mcp_sql_value *values = mcp_alloc(found.rows.len * found.columns.len * sizeof(mcp_sql_value));
  for (size_t row = 0; row < found.rows.len; row++) {
    const SQL(list_value_t) *of_row = &found.rows.ptr[row].values;
    for (size_t i = 0; i < found.columns.len && i < of_row->len; i++) values[row * found.columns.len + i] = lift(&of_row->ptr[i]);
  }
  *rows = (mcp_sql_rows){.columns = columns,
                         .column_count = found.columns.len,
                         .values = values,
                         .count = found.rows.len,
                         .has_more = found.has_more};
  SQL(rows_free)(&found);
  return mcp_ok();
}

static const char *const *copy_list(const provider_list_string_t *list) {
  const char **copies = mcp_alloc(list->len * sizeof(char *));
  for (size_t i = 0; i < list->len; i++) copies[i] = copy(&list->ptr[i]);
  return copies;
}

mcp_result mcp_sql_describe(const char *database, mcp_sql_info *info) {
  provider_string_t name = text(database);
  SQL(database_info_t) found;
  SQL(query_failure_t) error;
  mcp_sql_rejection rejection;
  if (!SQL(describe)(&name, &found, &error)) return failure(database, &error, &rejection);
  *info = (mcp_sql_info){.is_sqlite = found.kind == MCP_HOST_SQL_DATABASES_DATABASE_KIND_SQLITE,
                         .version = copy(&found.version),
                         .schemas = copy_list(&found.schemas),
                         .schema_count = found.schemas.len,
                         .max_rows = found.max_rows,
                         .max_bytes = found.max_bytes};
  SQL(database_info_free)(&found);
  return mcp_ok();
}

void mcp_sql_granted(const char *const **names, size_t *count) {
  provider_list_string_t found;
  SQL(granted)(&found);
  *names = copy_list(&found);
  *count = found.len;
  provider_list_string_free(&found);
}
