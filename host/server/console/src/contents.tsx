// A content of a resource, shown by its kind.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Kind, kindOf } from "./kind";
import { number, size, t } from "./language";
import { Waiting } from "./parts";
import type * as Preview from "./preview";
import { VirtualTable } from "./table";
import { seriesOf, TimeChart } from "./time-series";
import type { Content } from "./types";

/** The rows of a table that are shown, and those that the widths of its columns are made of. */
const MAX_ROWS = 50_000;
/** What has more columns is shown as text. */
const MAX_COLUMNS = 500;
/** How many times longer JSON may become by indentation. Members that are nested deeply would take the square of the text. */
const MAX_INDENTED = 20;
const MEASURED_ROWS = 200;
/** The narrowest column, and the widest, in widths of a digit. */
const WIDTHS = [8, 48] as const;

/** The part that is loaded on demand. */
function usePreview(): typeof Preview | null {
  const [preview, setPreview] = useState<typeof Preview | null>(null);
  useEffect(() => {
    let isGone = false;
    import("./preview.js").then((loaded) => {
      if (!isGone) {
        setPreview(loaded);
      }
    });
    return () => {
      isGone = true;
    };
  }, []);
  return preview;
}

function Placed({ fragment, name }: { fragment: () => DocumentFragment; name: string }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => place.current?.replaceChildren(fragment()));
  return <div ref={place} class={name} />;
}

export function ContentView({ content, open }: { content: Content; open: (uri: string) => void }) {
  const { resource, text, blob } = content;
  const kind = kindOf(resource.mime_type, resource.uri, text !== null);
  const [isSource, setSource] = useState(false);
  const preview = usePreview();
  const records = useMemo(() => (kind.show === "json" && text !== null ? recordRows(text) : null), [kind.show, text]);
  const hasForm = kind.show === "markdown" || kind.show === "table" || records !== null;
  return (
    <div class="content">
      {content.cut ? (
        <p class="problem">
          {t(
            `The content has ${size(content.bytes)}; only its first part is shown.`,
            `内容は ${size(content.bytes)} あり、最初の部分だけを表示しています。`,
          )}
        </p>
      ) : null}
      {hasForm ? (
        <button type="button" class="small" aria-pressed={isSource} onClick={() => setSource(!isSource)}>
          {t("Source", "ソース")}
        </button>
      ) : null}
      {blob !== null ? (
        <Bytes blob={blob} kind={kind} name={resource.title ?? resource.name} type={resource.mime_type} bytes={content.bytes} isCut={content.cut} />
      ) : preview === null ? (
        <Waiting />
      ) : records && !isSource ? (
        <Table rows={records} />
      ) : (
        <Text preview={preview} text={text ?? ""} kind={isSource && kind.show !== "json" ? { show: "source", language: null } : kind} base={resource.uri} open={open} />
      )}
    </div>
  );
}

interface TextProps {
  preview: typeof Preview;
  text: string;
  kind: Kind;
  base: string;
  open: (uri: string) => void;
}

function Text({ preview, text, kind, base, open }: TextProps) {
  switch (kind.show) {
    case "markdown":
      return <Placed name="markdown" fragment={() => preview.markdown(text, base, open, t("Table", "表"))} />;
    case "table":
      return <Fields preview={preview} text={text} />;
    case "json": {
      let shown = text;
      try {
        const indented = JSON.stringify(JSON.parse(text), null, 2);
        shown = indented.length <= MAX_INDENTED * text.length ? indented : text;
      } catch {
        // It is shown as it is.
      }
      return <Source preview={preview} text={shown} language="json" />;
    }
    case "source":
      return <Source preview={preview} text={text} language={kind.language} />;
    default:
      return <Source preview={preview} text={text} language={null} />;
  }
}

function Fields({ preview, text }: { preview: typeof Preview; text: string }) {
  const rows = useMemo(() => preview.rows(text, MAX_ROWS + 2), [preview, text]);
  return rows.some((row) => row.length > MAX_COLUMNS) ? <Source preview={preview} text={text} language={null} /> : <Table rows={rows} />;
}

/** The fields of a value without members. */
function field(value: unknown): string {
  return value === null ? "" : String(value);
}

const isPlain = (value: unknown) => typeof value !== "object" || value === null;

