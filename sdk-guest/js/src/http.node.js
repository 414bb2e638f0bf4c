// HTTP requests in unit tests on Node.js: a function answers them, as Node.js has no request that waits for its response.

import { Internal } from "./failures.js";
import { HttpError } from "./http.error.js";
import { encodeUtf8 } from "./text.js";

let answer;

export function fake(handler) {
  answer = handler;
}

export function request(url, { method = "GET", headers = {}, body, timeout } = {}) {
  if (!/^https?:\/\/[^/?#]/i.test(url)) throw new TypeError(`expected an http: or https: URL, found ${url}`);
  const found = answer?.(url, { method, headers, body, timeout });
  if (!found) throw new HttpError("HTTP-request-denied", url);
  const sent = found.body ?? "";
  const bytes = typeof sent === "string" ? encodeUtf8(sent) : sent;
  const lower = Object.entries(found.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
  const read = (limit) => {
    if (bytes.length > limit) throw new Internal(`the response has more than ${limit} bytes`);
    return bytes;
  };
  return { status: found.status ?? 200, headers: Object.fromEntries(lower), read };
}

export { HttpError };
