// A provider that uses each grant, for the end-to-end tests: `http` sends a request to the URL of the config, `keyvalue` performs every
// operation on the bucket `visits`, `sql` queries the database `shop`, and `env` returns the variable `WHO`. `bucket/SIZE` reads a value of that size five times, and
// `body/SIZE` the body of the response to a request of that path below the URL; both return the number of bytes.

import { decodeUtf8, encodeUtf8, NotFound, Provider } from "mcp-host-provider";
import { HttpError, request } from "mcp-host-provider/http";
import { Bucket } from "mcp-host-provider/keyvalue";
import { Database, Rejected } from "mcp-host-provider/sql";
import { getEnvironment } from "wasi:cli/environment@0.2.6";

export default class Granted extends Provider {
  static info = { name: "granted", version: "1.0.0" };

  #url;

  constructor(config) {
    super(config);
    this.#url = config.text("url", "");
  }

  read(path) {
    const entry = { path, name: path };
    switch (path) {
      case "http":
        return { entry, bytes: this.#fetched(), isText: true };
      case "keyvalue":
        return { entry, text: operations(new Bucket("visits")).join(" ") };
      case "sql":
        return { entry, text: queried(new Database("shop")) };
      case "env":
        return { entry, text: Object.fromEntries(getEnvironment()).WHO ?? "" };
      default:
        return { entry, text: String(received(this.#url, ...path.split("/"))) };
    }
  }

  #fetched() {
    try {
      return request(this.#url, { method: "POST", headers: { "x-test": "é" }, body: "sent", timeout: 10_000 }).read(1024);
    } catch (error) {
      throw error instanceof HttpError ? error.toFailure() : error;
    }
  }
}

function queried(shop) {
  try {
    shop.query("SELECT 1 FROM missing");
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    const { columns, rows, hasMore } = shop.query("SELECT name, price, photo FROM items WHERE price < $1 ORDER BY price", [3], { maxRows: 2 });
    const plain = rows.map((row) => row.map((value) => (value instanceof Uint8Array ? [...value] : value)));
    return JSON.stringify([error.sqlstate, shop.describe().kind, columns.map(({ name }) => name), plain, hasMore]);
  }
  return "a table that is missing was queried";
}

function received(url, kind, size) {
  switch (kind) {
    case "bucket": {
      const bucket = new Bucket("visits");
      bucket.set("list", new Uint8Array(Number(size)));
      return [1, 2, 3, 4, 5].reduce((total) => total + bucket.get("list").length, 0);
    }
    case "body":
      return request(`${url}/${size}`, { timeout: 60_000 }).read(2 ** 30).length;
    default:
      throw new NotFound();
  }
}

function operations(bucket) {
  const bytes = encodeUtf8;
  bucket.setJson("a", { é: [1] });
  if (bucket.getJson("a").é[0] !== 1 || bucket.getJson("none") !== undefined) throw new TypeError("JSON comes back as it was");
  bucket.set("a", bytes("1"));
  bucket.setMany({ b: bytes("2"), c: bytes("3") });
  const swapped = [bucket.compareAndSwap("a", bytes("0"), bytes("9")), bucket.compareAndSwap("a", bytes("1"), bytes("9"))];
  bucket.delete("b");
  bucket.deleteMany(["c"]);
  const values = bucket.getMany(["a", "b"]).map((value) => (value ? decodeUtf8(value) : "None"));
  const counts = [bucket.increment("n", 2), bucket.increment("n", 3)];
  const keys = [...bucket.keys()].sort().map((key) => `'${key}'`);
  return [...counts, ...swapped.map(Number), ...values, bucket.has("b") ? "True" : "False", `[${keys.join(", ")}]`];
}
