/* Values of databases, which need no host: where they are in a result, and as JSON. */
#include <mcp_sql.h>

#include <string.h>

const mcp_sql_value *mcp_sql_at(const mcp_sql_rows *rows, size_t row, size_t column) {
  static const mcp_sql_value null;
  if (row >= rows->count || column >= rows->column_count) return &null;
  return &rows->values[row * rows->column_count + column];
}

/* Writes the part of an array that is in one place of its outer dimensions. */
static void write_dimension(mcp_json_writer *json, const char *name, const mcp_sql_value *array, size_t depth, size_t *at) {
  mcp_json_begin_array(json, name);
  for (uint32_t i = 0; depth < array->dimension_count && i < array->dimensions[depth] && *at < array->count; i++) {
    if (depth + 1 < array->dimension_count) {
      write_dimension(json, NULL, array, depth + 1, at);
    } else {
      mcp_sql_write_value(json, NULL, &array->elements[(*at)++]);
    }
  }
  mcp_json_end_array(json);
}

void mcp_sql_write_value(mcp_json_writer *json, const char *name, const mcp_sql_value *value) {
  size_t at = 0;
  switch (value->type) {
    case MCP_SQL_NULL:
      mcp_json_write_text(json, name, NULL);
      break;
    case MCP_SQL_BOOL:
      mcp_json_write_bool(json, name, value->boolean);
      break;
    case MCP_SQL_INTEGER:
      mcp_json_write_i64(json, name, value->integer);
      break;
    case MCP_SQL_FLOAT:
      mcp_json_write_f64(json, name, value->number);
      break;
    case MCP_SQL_JSON:
      mcp_json_write_json(json, name, value->text);
      break;
    case MCP_SQL_BYTES:
      mcp_json_write_bytes(json, name, value->text, value->len);
      break;
    case MCP_SQL_ARRAY:
      write_dimension(json, name, value, 0, &at);
      break;
    default:
      mcp_json_write_text(json, name, value->text);
      break;
  }
}

/* Whether a later column has the same name. */
static bool is_hidden(const mcp_sql_rows *rows, size_t column) {
  for (size_t i = column + 1; i < rows->column_count; i++) {
    if (strcmp(rows->columns[i].name, rows->columns[column].name) == 0) return true;
  }
  return false;
}

void mcp_sql_write_rows(mcp_json_writer *json, const char *name, const mcp_sql_rows *rows) {
  mcp_json_begin_array(json, name);
  for (size_t row = 0; row < rows->count; row++) {
    mcp_json_begin_object(json, NULL);
    for (size_t column = 0; column < rows->column_count; column++) {
      if (is_hidden(rows, column)) continue;
      mcp_sql_write_value(json, rows->columns[column].name, mcp_sql_at(rows, row, column));
    }
    mcp_json_end_object(json);
  }
  mcp_json_end_array(json);
}
