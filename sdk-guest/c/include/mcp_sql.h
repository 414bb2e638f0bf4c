/*
 * SQL databases, which the host connects to, and the administrator grants by name (`grants.sql = [{ name = "shop", … }]`).
 *
 *     #include <mcp_sql.h>
 *
 *     mcp_sql_rows rows;
 *     mcp_sql_value below[] = {mcp_sql_i64(10)};
 *     mcp_result result = mcp_sql_query("shop", "SELECT name FROM items WHERE price < $1 ORDER BY price", below, 1, 100, &rows);
 *     if (result.code != MCP_OK) return result;
 *     for (size_t row = 0; row < rows.count; row++) {
 *       const char *name = mcp_sql_at(&rows, row, 0)->text;
 *     }
 *
 * The host has the address and the password, and enforces that a provider only reads. A statement is one query, in the dialect of the kind
 * of database; `$1` is the first parameter in both. Each query sees one state of the database, and two queries may see two.
 *
 * FAILURES. A database that is not granted, and a statement that it refuses, are internal failures: the text goes to the log.
 * `rows.rejection` has the details of a refused statement. A result that is too large is an invalid request; a database that cannot be
 * reached, or takes too long, is unavailable.
 *
 * MEMORY. Arguments must be valid until the function returns. Results are in the memory of the call.
 *
 * A component imports `mcp-host:sql` if it calls mcp_sql_query, mcp_sql_describe or mcp_sql_granted. There is no host in native tests: a
 * test defines those that its provider calls. The other functions are in `src/mcp_sql_values.c`, which needs `src/mcp_json.c`: compile
 * both into tests, too.
 */
#ifndef MCP_SQL_H
#define MCP_SQL_H

#include <mcp_json.h>
#include <mcp_provider.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The type of a value, and which members of mcp_sql_value it has. */
typedef enum {
  MCP_SQL_NULL = 0,
  /* `boolean`. */
  MCP_SQL_BOOL,
  /* `integer`. */
  MCP_SQL_INTEGER,
  /* `number`. */
  MCP_SQL_FLOAT,
  /* From here on `text`, which ends with NUL, and `len`. An exact decimal number: `-12.50`. */
  MCP_SQL_DECIMAL,
  MCP_SQL_TEXT,
  /* `2026-11-22` */
  MCP_SQL_DATE,
  /* `12:34:56.789` */
  MCP_SQL_TIME,
  /* A date with a time of day, in no particular time zone: `2026-11-22T12:34:56`. */
  MCP_SQL_TIMESTAMP,
  /* A point in time, as RFC 3339 in UTC: `2026-11-22T12:34:56Z`. */
  MCP_SQL_INSTANT,
  MCP_SQL_UUID,
  MCP_SQL_JSON,
  /* A value of another type, as the database writes it. */
  MCP_SQL_OTHER,
  /* `text` and `len` are any bytes. */
  MCP_SQL_BYTES,
  /* `dimensions`, and `elements` in row-major order, none of which is an array. */
  MCP_SQL_ARRAY,
} mcp_sql_type;

typedef struct mcp_sql_value mcp_sql_value;

/* A value: of a parameter, or in a row. {0} is NULL. */
struct mcp_sql_value {
  mcp_sql_type type;
  bool boolean;
  int64_t integer;
  double number;
  /* For a parameter that is text of any kind, `len` may be 0: then it is computed by strlen. */
  const char *text;
  size_t len;
  const mcp_sql_value *elements;
  size_t count;
  /* The lengths of the dimensions, outermost first; none if the array is empty. */
  const uint32_t *dimensions;
  size_t dimension_count;
};

/* Values of parameters. Of other types: (mcp_sql_value){.type = MCP_SQL_DATE, .text = "2026-11-22"}. */
static inline mcp_sql_value mcp_sql_bool(bool boolean) {
  mcp_sql_value value = {.type = MCP_SQL_BOOL, .boolean = boolean};
  return value;
}
static inline mcp_sql_value mcp_sql_i64(int64_t integer) {
  mcp_sql_value value = {.type = MCP_SQL_INTEGER, .integer = integer};
  return value;
}
static inline mcp_sql_value mcp_sql_f64(double number) {
  mcp_sql_value value = {.type = MCP_SQL_FLOAT, .number = number};
  return value;
}
/* Text; NULL is SQL's NULL. */
static inline mcp_sql_value mcp_sql_text(const char *text) {
  mcp_sql_value value = {.type = text == NULL ? MCP_SQL_NULL : MCP_SQL_TEXT, .text = text};
  return value;
}
static inline mcp_sql_value mcp_sql_bytes(const void *bytes, size_t len) {
  mcp_sql_value value = {.type = MCP_SQL_BYTES, .text = (const char *)bytes, .len = len};
  return value;
}

typedef struct {
  /* Names need not be unique. */
  const char *name;
  /* The name of its type in the database, such as `int4`; empty if it has none. */
  const char *type_name;
} mcp_sql_column;

/* Why a database refused a statement. */
typedef struct {
  /* Such as `42P01`; NULL if no statement was refused. */
  const char *sqlstate;
  const char *message;
  /* The position in the statement, in characters from 1; 0 if it is not known. */
  uint32_t position;
} mcp_sql_rejection;

/* The result of a query. */
typedef struct {
  const mcp_sql_column *columns;
  size_t column_count;
  /* The values, row by row. */
  const mcp_sql_value *values;
  /* The number of rows. */
  size_t count;
  /* Whether the query has more rows than it returned. */
  bool has_more;
  mcp_sql_rejection rejection;
} mcp_sql_rows;

/* Runs one query with its parameters and returns its first rows: at most `max_rows`, and at most as many as the grant allows; 0 is the
   maximum of the grant. */
mcp_result mcp_sql_query(const char *database, const char *sql, const mcp_sql_value *parameters, size_t count, uint32_t max_rows,
                         mcp_sql_rows *rows);

/* Returns a value; one that is NULL if there is no such row or column. */
const mcp_sql_value *mcp_sql_at(const mcp_sql_rows *rows, size_t row, size_t column);
/* Writes the rows as JSON: an array of objects by the names of the columns; of two columns with the same name, the last one counts. Bytes
   are base64, decimal numbers, dates, times and UUIDs are texts, JSON is itself. */
void mcp_sql_write_rows(mcp_json_writer *json, const char *name, const mcp_sql_rows *rows);
void mcp_sql_write_value(mcp_json_writer *json, const char *name, const mcp_sql_value *value);

typedef struct {
  /* PostgreSQL, or SQLite. */
  bool is_sqlite;
  const char *version;
  /* The schemas that can be read, in the order in which names are looked up. */
  const char *const *schemas;
  size_t schema_count;
  /* The maximum of a result. */
  uint32_t max_rows;
  uint64_t max_bytes;
} mcp_sql_info;

/* Returns what a database is. */
mcp_result mcp_sql_describe(const char *database, mcp_sql_info *info);
/* Returns the names of the granted databases, sorted. */
void mcp_sql_granted(const char *const **names, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
