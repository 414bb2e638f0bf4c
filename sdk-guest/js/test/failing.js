// A provider that fails in every way, for the end-to-end tests. `http` sends a request to the URL of the config.

import { Denied, Internal, Provider, Unavailable } from "mcp-host-provider";
import { HttpError, request } from "mcp-host-provider/http";

export default class Failing extends Provider {
  static info = { name: "failing", version: "1.0.0" };

  #depth;
  #url;

  constructor(config) {
    super(config);
    this.#depth = config.integer("depth", 1);
    this.#url = config.text("url", "");
  }

  listEntries() {
    return { entries: [{ path: "good", name: "good", size: 2 }] };
  }

  read(path) {
    const entry = { path, name: path, mimeType: "application/octet-stream" };
    switch (path) {
      case "good":
        console.warn("read, with", { depth: this.#depth });
        return { entry, bytes: new Uint8Array([0xff, 0]) };
      case "bug":
        return { entry, text: undefined.missing };
      case "thrown":
        throw "a text";
      case "deep":
        return this.read(path);
      case "wrong":
        return { entry: { ...entry, size: "2" }, text: "" };
      case "promise":
        return Promise.resolve({ entry, text: "" });
      case "surrogate":
        return { entry, text: "\ud800" };
      case "http":
        return { entry, bytes: this.#fetched(), isText: true };
      case "denied":
        throw new Denied("not for you");
      case "busy":
        throw new Unavailable("locked", { retryAfter: 2000 });
      case "internal":
        throw new Internal("corrupt");
      default:
        return super.read(path);
    }
  }

  #fetched() {
    try {
      const response = request(this.#url, { method: "POST", headers: { "x-test": "é" }, body: "sent", timeout: 10_000 });
      return response.read(1024);
    } catch (error) {
      throw error instanceof HttpError ? error.toFailure() : error;
    }
  }
}
