// A provider that prepares an index of a file in a bucket, a part per call, for a test of the host.

import { BeingPrepared, Provider, Unavailable } from "mcp-host-provider";
import { readDir, readFile } from "mcp-host-provider/fs";
import { Bucket } from "mcp-host-provider/keyvalue";

const PARTS = 3;

export default class Preparing extends Provider {
  static info = { name: "preparing", version: "1.0.0" };

  listEntries() {
    return { entries: [{ path: "index", name: "index" }] };
  }

  read(path) {
    const bytes = new Bucket("index").get("source");
    if (bytes === undefined) throw new BeingPrepared();
    return { entry: { path, name: path }, bytes, isText: true };
  }
}

export function prepare(provider, token) {
  const bucket = new Bucket("index");
  const source = readFile("/data/source");
  const exists = (name) => readDir("/data").some((entry) => entry.name === name);
  const part = Number(token ?? 0);
  if (part === 1 && exists("fault")) throw new Unavailable("the source is locked", { retryAfter: 1 });
  if (part === 2 && exists("bug")) throw new TypeError("a bug");
  if (part + 1 === PARTS) bucket.set("source", source);
  const percent = Math.floor((100 * (part + 1)) / PARTS);
  return { nextToken: part + 1 < PARTS ? String(part + 1) : undefined, percent, message: `${part + 1} of ${PARTS} parts` };
}
