// Persistent state: buckets of the host.

import { Cas, increment, swap } from "wasi:keyvalue/atomics@0.2.0-draft2";
import { deleteMany, getMany, setMany } from "wasi:keyvalue/batch@0.2.0-draft2";
import { open } from "wasi:keyvalue/store@0.2.0-draft2";

import { Internal, Unavailable } from "./failures.js";
import { JsonValues } from "./keyvalue.values.js";

function call(name, operation) {
  try {
    return operation();
  } catch (error) {
    throw failure(name, error?.payload ?? error);
  }
}

function failure(name, error) {
  if (error?.tag === "other") return new Unavailable(error.val);
  if (error?.tag === "no-such-store") return new Internal(`the bucket \`${name}\` is not granted: add it to \`grants.keyvalue\``);
  return error instanceof Error ? error : new Internal(`access to the bucket \`${name}\` is denied`);
}

export class Bucket extends JsonValues {
  #name;
  #bucket;

  constructor(name) {
    super();
    this.#name = name;
    this.#bucket = call(name, () => open(name));
  }

  get(key) {
    return call(this.#name, () => this.#bucket.get(key)) ?? undefined;
  }

  set(key, value) {
    call(this.#name, () => this.#bucket.set(key, value));
  }

  delete(key) {
    call(this.#name, () => this.#bucket.delete(key));
  }

  has(key) {
    return call(this.#name, () => this.#bucket.exists(key));
  }

  *keys() {
    let cursor;
    do {
      const page = call(this.#name, () => this.#bucket.listKeys(cursor));
      yield* page.keys;
      cursor = page.cursor ?? undefined;
    } while (cursor !== undefined);
  }

  increment(key, delta = 1) {
    return Number(call(this.#name, () => increment(this.#bucket, key, delta)));
  }

  compareAndSwap(key, expected, value) {
    const handle = call(this.#name, () => Cas.new(this.#bucket, key));
    const current = call(this.#name, () => handle.current()) ?? undefined;
    const isEqual = current?.length === expected?.length && (current ?? []).every((byte, index) => byte === expected[index]);
    if (!isEqual) return false;
    try {
      swap(handle, value);
      return true;
    } catch (error) {
      const reason = error?.payload ?? error;
      if (reason?.tag === "cas-failed") return false;
      throw failure(this.#name, reason?.val ?? reason);
    }
  }

  getMany(keys) {
    return call(this.#name, () => getMany(this.#bucket, keys)).map((found) => found?.[1]);
  }

  setMany(values) {
    call(this.#name, () => setMany(this.#bucket, Object.entries(values)));
  }

  deleteMany(keys) {
    call(this.#name, () => deleteMany(this.#bucket, keys));
  }
}

/** Only in unit tests. */
export function reset() {}
