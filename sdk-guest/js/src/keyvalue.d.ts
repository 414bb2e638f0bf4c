/**
 * Persistent state: buckets of the host, which the administrator grants by name (`grants.keyvalue = ["visits"]`).
 *
 * A bucket is private to the plugin; all its calls share it, concurrent ones, too. Writes are durable. `increment` and
 * `compareAndSwap` are atomic; a read that is followed by a write is not. A key is text of 1 to 1024 bytes. A bucket that is not
 * granted is `Internal`; a store that fails or is full is `Unavailable`. In a unit test a bucket is in memory, empty at first,
 * and shared by all that open it by its name.
 */
export class Bucket {
  constructor(name: string);
  get(key: string): Uint8Array | undefined;
  set(key: string, value: Uint8Array): void;
  /** Returns the value of a key, which is JSON; undefined if there is none. `Internal` if it is no JSON. */
  getJson(key: string): unknown;
  /** Sets the value of a key, as JSON. */
  setJson(key: string, value: unknown): void;
  delete(key: string): void;
  has(key: string): boolean;
  keys(): Iterable<string>;
  /** Adds to the number that is the value of a key, atomically, and returns the sum. A missing key counts as 0. */
  increment(key: string, delta?: number): number;
  /**
   * Sets the value of a key if it is `expected` (undefined: if there is no such key), atomically; returns whether it did. It may also
   * be false after a concurrent write: read the value again and retry.
   */
  compareAndSwap(key: string, expected: Uint8Array | undefined, value: Uint8Array): boolean;
  /** Returns the values of at most 1000 keys, in the same order; undefined for a missing one. */
  getMany(keys: string[]): (Uint8Array | undefined)[];
  /** Sets at most 1000 values: all of them, or none on failure. */
  setMany(values: Record<string, Uint8Array>): void;
  /** Deletes at most 1000 keys: all of them, or none on failure. */
  deleteMany(keys: string[]): void;
}

/** In unit tests, empties all buckets for the next test, also those that are open. In a component it has no effect. */
export function reset(): void;
