/*
 * Work that takes longer than a call, such as an index. A provider that prepares defines `mcp_prepare`, and compiles
 * `prepare/mcp_prepare.c` and `prepare/bindings/prepare.c` of the SDK, too. Where the config has `limits.prepare`, the host calls it
 * in the background, after it has loaded the provider and after changes.
 */
#ifndef MCP_PREPARE_H
#define MCP_PREPARE_H

#include <mcp_provider.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How far the preparation is after a call. */
typedef struct {
  /* The token of the next call, and never the one of this call; NULL when everything is prepared. At most 65536 bytes. */
  const char *next_token;
  /* The part that is prepared, in per cent: 0 to 100. */
  mcp_option_u64 percent;
  /* What has been done, for administrators. */
  const char *message;
  /* The time after which everything is to be prepared again, although no change is reported. */
  mcp_option_u64 again_after_ms;
} mcp_progress;

/* Prepares a part of the work: a few hundred milliseconds of it. `token` is the `next_token` of the call before; NULL begins. A call
   that fails is repeated with the same token. Results are kept in a granted directory or in a bucket. Defined by the provider. */
mcp_result mcp_prepare(const char *token, mcp_progress *progress);

/* The result of a call that needs data that is not prepared yet. The client gets the progress and a time to retry, or
   the information that the config of the host does not let the provider prepare anything. */
mcp_result mcp_being_prepared(void);

#ifdef __cplusplus
}
#endif
#endif
