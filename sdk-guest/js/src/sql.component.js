// SQL databases, which the host connects to.

import { describe, granted, query } from "mcp-host:sql/databases@0.1.0";

import { lift, lower, notGranted, Rejected, rowsOf } from "./sql.values.js";
import { Internal, InvalidRequest, Unavailable } from "./failures.js";

export class Database {
  constructor(name) {
    this.name = name;
  }

  static granted() {
    return granted();
  }

  describe() {
    const { kind, version, schemas, maxRows, maxBytes } = this.#call(() => describe(this.name));
    return { kind, version, schemas, maxRows, maxBytes: Number(maxBytes) };
  }

  query(sql, parameters = [], { maxRows } = {}) {
    const lowered = parameters.map(lower);
    const { columns, rows, hasMore } = this.#call(() => query(this.name, sql, lowered, maxRows));
    const values = rows.map((row) => row.values.map(lift));
    return rowsOf(columns.map(({ name, typeName }) => ({ name, type: typeName })), values, hasMore);
  }

  #call(operation) {
    try {
      return operation();
    } catch (error) {
      throw failure(this.name, error?.payload ?? error);
    }
  }
}

function failure(name, error) {
  switch (error?.tag) {
    case "not-granted":
      return notGranted(name);
    case "rejected":
      return new Rejected(error.val);
    case "too-large":
      return new InvalidRequest(error.val);
    case "timeout":
      return new Unavailable("the query took too long");
    case "unavailable":
      return new Unavailable(error.val);
    default:
      return error instanceof Error ? error : new Internal(`the database \`${name}\` failed`);
  }
}

/** Only in unit tests. */
export function fake() {}

export { Rejected };
