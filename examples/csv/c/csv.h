/* Reading and writing CSV (RFC 4180), leniently. */
#ifndef CSV_H
#define CSV_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  const char **fields;
  size_t count;
} csv_record;

/* A position in a text. */
typedef struct {
  const char *at;
  const char *end;
} csv_reader;

csv_reader csv_open(const char *text, size_t len);
/* Reads the next record into memory of the call; false at the end. Empty lines are skipped. */
bool csv_next(csv_reader *reader, csv_record *record);
/* Returns a field, quoted if it has to be. */
const char *csv_quote(const char *field);

/* A text that grows. */
typedef struct {
  char *text;
  size_t len;
  size_t capacity;
} csv_text;

void csv_append(csv_text *text, const char *bytes, size_t len);
void csv_write(csv_text *text, csv_record record);

#endif
