/* HTTP requests: from mcp_http.h to the generated bindings of `wasi:http`. Every handle is dropped before a function returns, children
   before their parents. */
#include <mcp_http.h>

#include <string.h>
#include <strings.h>

#include "internal.h"

#include "../bindings/provider.h"

#define HTTP(name) wasi_http_types_##name
#define ERROR(name) WASI_HTTP_TYPES_ERROR_CODE_##name

enum { CHUNK = 65536, MAX_WRITE = 4096, MAX_BODY = 1 << 20 };

/* ---- URLs and errors -------------------------------------------------------------------------------------------- */

static provider_string_t text(const char *start, size_t len) {
  return (provider_string_t){.ptr = (uint8_t *)start, .len = len};
}

typedef struct {
  bool is_https;
  provider_string_t authority, path_with_query;
} url_parts;

static bool parse_url(const char *url, url_parts *parts) {
  parts->is_https = strncasecmp(url, "https://", 8) == 0;
  if (!parts->is_https && strncasecmp(url, "http://", 7) != 0) return false;
  const char *authority = url + (parts->is_https ? 8 : 7);
  size_t len = strcspn(authority, "/?#");
  if (len == 0 || memchr(authority, '@', len) != NULL) return false;
  parts->authority = text(authority, len);
  const char *path = authority + len;
  size_t path_len = strcspn(path, "#");
  if (*path == '/') {
    parts->path_with_query = text(path, path_len);
  } else {
    const char *with_slash = mcp_format("/%.*s", (int)path_len, path);
    parts->path_with_query = text(with_slash, path_len + 1);
  }
  return true;
}

static const char *reason_of(uint8_t code) {
  switch (code) {
    case ERROR(DNS_TIMEOUT):
    case ERROR(CONNECTION_TIMEOUT):
    case ERROR(CONNECTION_READ_TIMEOUT):
    case ERROR(CONNECTION_WRITE_TIMEOUT):
    case ERROR(HTTP_RESPONSE_TIMEOUT):
      return "the server did not respond in time";
    case ERROR(DNS_ERROR):
    case ERROR(DESTINATION_NOT_FOUND):
      return "the name of the server does not resolve";
    case ERROR(DESTINATION_UNAVAILABLE):
    case ERROR(DESTINATION_IP_UNROUTABLE):
    case ERROR(CONNECTION_REFUSED):
      return "the server cannot be reached";
    case ERROR(CONNECTION_TERMINATED):
      return "the connection was closed";
    case ERROR(TLS_CERTIFICATE_ERROR):
      return "the certificate of the server is not trusted";
    case ERROR(TLS_PROTOCOL_ERROR):
    case ERROR(TLS_ALERT_RECEIVED):
      return "there is no common TLS version or cipher";
    case ERROR(CONNECTION_LIMIT_REACHED):
      return "there are too many requests";
    case ERROR(HTTP_REQUEST_BODY_SIZE):
      return "the body of the request is too large";
    case ERROR(HTTP_RESPONSE_BODY_SIZE):
      return "the body of the response is too large";
    case ERROR(HTTP_RESPONSE_INCOMPLETE):
      return "the response is truncated";
    default:
      return "the request failed";
  }
}

/* Returns the failure for an error of the bindings, and frees that. */
static mcp_result failure(const char *url, HTTP(error_code_t) * error) {
  uint8_t code = error->tag;
  HTTP(error_code_free)(error);
  switch (code) {
    case ERROR(HTTP_REQUEST_DENIED):
    case ERROR(DESTINATION_IP_PROHIBITED):
      return mcp_denied("requests to %s are not granted", url);
    case ERROR(HTTP_REQUEST_METHOD_INVALID):
    case ERROR(HTTP_REQUEST_URI_INVALID):
    case ERROR(HTTP_REQUEST_URI_TOO_LONG):
    case ERROR(HTTP_REQUEST_LENGTH_REQUIRED):
    case ERROR(HTTP_REQUEST_HEADER_SECTION_SIZE):
    case ERROR(HTTP_REQUEST_HEADER_SIZE):
      return mcp_internal("%s: the method, the URL or the headers are invalid or too large", url);
    default:
      return mcp_unavailable("%s: %s", url, reason_of(code));
  }
}

/* ---- The request ------------------------------------------------------------------------------------------------ */

