// The rows of a tree of resources that is loaded page by page.

import { post } from "./api";
import { as, type Missing, type Resource, type ResourceList, type Viewer } from "./types";

/** The resources of a page. */
const PAGE = 1000;
/** The pages that are loaded again at once after a change; those behind are loaded when they come into view. */
const REFRESHED = 10;

export interface Node {
  resource: Resource;
  level: number;
  children: Branch | null;
  isOpen: boolean;
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

export interface Filters {
  text: string;
  type: string;
  audience: string;
  priority: number;
  since: string;
  /** The mount of a plugin, below which resources are. */
  mount: string;
}

export const NO_FILTERS: Filters = { text: "", type: "", audience: "", priority: 0, since: "", mount: "" };

export function hasFilters(filters: Filters): boolean {
  return filters.text.trim() !== "" || filters.mount !== "" || filters.type !== "" || filters.audience !== "" || filters.priority > 0 || filters.since !== "";
}

function branch(): Branch {
  return { nodes: [], next: null, isComplete: false, isLoading: false, isStale: false, error: null };
}

export class Catalog {
  readonly root = branch();
  missing: Missing[] = [];
  private readonly ending = new AbortController();

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
      const request = { ...as(this.viewer), parent: node?.resource.uri ?? null, cursor: target.next, limit: PAGE };
      const page = await post<ResourceList>("browse/list", request, this.ending.signal);
      const level = (node?.level ?? 0) + 1;
      for (const resource of page.items) {
        target.nodes.push({ resource, level, children: null, isOpen: false });
      }
      target.next = page.next;
      target.isComplete = page.next === null;
      if (!node) {
        this.missing = page.missing;
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
    try {
      for (let page = 0; page < pages && (page === 0 || next !== null); page += 1) {
        const request = { ...as(this.viewer), parent: node?.resource.uri ?? null, cursor: next, limit: PAGE };
        const answer: ResourceList = await post("browse/list", request, this.ending.signal);
        for (const resource of answer.items) {
          const { children, isOpen } = known.get(resource.uri) ?? { children: null, isOpen: false };
          nodes.push({ resource, level, children, isOpen: isOpen && resource.listable });
        }
        next = answer.next;
        if (!node) {
          this.missing = answer.missing;
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

  /** The nodes that are shown, in order; and after those of a branch that is not complete, the branch itself. */
  rows(filters: Filters): Row[] {
    const rows: Row[] = [];
    const isFiltered = hasFilters(filters);
    const since = filters.since ? Date.parse(filters.since) : Number.NaN;
    const add = (parent: Node | null, target: Branch) => {
      for (const node of target.nodes) {
        if (!isFiltered || matches(node.resource, filters, since)) {
          rows.push({ node });
        }
        if (node.isOpen && node.children) {
          add(node, node.children);
        }
      }
      if (target.error || !target.isComplete) {
        rows.push({ parent, target });
      }
    };
    add(null, this.root);
    return rows;
  }
}

export type Row = { node: Node } | { parent: Node | null; target: Branch };

function matches(resource: Resource, filters: Filters, since: number): boolean {
  const text = filters.text.trim().toLowerCase();
  if (text && ![resource.name, resource.title, resource.uri].some((one) => one?.toLowerCase().includes(text))) {
    return false;
  }
  if (!resource.uri.startsWith(filters.mount)) {
    return false;
  }
  if (filters.type && !(resource.mime_type ?? "").startsWith(filters.type)) {
    return false;
  }
  if (filters.audience && resource.audience.length > 0 && !resource.audience.includes(filters.audience)) {
    return false;
  }
  if ((resource.priority ?? 0) < filters.priority) {
    return false;
  }
  return Number.isNaN(since) || (resource.modified !== null && Date.parse(resource.modified) >= since);
}
