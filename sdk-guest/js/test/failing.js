// A provider that fails in every way, for the end-to-end tests.

import { Denied, Internal, Provider, Unavailable } from "mcp-host-provider";

export default class Failing extends Provider {
  static info = { name: "failing", version: "1.0.0" };

  #depth;

  constructor(config) {
    super(config);
    this.#depth = config.integer("depth", 1);
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
      case "denied":
        throw new Denied("not for you");
      case "busy":
        throw new Unavailable("locked", { retryAfter: 2000 });
      case "random":
        return { entry, text: String(Math.random()) };
      case "locale":
        return { entry, text: new Date(0).toLocaleDateString("de-DE", { timeZone: "Europe/Berlin" }) };
      case "internal":
        throw new Internal("corrupt");
      default:
        return super.read(path);
    }
  }
}
