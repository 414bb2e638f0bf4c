// The provider on Node.js.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { Config, InvalidRequest, NotFound } from "mcp-host-provider";

import Csv from "../src/app.ts";
import { records, write } from "../src/csv.ts";

const dir = mkdtempSync(join(tmpdir(), "csv-"));
after(() => rmSync(dir, { recursive: true }));
writeFileSync(join(dir, "a.csv"), "x,y\n1,2\n3,4\n5,6\n");
const csv = new Csv(new Config({ dir, "max-rows": 2 }));

/** Reads text. */
function text(path: string): string | undefined {
  const [contents] = [csv.read(path)].flat();
  return contents && "text" in contents ? contents.text : undefined;
}

test("rows and columns of a file are read", () => {
  assert.equal(text("a.csv/rows?from=2&columns=y,x"), "y,x\n4,3\n6,5\n");
  assert.equal(text("a.csv/rows"), "x,y\n1,2\n3,4\n");
  assert.throws(() => csv.read("a.csv/rows?from=0"), InvalidRequest);
  assert.throws(() => csv.read("b.csv/rows"), NotFound);
});

test("a file that is written is reported", () => {
  const watched = ["a.csv", "b.csv/rows"];
  const start = csv.changes(watched, undefined);
  assert.deepEqual(csv.changes(watched, start.token).changed, []);
  writeFileSync(join(dir, "b.csv"), "x\n");
  const later = csv.changes(watched, start.token);
  assert.deepEqual([later.changed, later.listingChanged], [["b.csv/rows"], true]);
});

test("CSV is read leniently and written strictly", () => {
  assert.deepEqual([...records('\ufeffa,b\r\n\n"x, ""y""",\n')], [["a", "b"], ['x, "y"', ""]]);
  assert.deepEqual([...records('"a"b,c"d"\na,"b')], [["ab", 'c"d"'], ["a", "b"]]);
  assert.deepEqual([...records(write(["a,b", '"', "", "x\ny"]))], [["a,b", '"', "", "x\ny"]]);
});
