/* JSON: a parser into values in the memory of the call, and a writer. */
#include <mcp_json.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* The levels of arrays and objects: the parser is recursive, and the stack of a component has 64 KiB. */
enum { MAX_DEPTH = 64 };

typedef struct {
  const char *start;
  const char *at;
  const char *end;
  unsigned depth;
  /* What is expected where `at` is, if there is something else. */
  const char *expected;
} parser;

static bool fail(parser *from, const char *expected) {
  if (from->expected == NULL) from->expected = expected;
  return false;
}

static void skip_spaces(parser *from) {
  while (from->at < from->end && (*from->at == ' ' || *from->at == '\t' || *from->at == '\n' || *from->at == '\r')) from->at++;
}

/* Skips spaces, and then the character if it is the next one. */
static bool take(parser *from, char c) {
  skip_spaces(from);
  if (from->at == from->end || *from->at != c) return false;
  from->at++;
  return true;
}

static bool take_word(parser *from, const char *word) {
  size_t len = strlen(word);
  if ((size_t)(from->end - from->at) < len || memcmp(from->at, word, len) != 0) return fail(from, "a value");
  from->at += len;
  return true;
}

static size_t take_digits(parser *from) {
  const char *first = from->at;
  while (from->at < from->end && *from->at >= '0' && *from->at <= '9') from->at++;
  return (size_t)(from->at - first);
}

static bool is_next(const parser *from, const char *any_of) {
  return from->at < from->end && *from->at != '\0' && strchr(any_of, *from->at) != NULL;
}

static bool parse_number(parser *from, mcp_json *value) {
  const char *first = from->at;
  if (is_next(from, "-")) from->at++;
  if (is_next(from, "0")) {
    from->at++;
  } else if (take_digits(from) == 0) {
    return fail(from, "a digit");
  }
  if (is_next(from, ".")) {
    from->at++;
    if (take_digits(from) == 0) return fail(from, "a digit");
  }
  if (is_next(from, "eE")) {
    from->at++;
    if (is_next(from, "+-")) from->at++;
    if (take_digits(from) == 0) return fail(from, "a digit");
  }
  value->type = MCP_JSON_NUMBER;
  value->len = (size_t)(from->at - first);
  value->text = mcp_copy(first, value->len);
  return true;
}

