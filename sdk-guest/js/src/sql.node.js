// Databases in unit tests on Node.js: a function answers the queries.

import { notGranted, Rejected, rowsOf } from "./sql.values.js";

const INFO = { kind: "sqlite", version: "0", schemas: ["main"], maxRows: 1000, maxBytes: 4 << 20 };

const fakes = new Map();

export function fake(name, answer, info = {}) {
  fakes.set(name, { answer, info: { ...INFO, ...info } });
}

function find(name) {
  const found = fakes.get(name);
  if (!found) throw notGranted(name);
  return found;
}

export class Database {
  constructor(name) {
    this.name = name;
  }

  static granted() {
    return [...fakes.keys()].sort();
  }

  describe() {
    return find(this.name).info;
  }

  query(sql, parameters = [], { maxRows = Infinity } = {}) {
    const { answer, info } = find(this.name);
    const objects = answer(sql, parameters);
    const names = Object.keys(objects[0] ?? {});
    const most = Math.min(maxRows, info.maxRows);
    const rows = objects.slice(0, most).map((object) => names.map((name) => object[name] ?? null));
    return rowsOf(names.map((name) => ({ name, type: "" })), rows, objects.length > most);
  }
}

export { Rejected };
