#include "csv.h"

#include <mcp_provider.h>
#include <string.h>

csv_reader csv_open(const char *text, size_t len) {
  static const char mark[] = "\xEF\xBB\xBF";
  size_t skipped = len >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
  return (csv_reader){.at = text + skipped, .end = text + len};
}

/* The length of the end of a line that is here, 0 if there is none. */
static size_t line_end(const csv_reader *reader) {
  size_t left = (size_t)(reader->end - reader->at);
  if (left >= 1 && reader->at[0] == '\n') return 1;
  return left >= 2 && reader->at[0] == '\r' && reader->at[1] == '\n' ? 2 : 0;
}

static const char *read_field(csv_reader *reader) {
  csv_text field = {0};
  if (reader->at < reader->end && *reader->at == '"') {
    reader->at++;
    while (reader->at < reader->end) {
      char c = *reader->at++;
      if (c == '"') {
        bool is_doubled = reader->at < reader->end && *reader->at == '"';
        if (!is_doubled) break;
        reader->at++;
      }
      csv_append(&field, &c, 1);
    }
  }
  const char *start = reader->at;
  while (reader->at < reader->end && *reader->at != ',' && line_end(reader) == 0) reader->at++;
  csv_append(&field, start, (size_t)(reader->at - start));
  return field.text == NULL ? "" : field.text;
}

bool csv_next(csv_reader *reader, csv_record *record) {
  size_t end;
  while ((end = line_end(reader)) > 0) reader->at += end;
  if (reader->at >= reader->end) return false;
  size_t capacity = 0;
  *record = (csv_record){0};
  for (;;) {
    if (record->count == capacity) {
      size_t larger = capacity == 0 ? 8 : capacity * 2;
      record->fields = mcp_grow((void *)record->fields, capacity * sizeof(char *), larger * sizeof(char *));
      capacity = larger;
    }
    record->fields[record->count++] = read_field(reader);
    if (reader->at >= reader->end || *reader->at != ',') break;
    reader->at++;
  }
  reader->at += line_end(reader);
  return true;
}

void csv_append(csv_text *text, const char *bytes, size_t len) {
  if (text->len + len + 1 > text->capacity) {
    size_t capacity = text->capacity == 0 ? 32 : text->capacity * 2;
    while (capacity < text->len + len + 1) capacity *= 2;
    text->text = mcp_grow(text->text, text->len, capacity);
    text->capacity = capacity;
  }
  if (len > 0) memcpy(text->text + text->len, bytes, len);
  text->len += len;
  text->text[text->len] = '\0';
}

const char *csv_quote(const char *field) {
  if (strpbrk(field, ",\"\r\n") == NULL) return field;
  csv_text quoted = {0};
  csv_append(&quoted, "\"", 1);
  for (; *field != '\0'; field++) csv_append(&quoted, *field == '"' ? "\"\"" : field, *field == '"' ? 2 : 1);
  csv_append(&quoted, "\"", 1);
  return quoted.text;
}

void csv_write(csv_text *text, csv_record record) {
  for (size_t i = 0; i < record.count; i++) {
    const char *field = record.count == 1 && *record.fields[i] == '\0' ? "\"\"" : csv_quote(record.fields[i]);
    if (i > 0) csv_append(text, ",", 1);
    csv_append(text, field, strlen(field));
  }
  csv_append(text, "\n", 1);
}
