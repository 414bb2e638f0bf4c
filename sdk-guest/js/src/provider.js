// The base class of providers, and helpers for its results.

import { Internal, InvalidRequest, NotFound } from "./failures.js";
import { compareText, decodeUtf8, utf8Length } from "./text.js";

export class Provider {
  templates = [];

  listEntries() {
    return { entries: [] };
  }

  read(path) {
    for (const template of this.templates) {
      const variables = template.pattern.match(path);
      if (variables) return template.read(path, variables);
    }
    throw new NotFound();
  }

  stat(path) {
    const contents = [this.read(path)].flat().find((contents) => contents.entry.path === path);
    if (!contents) throw new Internal(`\`read\` returned no content with the path ${JSON.stringify(path)}; implement \`stat\``);
    return { ...contents.entry, size: sizeOf(contents) };
  }

  complete(pathTemplate, variable, value, known) {
    const template = this.templates.find((template) => template.pathTemplate === pathTemplate);
    if (!template) throw new InvalidRequest(`expected a template as \`resources/templates/list\` has it, found "${pathTemplate}"`);
    const { variables } = template.pattern;
    if (!variables.includes(variable)) {
      throw new InvalidRequest(`expected a variable of "${pathTemplate}" (${variables.join(", ")}), found "${variable}"`);
    }
    const found = template.complete[variable]?.(value, known) ?? { values: [] };
    return Symbol.iterator in found ? matching(found, value) : found;
  }

  changes() {
    return { token: "" };
  }
}

/** The size of contents in bytes. */
export function sizeOf({ text, bytes }) {
  return text === undefined ? bytes.length : utf8Length(text);
}

export function detect(entry, bytes) {
  return { entry, bytes, isText: decodeUtf8(bytes) !== undefined };
}

/** The number of completions that the host takes. */
export const MAX_COMPLETIONS = 1000;

export function matching(candidates, typed) {
  const fitting = [...new Set(candidates)].filter((candidate) => candidate.startsWith(typed));
  const values = fitting.slice(0, MAX_COMPLETIONS);
  return { values, total: fitting.length, hasMore: fitting.length > values.length };
}

export function paginate(keys, cursor, limit, entry) {
  if (cursor !== undefined && !cursor.startsWith(":")) {
    throw new InvalidRequest("expected a cursor that this provider returned");
  }
  const last = cursor?.slice(1);
  const rest = [...keys].filter((key) => last === undefined || compareText(key, last) > 0).sort(compareText);
  const page = rest.slice(0, Math.max(limit, 1));
  return {
    entries: page.map(entry).filter((made) => made !== undefined),
    nextCursor: rest.length > page.length ? `:${page.at(-1)}` : undefined,
  };
}

export function progressOf(prepared, all, what, nextToken) {
  const percent = all > 0 ? Math.min(Math.floor((prepared * 100) / all), 100) : 100;
  return { nextToken: prepared < all ? String(nextToken) : undefined, percent, message: `${prepared} of ${all} ${what}` };
}

export function compareChanges(watched, since, { state, listing }) {
  const lines = [digest(listing), ...watched.map((path) => digest(path) + digest(state(path)))];
  const token = lines.join("\n");
  if (since === undefined) return { token };
  const then = since.split("\n");
  const known = new Set(then.slice(1));
  return {
    token,
    changed: watched.filter((_, index) => !known.has(lines[index + 1])),
    listingChanged: then[0] !== lines[0],
  };
}

/** A hash of 53 bits (cyrb53, public domain) of a value's JSON. */
export function digest(value) {
  const text = JSON.stringify(value) ?? "";
  let [high, low] = [0xdeadbeef, 0x41c6ce57];
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    high = Math.imul(high ^ unit, 2654435761);
    low = Math.imul(low ^ unit, 1597334677);
  }
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  return (4294967296 * (2097151 & low) + (high >>> 0)).toString(16).padStart(14, "0");
}
