// The SDK on Node.js; what needs a host is tested end to end.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  BeingPrepared,
  compareChanges,
  Config,
  decodeSegment,
  decodeUtf8,
  encodeQuery,
  encodeSegment,
  Internal,
  InvalidRequest,
  NotFound,
  paginate,
  progressOf,
  PathTemplate,
  Provider,
  template,
  Unavailable,
} from "mcp-host-provider";
import { fake as fakeHttp, HttpError, request } from "mcp-host-provider/http";
import { Bucket, reset } from "mcp-host-provider/keyvalue";
import { Database, fake as fakeSql } from "mcp-host-provider/sql";

import * as convert from "../src/convert.js";
import { askHost } from "../src/failures.js";
import { utf8Length } from "../src/text.js";

test("pages go on after the last key, in the order of code points", () => {
  const page = (cursor) => {
    const found = paginate(["c", "a", "b", "😀", "ﬀ"], cursor, 2, (name) => ({ path: name, name }));
    return [found.entries.map(({ name }) => name), found.nextCursor];
  };
  assert.deepEqual(page(undefined), [["a", "b"], ":b"]);
  assert.deepEqual(page(":b"), [["c", "ﬀ"], ":ﬀ"]);
  assert.deepEqual(page(":ﬀ"), [["😀"], undefined]);
  assert.throws(() => page("x"), InvalidRequest);
});

test("changes are found by comparing with the token", () => {
  const files = { a: 1, b: 1 };
  const changes = (since) =>
    compareChanges(["a", "b", "c"], since, { state: (path) => files[path], listing: Object.keys(files) });
  const start = changes(undefined);
  assert.deepEqual(changes(start.token), { token: start.token, changed: [], listingChanged: false });
  Object.assign(files, { a: 2, c: 1 });
  const later = changes(start.token);
  assert.deepEqual([later.changed, later.listingChanged], [["a", "c"], true]);
  const unknown = changes("of another version");
  assert.deepEqual([unknown.changed.length, unknown.listingChanged], [3, true]);
});

test("a config is typed, and errors name the key", () => {
  const config = new Config({ rev: "main", depth: 3, deep: true, dirs: ["a"] });
  assert.deepEqual([config.text("rev"), config.integer("depth"), config.boolean("deep")], ["main", 3, true]);
  assert.deepEqual([config.json("dirs"), config.number("none", 0.5), config.keys.length], [["a"], 0.5, 4]);
  assert.throws(
    () => config.integer("rev"),
    (error) => error instanceof Internal && error.message === 'config key `rev`: expected an integer, found "main"',
  );
});

test("templates match and expand", () => {
  const blob = new PathTemplate("blob/{rev}/{+path}{?from,to}");
  assert.deepEqual(blob.variables, ["rev", "path", "from", "to"]);
  assert.deepEqual(blob.match("blob/a%20b/x/y?to=2"), { rev: "a b", path: "x/y", to: "2" });
  for (const other of ["blob//x", "blob/a/x%2Fy", "blob/a/x?sort=1", "blob/a/x?to=1&to=2", "blob/%FF/x", "blob/%2/x"]) {
    assert.equal(blob.match(other), undefined, other);
  }
  assert.equal(blob.expand({ rev: "a/b", path: "x?/y", to: "1 2" }), "blob/a%2Fb/x%3F/y?to=1%202");
  for (const malformed of ["{", "{a,b}", "{#a}", "{a}{a}", "{?a}/b", "x?y={a}"]) {
    assert.throws(() => new PathTemplate(malformed), TypeError, malformed);
  }
});

test("names are encoded as the contract says", () => {
  for (const name of ["a b/c%.md", "日本", "it's (1), ok!"]) assert.equal(decodeSegment(encodeSegment(name)), name);
  assert.equal(encodeSegment("a b,c"), "a%20b,c");
  assert.equal(encodeQuery("a&b=c+d,e;f/g?h @:"), "a%26b%3Dc%2Bd%2Ce%3Bf%2Fg%3Fh%20@:");
  const delimiters = "@:!$&'()*+,;=";
  const pattern = new PathTemplate("{name}{?q}");
  const path = pattern.expand({ name: delimiters, q: delimiters });
  // The normal form of the host, in which a client's expansion arrives.
  assert.equal(path, `${delimiters}?q=@:!$%26'()*%2B%2C%3B%3D`);
  assert.deepEqual(pattern.match(path), { name: delimiters, q: delimiters });
  assert.throws(() => decodeSegment("a/b"), InvalidRequest);
  assert.throws(() => decodeSegment("%FF"), InvalidRequest);
});

