// Reading and writing CSV (RFC 4180), leniently, as the README of `examples/csv` says.

const FIELD = /(?:"((?:[^"]|"")*)(?:"|$(?![^]))?)?((?:[^,\r\n]|\r(?!\n))*)/y;
const END_OF_LINE = /\r?\n/y;

/** Matches at a position, and returns the match with its end. */
function matchAt(pattern: RegExp, text: string, at: number): { found: RegExpExecArray; end: number } | undefined {
  pattern.lastIndex = at;
  const found = pattern.exec(text);
  return found ? { found, end: pattern.lastIndex } : undefined;
}

/** Yields the records of a text. Empty lines are skipped. */
export function* records(text: string): Generator<string[], undefined> {
  let at = text.startsWith("\ufeff") ? 1 : 0;
  while (at < text.length) {
    const empty = matchAt(END_OF_LINE, text, at);
    if (empty) {
      at = empty.end;
      continue;
    }
    const record: string[] = [];
    for (;;) {
      const field = matchAt(FIELD, text, at);
      if (!field) throw new Error("it matches nothing, too");
      const [, quoted = "", rest = ""] = field.found;
      record.push(quoted.replaceAll('""', '"') + rest);
      at = field.end;
      if (text[at] !== ",") break;
      at++;
    }
    at = matchAt(END_OF_LINE, text, at)?.end ?? at;
    yield record;
  }
  return undefined;
}

/** Returns the first record of a text, if it has any. */
export const firstRecord = (text: string): string[] | undefined => records(text).next().value;

/** Returns a field, quoted if it has to be. */
export const quote = (field: string): string => (/[,"\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);

/** Returns a record as a line. */
export const write = (record: string[]): string => `${record.length === 1 && record[0] === "" ? '""' : record.map(quote).join(",")}\n`;
