// A provider of functions that prepares an index of a file in a bucket, a part per call, for a test of the host.

import { BeingPrepared, decodeUtf8, progressOf, provider, resource, Unavailable } from "mcp-host-provider";
import { readDir, readFile } from "mcp-host-provider/fs";
import { Bucket } from "mcp-host-provider/keyvalue";

const PARTS = 3;

function read() {
  const bytes = new Bucket("index").get("source");
  if (bytes === undefined) throw new BeingPrepared();
  return decodeUtf8(bytes);
}

export default provider({ name: "preparing", version: "1.0.0" }, [resource("index", { read })]);

export function prepare(_, token, config) {
  const folder = config.text("dir", "/data");
  const bucket = new Bucket("index");
  const source = readFile(`${folder}/source`);
  const exists = (name) => readDir(folder).some((entry) => entry.name === name);
  const part = Number(token ?? 0);
  if (part === 1 && exists("fault")) throw new Unavailable("the source is locked", { retryAfter: 1 });
  if (part === 2 && exists("bug")) throw new TypeError("a bug");
  if (part + 1 === PARTS) bucket.set("source", source);
  return progressOf(part + 1, PARTS, "parts", part + 1);
}