test("bytes are decoded without a TextDecoder as with it", () => {
  const native = globalThis.TextDecoder;
  const samples = [
    ..."a|é|日|😀|\u{10ffff}|\ufeffa|\u0000".split("|").map((text) => [...new TextEncoder().encode(text)]),
    [0xff], [0xc0, 0x80], [0xc3], [0xe0, 0x80, 0x80], [0xed, 0xa0, 0x80], [0xf0, 0x80, 0x80, 0x80], [0xf4, 0x90, 0x80, 0x80],
    [0xe6, 0x97], [0x61, 0x80],
  ];
  for (const bytes of samples) {
    const expected = decodeUtf8(Uint8Array.from(bytes));
    try {
      globalThis.TextDecoder = undefined;
      assert.equal(decodeUtf8(Uint8Array.from(bytes)), expected, bytes.join());
    } finally {
      globalThis.TextDecoder = native;
    }
    if (expected !== undefined) assert.equal(utf8Length(expected), bytes.length);
  }
  const long = "añ😀".repeat(10_000);
  globalThis.TextDecoder = undefined;
  const decoded = decodeUtf8(new TextEncoder().encode(long));
  globalThis.TextDecoder = native;
  assert.equal(decoded, long);
});

test("an entry needs only a path and a name", () => {
  const made = convert.entry({ path: "a", name: "a" });
  assert.deepEqual([made.icons, made.listable, made.annotations], [[], false, undefined]);
});

test("a value of a wrong type names its field", () => {
  const entry = (more) => () => convert.entry({ path: "a", name: "a", ...more });
  for (const [more, message] of [
    [{ size: "2" }, 'entry.size: expected a whole number from 0 on, found "2"'],
    [{ size: -1 }, "entry.size: expected a whole number from 0 on, found -1"],
    [{ title: 3 }, "entry.title: expected a string, found 3"],
    [{ name: undefined }, "entry.name: expected a string, found undefined"],
    [{ icons: [{}] }, "entry.icons[0].src: expected a string, found undefined"],
    [{ audience: ["all"] }, 'entry.audience[0]: expected user or assistant, found "all"'],
    [{ lastModified: "yesterday" }, 'entry.lastModified: expected a date, found "yesterday"'],
  ]) {
    assert.throws(entry(more), { message });
  }
  assert.equal(entry({ size: 3n })().size, 3, "a BigInt is a number, too");
  assert.throws(() => convert.contents({ entry: { path: "a", name: "a" }, body: "" }), /expected `text`, a string, or `bytes`/);
});

test("templates are read and completed", () => {
  class Sample extends Provider {
    templates = [
      template("item/{id}", {
        name: "item",
        read: (path, { id }) => ({ entry: { path, name: id }, text: "é" }),
        complete: { id: () => ["one", "only", "two"] },
      }),
    ];
  }
  const sample = new Sample(new Config());
  assert.deepEqual(sample.stat("item/a%2Fb"), { path: "item/a%2Fb", name: "a/b", size: 2 });
  assert.deepEqual(sample.complete("item/{id}", "id", "o", {}), { values: ["one", "only"], total: 2, hasMore: false });
  assert.throws(() => sample.complete("item/{id}", "other", "", {}), InvalidRequest);
  assert.throws(() => sample.complete("other", "id", "", {}), InvalidRequest);
  assert.throws(() => sample.read("missing"), NotFound);
  assert.throws(() => template("a/{b}", { name: "a", read: () => [], complete: { c: () => [] } }), TypeError);
});

test("what a provider asks for is a custom section at the end of the component", async () => {
  const { needsSection } = await import("../src/build.js");
  assert.deepEqual(needsSection("{}"), Buffer.from("\0\x14\x11mcp-host:needs/v1{}"));
  const long = needsSection("x".repeat(200));
  assert.deepEqual([...long.subarray(0, 3), long.length], [0, 0xda, 1, 3 + 218]);
});

test("what is being prepared says how far it is, and progress is checked", () => {
  const { progress } = convert;
  const raised = (keys) => {
    askHost((key) => keys[key]);
    return new BeingPrepared();
  };
  const failure = raised({ "mcp-host/limits.prepare.cpu-ms": "60000", "mcp-host/prepare.percent": "40" });
  assert.deepEqual([failure.message, failure.retryAfter], ["it is being prepared, 40 %", 1000]);
  assert.match(raised({}).message, /does not allow/);
  assert.equal(progress({ nextToken: "t", percent: 50 }).percent, 50);
  assert.throws(() => progress({ percent: 101 }), /percent: expected 0 to 100, found 101/);
  assert.throws(() => progress({ nextToken: 7 }), /nextToken: expected a string, found 7/);
  assert.throws(() => progress(undefined), /the result of prepare: expected an object/);
  assert.deepEqual(progressOf(1, 3, "files", 7), { nextToken: "7", percent: 33, message: "1 of 3 files" });
  for (const [prepared, all] of [[3, 3], [0, 0], [4, 3]]) {
    const { nextToken, percent } = progressOf(prepared, all, "files", 7);
    assert.deepEqual([nextToken, percent], [undefined, 100]);
  }
});

