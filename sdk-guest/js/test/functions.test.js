// Providers of functions, on Node.js.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import {
  boolean, Config, date, integer, Internal, InvalidRequest, matching, NotFound, number, oneOf, optional, PathTemplate, provider, resource,
  text,
} from "mcp-host-provider";
import { file, files, memo } from "mcp-host-provider/fs";

const INFO = { name: "sample", version: "1.0.0" };
const open = (...resources) => new (provider(INFO, resources))(new Config());
const body = (provider, path) => {
  const [contents] = provider.read(path);
  assert.equal(contents.entry.path, path);
  return contents.text ?? contents.bytes;
};

/** The paths of all pages, each by another instance. */
function paths(opened, limit = 3) {
  const found = [];
  let cursor;
  do {
    const page = opened().listEntries(undefined, cursor, limit);
    found.push(...page.entries.map(({ path }) => path));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}

const variables = {
  number: integer(), ratio: number(0.5), day: optional(date()), level: oneOf(["low", "high"], "low"), flag: boolean(false), q: text("none"),
};
const typed = open(
  resource("typed/{number}{?ratio,day,level,flag,q}", { variables, read: (values) => JSON.stringify(values) }),
  resource("wanted{?q}", { variables: { q: text() }, read: ({ q }) => q }),
);

test("values are converted, and missing or empty ones of the query are the default", () => {
  const standard = { number: 7, ratio: 0.5, level: "low", flag: false, q: "none" };
  assert.deepEqual(JSON.parse(body(typed, "typed/7")), standard);
  assert.deepEqual(JSON.parse(body(typed, "typed/7?ratio=&q=&day=")), standard);
  assert.deepEqual(JSON.parse(body(typed, "typed/-7?ratio=2&day=2026-11-28&level=high&flag=true&q=a%26b")), {
    number: -7, ratio: 2, day: "2026-11-28T00:00:00.000Z", level: "high", flag: true, q: "a&b",
  });
});

test("a value of another type is an invalid request that says what is expected", () => {
  for (const [path, message] of [
    ["typed/x", '`number` must be an integer, such as 7, found "x"'],
    ...["07", "7%0A", "7.0", "1e3", "9".repeat(5000), "%D9%A7", "%20"].map((found) => [`typed/${found}`, "`number` must be an integer"]),
    ["typed/7?ratio=NaN", "`ratio` must be a number"],
    ["typed/7?ratio=1e400", "`ratio` must be a number"],
    ["typed/7?day=20261128", "`day` must be a date"],
    ["typed/7?day=2026-02-30", "`day` must be a date"],
    ["typed/7?level=LOW", '`level` must be low or high, found "LOW"'],
    ["typed/7?flag=1", "`flag` must be true or false"],
    ["wanted", "expected a value of `q`"],
    ["wanted?q=", "expected a value of `q`"],
  ]) {
    assert.throws(() => typed.read(path), (error) => error instanceof InvalidRequest && error.message.startsWith(message), path);
  }
  for (const path of ["typed", "typed/7/8", "typed/7?other=1", "typed/7?flag=true&flag=true", "other", "typed/%FF"]) {
    assert.throws(() => typed.read(path), NotFound, path);
  }
  assert.deepEqual(typed.complete("typed/{number}{?ratio,day,level,flag,q}", "level", "h", {}).values, ["high"]);
});

test("wrong use is an error of the build that says what to write", () => {
  const read = () => "";
  for (const [path, options, message] of [
    ["events/{uid}", { read, variables: { days: integer(7) } }, /no variable `days`; write "events\/{uid}{\?days}"/],
    ["events/{uid}{?start}", { read, variables: { days: integer(7) } }, /write "events\/{uid}{\?start,days}"/],
    ["events/{uid}", { read, variables: { uid: Number } }, /variables.uid: expected text\(\), integer\(\)/],
    ["events/{uid}", {}, /expected a function `read`/],
    ["events/{uid}", { read, lists: read }, /no option `lists`; the options are/],
    ["events/{uid}", { read, list: [] }, /expected a function for `list`/],
    ["events/{uid}", { read, complete: { day: read } }, /`complete` has day, which is no variable; its variables: uid/],
    ["events", { read, list: read }, /one resource, which is listed by itself/],
    ["/events/{uid}", { read }, /begins with a slash; write "events\/{uid}"/],
    ["my events/{uid}", { read }, /paths have "my%20events"/],
    ["../{uid}", { read }, /no path has ".."/],
    ["events/{uid*}", { read }, /supported are/],
  ]) {
    assert.throws(() => resource(path, options), message, path);
  }
  assert.throws(() => provider(INFO, [resource("a/{b}", { read }), resource("a/{c}{?d}", { read, name: "c" })]), /the paths of "a\/{c}{\?d}" are those of "a\/{b}"/);
  assert.throws(() => provider(INFO, [resource("a/{b}", { read }), resource("{b}/a", { read })]), /a resource `a` already/);
  assert.throws(() => provider(INFO, { read }), /expected an array of resource/);
});

let values = [];
let made = 0;
const listing = () =>
  open(
    resource("about", { read: () => "about" }),
    resource("{+key}", {
      read: ({ key }) => (values.includes(key) ? key : undefined),
      *list() {
        for (const one of values) {
          made += 1;
          yield one;
        }
      },
    }),
  );

test("pages have the order of the iterator, and no more of it is iterated", () => {
  values = Array.from({ length: 100 }, (_, number) => `${(number * 7919) % 1000}/x y`);
  const listed = ["about", ...values.map((one) => one.replace(" ", "%20"))];
  assert.deepEqual(paths(listing, 1), listed);
  assert.deepEqual(paths(listing, 1000), listed);
  made = 0;
  listing().listEntries(undefined, undefined, 10);
  assert.equal(made, 10);
});

test("as many values are completed as the host chooses from", () => {
  values = Array.from({ length: 1000 }, (_, number) => `v${number}`);
  let completion = listing().complete("{+key}", "key", "v", {});
  assert.deepEqual([completion.values.length, completion.total, completion.hasMore], [1000, 1000, false]);
  values = Array.from({ length: 2500 }, (_, number) => `v${number}`);
  completion = listing().complete("{+key}", "key", "v", {});
  assert.deepEqual([completion.values.length, completion.total, completion.hasMore], [1000, 2500, true]);
  assert.deepEqual(matching(values, "v"), completion);
  assert.deepEqual(matching(["b", "ab", "a", "ab"], "a"), { values: ["ab", "a"], total: 2, hasMore: false });
});

test("a cursor continues in another instance, whatever was added or removed", () => {
  const start = Array.from({ length: 40 }, (_, number) => `v${number}`);
  for (const [name, edited] of [
    ["nothing", start],
    ["one is added before", ["new", ...start]],
    ["the last of the page is removed", start.filter((one) => one !== "v28")],
    ["several before are removed", start.filter((one) => !["v0", "v1", "v27", "v28"].includes(one))],
    ["the next is removed", start.filter((one) => one !== "v29")],
  ]) {
    values = start;
    const first = listing().listEntries(undefined, undefined, 30);
    const before = first.entries.map(({ path }) => path);
    values = edited;
    const second = listing().listEntries(undefined, first.nextCursor, 30);
    assert.deepEqual(second.entries.map(({ path }) => path), edited.filter((one) => !before.includes(one) && one !== "new"), name);
    assert.ok(first.nextCursor.length < 300);
  }
  for (const cursor of ["", "x", "0:1", "9:0:", "0:1:zz", "0:-1:", `0:1:${"a".repeat(14 * 17)}`, "0:1:\n", "٠:1:"]) {
    assert.throws(() => listing().listEntries(undefined, cursor, 10), InvalidRequest, cursor);
  }
  assert.throws(() => listing().listEntries("about", undefined, 10), InvalidRequest);
  assert.throws(() => listing().listEntries("missing", undefined, 10), NotFound);
});

test("each path that is listed is that of its template, and can be read", (context) => {
  const warn = context.mock.method(console, "warn", () => {});
  const names = ["a b", "feature/x", "ü/é%2F", "a?b#c", "&=+,;!$'()*:@", "日本", "~.-_", "%", "\"<>\\^`{|}"];
  values = [...names, "a\0b", "\udcff", "..", "a/./b", "/a"];
  const listed = paths(listing);
  assert.deepEqual(listed, ["about", ...names.map((key) => new PathTemplate("{+key}").expand({ key }))]);
  assert.ok(warn.mock.callCount() >= 5);
  for (const [index, name] of names.entries()) assert.equal(body(listing(), listed[index + 1]), name);
});

test("values of several variables are arrays or objects, and items have metadata", () => {
  const options = { mimeType: "text/csv", ttlMs: 5, read: () => "" };
  const several = (list) => open(resource("{year}/{name}", { ...options, list }));
  const opened = several(() => [[2025, "a/b"], { name: "c", year: 2026 }, { value: [2026, "d"], title: "D", priority: 0.5 }]);
  const { entries } = opened.listEntries(undefined, undefined, 10);
  assert.deepEqual(entries.map(({ path }) => path), ["2025/a%2Fb", "2026/c", "2026/d"]);
  assert.deepEqual([entries[2].title, entries[2].mimeType, entries[2].priority, entries[2].ttlMs], ["D", "text/csv", 0.5, 5]);
  assert.deepEqual(opened.complete("{year}/{name}", "name", "", { year: "2026" }).values, ["c", "d"]);
  assert.throws(() => several(() => ["one"]).listEntries(undefined, undefined, 10), /expected values of year, name/);
});

const parent = mkdtempSync(join(tmpdir(), "functions-"));
after(() => rmSync(parent, { recursive: true }));
const dir = join(parent, "granted");
mkdirSync(join(dir, "folder"), { recursive: true });
writeFileSync(join(parent, "secret"), "secret");
writeFileSync(join(dir, "a b.md"), "é");
writeFileSync(join(dir, "b.png"), Uint8Array.of(0x89, 0xff));
writeFileSync(join(dir, ".hidden"), "");
const results = { text: "é", bytes: Uint8Array.of(0xff), json: { a: [1] }, list: [], none: null, wrong: 3, later: Promise.resolve("") };
let version;
const folder = (at = dir) =>
  open(
    resource("data/{name}", { read: ({ name }) => results[name], fingerprint: version && (() => version) }),
    resource("{name}", { read: ({ name }) => file(at, name), list: () => files(at) }),
    resource("by/{name}", { read: ({ name }) => file(at, name).text() }),
  );

test("text, JSON, bytes and files are returned as they are", () => {
  for (const [path, mimeType, expected, size] of [
    ["data/text", "text/plain", "é", 2],
    ["data/bytes", "application/octet-stream", Uint8Array.of(0xff), 1],
    ["data/list", "application/json", "[]", 2],
    ["data/json", "application/json", JSON.stringify({ a: [1] }, undefined, 2), 22],
    ["a%20b.md", "text/markdown", Uint8Array.from(Buffer.from("é")), 2],
    ["b.png", "image/png", Uint8Array.of(0x89, 0xff), 2],
  ]) {
    assert.deepEqual(body(folder(), path), expected, path);
    const entry = folder().stat(path);
    assert.deepEqual([entry.mimeType, entry.size, entry.path], [mimeType, size, path]);
  }
  assert.throws(() => folder().read("data/none"), NotFound);
  assert.throws(() => folder().read("data/wrong"), /returned a number; expected a string/);
  assert.throws(() => folder().read("data/later"), /returned a promise/);
});

test("no name leads out of the folder, and a folder that is not granted is a fault of the config", () => {
  const outside = join(parent, "secret").replaceAll("/", "%2F");
  for (const path of ["missing", "folder", ".hidden", "..%2Fsecret", outside, "by/..%2Fsecret", `by/${outside}`, "by/folder%2F..%2F..%2Fsecret"]) {
    assert.throws(() => folder().read(path), NotFound, path);
  }
  assert.throws(() => folder().read("by/b.png"), InvalidRequest);
  const missing = folder(join(parent, "missing"));
  for (const call of [() => missing.read("a"), () => missing.listEntries(undefined, undefined, 10)]) {
    assert.throws(call, (error) => error instanceof Internal && /grants.dirs/.test(error.message));
  }
});

test("files are listed with what is known of them, and completed", () => {
  const { entries } = folder().listEntries(undefined, undefined, 10);
  assert.deepEqual(entries.map(({ path, mimeType, size }) => [path, mimeType, size]), [["a%20b.md", "text/markdown", 2], ["b.png", "image/png", 2]]);
  assert.deepEqual(folder().complete("by/{name}", "name", "b", {}).values, ["b.png"]);
  assert.throws(() => folder().complete("by/{name}", "other", "", {}), InvalidRequest);
  assert.throws(() => folder().complete("other", "name", "", {}), InvalidRequest);
});

test("changes are found by fingerprints, or by a function", () => {
  const watched = ["a%20b.md", "data/text", "missing.md", "data/none"];
  const start = folder().changes(watched, undefined);
  assert.deepEqual(folder().changes(watched, start.token), { token: start.token, changed: [], listingChanged: false });
  writeFileSync(join(dir, "a b.md"), "changed");
  writeFileSync(join(dir, "missing.md"), "appeared");
  results.text = "other";
  const later = folder().changes(watched, start.token);
  assert.deepEqual([later.changed, later.listingChanged], [["a%20b.md", "data/text", "missing.md"], true]);
  version = "1";
  const token = folder().changes(["data/text"], undefined).token;
  results.text = "not looked at";
  assert.deepEqual(folder().changes(["data/text"], token).changed, []);
  version = "2";
  assert.deepEqual(folder().changes(["data/text"], token).changed, ["data/text"]);
});

test("what was made of a file is kept until it changes", () => {
  const dir = mkdtempSync(join(tmpdir(), "functions-"));
  const path = join(dir, "a");
  let calls = 0;
  const size = memo((bytes) => ((calls += 1), bytes.length));
  writeFileSync(path, "1");
  assert.deepEqual([size(path), size(path), calls], [1, 1, 1]);
  writeFileSync(path, "22");
  assert.deepEqual([size(path), calls], [2, 2]);
  rmSync(dir, { recursive: true });
});
