// A provider that receives long lists, for the end-to-end tests: `bucket/SIZE` reads a value of that size five times, and `body/SIZE`
// the body of the response to a request of that path below the URL of the config; both return the number of bytes.

import { type Config, type Contents, NotFound, Provider } from "mcp-host-provider";
import { request } from "mcp-host-provider/http";
import { Bucket } from "mcp-host-provider/keyvalue";

export default class Lists extends Provider {
  static info = { name: "lists", version: "1.0.0" };
  #url: string;

  constructor(config: Config) {
    super(config);
    this.#url = config.text("url", "");
  }

  override read(path: string): Contents {
    const [kind, size] = path.split("/");
    return { entry: { path, name: path }, text: String(this.#received(kind, Number(size))) };
  }

  #received(kind: string | undefined, size: number): number {
    if (kind === "body") return request(`${this.#url}/${size}`, { timeout: 60_000 }).read(2 ** 30).length;
    if (kind !== "bucket") throw new NotFound();
    const bucket = new Bucket("visits");
    bucket.set("list", new Uint8Array(size));
    let total = 0;
    for (let count = 0; count < 5; count++) total += bucket.get("list")?.length ?? 0;
    return total;
  }
}
