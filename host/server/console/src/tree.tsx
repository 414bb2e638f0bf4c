// A tree of resources. Only the rows that are in view are elements.

import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Catalog, Filters, Row } from "./catalog";
import { hasFilters } from "./catalog";
import { size, t } from "./language";

const ROW = 34;

interface Props {
  id: string;
  catalog: Catalog;
  /** Changes when the catalog has changed. */
  version: number;
  filters: Filters;
  selected: string | null;
  watched: Map<string, number>;
  select: (uri: string) => void;
}

export function Tree({ id, catalog, version, filters, selected, watched, select }: Props) {
  const rows = useMemo(() => catalog.rows(filters), [catalog, version, filters]);
  const scroll = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(0);
  const [, redraw] = useState(0);
  const virtualizer = useRef<Virtualizer<HTMLDivElement, HTMLDivElement> | null>(null);
  const options = {
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    overscan: 6,
    onChange: () => redraw((count) => count + 1),
  };
  virtualizer.current ??= new Virtualizer(options);
  virtualizer.current.setOptions(options);
  useLayoutEffect(() => virtualizer.current!._didMount(), []);
  useLayoutEffect(() => virtualizer.current!._willUpdate());
  const items = virtualizer.current.getVirtualItems();

  // The next page is loaded when its place comes into view, or while a filter may match something on it.
  useEffect(() => {
    for (const { index } of items) {
      const row = rows[index];
      if (row && "target" in row && !row.target.error) {
        void catalog.more(row.parent);
      }
    }
    if (hasFilters(filters) && !catalog.root.error) {
      void catalog.more(null);
    }
  });

  const at = Math.min(active, Math.max(0, rows.length - 1));
  const move = (to: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    setActive(next);
    virtualizer.current?.scrollToIndex(next);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[at];
    const node = row && "node" in row ? row.node : null;
    const page = Math.max(1, Math.floor((scroll.current?.clientHeight ?? ROW) / ROW) - 1);
    switch (event.key) {
      case "ArrowDown":
        move(at + 1);
        break;
      case "ArrowUp":
        move(at - 1);
        break;
      case "PageDown":
        move(at + page);
        break;
      case "PageUp":
        move(at - page);
        break;
      case "Home":
        move(0);
        break;
      case "End":
        move(rows.length - 1);
        break;
      case "ArrowRight":
        if (node?.resource.listable) {
          if (node.isOpen) {
            move(at + 1);
          } else {
            catalog.toggle(node);
          }
        }
        break;
      case "ArrowLeft":
        if (node?.isOpen) {
          catalog.toggle(node);
        } else if (node) {
          const level = node.level;
          const parent = rows.slice(0, at).findLastIndex((one) => "node" in one && one.node.level < level);
          if (parent >= 0) {
            move(parent);
          }
        }
        break;
      case "Enter":
      case " ":
        if (node) {
          select(node.resource.uri);
        } else if (row && "target" in row) {
          void catalog.retry(row.parent);
        }
        break;
      default:
        return;
    }
    event.preventDefault();
  };
  return (
    <div
      ref={scroll}
      class="tree scroll"
      role="tree"
      tabIndex={0}
      aria-label={t("Resources", "リソース")}
      aria-activedescendant={rows.length > 0 ? `${id}-${at}` : undefined}
      onKeyDown={onKeyDown}
    >
      <div role="none" class="rows" style={{ height: `${virtualizer.current.getTotalSize()}px` }}>
        {items.map(({ index, start }) => {
          const row = rows[index];
          return row ? (
            <TreeRow
              key={index}
              id={`${id}-${index}`}
              row={row}
              top={start}
              isActive={index === at}
              isSelected={"node" in row && row.node.resource.uri === selected}
              watchers={"node" in row ? (watched.get(row.node.resource.uri) ?? 0) : 0}
              catalog={catalog}
              select={(uri) => {
                setActive(index);
                select(uri);
              }}
            />
          ) : null;
        })}
      </div>
    </div>
  );
}

interface RowProps {
  id: string;
  row: Row;
  top: number;
  isActive: boolean;
  isSelected: boolean;
  watchers: number;
  catalog: Catalog;
  select: (uri: string) => void;
}

function TreeRow({ id, row, top, isActive, isSelected, watchers, catalog, select }: RowProps) {
  const style = { transform: `translateY(${top}px)` };
  const names = `row${isActive ? " active" : ""}${isSelected ? " selected" : ""}`;
  if ("target" in row) {
    const { target, parent } = row;
    const level = (parent?.level ?? 0) + 1;
    return (
      <div id={id} role="treeitem" aria-level={level} class={names} style={style} onClick={() => target.error && void catalog.retry(parent)}>
        <span class={target.error ? "problem-text" : "muted"}>
          {target.error ? `${target.error.message} – ${t("try again", "再試行")}` : t("Loading…", "読み込み中…")}
        </span>
      </div>
    );
  }
  const { resource, level, isOpen } = row.node;
  return (
    <div
      id={id}
      role="treeitem"
      aria-level={level}
      aria-selected={isSelected}
      aria-expanded={resource.listable ? isOpen : undefined}
      class={names}
      style={{ ...style, paddingInlineStart: `${level * 14 - 6}px` }}
      title={resource.uri}
      onClick={() => select(resource.uri)}
    >
      <span
        class={`twist${resource.listable ? "" : " none"}`}
        aria-hidden="true"
        onClick={(event) => {
          event.stopPropagation();
          catalog.toggle(row.node);
        }}
      >
        {resource.listable ? (isOpen ? "▾" : "▸") : ""}
      </span>
      <span class="name">{resource.title ?? resource.name}</span>
      {watchers > 0 ? <span class="badge" title={t("Subscribers", "購読者")}>{watchers}</span> : null}
      <span class="muted figures">{resource.size === null ? "" : size(resource.size)}</span>
    </div>
  );
}