static HTTP(method_t) method_of(const char *name) {
  static const char *const names[] = {"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                      "CONNECT", "OPTIONS", "TRACE", "PATCH"};
  HTTP(method_t) method = {.tag = WASI_HTTP_TYPES_METHOD_GET};
  if (name == NULL) return method;
  while (method.tag < WASI_HTTP_TYPES_METHOD_OTHER && strcmp(names[method.tag], name) != 0) method.tag++;
  if (method.tag == WASI_HTTP_TYPES_METHOD_OTHER) method.val.other = text(name, strlen(name));
  return method;
}

static bool append_header(HTTP(borrow_fields_t) fields, const mcp_http_header *header) {
  HTTP(field_name_t) name = text(header->name, strlen(header->name));
  HTTP(field_value_t) value = {.ptr = (uint8_t *)header->value, .len = strlen(header->value)};
  HTTP(header_error_t) error;
  if (HTTP(method_fields_append)(fields, &name, &value, &error)) return true;
  HTTP(header_error_free)(&error);
  return false;
}

/* Makes the headers of a request. */
static mcp_result make_fields(const mcp_http_request *request, HTTP(own_fields_t) * fields) {
  *fields = HTTP(constructor_fields)();
  HTTP(borrow_fields_t) borrowed = HTTP(borrow_fields)(*fields);
  bool has_length = request->body_len == 0;
  for (size_t i = 0; i < request->header_count; i++) {
    const mcp_http_header *header = &request->headers[i];
    if (!append_header(borrowed, header)) {
      HTTP(fields_drop_own)(*fields);
      return mcp_internal("the header \"%s\" is invalid, or only the host may set it", header->name);
    }
    has_length |= strcasecmp(header->name, "content-length") == 0;
  }
  if (!has_length) append_header(borrowed, &(mcp_http_header){"content-length", mcp_format("%zu", request->body_len)});
  return mcp_ok();
}

static HTTP(own_request_options_t) make_options(uint64_t timeout_ms) {
  HTTP(own_request_options_t) options = HTTP(constructor_request_options)();
  HTTP(borrow_request_options_t) borrowed = HTTP(borrow_request_options)(options);
  HTTP(duration_t) timeout = timeout_ms > UINT64_MAX / 1000000 ? UINT64_MAX : timeout_ms * 1000000;
  HTTP(method_request_options_set_connect_timeout)(borrowed, &timeout);
  HTTP(method_request_options_set_first_byte_timeout)(borrowed, &timeout);
  HTTP(method_request_options_set_between_bytes_timeout)(borrowed, &timeout);
  return options;
}

/* Writes the body and ends it. Where that fails, the future of the response has the reason. */
static void write_body(const mcp_http_request *request, HTTP(own_outgoing_body_t) body) {
  HTTP(own_output_stream_t) stream;
  bool is_complete = true;
  if (request->body_len > 0 && HTTP(method_outgoing_body_write)(HTTP(borrow_outgoing_body)(body), &stream)) {
    for (size_t at = 0; is_complete && at < request->body_len; at += MAX_WRITE) {
      size_t left = request->body_len - at;
      provider_list_u8_t part = {.ptr = (uint8_t *)request->body + at, .len = left < MAX_WRITE ? left : MAX_WRITE};
      wasi_io_streams_stream_error_t error;
      is_complete = wasi_io_streams_method_output_stream_blocking_write_and_flush(
          wasi_io_streams_borrow_output_stream(stream), &part, &error);
      if (!is_complete) wasi_io_streams_stream_error_free(&error);
    }
    wasi_io_streams_output_stream_drop_own(stream);
  }
  HTTP(error_code_t) error;
  if (!is_complete) {
    HTTP(outgoing_body_drop_own)(body);
  } else if (!HTTP(static_outgoing_body_finish)(body, NULL, &error)) {
    HTTP(error_code_free)(&error);
  }
}

/* Sends the request, with its body. */
static mcp_result start(const mcp_http_request *request, HTTP(own_future_incoming_response_t) * future) {
  url_parts url;
  if (!parse_url(request->url, &url)) {
    return mcp_internal("expected an http: or https: URL without user information, found \"%s\"", request->url);
  }
  HTTP(own_fields_t) fields;
  mcp_result result = make_fields(request, &fields);
  if (result.code != MCP_OK) return result;
  HTTP(own_outgoing_request_t) outgoing = HTTP(constructor_outgoing_request)(fields);
  HTTP(borrow_outgoing_request_t) borrowed = HTTP(borrow_outgoing_request)(outgoing);
  HTTP(method_t) method = method_of(request->method);
  HTTP(scheme_t) scheme = {.tag = url.is_https ? WASI_HTTP_TYPES_SCHEME_HTTPS : WASI_HTTP_TYPES_SCHEME_HTTP};
  HTTP(own_outgoing_body_t) body;
  if (!HTTP(method_outgoing_request_set_method)(borrowed, &method) ||
      !HTTP(method_outgoing_request_set_scheme)(borrowed, &scheme) ||
      !HTTP(method_outgoing_request_set_authority)(borrowed, &url.authority) ||
      !HTTP(method_outgoing_request_set_path_with_query)(borrowed, &url.path_with_query) ||
      !HTTP(method_outgoing_request_body)(borrowed, &body)) {
    HTTP(outgoing_request_drop_own)(outgoing);
    return mcp_internal("the method or the URL is invalid: %s", request->url);
  }
  HTTP(own_request_options_t) options;
  if (request->timeout_ms > 0) options = make_options(request->timeout_ms);
  HTTP(error_code_t) error;
  if (!wasi_http_outgoing_handler_handle(outgoing, request->timeout_ms > 0 ? &options : NULL, future, &error)) {
    HTTP(outgoing_body_drop_own)(body);
    return failure(request->url, &error);
  }
  write_body(request, body);
  return mcp_ok();
}

/* ---- The response ----------------------------------------------------------------------------------------------- */

static mcp_result await(const char *url, HTTP(own_future_incoming_response_t) future,
                        HTTP(own_incoming_response_t) * incoming) {
  HTTP(borrow_future_incoming_response_t) borrowed = HTTP(borrow_future_incoming_response)(future);
  wasi_io_poll_own_pollable_t settled = HTTP(method_future_incoming_response_subscribe)(borrowed);
  wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(settled));
  wasi_io_poll_pollable_drop_own(settled);
  HTTP(result_result_own_incoming_response_error_code_void_t) result;
  bool is_there = HTTP(method_future_incoming_response_get)(borrowed, &result) && !result.is_err;
  HTTP(future_incoming_response_drop_own)(future);
  if (!is_there) return mcp_unavailable("%s: the request failed", url);
  if (result.val.ok.is_err) return failure(url, &result.val.ok.val.err);
  *incoming = result.val.ok.val.ok;
  return mcp_ok();
}

