// A table of any number of rows. Only those that are in view are elements.

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { useVirtualRows } from "./virtual";

/** The height of a row with one line, in pixels: an estimate, until it is measured. */
const ROW = 36;

export interface Column {
  head: ComponentChildren;
  /** Its part of the width of the table, and the least that it has, in widths of a digit. */
  width: number;
  class?: string;
}

interface Props {
  label: string;
  class?: string;
  columns: Column[];
  count: number;
  /** What is the same for the same row, wherever it is. */
  keyOf: (index: number) => string | number;
  /** The cells of a row; one for all columns if there is one only. */
  row: (index: number) => ComponentChildren[];
}

export function VirtualTable({ label, class: name = "", columns, count, keyOf, row }: Props) {
  const scroll = useRef<HTMLDivElement>(null);
  const { items, height, measure } = useVirtualRows(count, ROW, scroll, keyOf);
  const all = columns.reduce((sum, { width }) => sum + width, 0);
  const [first, last] = [items[0], items[items.length - 1]];
  const space = (pixels: number) => (pixels > 0 ? <tr aria-hidden="true" style={{ height: `${pixels}px` }}><td class="space" colSpan={columns.length} /></tr> : null);
  return (
    <div ref={scroll} class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class={`virtual ${name}`} aria-rowcount={count + 1} style={{ minWidth: `${all}ch` }}>
        <colgroup>
          {columns.map(({ width }, at) => <col key={at} style={{ width: `${(100 * width) / all}%` }} />)}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map(({ head, class: name }, at) => <th key={at} scope="col" class={name}>{head}</th>)}
          </tr>
        </thead>
        <tbody>
          {space(first?.start ?? 0)}
          {items.map(({ index, key }) => {
            const cells = row(index);
            return (
              <tr key={key} ref={measure} data-index={index} aria-rowindex={index + 2}>
                {cells.length === 1 && columns.length > 1
                  ? <td colSpan={columns.length}>{cells[0]}</td>
                  : cells.map((cell, at) => <td key={at} class={columns[at]?.class}>{cell}</td>)}
              </tr>
            );
          })}
          {space(last ? height - last.end : 0)}
        </tbody>
      </table>
    </div>
  );
}
