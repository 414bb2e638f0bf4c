/* The export `prepare`, of providers that have it. */
#include <mcp_prepare.h>

#include <string.h>

#include "../src/internal.h"
#include "bindings/prepare.h"

typedef exports_mcp_host_provider_prepare_progress_t wit_progress;
typedef exports_mcp_host_provider_prepare_failure_t wit_failure;

/* The generated code refers to an object file with the type of the component. `mcp-host componentize` embeds that type. */
void __component_type_object_force_link_prepare(void) {}

static prepare_option_string_t lower_option(const char *text) {
  prepare_option_string_t lowered = {.is_some = text != NULL};
  if (text != NULL) prepare_string_dup(&lowered.val, text);
  return lowered;
}

static prepare_option_u64_t lower_number(mcp_option_u64 number) {
  return (prepare_option_u64_t){.is_some = number.is_some, .val = number.value};
}

bool exports_mcp_host_provider_prepare_prepare(prepare_string_t *maybe_token, wit_progress *ret, wit_failure *failure) {
  const char *token = NULL;
  bool has_nul = false;
  if (maybe_token != NULL) {
    has_nul = maybe_token->len > 0 && memchr(maybe_token->ptr, '\0', maybe_token->len) != NULL;
    token = mcp_copy((const char *)maybe_token->ptr, maybe_token->len);
    prepare_string_free(maybe_token);
  }
  mcp_progress progress = {0};
  mcp_result result = has_nul ? mcp_invalid_request("expected a text without NUL") : mcp_prepare(token, &progress);
  if (result.code == MCP_OK) {
    uint64_t percent = progress.percent.value;
    *ret = (wit_progress){
        .next_token = lower_option(progress.next_token),
        .percent = {.is_some = progress.percent.is_some, .val = percent > 100 ? 100 : (uint8_t)percent},
        .message = lower_option(progress.message),
        .again_after_ms = lower_number(progress.again_after_ms),
    };
  } else {
    prepare_string_dup(&failure->reason, result.message == NULL ? "something is not found" : result.message);
    failure->retry_after_ms = lower_number(result.retry_after_ms);
  }
  mcp_end_call();
  return result.code == MCP_OK;
}
