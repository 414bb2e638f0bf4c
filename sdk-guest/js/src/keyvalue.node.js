// Buckets in memory, for unit tests on Node.js.

import { Unavailable } from "./failures.js";
import { JsonValues } from "./keyvalue.values.js";
import { decodeUtf8, encodeUtf8 } from "./text.js";

const buckets = new Map();

export function reset() {
  for (const values of buckets.values()) values.clear();
}

const isEqual = (one, other) => one?.length === other?.length && (one ?? []).every((byte, index) => byte === other[index]);

/** The bucket of a name is the same for all that open it. */
export class Bucket extends JsonValues {
  #values;

  constructor(name) {
    super();
    if (!buckets.has(name)) buckets.set(name, new Map());
    this.#values = buckets.get(name);
  }

  get(key) {
    return this.#values.get(key)?.slice();
  }

  set(key, value) {
    this.#values.set(key, Uint8Array.from(value));
  }

  delete(key) {
    this.#values.delete(key);
  }

  has(key) {
    return this.#values.has(key);
  }

  *keys() {
    yield* [...this.#values.keys()];
  }

  increment(key, delta = 1) {
    const text = this.has(key) ? decodeUtf8(this.get(key)) : "0";
    if (text === undefined || !/^-?[0-9]+$/.test(text)) throw new Unavailable(`the value of ${JSON.stringify(key)} is no number`);
    const sum = Number(text) + delta;
    this.set(key, encodeUtf8(String(sum)));
    return sum;
  }

  compareAndSwap(key, expected, value) {
    if (!isEqual(this.get(key), expected)) return false;
    this.set(key, value);
    return true;
  }

  getMany(keys) {
    return keys.map((key) => this.get(key));
  }

  setMany(values) {
    for (const [key, value] of Object.entries(values)) this.set(key, value);
  }

  deleteMany(keys) {
    for (const key of keys) this.delete(key);
  }
}
