// A folder of CSV files: one resource per file, and a template for rows and columns. The README of `examples/csv` says exactly
// what it does.

import {
  compareChanges,
  compareText,
  decodeSegment,
  decodeUtf8,
  detect,
  encodeSegment,
  Internal,
  InvalidRequest,
  matching,
  NotFound,
  paginate,
  Provider,
  splitQuery,
  template,
} from "mcp-host-provider";
import { FsError, readDir, readFile, readFileStart, stat } from "mcp-host-provider/fs";

import { firstRecord, quote, records, write } from "./csv.js";

/** What it would like to be granted. */
export const needs = {
  dirs: [{ guest: "/csv", why: "the folder of CSV files" }],
  config: {
    dir: { type: "string", default: "/csv", why: "the folder, at its guest path" },
    "max-rows": { type: "integer", default: 1000, why: "the maximum number of rows of one read" },
  },
};

const HEADER_BYTES = 65_536;

export default class Csv extends Provider {
  static info = {
    name: "csv",
    version: "0.1.0",
    title: "CSV files",
    description: "The CSV files of a folder, and rows of them.",
    watches: true,
  };

  #folder;
  #maxRows;

  constructor(config) {
    super(config);
    this.#folder = config.text("dir", "/csv");
    this.#maxRows = config.integer("max-rows", 1000);
  }

  templates = [
    template("{file}/rows{?from,to,columns}", {
      name: "rows",
      title: "Rows of a CSV file",
      description:
        "Rows from..=to, counted from 1, and columns, separated by commas. By default all columns, and as many rows as one read " +
        "returns.",
      mimeType: "text/csv",
      read: (path, variables) => this.#rows(path, variables),
      complete: {
        file: () => this.#names().sort(compareText),
        columns: (value, known) => this.#completeColumns(value, known.file ?? ""),
      },
    }),
  ];

  listEntries(parent, cursor, limit) {
    if (parent !== undefined) {
      this.stat(parent);
      throw new InvalidRequest("not a container");
    }
    return paginate(this.#names(), cursor, limit, (name) => this.#entry(name));
  }

  read(path) {
    if (path.includes("/")) return super.read(path);
    const name = fileName(path);
    const entry = this.#entry(name);
    if (!entry) throw new NotFound();
    return detect(entry, readFile(this.#path(name)));
  }

  changes(watched, since) {
    const listing = this.#names().sort(compareText).map((name) => [name, this.#state(name)]);
    const state = (path) => this.#state(fileName(splitQuery(path)[0].split("/", 1)[0]));
    return compareChanges(watched, since, { state, listing });
  }

  #rows(path, { file, columns, ...range }) {
    if (!this.#has(file)) throw new NotFound();
    const from = rowNumber("from", range.from) ?? 1;
    const to = rowNumber("to", range.to);
    if (from > to) throw new InvalidRequest(`\`from\` must not be greater than \`to\`, found ${from} and ${to}`);
    const count = Math.min(this.#maxRows, (to ?? Infinity) - from + 1);
    const entry = { path, name: `rows of ${file}`, mimeType: "text/csv", subscribable: true };
    return { entry, text: this.#selected(file, from, count, columns) };
  }

  /** Returns the header and some rows, with those columns. */
  #selected(file, from, count, columns) {
    const rows = records(this.#text(file));
    const header = rows.next().value;
    if (!header) return "";
    const wanted = firstRecord(columns ?? "");
    const indexes = wanted ? wanted.map((column) => position(file, header, column)) : [...header.keys()];
    const line = (row) => write(indexes.map((index) => row[index] ?? ""));
    let text = line(header);
    let number = 0;
    for (const row of rows) {
      number++;
      if (number >= from + count) break;
      if (number >= from) text += line(row);
    }
    return text;
  }

  #completeColumns(value, file) {
    if (!this.#has(file)) return { values: [] };
    const kept = value.slice(0, value.lastIndexOf(",") + 1);
    const prefix = value.slice(kept.length);
    const taken = firstRecord(kept.slice(0, -1)) ?? [];
    const columns = firstRecord(this.#text(file)) ?? [];
    const fitting = columns.filter((column) => column.startsWith(prefix) && !taken.includes(column));
    return matching(fitting.map((column) => kept + quote(column)), "");
  }

  /** The names of the files. */
  #names() {
    try {
      return readDir(this.#folder).map(({ name }) => name).filter((name) => this.#has(name));
    } catch (error) {
      throw new Internal(`cannot read the folder ${this.#folder}: ${error.message}; does \`grants.dirs\` grant it?`);
    }
  }

  /** Whether there is a file of that name. */
  #has(name) {
    return this.#stat(name)?.type === "regular-file";
  }

  /** The metadata of a file; undefined if there is no such file. */
  #stat(name) {
    if (!name.endsWith(".csv") || name.startsWith(".") || name.includes("/")) return undefined;
    try {
      return stat(this.#path(name));
    } catch (error) {
      if (error instanceof FsError) return undefined;
      throw error;
    }
  }

  /** The entry of a file; undefined if there is no such file. */
  #entry(name) {
    const found = this.#stat(name);
    if (found?.type !== "regular-file") return undefined;
    const columns = header(readFileStart(this.#path(name), HEADER_BYTES));
    return {
      path: encodeSegment(name),
      name,
      description: columns && `Columns: ${columns.join(", ")}.`,
      mimeType: "text/csv",
      size: found.size,
      subscribable: true,
    };
  }

  #text(file) {
    const text = decodeUtf8(readFile(this.#path(file)));
    if (text === undefined) throw new Internal(`${file} is not UTF-8`);
    return text;
  }

  /** What changes when a file does; undefined if there is no such file. */
  #state(name) {
    const found = this.#stat(name);
    return found?.type === "regular-file" ? [found.size, found.modified] : undefined;
  }

  #path(name) {
    return `${this.#folder}/${name}`;
  }
}

/** The name of a file from its path. */
function fileName(segment) {
  try {
    return decodeSegment(segment);
  } catch {
    throw new NotFound();
  }
}

/** The first record, if the bytes are UTF-8 except for an incomplete character at the end. */
function header(bytes) {
  for (let cut = 0; cut <= 3; cut++) {
    const text = decodeUtf8(bytes.subarray(0, bytes.length - cut));
    if (text !== undefined) return firstRecord(text);
    if (bytes.length < HEADER_BYTES) return undefined;
  }
  return undefined;
}

/** The value of a variable that is a row number; undefined if it has none. */
function rowNumber(name, text) {
  if (!text) return undefined;
  if (!/^[1-9][0-9]{0,8}$/.test(text)) {
    throw new InvalidRequest(`\`${name}\` must be a row number from 1 on, found "${text}"`);
  }
  return Number(text);
}

function position(file, header, column) {
  const index = header.indexOf(column);
  if (index < 0) throw new InvalidRequest(`no column "${column}" in ${file}; its columns are ${header.join(", ")}`);
  return index;
}
