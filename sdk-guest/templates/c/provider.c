/* The files of a folder: one resource per file, and a template for the first lines of each. */
#include <mcp_functions.h>

/* What it would like to be granted: `mcp-host inspect` shows it. */
MCP_NEEDS({
  "dirs": [{ "guest": "/data", "why": "the files" }],
  "config": {
    "dir": { "type": "string", "default": "/data", "why": "the folder, at its guest path" },
    "lines": { "type": "integer", "default": 10, "why": "the number of lines of `first/NAME`" }
  }
});

static const char *folder(void) { return mcp_config_or("dir", "/data"); }

static mcp_result read_file(const mcp_arguments *of, mcp_body *body) {
  const char *file;
  mcp_result result = mcp_file_argument(of, "name", folder(), &file);
  if (result.code == MCP_OK) mcp_body_file(body, file);
  return result;
}

static mcp_result list_files(mcp_listing *listing) { return mcp_listing_folder(listing, folder()); }

static mcp_result read_first_lines(const mcp_arguments *of, mcp_body *body) {
  uint64_t lines = 10;
  mcp_result result = mcp_config_u64("lines", 0, UINT32_MAX, &lines);
  if (result.code != MCP_OK) return result;
  const char *file;
  result = mcp_file_argument(of, "name", folder(), &file);
  if (result.code != MCP_OK) return result;
  char *bytes;
  size_t len;
  result = mcp_read_file(file, &bytes, &len);
  if (result.code != MCP_OK) return result;
  if (!mcp_is_utf8(bytes, len)) return mcp_invalid_request("expected a text file");
  size_t end = 0;
  for (; lines > 0 && end < len; lines--) {
    while (end < len && bytes[end++] != '\n') continue;
  }
  mcp_body_text(body, mcp_copy(bytes, end));
  return mcp_ok();
}

static const mcp_resource resources[] = {
    {.path_template = "{name}",
     .name = "file",
     .description = "A file of the folder.",
     .read = read_file,
     .list = list_files},
    {.path_template = "first/{name}",
     .name = "first-lines",
     .title = "First lines of a file",
     .description = "The first lines of a text file.",
     .mime_type = "text/plain",
     .read = read_first_lines},
};

MCP_FUNCTIONS(resources, .name = "{{name}}", .version = "0.1.0", .description = "The files of a folder.");
