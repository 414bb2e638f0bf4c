// What the types accept and what they refuse. Checked by the compiler; never run.

import { type Config, type Contents, type Entry, type Page, Provider, template, Unavailable } from "mcp-host-provider";
import { readDir, stat } from "mcp-host-provider/fs";
import { Bucket } from "mcp-host-provider/keyvalue";

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
