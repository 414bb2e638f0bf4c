// Conversions to the contract's types. They name the field that is wrong, which the bindings do not.

import { sizeOf } from "./provider.js";

const shown = (value) => {
  try {
    return typeof value === "bigint" ? `${value}n` : (JSON.stringify(value) ?? String(value));
  } catch {
    return String(value);
  }
};

const fail = (field, expected, value) => {
  throw new TypeError(`${field}: expected ${expected}, found ${shown(value)}`);
};

const text = (value, field) => (typeof value === "string" ? value.toWellFormed() : fail(field, "a string", value));
const flag = (value, field) => (typeof value === "boolean" ? value : fail(field, "a boolean", value));
const optional = (convert) => (value, field) => (value === undefined || value === null ? undefined : convert(value, field));
const optionalText = optional(text);

const list = (convert) => (values, field) =>
  Array.isArray(values) ? values.map((value, index) => convert(value, `${field}[${index}]`)) : fail(field, "an array", values);

const natural = optional((value, field) => {
  const number = typeof value === "bigint" ? Number(value) : value;
  return Number.isSafeInteger(number) && number >= 0 ? number : fail(field, "a whole number from 0 on", value);
});

const finite = optional((value, field) => (Number.isFinite(value) ? value : fail(field, "a number", value)));

const milliseconds = optional((value, field) =>
  Number.isFinite(value) && value >= 0 ? Math.ceil(value) : fail(field, "milliseconds from 0 on", value),
);

const oneOf = (...names) => (value, field) => (names.includes(value) ? value : fail(field, names.join(" or "), value));

const object = (value, field) => (typeof value === "object" && value !== null ? value : fail(field, "an object", value));

const timestamp = optional((value, field) => {
  const date = typeof value === "string" || typeof value === "number" ? new Date(value) : value;
  return date instanceof Date && !Number.isNaN(date.getTime()) ? date.toISOString() : fail(field, "a date", value);
});

const meta = optional((value, field) => JSON.stringify(object(value, field)));

const icons = (values, field) =>
  list((icon, at) => ({
    src: text(object(icon, at).src, `${at}.src`),
    mimeType: optionalText(icon.mimeType, `${at}.mimeType`),
    sizes: list(text)(icon.sizes ?? [], `${at}.sizes`),
    theme: optional(oneOf("light", "dark"))(icon.theme, `${at}.theme`),
  }))(values ?? [], field);

function annotations(of, field, lastModified) {
  const audience = list(oneOf("user", "assistant"))(of.audience ?? [], `${field}.audience`);
  const priority = finite(of.priority, `${field}.priority`);
  if (audience.length === 0 && priority === undefined && lastModified === undefined) return undefined;
  return { audience, priority, lastModified };
}

export function entry(given, field = "entry") {
  object(given, field);
  return {
    path: text(given.path, `${field}.path`),
    name: text(given.name, `${field}.name`),
    title: optionalText(given.title, `${field}.title`),
    description: optionalText(given.description, `${field}.description`),
    mimeType: optionalText(given.mimeType, `${field}.mimeType`),
    size: natural(given.size, `${field}.size`),
    annotations: annotations(given, field, timestamp(given.lastModified, `${field}.lastModified`)),
    icons: icons(given.icons, `${field}.icons`),
    listable: flag(given.listable ?? false, `${field}.listable`),
    subscribable: flag(given.subscribable ?? false, `${field}.subscribable`),
    ttlMs: milliseconds(given.ttlMs, `${field}.ttlMs`),
    meta: meta(given.meta, `${field}.meta`),
  };
}

export function contents(given) {
  const made = { entry: entry(object(given, "contents").entry, "contents.entry") };
  if (given.text !== undefined) {
    const val = text(given.text, "contents.text");
    made.body = { tag: "text", val };
  } else if (given.bytes instanceof Uint8Array) {
    made.body = { tag: given.isText ? "text-bytes" : "blob", val: given.bytes };
  } else {
    fail("contents", "`text`, a string, or `bytes`, a Uint8Array", Object.keys(given));
  }
  made.entry.size = sizeOf(given);
  return made;
}

export function page(given) {
  return {
    entries: list(entry)(object(given, "the result of listEntries").entries, "entries"),
    nextCursor: optionalText(given.nextCursor, "nextCursor"),
  };
}

export function template(given, field) {
  return {
    pathTemplate: text(given.pathTemplate, `${field}.pathTemplate`),
    name: text(given.name, `${field}.name`),
    title: optionalText(given.title, `${field}.title`),
    description: optionalText(given.description, `${field}.description`),
    mimeType: optionalText(given.mimeType, `${field}.mimeType`),
    annotations: annotations(given, field),
    icons: icons(given.icons, `${field}.icons`),
    meta: meta(given.meta, `${field}.meta`),
  };
}

export function completion(given) {
  return {
    values: list(text)(object(given, "the result of complete").values, "values"),
    total: natural(given.total, "total"),
    hasMore: flag(given.hasMore ?? false, "hasMore"),
  };
}

export function changes(given) {
  return {
    token: text(object(given, "the result of changes").token, "token"),
    changed: list(text)(given.changed ?? [], "changed"),
    listingChanged: flag(given.listingChanged ?? false, "listingChanged"),
    pollAfterMs: milliseconds(given.pollAfter, "pollAfter"),
  };
}

export function progress(given) {
  const percent = natural(object(given, "the result of prepare").percent, "percent");
  return {
    nextToken: optionalText(given.nextToken, "nextToken"),
    percent: percent > 100 ? fail("percent", "0 to 100", percent) : percent,
    message: optionalText(given.message, "message"),
    againAfterMs: milliseconds(given.againAfter, "againAfter"),
  };
}

export function info(given) {
  return {
    name: text(object(given, "static info").name, "info.name"),
    version: text(given.version, "info.version"),
    title: optionalText(given.title, "info.title"),
    description: optionalText(given.description, "info.description"),
    watches: flag(given.watches ?? false, "info.watches"),
  };
}

export function retry(failure) {
  return { reason: failure.message, afterMs: milliseconds(failure.retryAfter, "retryAfter") };
}
