// What a filter keeps of a list of resources.

import type { Resource } from "./types";

export interface Filters {
  text: string;
  type: string;
  audience: string;
  priority: number;
  /** The code of the language of the text. */
  language: string;
  since: string;
  /** The mount of a plugin, below which resources are. */
  mount: string;
}

export const NO_FILTERS: Filters = { text: "", type: "", audience: "", priority: 0, language: "", since: "", mount: "" };

export function hasFilters(filters: Filters): boolean {
  return filters.text.trim() !== "" || filters.mount !== "" || filters.type !== "" || filters.audience !== "" || filters.priority > 0 || filters.language !== "" || filters.since !== "";
}

/** The part of a URI that its plugin owns: `NAME+` in front of the URIs of an upstream, or the scheme and the authority if it has one. */
export function mountOf(uri: string): string {
  return /^[a-z][a-z0-9.-]*\+/i.exec(uri)?.[0] ?? siteOf(uri);
}

/** The scheme of a URI, and the authority if it has one. */
export function siteOf(uri: string): string {
  return /^[a-z][a-z0-9+.-]*:(\/\/[^/]*\/?)?/i.exec(uri)?.[0] ?? "";
}

export function isBelow(uri: string, mount: string): boolean {
  return uri.startsWith(mount);
}

/** What a filter by name looks at: without what all resources of the plugin have in common, unless it is a URI. */
function namesOf({ name, title, title_prefix, uri }: Resource, isUri: boolean): (string | null)[] {
  const own = title_prefix && title ? title.slice(title_prefix.length + 2) : title;
  return [name, own, isUri ? uri : uri.slice(mountOf(uri).length)];
}

export function matches(resource: Resource, filters: Filters, since: number): boolean {
  const text = filters.text.trim().toLowerCase();
  if (text && !namesOf(resource, text.includes("://")).some((one) => one?.toLowerCase().includes(text))) {
    return false;
  }
  if (!isBelow(resource.uri, filters.mount)) {
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
  if (filters.language && resource.language !== filters.language) {
    return false;
  }
  return Number.isNaN(since) || (resource.modified !== null && Date.parse(resource.modified) >= since);
}
