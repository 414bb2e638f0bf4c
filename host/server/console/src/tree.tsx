// A tree of resources. Only the rows that are in view are elements.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Catalog, Folder, Row } from "./catalog";
import { type Filters, hasFilters } from "./filters";
import { iri } from "./iri";
import { number, size, t } from "./language";
import { Message } from "./message";
import { useVirtualRows } from "./virtual";

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
  const { items, height, scrollTo } = useVirtualRows(rows.length, ROW, scroll);

  // The next page is loaded when its place comes into view, or while a filter may match something on it.
  useEffect(() => {
    for (const { index } of items) {
      const row = rows[index];
      if (row && "target" in row && !row.target.error) {
        void catalog.more(row.parent);
      }
    }
    catalog.wantsAll = hasFilters(filters);
    if (catalog.wantsAll && !catalog.root.error) {
      void catalog.more(null);
    }
  });

  const at = Math.min(active, Math.max(0, rows.length - 1));
  // What a filter keeps is another list, which begins at its beginning.
  useEffect(() => {
    setActive(0);
    scrollTo(0);
  }, [filters]);
  const move = (to: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    setActive(next);
    scrollTo(next);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[at];
    const node = row && "node" in row ? row.node : null;
    const folder = row && "folder" in row ? row.folder : null;
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
        if (folder) {
          if (catalog.isClosed(folder)) {
            catalog.toggleFolder(folder);
          } else {
            move(at + 1);
          }
        } else if (node?.resource.listable) {
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
        } else if (folder && !catalog.isClosed(folder)) {
          catalog.toggleFolder(folder);
        } else if (node || folder) {
          const level = node?.level ?? folder?.level ?? 0;
          const parent = rows.slice(0, at).findLastIndex((one) => {
            const above = "node" in one ? one.node.level : "folder" in one ? one.folder.level : level;
            return above < level;
          });
          if (parent >= 0) {
            move(parent);
          }
        }
        break;
      case "Enter":
      case " ":
        if (node) {
          select(node.resource.uri);
        } else if (folder) {
          catalog.toggleFolder(folder);
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
      aria-activedescendant={items.some(({ index }) => index === at) ? `${id}-${at}` : undefined}
      onKeyDown={onKeyDown}
    >
      <div role="none" class="rows" style={{ height: `${height}px` }}>
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
              showsPlace={hasFilters(filters)}
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

interface FolderProps {
  id: string;
  folder: Folder;
  at: number;
  of: number;
  class: string;
  style: { transform: string };
  catalog: Catalog;
}

/** A mount, or a folder below it, which is no resource that is listed. */
function FolderRow({ id, folder, at, of, class: names, style, catalog }: FolderProps) {
  const isOpen = !catalog.isClosed(folder);
  return (
    <div
      id={id}
      role="treeitem"
      aria-level={folder.level}
      aria-posinset={at}
      aria-setsize={of}
      aria-expanded={isOpen}
      class={`${names} folder`}
      style={{ ...style, paddingInlineStart: `${folder.level * 14 - 6}px` }}
      title={folder.key}
      onClick={() => catalog.toggleFolder(folder)}
    >
      <span class="twist" aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
      <span class="name">{folder.name}</span>
      <span class="muted figures">{isOpen ? "" : number(folder.items.length)}</span>
    </div>
  );
}

interface RowProps {
  id: string;
  row: Row;
  top: number;
  isActive: boolean;
  isSelected: boolean;
  /** Whether the folders above are not shown, and so are named. */
  showsPlace: boolean;
  watchers: number;
  catalog: Catalog;
  select: (uri: string) => void;
}

function TreeRow({ id, row, top, isActive, isSelected, showsPlace, watchers, catalog, select }: RowProps) {
  const style = { transform: `translateY(${top}px)` };
  const names = `row${isActive ? " active" : ""}${isSelected ? " selected" : ""}`;
  if ("target" in row) {
    const { target, parent } = row;
    const level = (parent?.level ?? 0) + 1;
    return (
      <div id={id} role="treeitem" aria-level={level} class={names} style={style} onClick={() => target.error && void catalog.retry(parent)}>
        <span class={target.error ? "problem-text" : "muted"}>
          {target.error ? <><Message text={target.error.message} /> – {t("try again", "再試行")}</> : t("Loading…", "読み込み中…")}
        </span>
      </div>
    );
  }
  if ("folder" in row) {
    return <FolderRow id={id} folder={row.folder} at={row.at} of={row.of} class={names} style={style} catalog={catalog} />;
  }
  const { resource, isOpen } = row.node;
  const level = showsPlace ? 1 : row.node.level;
  return (
    <div
      id={id}
      role="treeitem"
      aria-level={level}
      aria-posinset={row.at}
      aria-setsize={row.of}
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
      <span class="name">
        {resource.title ?? resource.name}
        {showsPlace ? <span class="muted place"> {iri(resource.uri)}</span> : null}
      </span>
      {watchers > 0 ? <span class="badge" title={t("Subscribers", "購読者")}>{watchers}</span> : null}
      <span class="muted figures">{resource.size === null ? "" : size(resource.size)}</span>
    </div>
  );
}