static void read_headers(HTTP(borrow_incoming_response_t) incoming, mcp_http_response *response) {
  HTTP(own_headers_t) fields = HTTP(method_incoming_response_headers)(incoming);
  HTTP(list_tuple2_field_name_field_value_t) entries;
  HTTP(method_fields_entries)(HTTP(borrow_fields)(fields), &entries);
  mcp_http_header *headers = mcp_alloc(entries.len * sizeof(mcp_http_header));
  for (size_t i = 0; i < entries.len; i++) {
    char *name = mcp_copy((const char *)entries.ptr[i].f0.ptr, entries.ptr[i].f0.len);
    for (char *c = name; *c != '\0'; c++) *c += *c >= 'A' && *c <= 'Z' ? 'a' - 'A' : 0;
    headers[i].name = name;
    headers[i].value = mcp_copy((const char *)entries.ptr[i].f1.ptr, entries.ptr[i].f1.len);
  }
  response->headers = headers;
  response->header_count = entries.len;
  HTTP(list_tuple2_field_name_field_value_free)(&entries);
  HTTP(fields_drop_own)(fields);
}

/* Reads a stream to its end. */
static mcp_result read_stream(const mcp_http_request *request, wasi_io_streams_borrow_input_stream_t stream,
                              mcp_http_response *response) {
  size_t limit = request->max_body == 0 ? MAX_BODY : request->max_body, len = 0, capacity = 0;
  char *body = mcp_copy("", 0);
  for (;;) {
    provider_list_u8_t chunk;
    wasi_io_streams_stream_error_t error;
    if (!wasi_io_streams_method_input_stream_blocking_read(stream, CHUNK, &chunk, &error)) {
      bool is_end = error.tag == WASI_IO_STREAMS_STREAM_ERROR_CLOSED;
      wasi_io_streams_stream_error_free(&error);
      if (!is_end) return mcp_unavailable("%s: the connection was lost within the body", request->url);
      response->body = body;
      response->body_len = len;
      return mcp_ok();
    }
    if (chunk.len > limit - len) {
      provider_list_u8_free(&chunk);
      return mcp_internal("%s: the body has more than %zu bytes", request->url, limit);
    }
    if (len + chunk.len + 1 > capacity) {
      capacity = 2 * (len + chunk.len + 1);
      body = mcp_grow(body, len, capacity);
    }
    if (chunk.len > 0) memcpy(body + len, chunk.ptr, chunk.len);
    len += chunk.len;
    provider_list_u8_free(&chunk);
  }
}

static mcp_result receive(const mcp_http_request *request, HTTP(borrow_incoming_response_t) incoming,
                          mcp_http_response *response) {
  *response = (mcp_http_response){.status = HTTP(method_incoming_response_status)(incoming)};
  read_headers(incoming, response);
  mcp_result result = mcp_unavailable("%s: the response has no body", request->url);
  HTTP(own_incoming_body_t) body;
  if (!HTTP(method_incoming_response_consume)(incoming, &body)) return result;
  HTTP(own_input_stream_t) stream;
  if (HTTP(method_incoming_body_stream)(HTTP(borrow_incoming_body)(body), &stream)) {
    result = read_stream(request, wasi_io_streams_borrow_input_stream(stream), response);
    wasi_io_streams_input_stream_drop_own(stream);
  }
  HTTP(incoming_body_drop_own)(body);
  return result;
}

mcp_result mcp_http_send(const mcp_http_request *request, mcp_http_response *response) {
  HTTP(own_future_incoming_response_t) future;
  mcp_result result = start(request, &future);
  if (result.code != MCP_OK) return result;
  HTTP(own_incoming_response_t) incoming;
  result = await(request->url, future, &incoming);
  if (result.code != MCP_OK) return result;
  result = receive(request, HTTP(borrow_incoming_response)(incoming), response);
  HTTP(incoming_response_drop_own)(incoming);
  return result;
}

const char *mcp_http_header_of(const mcp_http_response *response, const char *name) {
  for (size_t i = 0; i < response->header_count; i++) {
    if (strcmp(response->headers[i].name, name) == 0) return response->headers[i].value;
  }
  return NULL;
}
