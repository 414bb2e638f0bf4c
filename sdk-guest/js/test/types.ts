// What the types accept and what they refuse. Checked by the compiler; never run.

import {
  BeingPrepared,
  type Config,
  type Contents,
  date,
  type Entry,
  integer,
  type Needs,
  optional,
  type Page,
  type Prepare,
  progressOf,
  Provider,
  provider,
  resource,
  template,
  Unavailable,
} from "mcp-host-provider";
import { file, files, memo, readDir, stat } from "mcp-host-provider/fs";
import { Bucket } from "mcp-host-provider/keyvalue";
import { Database, Rejected } from "mcp-host-provider/sql";

export const prepare: Prepare<Sample> = (sample, token, config) => {
  if (token === undefined) throw new BeingPrepared();
  if (config.boolean("whole", false)) return progressOf(1, 2, "parts", token);
  // @ts-expect-error: a token is a text
  void { nextToken: 7 } satisfies ReturnType<typeof prepare>;
  return { nextToken: token + String(sample.templates.length), percent: 50, message: "half", againAfter: 1000 };
};

export const sizeOfFile: (path: string) => number = memo((bytes) => bytes.length);

export const needs: Needs = { sql: [{ database: "shop" }], limits: { "prepare.cpu": { min: "5m", why: "the index" } } };
// @ts-expect-error: there is no such limit
void ({ limits: { cpus: { min: "1s" } } } satisfies Needs);

export default class Sample extends Provider {
  static info = { name: "sample", version: "1.0.0" };
  readonly #depth: number;

  constructor(config: Config) {
    super(config);
    this.#depth = config.integer("depth", 1);
    // @ts-expect-error: without a default, it may be missing
    const name: string = config.text("name");
    void name;
  }

  override templates = [template("a/{b}", { name: "a", read: (path, { b = "" }) => this.#item(path, b) })];

  override listEntries(): Page {
    return { entries: [{ path: "a", name: "a", size: this.#depth, lastModified: new Date() }] };
  }

  #item(path: string, name: string): Contents {
    return { entry: { path, name }, bytes: new Uint8Array() };
  }
}

class Asynchronous extends Provider {
  // @ts-expect-error: calls are synchronous
  override async read(): Promise<Contents> {
    return { entry: { path: "", name: "" }, text: "" };
  }
}
void Asynchronous;

// @ts-expect-error: an entry has a name
export const nameless: Entry = { path: "a" };
// @ts-expect-error: sizes are numbers
export const big: Entry = { path: "a", name: "a", size: 1n };
export const busy: Error = new Unavailable("locked", { retryAfter: 1000 });
export const size: number = stat("/a").size + readDir("/").length + new Bucket("a").increment("n");

export const functions: new (config: Config) => Provider = provider({ name: "sample", version: "1.0.0" }, [
  resource("{year}/{+path}{?days,from,note}", {
    variables: { year: integer(), days: integer(7), from: optional(date()) },
    read: ({ year, path, days, from, note }, config) => {
      const [number, text, time]: [number, string, Date | undefined] = [year + days, path, from];
      // @ts-expect-error: a variable of the query may be missing
      const missing: string = note;
      return { number, text, time, missing, dir: config.text("dir") };
    },
    list: () => [[2026, "a"]],
    complete: { path: () => ["a"] },
  }),
  resource("{name}", { read: ({ name }) => file("/data", name), list: () => files("/data") }),
  // @ts-expect-error: the template has no such variable
  resource("other/{name}", { read: ({ uid }) => uid }),
  // @ts-expect-error: it has no such variable to complete
  resource("third/{name}", { read: () => "", complete: { uid: () => [] } }),
]);

export function queried(): string[] {
  try {
    const { rows } = new Database("shop").query("SELECT name FROM items WHERE price < $1", [10, null, ["a"], new Date()], { maxRows: 5 });
    return rows.map(([name]) => String(name));
  } catch (error) {
    if (error instanceof Rejected) return [error.sqlstate];
    throw error;
  }
}
