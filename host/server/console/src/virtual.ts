// Rows of a list of which only those in view are elements.

import { elementScroll, observeElementOffset, observeElementRect, type VirtualItem, Virtualizer } from "@tanstack/virtual-core";
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** The rows beyond the view that are elements, too, on each side. */
const OVERSCAN = 6;

export interface VirtualRows {
  /** The rows that are to be elements, with their places in pixels. */
  items: VirtualItem[];
  /** The height of all rows, in pixels. */
  height: number;
  scrollTo: (index: number) => void;
  /** Measures a row with the attribute `data-index`, where rows have heights of their own. */
  measure: (row: HTMLElement | null) => void;
}

/**
 * The rows of a list that scrolls in an element. They have one height, in pixels, or it is an estimate, and they are measured; what is known of
 * a row is kept by its key.
 */
export function useVirtualRows(
  count: number,
  rowHeight: number,
  scroll: RefObject<HTMLDivElement | null>,
  keyOf: (index: number) => string | number = (index) => index,
): VirtualRows {
  const [, redraw] = useState(0);
  const virtualizer = useRef<Virtualizer<HTMLDivElement, HTMLElement> | null>(null);
  const options = {
    count,
    getScrollElement: () => scroll.current,
    estimateSize: () => rowHeight,
    getItemKey: keyOf,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    overscan: OVERSCAN,
    onChange: () => redraw((times) => times + 1),
  };
  virtualizer.current ??= new Virtualizer(options);
  const rows = virtualizer.current;
  rows.setOptions(options);
  useLayoutEffect(() => rows._didMount(), []);
  useLayoutEffect(() => rows._willUpdate());
  return { items: rows.getVirtualItems(), height: rows.getTotalSize(), scrollTo: (index) => rows.scrollToIndex(index), measure: rows.measureElement };
}
