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

/** An error with its stack. */
export function describeError(error) {
  if (!(error instanceof Error)) return shown(error);
  const stack = String(error.stack ?? "").trimEnd();
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
