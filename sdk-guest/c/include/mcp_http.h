/*
 * HTTP requests to the origins that the administrator grants (`grants.http = ["https://docs.rs"]`).
 *
 *     #include <mcp_http.h>
 *
 *     mcp_http_response response;
 *     mcp_result result = mcp_http_get("https://docs.rs/serde/", &response);
 *     if (result.code != MCP_OK) return result;
 *     if (response.status != 200) return mcp_unavailable("the server answered %d", response.status);
 *     mcp_reading_add_text(reading, entry, response.body);
 *
 * The host checks the origin, resolves the name, connects and verifies the certificate. It follows no redirects, since each origin is
 * granted separately, and stores no cookies. A request that is not granted is denied, a server that does not answer is
 * unavailable, and a malformed request is an internal failure.
 *
 * MEMORY. The texts of a request must be valid until the function returns. What a response points to is memory of the call, which the
 * SDK frees when the call has ended.
 *
 * A component imports `wasi:http` if it calls one of these functions. There is no host in native tests: a test defines
 * `mcp_http_send` itself, if its provider uses it.
 */
#ifndef MCP_HTTP_H
#define MCP_HTTP_H

#include <mcp_provider.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char *name;
  const char *value;
} mcp_http_header;

typedef struct {
  /* NULL is `GET`. */
  const char *method;
  /* An absolute `https:` or `http:` URL without user information. */
  const char *url;
  const mcp_http_header *headers;
  size_t header_count;
  const void *body;
  size_t body_len;
  /* The timeout of the connection, of the first byte of the response, and between bytes of its body, in milliseconds; 0 for
     the host's default. Keep it below the plugin's `deadline`. */
  uint64_t timeout_ms;
  /* The largest body of a response in bytes; 0 is 1 MiB. A larger one is an internal failure. */
  size_t max_body;
} mcp_http_request;

/* A response of any status. */
typedef struct {
  uint16_t status;
  /* In the order of the response; names are in lower case, and may repeat. */
  const mcp_http_header *headers;
  size_t header_count;
  /* The body, with a NUL behind. It may be binary, and is not decoded. */
  const char *body;
  size_t body_len;
} mcp_http_response;

/* Sends a request and waits for the whole response. */
mcp_result mcp_http_send(const mcp_http_request *request, mcp_http_response *response);

/* Sends a GET request without headers of its own. */
static inline mcp_result mcp_http_get(const char *url, mcp_http_response *response) {
  mcp_http_request request = {0};
  request.url = url;
  return mcp_http_send(&request, response);
}

/* Returns the first header of that name, which is in lower case; NULL if there is none. */
const char *mcp_http_header_of(const mcp_http_response *response, const char *name);

#ifdef __cplusplus
}
#endif
#endif
