// The plugin's config.

import { Internal } from "./failures.js";

export class Config {
  #values = new Map();

  constructor(values = {}) {
    for (const [key, value] of Object.entries(values)) {
      this.#values.set(key, typeof value === "string" ? value : JSON.stringify(value));
    }
  }

  get keys() {
    return [...this.#values.keys()].sort();
  }

  text(key, otherwise) {
    return this.#values.get(key) ?? otherwise;
  }

  number(key, otherwise) {
    return this.#parsed(key, otherwise, "a number", (text) => (text.trim() === "" ? NaN : Number(text)), Number.isFinite);
  }

  integer(key, otherwise) {
    return this.#parsed(key, otherwise, "an integer", Number, (value) => Number.isSafeInteger(value));
  }

  boolean(key, otherwise) {
    return this.#parsed(key, otherwise, "true or false", (text) => ({ true: true, false: false })[text], (value) => value !== undefined);
  }

  json(key, otherwise) {
    return this.#parsed(key, otherwise, "JSON", JSON.parse, () => true);
  }

  #parsed(key, otherwise, expected, parse, isValid) {
    const text = this.#values.get(key);
    if (text === undefined) return otherwise;
    let value;
    try {
      value = parse(text);
      if (isValid(value)) return value;
    } catch {
      // As if it were not valid.
    }
    throw new Internal(`config key \`${key}\`: expected ${expected}, found ${JSON.stringify(text)}`);
  }
}