/** The rows of `{"columns": [{"name": …}], "rows": [[…]]}`, as the provider `database` writes them, the names first; null for anything else. */
function queryRows(result: unknown): string[][] | null {
  const { columns, rows } = (result ?? {}) as { columns?: unknown; rows?: unknown };
  if (!Array.isArray(columns) || !Array.isArray(rows)) {
    return null;
  }
  const names = columns.map((column: unknown) => (column as { name?: unknown } | null)?.name);
  const isRow = (row: unknown): row is unknown[] => Array.isArray(row) && row.length === names.length && row.every(isPlain);
  if (names.length > MAX_COLUMNS || !names.every((name) => typeof name === "string") || !rows.every(isRow)) {
    return null;
  }
  return [names, ...rows.slice(0, MAX_ROWS + 1).map((row) => row.map(field))];
}

/**
 * The rows of a JSON array of objects whose members are no objects themselves, or of the result of a query, the names of the members first;
 * null for any other text.
 */
function recordRows(text: string): string[][] | null {
  let records: unknown;
  try {
    records = JSON.parse(text);
  } catch {
    return null;
  }
  const isRecord = (one: unknown): one is Record<string, unknown> =>
    typeof one === "object" && one !== null && !Array.isArray(one) && Object.values(one).every(isPlain);
  if (!Array.isArray(records)) {
    return queryRows(records);
  }
  if (records.length === 0 || !records.every(isRecord)) {
    return null;
  }
  const shown = records.slice(0, MAX_ROWS + 1);
  const names = [...new Set(shown.flatMap((record) => Object.keys(record)))];
  if (names.length > MAX_COLUMNS) {
    return null;
  }
  return [names, ...shown.map((record) => names.map((name) => (Object.hasOwn(record, name) ? String(record[name]) : "")))];
}

function Source({ preview, text, language }: { preview: typeof Preview; text: string; language: string | null }) {
  return (
    <div class="scroll source" tabIndex={0} role="region" aria-label={t("Source", "ソース")}>
      <Placed name="code" fragment={() => preview.source(text, language)} />
    </div>
  );
}

function Table({ rows }: { rows: string[][] }) {
  const [head = [], ...rest] = rows;
  const count = Math.min(rest.length, MAX_ROWS);
  const series = useMemo(() => seriesOf(rows.slice(0, count + 1)), [rows]);
  const columns = useMemo(
    () =>
      head.map((name, at) => {
        const longest = rows.slice(0, MEASURED_ROWS).reduce((longest, row) => Math.max(longest, row[at]?.length ?? 0), 0);
        return { head: name, width: Math.min(WIDTHS[1], Math.max(WIDTHS[0], longest + 3)) };
      }),
    [rows],
  );
  return (
    <>
      {series ? <TimeChart series={series} /> : null}
      <VirtualTable label={t("Table", "表")} columns={columns} count={count} keyOf={(index) => index} row={(index) => head.map((_, at) => rest[index]?.[at] ?? "")} />
      {rest.length > count ? (
        <p class="muted">{t(`The first ${number(MAX_ROWS)} rows.`, `最初の ${number(MAX_ROWS)} 行。`)}</p>
      ) : null}
    </>
  );
}

interface BytesProps {
  blob: string;
  kind: Kind;
  name: string;
  /** Its MIME type, if it has one. */
  type: string | null;
  bytes: number;
  isCut: boolean;
}

function Bytes({ blob, kind, name, type: said, bytes, isCut }: BytesProps) {
  const [address, setAddress] = useState<string | null>(null);
  const type = kind.show === "image" ? kind.type : "application/octet-stream";
  useEffect(() => {
    const bytes = Uint8Array.from(atob(blob), (character) => character.charCodeAt(0));
    const made = URL.createObjectURL(new Blob([bytes], { type }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [blob, type]);
  if (address === null) {
    return null;
  }
  if (kind.show === "image" && !isCut) {
    return <img class="picture" src={address} alt={name} />;
  }
  return (
    <p>
      {t(`Binary: ${said ?? "of no known type"}, ${size(bytes)}. `, `バイナリー: ${said ?? "種類不明"}、${size(bytes)}。`)}
      {isCut ? null : <a href={address} download={name}>{t("Save", "保存")}</a>}
    </p>
  );
}
