// Values of buckets that are JSON.

import { Internal } from "./failures.js";
import { decodeUtf8, encodeUtf8 } from "./text.js";

/** A bucket, with `get` and `set`. */
export class JsonValues {
  getJson(key) {
    const value = this.get(key);
    if (value === undefined) return undefined;
    try {
      return JSON.parse(decodeUtf8(value));
    } catch (error) {
      throw new Internal(`the value of the key \`${key}\` is no JSON: ${error.message}`);
    }
  }

  setJson(key, value) {
    this.set(key, encodeUtf8(JSON.stringify(value)));
  }
}
