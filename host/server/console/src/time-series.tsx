// Rows of a table whose first column is a time, as a chart of lines. The table below it has the same for everyone.

import { useEffect, useRef } from "preact/hooks";
import type { Line } from "./chart";
import { currentLanguage, t } from "./language";

/** The lines of a chart at most, one for each color. */
const COLORS = ["--accent", "--good", "--warn", "--bad"];

/** The lines of rows, the first of which has names. */
export interface Series {
  /** The times, in seconds, in order. */
  at: number[];
  names: string[];
  values: (number | null)[][];
}

/** Returns the lines of rows of which the first field is a time, and others are numbers; null for other rows. */
export function seriesOf([head = [], ...rows]: string[][]): Series | null {
  const at = rows.map(([time = ""]) => seconds(time));
  const isOrdered = at.every((time, index) => !Number.isNaN(time) && (index === 0 || time > at[index - 1]!));
  if (at.length < 2 || !isOrdered) {
    return null;
  }
  const numbers = (column: number) => rows.map((row) => (row[column]?.trim() ? Number(row[column]) : null));
  const isNumeric = (values: (number | null)[]) => values.some((value) => value !== null) && values.every((value) => value === null || Number.isFinite(value));
  const columns = head.map((name, column) => ({ name, values: column === 0 ? [] : numbers(column) }));
  const shown = columns.filter(({ values }) => isNumeric(values)).slice(0, COLORS.length);
  return shown.length > 0 ? { at, names: shown.map(({ name }) => name), values: shown.map(({ values }) => values) } : null;
}

/** A date as ISO 8601 has it, in seconds; not a number for any other text. */
function seconds(text: string): number {
  return /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}|$)/.test(text.trim()) ? Date.parse(text.trim()) / 1000 : Number.NaN;
}

export function TimeChart({ series }: { series: Series }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let isGone = false;
    let lines: Line | null = null;
    import("./chart.js").then(({ timeLines }) => {
      if (!isGone && place.current) {
        lines = timeLines(place.current, series.at, series.values, COLORS, currentLanguage());
      }
    });
    return () => {
      isGone = true;
      lines?.remove();
    };
  }, [series]);
  return (
    <figure>
      <figcaption>
        {t("Over time", "時間による変化")}
        {series.names.map((name, index) => <span key={index} class={`series series-${index}`}>{name}</span>)}
      </figcaption>
      <div ref={place} class="time-chart" aria-hidden="true" />
    </figure>
  );
}
