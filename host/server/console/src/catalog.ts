// The rows of a tree of resources that is loaded page by page.

import { post } from "./api";
import { type Filters, hasFilters, isBelow, matches, mountOf, siteOf } from "./filters";
import { as, type Missing, type Resource, type ResourceList, type Viewer } from "./types";

/** The resources of a page; of the first one, so that the first view does not wait for what is out of view. */
const PAGE = 1000;
const FIRST_PAGE = 200;
/** The pages that are loaded again at once after a change; those behind are loaded when they come into view. */
const REFRESHED = 10;

/** The listings that one search of closed folders requests at most, and how many at a time. */
const SEARCHED = 200;
const AT_ONCE = 4;
/** The resources that are kept below closed folders at most. */
const MAX_FOUND = 20_000;

export interface Node {
  resource: Resource;
  level: number;
  children: Branch | null;
  isOpen: boolean;
  /** Whether the last filters that it was compared with keep it. */
  kept: { by: Filters; isKept: boolean } | null;
}

/** Whether filters keep a node. While pages are added, each node is compared once, and not once for each page. */
function isKept(node: Node, filters: Filters, since: number): boolean {
  if (node.kept?.by !== filters) {
    node.kept = { by: filters, isKept: matches(node.resource, filters, since) };
  }
  return node.kept.isKept;
}

/** What is below a resource, or the catalog. */
export interface Branch {
  nodes: Node[];
  next: string | null;
  isComplete: boolean;
  isLoading: boolean;
  /** Whether it has changed since it began to be loaded. */
  isStale: boolean;
  error: Error | null;
}

/** What URIs have in common: a mount, or a folder of the paths below it. */
export interface Folder {
  /** The URIs begin with it. */
  key: string;
  name: string;
  level: number;
  folders: Map<string, Folder>;
  /** What is in it, in the order of the listing. */
  items: (Folder | Node)[];
}

/** Folders below folders; the paths below are not divided any more. */
const MAX_FOLDERS = 6;

