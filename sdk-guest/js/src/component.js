// The component's exports, implemented for a provider.

import { get, getAll } from "wasi:config/store@0.2.0-rc.1";

import { Config } from "./config.js";
import { describeError, writeLog } from "./console.js";
import * as convert from "./convert.js";
import { askHost, Denied, Failure, Internal, InvalidRequest, NotFound, Unavailable } from "./failures.js";
import { reseed } from "./standard.js";

const TEMPLATES_PER_PAGE = 100;

askHost((key) => get(key) ?? undefined);

/** The contract's failure for what was thrown. What is no failure is internal, with its stack in the host's log. */
function failure(error, call) {
  if (error instanceof NotFound) return { tag: "not-found" };
  if (error instanceof InvalidRequest) return { tag: "invalid-request", val: error.message };
  if (error instanceof Denied) return { tag: "denied", val: error.message };
  if (error instanceof Unavailable) return { tag: "unavailable", val: convert.retry(error) };
  if (error instanceof Failure) return { tag: "internal", val: error.message };
  const described = describeError(error);
  writeLog("error", `${call} failed: ${described}`);
  return { tag: "internal", val: described.split("\n", 1)[0] };
}

/** Returns a function that returns the provider, which it opens first, and its config. */
function opener(Class) {
  let opened;
  return () => {
    if (!opened) {
      reseed();
      const config = new Config(Object.fromEntries(getAll()));
      opened = { provider: new Class(config), config };
    }
    return opened;
  };
}

/** Returns the export `prepare` for a class, and the function of its module. */
export function adaptPrepare(Class, prepare) {
  if (typeof prepare !== "function") throw new TypeError("expected `export function prepare(provider, token)`");
  const open = opener(Class);
  return {
    prepare: (token) => {
      let thrown;
      try {
        const { provider, config } = open();
        const progress = prepare(provider, token ?? undefined, config);
        if (typeof progress?.then === "function") throw new TypeError("prepare returned a promise; calls are synchronous");
        return convert.progress(progress);
      } catch (error) {
        const { tag, val } = failure(error, "prepare");
        thrown = tag === "unavailable" ? { reason: val.reason, retryAfterMs: val.afterMs } : { reason: val ?? "something is not found" };
      }
      throw thrown;
    },
  };
}

/** Returns the exports for a class that extends `Provider`. */
export function adapt(Class) {
  if (typeof Class !== "function" || typeof Class.prototype?.read !== "function") {
    throw new TypeError("expected `export default` of a class that extends Provider");
  }
  const info = convert.info(Class.info);
  const open = opener(Class);
  const provider = () => open().provider;

  /** Calls a function of the provider. */
  const ask = (call, ...values) => {
    const result = provider()[call](...values);
    if (typeof result?.then === "function") throw new TypeError(`${call} returned a promise; calls are synchronous`);
    return result;
  };

  const guarded = (call, answer) => (...values) => {
    let thrown;
    try {
      return answer(...values);
    } catch (error) {
      thrown = failure(error, call);
    }
    throw thrown;
  };

  return {
    describe: () => info,
    listEntries: guarded("listEntries", (parent, cursor, limit) =>
      convert.page(ask("listEntries", parent ?? undefined, cursor ?? undefined, Math.max(limit, 1))),
    ),
    listTemplates: guarded("listTemplates", (cursor) => {
      const { templates } = provider();
      const start = Number(cursor ?? 0);
      if (cursor != null && !(start > 0 && start < templates.length && start % TEMPLATES_PER_PAGE === 0)) {
        throw new InvalidRequest("expected a cursor that this provider returned");
      }
      const end = start + TEMPLATES_PER_PAGE;
      const page = templates.slice(start, end).map((template, index) => convert.template(template, `templates[${start + index}]`));
      return { templates: page, nextCursor: end < templates.length ? String(end) : undefined };
    }),
    read: guarded("read", (path) => {
      const contents = [ask("read", path)].flat();
      if (contents.length === 0) {
        throw new Internal(`\`read\` returned no content for ${JSON.stringify(path)}; throw NotFound if there is no such resource`);
      }
      return contents.map(convert.contents);
    }),
    stat: guarded("stat", (path) => convert.entry(ask("stat", path))),
    complete: guarded("complete", (template, argument, known) => {
      const given = Object.fromEntries(known.map(({ name, value }) => [name, value]));
      return convert.completion(ask("complete", template, argument.name, argument.value, given));
    }),
    changes: guarded("changes", (watched, since) => convert.changes(ask("changes", watched, since ?? undefined))),
  };
}
