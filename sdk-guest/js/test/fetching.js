// A provider that sends a request to the URL of its config, for the end-to-end tests.

import { Provider } from "mcp-host-provider";
import { HttpError, request } from "mcp-host-provider/http";

export default class Fetching extends Provider {
  static info = { name: "fetching", version: "1.0.0" };

  #url;

  constructor(config) {
    super(config);
    this.#url = config.text("url", "");
  }

  read(path) {
    try {
      const response = request(this.#url, { method: "POST", headers: { "x-test": "é" }, body: "sent", timeout: 10_000 });
      const entry = { path, name: path, meta: { "example.com/status": response.status } };
      return { entry, bytes: response.read(1024), isText: true };
    } catch (error) {
      throw error instanceof HttpError ? error.toFailure() : error;
    }
  }
}
