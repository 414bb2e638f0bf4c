// Conversion of values between databases and JavaScript.

import { Internal } from "./failures.js";

/** The database refused the statement. */
export class Rejected extends Internal {
  constructor({ sqlstate, message, position }) {
    super(`the database refused the statement (${sqlstate}): ${message}`);
    this.sqlstate = sqlstate;
    this.position = position ?? undefined;
  }
}

export const notGranted = (name) => new Internal(`the database \`${name}\` is not granted: add it to \`grants.sql\``);

/** The result of a query. */
export const rowsOf = (columns, rows, hasMore) => ({
  columns,
  rows,
  objects: () => rows.map((row) => Object.fromEntries(row.map((value, at) => [columns[at].name, value]))),
  hasMore,
});

/** A value of a row. An array becomes nested arrays, by its dimensions. */
export function lift({ tag, val }) {
  if (tag === "scalar") return liftScalar(val);
  let elements = [...val.elements].map(liftScalar);
  for (const length of [...val.dimensions].slice(1).reverse()) {
    const count = Math.ceil(elements.length / Math.max(length, 1));
    elements = Array.from({ length: count }, (_, at) => elements.slice(at * length, (at + 1) * length));
  }
  return elements;
}

function liftScalar({ tag, val }) {
  switch (tag) {
    case "null":
      return null;
    case "integer":
      // One that a number has no place for is a text: no arithmetic goes wrong in silence.
      return Number.isSafeInteger(Number(val)) ? Number(val) : String(val);
    case "instant":
      return new Date(val);
    case "json":
      return JSON.parse(val);
    default:
      return val;
  }
}

/** A parameter. */
export function lower(value) {
  if (!Array.isArray(value)) return { tag: "scalar", val: lowerScalar(value) };
  const { dimensions, elements } = flat(value);
  return { tag: "sql-array", val: { dimensions, elements: elements.map(lowerScalar) } };
}

/** The lengths of the dimensions of nested arrays, and their elements in row-major order. */
function flat(value) {
  if (value.length === 0) return { dimensions: [], elements: [] };
  if (!value.some(Array.isArray)) return { dimensions: [value.length], elements: value };
  const inner = value.map((one) => (Array.isArray(one) ? flat(one) : { dimensions: [], elements: [] }));
  const [{ dimensions }] = inner;
  if (inner.some((one) => one.dimensions.length === 0 || String(one.dimensions) !== String(dimensions))) {
    throw new TypeError("an array has arrays of one length in each dimension");
  }
  return { dimensions: [value.length, ...dimensions], elements: inner.flatMap(({ elements }) => elements) };
}

function lowerScalar(value) {
  switch (typeof value) {
    case "undefined":
      return { tag: "null" };
    case "boolean":
      return { tag: "boolean", val: value };
    case "number":
      return Number.isSafeInteger(value) ? { tag: "integer", val: value } : { tag: "float", val: value };
    case "bigint":
      return { tag: "decimal", val: String(value) };
    case "string":
      return { tag: "text", val: value };
    case "object":
      if (value === null) return { tag: "null" };
      if (value instanceof Uint8Array) return { tag: "bytes", val: value };
      if (value instanceof Date) return { tag: "instant", val: value.toISOString() };
      return { tag: "json", val: JSON.stringify(value) };
    default:
      throw new TypeError(`a ${typeof value} is no type of a parameter`);
  }
}
