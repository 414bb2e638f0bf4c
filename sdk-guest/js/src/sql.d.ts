/**
 * SQL databases, which the host connects to, and the administrator grants by name (`grants.sql = [{ name = "shop", … }]`). The host has the
 * address and the password, and enforces that a provider only reads. In a unit test a function answers the queries: `fake`.
 *
 * ```ts
 * const { rows } = new Database("shop").query("SELECT name FROM items WHERE price < $1 ORDER BY price", [10], { maxRows: 100 });
 * ```
 *
 * A statement is one query, in the dialect of the kind of database; `$1` stands for the first parameter in both. Each query sees one state
 * of the database, and two queries may see two. A database that is not granted is `Internal`, and a statement that it refuses is `Rejected`,
 * which is `Internal`. A result that is too large is `InvalidRequest`; a database that cannot be reached, or takes too long, is
 * `Unavailable`.
 */

import { Internal } from "mcp-host-provider";

/** The database refused the statement. */
export class Rejected extends Internal {
  /** The SQLSTATE, such as `42P01`. */
  readonly sqlstate: string;
  /** The position in the statement, in characters from 1. */
  readonly position: number | undefined;
}

/**
 * A value of a row. Exact decimal numbers, dates, times and UUIDs are texts, points in time are dates, JSON is what it decodes to. An
 * integer that a number cannot hold exactly is a text.
 */
export type Value = null | boolean | number | string | Uint8Array | Date | Value[] | { [name: string]: unknown };

/** A value of a parameter: an object is JSON, an array one of SQL. Numbers that are whole are integers, a BigInt is a decimal number. */
export type Parameter = undefined | null | boolean | number | bigint | string | Uint8Array | Date | readonly Parameter[] | object;

/** The result of a query. */
export interface Rows {
  /** The columns, whose names need not be unique; the type is the name of it in the database, such as `int4`. */
  columns: { name: string; type: string }[];
  /** The rows: a value for each column. */
  rows: Value[][];
  /** The rows as objects by the names of the columns; of two with one name the last counts. */
  objects(): Record<string, Value>[];
  /** Whether the query has more rows than it returned. */
  hasMore: boolean;
}

export interface DatabaseInfo {
  kind: "postgresql" | "sqlite";
  version: string;
  schemas: string[];
  maxRows: number;
  maxBytes: number;
}

/** A granted database. Making one sends nothing. */
export class Database {
  constructor(name: string);
  readonly name: string;
  /** The names of the granted databases, sorted. */
  static granted(): string[];
  /** Returns what the database is. */
  describe(): DatabaseInfo;
  /** Runs one query and returns its first rows: at most `maxRows`, and at most as many as the grant allows. */
  query(sql: string, parameters?: readonly Parameter[], options?: { maxRows?: number }): Rows;
}

/**
 * In unit tests, makes a function answer the queries of a database: rows, as objects by the names of the columns. A result with more than
 * `maxRows` is cut, as by the host. In a component it has no effect.
 */
export function fake(
  name: string,
  answer: (sql: string, parameters: readonly Parameter[]) => readonly Record<string, Value>[],
  info?: Partial<DatabaseInfo>,
): void;
