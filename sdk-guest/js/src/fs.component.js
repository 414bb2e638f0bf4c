// Files of the granted directories, in a component.

import { getDirectories } from "wasi:filesystem/preopens@0.2.6";

import { Internal } from "./failures.js";
import { File, filesOf, memoOf } from "./file.js";
import { FsError } from "./fs.error.js";
import { decodeUtf8 } from "./text.js";

const CHUNK = 1024 * 1024;
const FOLLOW = { symlinkFollow: true };

/** Opens the file at a guest path, in the granted directory with the longest guest path that contains it. */
function located(path) {
  if (typeof path !== "string" || !path.startsWith("/")) {
    throw new FsError("invalid", path, "expected an absolute guest path");
  }
  let found;
  for (const [directory, guest] of getDirectories()) {
    const prefix = guest.endsWith("/") ? guest : `${guest}/`;
    if (`${path}/`.startsWith(prefix) && !(found?.prefix.length > prefix.length)) found = { directory, prefix };
  }
  if (!found) throw new FsError("no-entry", path, "no granted directory contains it; see `grants.dirs`");
  return { directory: found.directory, relative: path.slice(found.prefix.length).replace(/\/+$/, "") || "." };
}

/** Calls the host; its error is one of this module. */
function call(path, operation) {
  try {
    return operation();
  } catch (error) {
    if (error instanceof FsError) throw error;
    const code = typeof error === "string" ? error : (error?.payload ?? error?.message);
    throw new FsError(String(code), path);
  }
}

const open = (path, openFlags, flags) => {
  const { directory, relative } = located(path);
  return call(path, () => directory.openAt(FOLLOW, relative, openFlags, flags));
};

export function readFile(path) {
  const file = open(path, {}, { read: true });
  const chunks = [];
  for (let offset = 0; ; ) {
    const [bytes, isEnd] = call(path, () => file.read(CHUNK, offset));
    chunks.push(bytes);
    offset += bytes.length;
    if (isEnd || bytes.length === 0) return joined(chunks, offset);
  }
}

export function readFileStart(path, length) {
  const file = open(path, {}, { read: true });
  const chunks = [];
  for (let offset = 0; ; ) {
    const [bytes, isEnd] = call(path, () => file.read(length - offset, offset));
    chunks.push(bytes);
    offset += bytes.length;
    if (isEnd || bytes.length === 0 || offset >= length) return joined(chunks, offset);
  }
}

function joined(chunks, length) {
  if (chunks.length === 1) return chunks[0];
  const all = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

export function readTextFile(path) {
  const text = decodeUtf8(readFile(path));
  if (text === undefined) throw new Internal(`${path} is not UTF-8`);
  return text;
}

export function writeFile(path, bytes) {
  const file = open(path, { create: true, truncate: true }, { write: true });
  for (let offset = 0; offset < bytes.length; ) {
    const written = call(path, () => file.write(bytes.subarray(offset, offset + CHUNK), offset));
    offset += Number(written);
  }
}

export function readDir(path) {
  const entries = call(path, () => open(path, { directory: true }, { read: true }).readDirectory());
  const found = [];
  for (;;) {
    const entry = call(path, () => entries.readDirectoryEntry());
    if (!entry) return found;
    found.push({ name: entry.name, type: entry.type });
  }
}

export function stat(path) {
  const { directory, relative } = located(path);
  const found = call(path, () => directory.statAt(FOLLOW, relative));
  const time = found.dataModificationTimestamp;
  return {
    type: found.type,
    size: Number(found.size),
    modified: time && Number(time.seconds) * 1000 + time.nanoseconds / 1e6,
  };
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
