// English and Japanese. A text is written in both at the place where it is shown: `t("Plugins", "プラグイン")`.

export type Language = "en" | "ja";

const STORED = "mcp-host-console-language";

let language: Language = initial();

function initial(): Language {
  const stored = localStorage.getItem(STORED);
  if (stored === "en" || stored === "ja") {
    return stored;
  }
  return navigator.languages.find((name) => /^(en|ja)\b/.test(name))?.startsWith("ja") ? "ja" : "en";
}

export function currentLanguage(): Language {
  return language;
}

export function setLanguage(chosen: Language): void {
  language = chosen;
  localStorage.setItem(STORED, chosen);
  document.documentElement.lang = chosen;
}

export function t(english: string, japanese: string): string {
  return language === "ja" ? japanese : english;
}

/** The name of a language by its code, in that of the reader. */
export function languageName(code: string): string {
  try {
    return new Intl.DisplayNames(language, { type: "language" }).of(code) ?? code;
  } catch {
    // What is no code has no name.
    return code;
  }
}

/** The formats that were made: making one takes longer than all else about a row of a tree. */
const formats = new Map<string, Intl.NumberFormat | Intl.DateTimeFormat>();

/** Returns the format of a kind in the language of the reader, which `make` makes the first time. */
function format<T extends Intl.NumberFormat | Intl.DateTimeFormat>(kind: string, make: () => T): T {
  const key = `${language} ${kind}`;
  const made = formats.get(key) ?? make();
  formats.set(key, made);
  // The kind determines the type.
  return made as T;
}

export function number(value: number, digits = 0): string {
  return format(`number ${digits}`, () => new Intl.NumberFormat(language, { maximumFractionDigits: digits })).format(value);
}

/** A size in bytes, in binary units. */
export function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${number(value, value < 10 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}

/** A duration in milliseconds. */
export function duration(milliseconds: number): string {
  if (milliseconds > 0 && milliseconds < 1) {
    return `${number(milliseconds * 1000)} µs`;
  }
  if (milliseconds < 1000) {
    return `${number(milliseconds, milliseconds < 10 ? 1 : 0)} ms`;
  }
  const seconds = milliseconds / 1000;
  if (seconds < 120) {
    return `${number(seconds, seconds < 10 ? 1 : 0)} s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) {
    return t(`${minutes} min`, `${minutes} 分`);
  }
  const hours = Math.floor(minutes / 60);
  return hours < 48
    ? t(`${hours} h ${minutes % 60} min`, `${hours} 時間 ${minutes % 60} 分`)
    : t(`${number(Math.floor(hours / 24))} d ${hours % 24} h`, `${number(Math.floor(hours / 24))} 日 ${hours % 24} 時間`);
}

/** A time, in the reader's zone. */
export function time(text: string, withDate = true): string {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) {
    return text;
  }
  const style: Intl.DateTimeFormatOptions = withDate ? { dateStyle: "medium", timeStyle: "medium" } : { timeStyle: "medium" };
  return format(`time ${withDate}`, () => new Intl.DateTimeFormat(language, style)).format(at);
}
