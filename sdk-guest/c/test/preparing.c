/* A provider that prepares an index of a file in a bucket, a part per call, for a test of the host. */
#include <mcp_keyvalue.h>
#include <mcp_prepare.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PARTS = 3 };

static mcp_result list(const char *parent, const char *cursor, uint32_t limit, mcp_page *page) {
  (void)parent, (void)cursor, (void)limit;
  mcp_page_add(page, (mcp_entry){.path = "index", .name = "index"});
  return mcp_ok();
}

mcp_result mcp_prepare(const char *token, mcp_progress *progress) {
  char text[256];
  FILE *source = fopen("/data/source", "rb");
  if (source == NULL) return mcp_from_errno(errno, "cannot open the source");
  size_t len = fread(text, 1, sizeof text, source);
  fclose(source);
  int part = token == NULL ? 0 : atoi(token);
  if (part == 1 && access("/data/fault", F_OK) == 0) {
    mcp_result failure = mcp_unavailable("the source is locked");
    failure.retry_after_ms = (mcp_option_u64)MCP_SOME(1);
    return failure;
  }
  if (part == 2 && access("/data/bug", F_OK) == 0) abort();
  part++;
  if (part == PARTS) {
    mcp_bucket bucket;
    mcp_result result = mcp_bucket_open("index", &bucket);
    if (result.code == MCP_OK) result = mcp_bucket_set(bucket, "source", text, len);
    if (result.code != MCP_OK) return result;
  } else {
    progress->next_token = mcp_format("%d", part);
  }
  progress->percent = (mcp_option_u64)MCP_SOME((uint64_t)(100 * part / PARTS));
  progress->message = mcp_format("%d of %d parts", part, PARTS);
  return mcp_ok();
}

static mcp_result read_index(const char *path, mcp_reading *reading) {
  mcp_bucket bucket;
  mcp_value value;
  mcp_result result = mcp_bucket_open("index", &bucket);
  if (result.code == MCP_OK) result = mcp_bucket_get(bucket, "source", &value);
  if (result.code != MCP_OK) return result;
  if (value.bytes == NULL) return mcp_being_prepared();
  mcp_reading_add_bytes(reading, (mcp_entry){.path = path, .name = path}, value.bytes, value.len);
  return mcp_ok();
}

const mcp_provider mcp_this_provider = {
    .info = {.name = "preparing", .version = "1.0.0"},
    .list = list,
    .read = read_index,
};