test("values of databases are those of JavaScript in both directions", async () => {
  const { lift, lower, Rejected } = await import("../src/sql.values.js");
  const bytes = new Uint8Array([255]);
  const time = new Date("2026-11-28T09:30:00Z");
  for (const value of [null, true, -7, 2.5, "é", bytes, time, { a: [1] }, [], [1, 2, null], [["a", "b"], ["c", "d"]]]) {
    assert.deepEqual(lift(lower(value)), value);
  }
  assert.deepEqual(lower(undefined), { tag: "scalar", val: { tag: "null" } });
  assert.deepEqual(lower(2n ** 63n), { tag: "scalar", val: { tag: "decimal", val: "9223372036854775808" } });
  assert.equal(lift({ tag: "scalar", val: { tag: "integer", val: 2n ** 53n } }), "9007199254740992");
  assert.equal(lift({ tag: "scalar", val: { tag: "decimal", val: "12.50" } }), "12.50");
  for (const wrong of [() => {}, [[1], 2], [[1], [2, 3]]]) assert.throws(() => lower(wrong), TypeError);
  const rejected = new Rejected({ sqlstate: "42P01", message: "no table", position: 7 });
  assert.deepEqual([rejected.sqlstate, rejected.position, rejected.name], ["42P01", 7, "Rejected"]);
});

test("a bucket of a unit test is in memory", () => {
  const [bucket, bytes] = [new Bucket("visits"), (text) => new TextEncoder().encode(text)];
  bucket.setJson("a", { é: [1] });
  assert.deepEqual([bucket.getJson("a"), bucket.getJson("none")], [{ é: [1] }, undefined]);
  bucket.setMany({ a: bytes("1"), b: bytes("2"), c: bytes("3") });
  assert.deepEqual([bucket.compareAndSwap("a", bytes("0"), bytes("9")), bucket.compareAndSwap("a", bytes("1"), bytes("9"))], [false, true]);
  assert.equal(bucket.compareAndSwap("a", undefined, bytes("8")), false);
  bucket.delete("b");
  bucket.deleteMany(["c", "missing"]);
  assert.deepEqual(bucket.getMany(["a", "b"]).map((value) => value && decodeUtf8(value)), ["9", undefined]);
  assert.deepEqual([bucket.increment("n", 2), bucket.increment("n"), bucket.has("b")], [2, 3, false]);
  assert.deepEqual([[...new Bucket("visits").keys()].sort(), [...new Bucket("other").keys()]], [["a", "n"], []]);
  bucket.set("text", bytes("text"));
  assert.throws(() => bucket.increment("text"), Unavailable);
  bucket.get("a")[0] = 0;
  assert.equal(decodeUtf8(bucket.get("a")), "9");
});

test("a reset of a unit test empties all buckets, also open ones", () => {
  const bucket = new Bucket("reset");
  const bytes = (text) => new TextEncoder().encode(text);
  bucket.set("a", bytes("1"));
  reset();
  assert.deepEqual([bucket.has("a"), [...new Bucket("reset").keys()]], [false, []]);
  bucket.set("a", bytes("2"));
  assert.equal(decodeUtf8(new Bucket("reset").get("a")), "2");
});

test("a database of a unit test is a function", () => {
  assert.throws(() => new Database("shop").query("SELECT 1"), /grants\.sql/);
  fakeSql("shop", (sql, parameters) => {
    assert.deepEqual([sql, parameters], ["SELECT name FROM items WHERE price < $1", [3]]);
    return [{ name: "pear" }, { name: "fig" }];
  });
  const query = (options) => new Database("shop").query("SELECT name FROM items WHERE price < $1", [3], options);
  assert.deepEqual([query({ maxRows: 1 }).rows, query({ maxRows: 1 }).hasMore], [[["pear"]], true]);
  assert.deepEqual([query().objects(), query().hasMore], [[{ name: "pear" }, { name: "fig" }], false]);
  assert.deepEqual([Database.granted(), new Database("shop").describe().kind], [["shop"], "sqlite"]);
});

test("a request of a unit test is answered by a function", () => {
  const url = "https://docs.example/a";
  assert.throws(() => request(url), HttpError);
  fakeHttp((asked, { method, body }) => (asked === url ? { status: 201, headers: { "X-Sent": method }, body } : undefined));
  const response = request(url, { method: "POST", body: "sent" });
  assert.deepEqual([response.status, response.headers, decodeUtf8(response.read(4))], [201, { "x-sent": "POST" }, "sent"]);
  assert.throws(() => response.read(3), Internal);
  assert.throws(() => request("https://other.example"), (error) => error.toFailure().message.includes("are not granted"));
  assert.throws(() => request("file:///etc/passwd"), TypeError);
});
