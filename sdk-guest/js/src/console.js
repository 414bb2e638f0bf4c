// `console`, written to the host's log.

import { log } from "wasi:logging/logging@0.1.0-draft";

const shown = (value) => {
  if (typeof value === "string") return value;
  if (value instanceof Error) return describeError(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
};

/** A line of the bundle in a stack. */
const POSITION = /componentize-qjs:user\.js:(\d+):\d+/g;

/** Names the source of a line of the bundle: the build appends the table. */
function original(position, line) {
  const table = globalThis.__mcpLines;
  const found = table?.lines[line - 1];
  return found ? `${table.sources[found[0]]}:${found[1]}` : position;
}

/** An error with its stack. */
export function describeError(error) {
  if (!(error instanceof Error)) return shown(error);
  const stack = String(error.stack ?? "").replace(POSITION, original).trimEnd();
  const head = `${error.name}: ${error.message}`;
  // In some engines the stack begins with the message, in others it does not.
  return stack.includes(error.message) && error.message ? stack : `${head}\n${stack}`;
}

/** Writes text to the host's log, one line each: it truncates long ones. */
export function writeLog(level, text) {
  for (const line of text.trimEnd().split("\n")) log(level, "", line);
}

const writer = (level) => (...values) => writeLog(level, values.map(shown).join(" "));

globalThis.console ??= {};
Object.assign(globalThis.console, {
  debug: writer("debug"),
  error: writer("error"),
  info: writer("info"),
  log: writer("info"),
  trace: writer("trace"),
  warn: writer("warn"),
});
