// The same functions on Node.js, for unit tests of a provider.

import * as fs from "node:fs";

import { Internal } from "./failures.js";
import { File, filesOf, memoOf } from "./file.js";
import { FsError } from "./fs.error.js";
import { decodeUtf8 } from "./text.js";

const CODES = { ENOENT: "no-entry", ENOTDIR: "not-directory", EISDIR: "is-directory", EACCES: "access", EPERM: "not-permitted" };

function call(path, operation) {
  try {
    return operation();
  } catch (error) {
    throw new FsError(CODES[error.code] ?? "io", path, error.message);
  }
}

const typeOf = (file) =>
  file.isFile() ? "regular-file" : file.isDirectory() ? "directory" : file.isSymbolicLink() ? "symbolic-link" : "unknown";

export function readFile(path) {
  return call(path, () => new Uint8Array(fs.readFileSync(path)));
}

export function readFileStart(path, length) {
  return readFile(path).subarray(0, length);
}

export function readTextFile(path) {
  const text = decodeUtf8(readFile(path));
  if (text === undefined) throw new Internal(`${path} is not UTF-8`);
  return text;
}

export function writeFile(path, bytes) {
  call(path, () => fs.writeFileSync(path, bytes));
}

export function readDir(path) {
  const entries = call(path, () => fs.readdirSync(path, { withFileTypes: true }));
  return entries.map((entry) => ({ name: entry.name, type: typeOf(entry) }));
}

export function stat(path) {
  const found = call(path, () => fs.statSync(path));
  return { type: typeOf(found), size: found.size, modified: found.mtimeMs };
}

const SYSTEM = { readDir, readFile, stat };

export function file(folder, name) {
  return new File(SYSTEM, folder, name);
}

export function files(folder) {
  return filesOf(SYSTEM, folder);
}

export function memo(make) {
  return memoOf(SYSTEM, make);
}

export { FsError };