static bool parse_code_unit(parser *from, uint32_t *unit) {
  *unit = 0;
  for (int i = 0; i < 4; i++, from->at++) {
    if (from->at == from->end) return fail(from, "four hexadecimal digits");
    char c = *from->at;
    uint32_t digit;
    if (c >= '0' && c <= '9') {
      digit = (uint32_t)(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = (uint32_t)(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = (uint32_t)(c - 'A') + 10;
    } else {
      return fail(from, "four hexadecimal digits");
    }
    *unit = *unit * 16 + digit;
  }
  return true;
}

/* Decodes an escape after `\u`: a character, or half of a surrogate pair, whose other half must follow. */
static bool parse_unicode(parser *from, char **to) {
  uint32_t code, low;
  if (!parse_code_unit(from, &code)) return false;
  if (code >= 0xDC00 && code <= 0xDFFF) return fail(from, "no low surrogate without a high one");
  if (code >= 0xD800 && code <= 0xDBFF) {
    if (from->end - from->at < 2 || from->at[0] != '\\' || from->at[1] != 'u') return fail(from, "a low surrogate");
    from->at += 2;
    if (!parse_code_unit(from, &low)) return false;
    if (low < 0xDC00 || low > 0xDFFF) return fail(from, "a low surrogate");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  unsigned char *out = (unsigned char *)*to;
  if (code < 0x80) {
    *out++ = (unsigned char)code;
  } else if (code < 0x800) {
    *out++ = (unsigned char)(0xC0 | code >> 6);
    *out++ = (unsigned char)(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *out++ = (unsigned char)(0xE0 | code >> 12);
    *out++ = (unsigned char)(0x80 | (code >> 6 & 0x3F));
    *out++ = (unsigned char)(0x80 | (code & 0x3F));
  } else {
    *out++ = (unsigned char)(0xF0 | code >> 18);
    *out++ = (unsigned char)(0x80 | (code >> 12 & 0x3F));
    *out++ = (unsigned char)(0x80 | (code >> 6 & 0x3F));
    *out++ = (unsigned char)(0x80 | (code & 0x3F));
  }
  *to = (char *)out;
  return true;
}

/* Parses a string after its first quote. The decoded string is never longer than the written one. */
static bool parse_string(parser *from, const char **text, size_t *len) {
  static const char escapes[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
  const char *close = from->at;
  while (close < from->end && *close != '"') close += *close == '\\' && from->end - close > 1 ? 2 : 1;
  if (close >= from->end) {
    from->at = from->end;
    return fail(from, "`\"`");
  }
  char *decoded = mcp_alloc((size_t)(close - from->at) + 1), *to = decoded;
  while (from->at < close) {
    char c = *from->at;
    if ((unsigned char)c < 0x20) return fail(from, "no control character in a string");
    from->at++;
    if (c != '\\') {
      *to++ = c;
    } else if (*from->at == 'u') {
      from->at++;
      if (!parse_unicode(from, &to)) return false;
    } else {
      const char *escape = *from->at == '\0' ? NULL : strchr(escapes, *from->at);
      if (escape == NULL) return fail(from, "an escape of JSON");
      *to++ = characters[escape - escapes];
      from->at++;
    }
  }
  if (from->at != close) return fail(from, "`\"`");
  from->at++;
  *text = decoded;
  *len = (size_t)(to - decoded);
  return true;
}

static bool parse_value(parser *from, mcp_json *value);

static bool parse_items(parser *from, mcp_json *value, char close) {
  if (++from->depth > MAX_DEPTH) return fail(from, "at most 64 levels of arrays and objects");
  mcp_array items = {0};
  bool is_object = close == '}';
  value->type = is_object ? MCP_JSON_OBJECT : MCP_JSON_ARRAY;
  if (!take(from, close)) {
    do {
      mcp_json item = {0};
      size_t len;
      if (is_object) {
        if (!take(from, '"')) return fail(from, "a name in quotes");
        if (!parse_string(from, &item.name, &len)) return false;
        if (!take(from, ':')) return fail(from, "`:`");
      }
      if (!parse_value(from, &item)) return false;
      *(mcp_json *)mcp_array_push(&items, sizeof(mcp_json)) = item;
    } while (take(from, ','));
    if (!take(from, close)) return fail(from, is_object ? "`,` or `}`" : "`,` or `]`");
  }
  from->depth--;
  value->items = items.items;
  value->count = items.count;
  return true;
}

static bool parse_value(parser *from, mcp_json *value) {
  if (take(from, '{')) return parse_items(from, value, '}');
  if (take(from, '[')) return parse_items(from, value, ']');
  if (take(from, '"')) {
    value->type = MCP_JSON_STRING;
    return parse_string(from, &value->text, &value->len);
  }
  if (is_next(from, "-0123456789")) return parse_number(from, value);
  if (is_next(from, "tf")) {
    value->type = MCP_JSON_BOOL;
    value->boolean = *from->at == 't';
    return take_word(from, value->boolean ? "true" : "false");
  }
  return take_word(from, "null");
}

mcp_result mcp_json_parse(const char *text, size_t len, const mcp_json **value) {
  parser from = {.start = text, .at = text, .end = text + len};
  mcp_json *parsed = mcp_alloc(sizeof(mcp_json));
  if (!mcp_is_utf8(text, len)) return mcp_internal("expected JSON, found bytes that are not UTF-8");
  if (parse_value(&from, parsed)) {
    skip_spaces(&from);
    if (from.at != from.end) fail(&from, "the end");
  }
  if (from.expected != NULL) return mcp_internal("expected JSON: %s at byte %zu", from.expected, (size_t)(from.at - from.start));
  *value = parsed;
  return mcp_ok();
}

const mcp_json *mcp_json_get(const mcp_json *object, const char *name) {
  if (object == NULL || object->type != MCP_JSON_OBJECT) return NULL;
  for (size_t i = object->count; i > 0; i--) {
    if (strcmp(object->items[i - 1].name, name) == 0) return &object->items[i - 1];
  }
  return NULL;
}

size_t mcp_json_count(const mcp_json *value) { return value == NULL ? 0 : value->count; }

const mcp_json *mcp_json_at(const mcp_json *value, size_t index) {
  return index < mcp_json_count(value) ? &value->items[index] : NULL;
}

const char *mcp_json_text(const mcp_json *value) {
  if (value == NULL || value->type != MCP_JSON_STRING || strlen(value->text) != value->len) return NULL;
  return value->text;
}

bool mcp_json_i64(const mcp_json *value, int64_t *number) {
  if (value == NULL || value->type != MCP_JSON_NUMBER || strpbrk(value->text, ".eE") != NULL) return false;
  errno = 0;
  long long parsed = strtoll(value->text, NULL, 10);
  if (errno != 0) return false;
  *number = parsed;
  return true;
}

bool mcp_json_f64(const mcp_json *value, double *number) {
  if (value == NULL || value->type != MCP_JSON_NUMBER) return false;
  *number = strtod(value->text, NULL);
  return true;
}

bool mcp_json_bool(const mcp_json *value, bool *boolean) {
  if (value == NULL || value->type != MCP_JSON_BOOL) return false;
  *boolean = value->boolean;
  return true;
}

mcp_result mcp_config_json(const char *key, const mcp_json **value) {
  const char *text = mcp_config(key);
  *value = NULL;
  if (text == NULL) return mcp_ok();
  mcp_result result = mcp_json_parse(text, strlen(text), value);
  if (result.code == MCP_OK) return result;
  return mcp_internal("the config key `%s` should be a list or a table, found `%s`: %s", key, text, result.message);
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

static void append(mcp_json_writer *json, const char *text, size_t len) {
  if (json->capacity - json->len <= len) {
    size_t capacity = json->len + len + 1 > json->capacity * 2 ? json->len + len + 1 : json->capacity * 2;
    json->text = mcp_grow(json->text, json->len, capacity);
    json->capacity = capacity;
  }
  memcpy(json->text + json->len, text, len);
  json->len += len;
  json->text[json->len] = '\0';
}

static void append_string(mcp_json_writer *json, const char *text) {
  append(json, "\"", 1);
  for (const char *at = text; *at != '\0'; at++) {
    size_t plain = 0;
    while ((unsigned char)at[plain] >= 0x20 && at[plain] != '"' && at[plain] != '\\') plain++;
    append(json, at, plain);
    at += plain;
    if (*at == '\0') break;
    char escape[sizeof "\\u0000"];
    int len = snprintf(escape, sizeof escape, *at == '"' || *at == '\\' ? "\\%c" : "\\u%04x", *at);
    append(json, escape, (size_t)len);
  }
  append(json, "\"", 1);
}

/* Begins a value: a comma, if one is before it, and the name of a member. */
static void begin(mcp_json_writer *json, const char *name) {
  if (json->needs_comma) append(json, ",", 1);
  json->needs_comma = true;
  if (name == NULL) return;
  append_string(json, name);
  append(json, ":", 1);
}

static void open_items(mcp_json_writer *json, const char *name, const char *bracket) {
  begin(json, name);
  append(json, bracket, 1);
  json->needs_comma = false;
}

static void close_items(mcp_json_writer *json, const char *bracket) {
  append(json, bracket, 1);
  json->needs_comma = true;
}

void mcp_json_begin_object(mcp_json_writer *json, const char *name) { open_items(json, name, "{"); }
void mcp_json_end_object(mcp_json_writer *json) { close_items(json, "}"); }
void mcp_json_begin_array(mcp_json_writer *json, const char *name) { open_items(json, name, "["); }
void mcp_json_end_array(mcp_json_writer *json) { close_items(json, "]"); }

void mcp_json_write_json(mcp_json_writer *json, const char *name, const char *text) {
  begin(json, name);
  append(json, text, strlen(text));
}

void mcp_json_write_text(mcp_json_writer *json, const char *name, const char *text) {
  if (text == NULL) {
    mcp_json_write_json(json, name, "null");
    return;
  }
  begin(json, name);
  append_string(json, text);
}

void mcp_json_write_i64(mcp_json_writer *json, const char *name, int64_t number) {
  char text[sizeof "-9223372036854775808"];
  snprintf(text, sizeof text, "%" PRId64, number);
  mcp_json_write_json(json, name, text);
}

void mcp_json_write_f64(mcp_json_writer *json, const char *name, double number) {
  char text[32] = "null";
  /* 15 digits suffice for what people write, 17 for every number. */
  for (int digits = 15; isfinite(number) && digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, number);
    if (strtod(text, NULL) == number) break;
  }
  mcp_json_write_json(json, name, text);
}

void mcp_json_write_bool(mcp_json_writer *json, const char *name, bool boolean) {
  mcp_json_write_json(json, name, boolean ? "true" : "false");
}

void mcp_json_write_bytes(mcp_json_writer *json, const char *name, const void *bytes, size_t len) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *from = bytes;
  begin(json, name);
  append(json, "\"", 1);
  for (size_t at = 0; at < len; at += 3) {
    size_t left = len - at;
    uint32_t bits = (uint32_t)from[at] << 16;
    if (left > 1) bits |= (uint32_t)from[at + 1] << 8;
    if (left > 2) bits |= from[at + 2];
    char four[] = {digits[bits >> 18], digits[bits >> 12 & 63], left > 1 ? digits[bits >> 6 & 63] : '=', left > 2 ? digits[bits & 63] : '='};
    append(json, four, sizeof four);
  }
  append(json, "\"", 1);
}

const char *mcp_json_written(const mcp_json_writer *json) { return json->text == NULL ? "" : json->text; }
