// HTTP requests to the granted origins.
//
// The interfaces are `wasi:http`, under another name until the component is built: see `build.js`.

import { handle } from "wasj:http/outgoing-handler@0.2.6";
import { Fields, OutgoingBody, OutgoingRequest, RequestOptions } from "wasj:http/types@0.2.6";

import { Internal } from "./failures.js";
import { HttpError } from "./http.error.js";
import { decodeUtf8, encodeUtf8 } from "./text.js";

const CHUNK = 65_536;
const URL_PARTS = /^(https?):\/\/([^/?#]+)([^#]*)/i;

const reason = (error) => error?.payload ?? error;

export function request(url, { method = "GET", headers = {}, body, timeout } = {}) {
  const parts = URL_PARTS.exec(url);
  if (!parts) throw new TypeError(`expected an http: or https: URL, found ${url}`);
  const [, scheme, authority, path] = parts;
  const fail = (error) => {
    const found = reason(error);
    throw error instanceof TypeError ? error : new HttpError(found?.tag ?? String(found), url);
  };
  try {
    const fields = Fields.fromList(Object.entries(headers).map(([name, value]) => [name, encodeUtf8(String(value))]));
    const outgoing = new OutgoingRequest(fields);
    outgoing.setMethod(named(method));
    outgoing.setScheme({ tag: scheme.toUpperCase() });
    outgoing.setAuthority(authority);
    outgoing.setPathWithQuery(path.startsWith("/") ? path : `/${path}`);
    const sent = outgoing.body();
    const future = handle(outgoing, options(timeout));
    write(sent, typeof body === "string" ? encodeUtf8(body) : body);
    future.subscribe().block();
    const result = settled(future.get());
    return response(result);
  } catch (error) {
    return fail(error);
  }
}

const STANDARD = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

const named = (method) =>
  STANDARD.includes(method.toUpperCase()) ? { tag: method.toLowerCase() } : { tag: "other", val: method };

function options(timeout) {
  if (timeout === undefined) return undefined;
  const made = new RequestOptions();
  const nanoseconds = Math.ceil(timeout * 1e6);
  made.setConnectTimeout(nanoseconds);
  made.setFirstByteTimeout(nanoseconds);
  made.setBetweenBytesTimeout(nanoseconds);
  return made;
}

/** Writes the body. When it is not taken, as when the request is denied, what becomes of the request says why. */
function write(body, bytes = new Uint8Array()) {
  try {
    if (bytes.length > 0) {
      const stream = body.write();
      for (let at = 0; at < bytes.length; at += 4096) stream.blockingWriteAndFlush(bytes.subarray(at, at + 4096));
      drop(stream);
    }
    OutgoingBody.finish(body, undefined);
  } catch (error) {
    if (error instanceof TypeError) throw error;
  }
}

/** The result within the nested ones of a settled future. */
function settled(result) {
  let value = result;
  while (value?.tag === "ok" || value?.tag === "err") {
    if (value.tag === "err") throw value.val;
    value = value.val;
  }
  return value;
}

function response(incoming) {
  const headers = {};
  for (const [name, value] of incoming.headers().entries()) {
    const text = decodeUtf8(value) ?? "";
    const key = name.toLowerCase();
    headers[key] = key in headers ? `${headers[key]}, ${text}` : text;
  }
  const status = incoming.status();
  const body = incoming.consume();
  return { status, headers, read: (limit) => read(body, limit) };
}

function read(body, limit) {
  const stream = body.stream();
  const chunks = [];
  let length = 0;
  try {
    for (;;) {
      const chunk = stream.blockingRead(CHUNK);
      length += chunk.length;
      if (length > limit) throw new Internal(`the response has more than ${limit} bytes`);
      chunks.push(chunk);
    }
  } catch (error) {
    if (reason(error)?.tag !== "closed") throw error;
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

function drop(resource) {
  resource[Symbol.dispose ?? Symbol.for("dispose")]?.();
}

/** Only in unit tests. */
export function fake() {}

export { HttpError };
