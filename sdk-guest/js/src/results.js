// What a function returns as the content of a resource: text, JSON, bytes, a file, or contents.

import { Internal, NotFound } from "./failures.js";
import { File } from "./file.js";
import { detect, digest } from "./provider.js";

export function contentsOf(entry, body, where) {
  if (body === undefined || body === null) throw new NotFound();
  if (typeof body.then === "function") throw new TypeError(`${where} returned a promise; calls are synchronous`);
  if (body instanceof File) return [detect(entryOfFile(entry, body), body.bytes())];
  if (typeof body === "string") return [{ entry: { ...entry, mimeType: entry.mimeType ?? "text/plain" }, text: body }];
  if (body instanceof Uint8Array) {
    return [{ entry: { ...entry, mimeType: entry.mimeType ?? "application/octet-stream" }, bytes: body }];
  }
  const contents = [body].flat();
  if (contents.length > 0 && contents.every(isContents)) return contents;
  return [{ entry: { ...entry, mimeType: entry.mimeType ?? "application/json" }, text: jsonOf(body, where) }];
}

const isContents = (value) =>
  typeof value?.entry?.path === "string" && (typeof value.text === "string" || value.bytes instanceof Uint8Array);

function jsonOf(value, where) {
  let text;
  try {
    text = typeof value === "object" ? JSON.stringify(value, undefined, 2) : undefined;
  } catch (error) {
    throw new Internal(`${where} returned what is not JSON: ${error.message}`);
  }
  if (text === undefined) {
    throw new Internal(`${where} returned a ${typeof value}; expected a string, an object or array, a Uint8Array, a file or contents`);
  }
  return text;
}

export function entryOfFile(entry, file) {
  const { size, modified } = file.stat();
  return { ...entry, mimeType: entry.mimeType ?? file.mimeType, size, lastModified: entry.lastModified ?? modified };
}

/** What changes when a content does: of a file its size and time, of anything else a digest. */
export function fingerprintOf(body) {
  if (body === undefined || body === null) return undefined;
  if (body instanceof File) {
    const { size, modified } = body.stat();
    return [size, modified];
  }
  return body instanceof Uint8Array ? digest([...body]) : digest([body].flat().map(withBytes));
}

const withBytes = (value) => (value?.bytes instanceof Uint8Array ? { ...value, bytes: [...value.bytes] } : value);
