// The provider on Node.js.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { Config, type Contents, Internal, NotFound } from "mcp-host-provider";

import Files from "../src/app.ts";

const dir = mkdtempSync(join(tmpdir(), "files-"));
after(() => rmSync(dir, { recursive: true }));
writeFileSync(join(dir, "a.md"), "one\ntwo\nthree\n");
writeFileSync(join(dir, "b.bin"), Uint8Array.of(255, 0));
const files = new Files(new Config({ dir, lines: 2 }));

/** Reads a resource with one content. */
function read(path: string): Contents {
  const [contents] = [files.read(path)].flat();
  assert(contents);
  return contents;
}

test("files are listed and read", () => {
  const { entries } = files.listEntries(undefined, undefined, 10);
  assert.deepEqual(entries.map(({ name }) => name), ["a.md", "b.bin"]);
  const binary = read("b.bin");
  assert("bytes" in binary);
  assert.deepEqual([...binary.bytes], [255, 0]);
  const text = read("first/a.md");
  assert("text" in text);
  assert.equal(text.text, "one\ntwo\n");
  assert.throws(() => read("c.md"), NotFound);
  assert.deepEqual(files.complete("first/{name}", "name", "a", {}).values, ["a.md"]);
});

test("a folder that is not granted is a fault of the config", () => {
  const files = new Files(new Config({ dir: join(dir, "missing") }));
  for (const path of ["a.md", "first/a.md"]) assert.throws(() => files.read(path), Internal);
});

test("a file that is written is reported", () => {
  const watched = ["first/a.md", "b.bin"];
  const start = files.changes(watched, undefined);
  assert.deepEqual(files.changes(watched, start.token).changed, []);
  writeFileSync(join(dir, "a.md"), "changed\n");
  const later = files.changes(watched, start.token);
  assert.deepEqual([later.changed, later.listingChanged], [["first/a.md"], true]);
});