function folder(key: string, name: string, level: number): Folder {
  return { key, name, level, folders: new Map(), items: [] };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function branch(): Branch {
  return { nodes: [], next: null, isComplete: false, isLoading: false, isStale: false, error: null };
}

export class Catalog {
  readonly root = branch();
  /** The plugins without which the catalog is shown, each until a walk of all of it does not report it. */
  missing: Missing[] = [];
  /** Those that the pages of the current walk have reported. */
  private reported = new Map<string, Missing>();
  /** The codes of the languages of what was loaded. */
  readonly languages = new Set<string>();
  private folders = folder("", "", 0);
  /** The nodes that have a place in the folders. */
  private placed: Node[] = [];
  private readonly closed = new Set<string>();
  private readonly ending = new AbortController();
  /** Whether closed folders are being searched. */
  isSearching = false;
  /** Whether all pages of the catalog are wanted, as a filter does: then a page is requested before the one before it is drawn. */
  wantsAll = false;

  constructor(
    private readonly viewer: Viewer | null,
    /** Called when rows have changed. */
    private readonly changed: () => void,
  ) {}

  end(): void {
    this.ending.abort();
  }

  /** Loads the next page below a node, or of the catalog. */
  async more(node: Node | null): Promise<void> {
    const target = node ? (node.children ??= branch()) : this.root;
    if (target.isLoading || target.isComplete) {
      return;
    }
    target.isLoading = true;
    target.error = null;
    this.changed();
    try {
      const request = { ...as(this.viewer), parent: node?.resource.uri ?? null, cursor: target.next, limit: target.next === null ? FIRST_PAGE : PAGE };
      const page = await post<ResourceList>("browse/list", request, this.ending.signal);
      const level = (node?.level ?? 0) + 1;
      for (const resource of page.items) {
        target.nodes.push({ resource, level, children: null, isOpen: false, kept: null });
        this.addLanguage(resource);
      }
      target.next = page.next;
      target.isComplete = page.next === null;
      if (!node) {
        this.addMissing(page);
      }
    } catch (error) {
      if (this.ending.signal.aborted) {
        return;
      }
      target.error = error as Error;
      // What failed is tried again by its reader.
      target.isComplete = true;
    }
    target.isLoading = false;
    this.changed();
    this.refreshStale(node, target);
    if (!node && this.wantsAll && !target.error) {
      void this.more(null);
    }
  }

  /** Loads what is loaded of the catalog, or below a node, once more after a change, and shows it then. */
  async refresh(node: Node | null): Promise<void> {
    const target = node ? node.children : this.root;
    if (!target || this.ending.signal.aborted) {
      return;
    }
    if (target.isLoading) {
      target.isStale = true;
      return;
    }
    target.isLoading = true;
    const known = new Map(target.nodes.map((one) => [one.resource.uri, one]));
    const level = (node?.level ?? 0) + 1;
    const pages = Math.min(REFRESHED, Math.max(1, Math.ceil(target.nodes.length / PAGE)));
    const nodes: Node[] = [];
    let next: string | null = null;
    if (!node) {
      this.reported.clear();
    }
    try {
      for (let page = 0; page < pages && (page === 0 || next !== null); page += 1) {
        const request = { ...as(this.viewer), parent: node?.resource.uri ?? null, cursor: next, limit: PAGE };
        const answer: ResourceList = await post("browse/list", request, this.ending.signal);
        for (const resource of answer.items) {
          const { children, isOpen } = known.get(resource.uri) ?? { children: null, isOpen: false };
          nodes.push({ resource, level, children, isOpen: isOpen && resource.listable, kept: null });
          this.addLanguage(resource);
        }
        next = answer.next;
        if (!node) {
          this.addMissing(answer);
        }
      }
      target.nodes = nodes;
      target.next = next;
      target.isComplete = next === null;
      target.error = null;
    } catch (error) {
      if (this.ending.signal.aborted) {
        return;
      }
      // What is shown stays. The stream tells of a change again when the server is there again.
      target.error = error as Error;
    }
    target.isLoading = false;
    this.changed();
    this.refreshStale(node, target);
  }

  /** Adds what a page of the catalog lacks. The last page ends the walk. */
  private addMissing({ missing, next }: ResourceList): void {
    missing.forEach((one) => this.reported.set(one.plugin, one));
    const kept = next === null ? [] : this.missing.filter(({ plugin }) => !this.reported.has(plugin));
    this.missing = [...kept, ...this.reported.values()];
  }

  private addLanguage({ language }: Resource): void {
    if (language) {
      this.languages.add(language);
    }
  }

  /** Loads again what has changed while it was loaded. */
  private refreshStale(node: Node | null, target: Branch): void {
    if (target.isStale) {
      target.isStale = false;
      void this.refresh(node);
    }
  }

  /** Loads again what changed below the node of a URI, if it is open. */
  refreshBelow(uri: string): void {
    this.openNodes().filter((node) => node.resource.uri === uri).forEach((node) => void this.refresh(node));
  }

  /** The nodes whose children are shown. */
  openNodes(): Node[] {
    const found: Node[] = [];
    const add = (target: Branch) => {
      for (const node of target.nodes) {
        if (node.isOpen && node.children) {
          found.push(node);
          add(node.children);
        }
      }
    };
    add(this.root);
    return found;
  }

  /** The folders whose content is not known, or not all of it, as they were not opened: a filter has nothing of that. */
  unsearched(filters: Filters): Node[] {
    const found: Node[] = [];
    const add = (target: Branch) => {
      for (const node of target.nodes) {
        if (node.resource.listable && isBelow(node.resource.uri, filters.mount)) {
          // One that failed is tried again by its reader.
          if (!node.children || (!node.children.isComplete && !node.isOpen)) {
            found.push(node);
          }
          if (node.children) {
            add(node.children);
          }
        }
      }
    };
    add(this.root);
    return found;
  }

  /** Loads what is in closed folders, and in those below, within bounds. What is left is still [`unsearched`](Catalog.unsearched). */
  async searchClosed(filters: Filters): Promise<void> {
    if (this.isSearching) {
      return;
    }
    this.isSearching = true;
    this.changed();
    for (let left = SEARCHED; left > 0 && !this.ending.signal.aborted && this.count() < MAX_FOUND; ) {
      const next = this.unsearched(filters).slice(0, Math.min(AT_ONCE, left));
      if (next.length === 0) {
        break;
      }
      left -= next.length;
      await Promise.all(next.map((node) => this.more(node)));
    }
    this.isSearching = false;
    this.changed();
  }

  /** The number of resources that are loaded, in folders, too. */
  count(): number {
    const of = (target: Branch): number => target.nodes.reduce((sum, { children }) => sum + 1 + (children ? of(children) : 0), 0);
    return of(this.root);
  }

  async retry(node: Node | null): Promise<void> {
    const target = node ? (node.children ??= branch()) : this.root;
    if (target.next === null && target.nodes.length > 0) {
      await this.refresh(node);
      return;
    }
    target.isComplete = false;
    await this.more(node);
  }

  toggle(node: Node): void {
    if (!node.resource.listable) {
      return;
    }
    node.isOpen = !node.isOpen;
    if (node.isOpen && !node.children) {
      void this.more(node);
    } else {
      this.changed();
    }
  }

  isClosed(folder: Folder): boolean {
    return this.closed.has(folder.key);
  }

  toggleFolder({ key }: Folder): void {
    if (!this.closed.delete(key)) {
      this.closed.add(key);
    }
    this.changed();
  }

  /** Gives each node of the catalog its place in a folder. Pages are added to what there is. */
  private place(): void {
    const { nodes } = this.root;
    const isContinued = this.placed.length <= nodes.length && this.placed[0] === nodes[0];
    if (!isContinued) {
      this.folders = folder("", "", 0);
      this.placed = [];
    }
    for (const node of nodes.slice(this.placed.length)) {
      const { uri } = node.resource;
      const mount = mountOf(uri);
      let key = mount;
      let at = this.inFolder(this.folders, key, mount);
      let below = uri.slice(mount.length);
      // Behind `NAME+` is a whole URI. One that is no more than a scheme and an authority needs no folder of these.
      const site = mount.endsWith("+") ? siteOf(below) : "";
      key += site;
      if (site.endsWith("/") && site !== below) {
        at = this.inFolder(at, key, site);
      }
      below = below.slice(site.length);
      const path = below.split(/[?#]/)[0]!.replace(/\/$/, "");
      for (const segment of path.split("/").slice(0, -1).slice(0, MAX_FOLDERS)) {
        key += `${segment}/`;
        at = this.inFolder(at, key, decoded(segment));
      }
      node.level = at.level + 1;
      at.items.push(node);
      this.placed.push(node);
    }
  }

  private inFolder(parent: Folder, key: string, name: string): Folder {
    let found = parent.folders.get(key);
    if (!found) {
      found = folder(key, name, parent.level + 1);
      parent.folders.set(key, found);
      parent.items.push(found);
    }
    return found;
  }

  /** The nodes that are shown in their folders, or without them if they are filtered, in order; and after those of a branch that is not complete, the branch itself. */
  rows(filters: Filters): Row[] {
    const rows: Row[] = [];
    const isFiltered = hasFilters(filters);
    const since = filters.since ? Date.parse(filters.since) : Number.NaN;
    const add = (parent: Node | null, target: Branch) => {
      const of = target.isComplete && !target.error ? target.nodes.length : UNKNOWN;
      for (const [index, node] of target.nodes.entries()) {
        if (!isFiltered || isKept(node, filters, since)) {
          rows.push({ node, at: isFiltered ? rows.length + 1 : index + 1, of });
        }
        // A filter looks into closed folders, too, as far as these are loaded.
        if ((node.isOpen || isFiltered) && node.children) {
          add(node, node.children);
        }
      }
      if ((target.error || !target.isComplete) && (parent === null || parent.isOpen)) {
        rows.push({ parent, target });
      }
    };
    const isComplete = this.root.isComplete && !this.root.error;
    if (isFiltered) {
      add(null, this.root);
      // Without their folders they are one list.
      const of = isComplete ? matching(rows) : UNKNOWN;
      return rows.map((row) => ("node" in row ? { ...row, of } : row));
    }
    this.place();
    const addFolder = (parent: Folder) => {
      const of = isComplete ? parent.items.length : UNKNOWN;
      for (const [index, item] of parent.items.entries()) {
        const at = index + 1;
        if ("resource" in item) {
          rows.push({ node: item, at, of });
          if (item.isOpen && item.children) {
            add(item, item.children);
          }
        } else {
          rows.push({ folder: item, at, of });
          if (!this.closed.has(item.key)) {
            addFolder(item);
          }
        }
      }
    };
    addFolder(this.folders);
    if (this.root.error || !this.root.isComplete) {
      rows.push({ parent: null, target: this.root });
    }
    return rows;
  }
}

/** A row that is a resource or a folder is the `at`th of `of` on its level, which only those in view are elements of. */
export type Row = { node: Node; at: number; of: number } | { folder: Folder; at: number; of: number } | { parent: Node | null; target: Branch };

/** The number of rows of a level that is not completely loaded (WAI-ARIA, `aria-setsize`). */
const UNKNOWN = -1;

/** The number of rows that are resources. */
export function matching(rows: Row[]): number {
  return rows.filter((row) => "node" in row).length;
}
