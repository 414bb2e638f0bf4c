// UTF-8, paths, and the order of names. QuickJS has no TextDecoder.

import { InvalidRequest } from "./failures.js";

/** The text of UTF-8 bytes; undefined if they are not UTF-8. */
export function decodeUtf8(bytes) {
  if (typeof TextDecoder !== "undefined") {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return undefined;
    }
  }
  let text = "";
  let units = [];
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at++];
    let more = 0;
    let code = first;
    let least = 0;
    if (first >= 0xf5 || (first >= 0x80 && first < 0xc2)) return undefined;
    if (first >= 0xf0) [more, code, least] = [3, first & 0x07, 0x10000];
    else if (first >= 0xe0) [more, code, least] = [2, first & 0x0f, 0x800];
    else if (first >= 0xc2) [more, code] = [1, first & 0x1f];
    for (; more > 0; more--) {
      const next = bytes[at++];
      if (next === undefined || (next & 0xc0) !== 0x80) return undefined;
      code = (code << 6) | (next & 0x3f);
    }
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return undefined;
    if (code > 0xffff) units.push(0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
    else units.push(code);
    if (units.length > 4096) {
      text += String.fromCharCode.apply(null, units);
      units = [];
    }
  }
  return text + String.fromCharCode.apply(null, units);
}

/** The bytes of a text in UTF-8. */
export function encodeUtf8(text) {
  const bytes = unescape(encodeURIComponent(text.toWellFormed()));
  return Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));
}

/** The number of bytes of a text in UTF-8. */
export function utf8Length(text) {
  let length = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit > 0x7f) length += unit <= 0x7ff ? 1 : 2;
    if (unit >= 0xd800 && unit <= 0xdbff && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) {
      // A pair has four bytes: this unit was counted as three, and the other one is skipped.
      at++;
    }
  }
  return length;
}

/** What may stand in a segment as it is, although encodeURIComponent encodes it (RFC 3986, `pchar`). */
const PLAIN = /%(24|26|2B|2C|3A|3B|3D|40)/g;

export function encodeSegment(name) {
  return encodeURIComponent(name).replace(PLAIN, decodeURIComponent);
}

/** What may stand in the value of a query as it is, although encodeURIComponent encodes it: what separates nothing there. */
const PLAIN_IN_QUERY = /%(24|3A|40)/g;

export function encodeQuery(value) {
  return encodeURIComponent(value).replace(PLAIN_IN_QUERY, decodeURIComponent);
}

export function decodeSegment(segment) {
  if (segment.includes("/") || segment.includes("?")) throw new InvalidRequest("expected a single path segment");
  const name = decode(segment);
  if (name === undefined) throw new InvalidRequest("expected a percent-encoded name in UTF-8");
  return name;
}

/** Percent-decoded text; undefined if it is malformed, not UTF-8, or has a NUL. */
export function decode(text) {
  try {
    const decoded = decodeURIComponent(text);
    return decoded.includes("\0") ? undefined : decoded;
  } catch {
    return undefined;
  }
}

export function splitQuery(path) {
  const mark = path.indexOf("?");
  return mark < 0 ? [path, undefined] : [path.slice(0, mark), path.slice(mark + 1)];
}

/** Compares by code points, as bytes of UTF-8 compare; `<` compares by UTF-16 units. */
export function compareText(a, b) {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at++) {
    const [x, y] = [a.charCodeAt(at), b.charCodeAt(at)];
    if (x === y) continue;
    const [xPair, yPair] = [(x & 0xf800) === 0xd800, (y & 0xf800) === 0xd800];
    return xPair === yPair ? x - y : xPair ? 1 : -1;
  }
  return a.length - b.length;
}
