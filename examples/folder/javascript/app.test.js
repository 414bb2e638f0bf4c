// The provider on Node.js.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { Config, NotFound } from "mcp-host-provider";

import Folder from "./app.js";

const dir = mkdtempSync(join(tmpdir(), "folder-"));
after(() => rmSync(dir, { recursive: true }));
for (const name of ["a b.md", "b.txt", "c.bin"]) writeFileSync(join(dir, name), "1\n2\n3\n");
const folder = new Folder(new Config({ dir }));

test("files are listed by pages and read", () => {
  const first = folder.listEntries(undefined, undefined, 2);
  const second = folder.listEntries(undefined, first.nextCursor, 2);
  const paths = [...first.entries, ...second.entries].map(({ path }) => path);
  assert.deepEqual([paths, second.nextCursor], [["a%20b.md", "b.txt", "c.bin"], undefined]);
  assert.equal(folder.read("first/a%20b.md?lines=2")[0].text, "1\n2\n");
  for (const path of ["missing", "first/missing", "first/..%2Fsecret"]) assert.throws(() => folder.read(path), NotFound);
});

test("names are completed, and changes reported", () => {
  assert.deepEqual(folder.complete("first/{name}{?lines}", "name", "a", {}).values, ["a b.md"]);
  const watched = ["b.txt", "first/b.txt?lines=1", "c.bin"];
  const start = folder.changes(watched, undefined);
  writeFileSync(join(dir, "b.txt"), "changed\n");
  const later = folder.changes(watched, start.token);
  assert.deepEqual([later.changed, later.listingChanged], [["b.txt", "first/b.txt?lines=1"], true]);
});
