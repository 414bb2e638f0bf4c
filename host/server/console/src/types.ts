// The answers of the API, as far as the console shows them. `mcp-host schema admin` prints the whole schema.

export interface Page<T> {
  items: T[];
  total: number;
  next: string | null;
}

export type PluginState =
  | { name: "ready" }
  | { name: "failing"; cause: "calls" | "grant"; since: string; failed: number; calls: number; reason: string }
  | { name: "loading" }
  | { name: "failed"; reason: string }
  | { name: "unreachable"; since: string; reason: string }
  | { name: "suspended"; retry_in_ms: number }
  | { name: "disabled"; since: string; by: string };

export interface Cache {
  hits: number;
  misses: number;
  responses: number;
  bytes: number;
  capacity: number;
}

export interface Recent {
  window_ms: number;
  calls: number;
  p50_us: number | null;
  p99_us: number | null;
}

export interface PluginStatus {
  name: string;
  mount: string;
  state: PluginState;
  /** Whether its provider has answered a call since it was loaded. */
  answered: boolean;
  /** Whether the config declares it; if not, it is built in. */
  configured: boolean;
  digest: string | null;
  memory: { used: number; limit: number } | null;
  faults: Record<string, number>;
  cache: Cache;
  recent: Recent | null;
  /** The number of warnings about its grants and settings. */
  warnings: number;
  watched: number;
  /** Null if its provider does not prepare. */
  preparation: Preparation | null;
}

/** The preparation of a plugin. */
export interface Preparation {
  state: "off" | "waiting" | "running" | "done" | "failing" | "stopped";
  since: string;
  percent: number | null;
  message: string | null;
  reason: string | null;
  calls: number;
  cpu_ms: number;
  cpu_limit_ms: number | null;
}

export interface Limits {
  memory: number;
  cpu_ms: number;
  deadline_ms: number;
  concurrency: number;
  queue: number;
  queue_timeout_ms: number;
  rate: string;
  response_size: number;
  response_items: number;
  listing_items: number;
  log: string;
  handles: number;
  files: number;
  random_bytes: number;
  http: { concurrency: number; rate: string; headers: number; body: number; timeout_ms: number };
  prepare: { cpu_ms: number; memory: number } | null;
}

export interface Grants {
  dirs: { host: string; guest: string; writable: boolean }[];
  env: string[];
  http: string[];
  keyvalue: string[];
  sql: string[];
}

export interface PluginConfig {
  name: string;
  title: string | null;
  component: string;
  mount: string;
  required: boolean;
  response_cache: boolean;
  watch_interval_ms: number;
  config_keys: string[];
  grants: Grants;
  limits: Limits;
}

/** A program of an upstream with all processes that it has started. */
export interface Program {
  process: number | null;
  state: "running" | "ended";
  started: string;
  restarts: number;
  memory: number | null;
  memory_limit: number | null;
  cpu_ms: number | null;
  cpu_limit_ms: number | null;
  processes: number | null;
  processes_limit: number | null;
}

export interface Programs {
  programs: Program[];
  starts: number;
  /** The number of ends by reason. */
  ends: Record<string, number>;
  last_end: { time: string; reason: string; text: string } | null;
}

/** The current resource use of a plugin, besides its memory. */
export interface Usage {
  running: number;
  concurrency: number;
  waiting: number;
  queue: number;
  buckets: { name: string; bytes: number; max_bytes: number; keys: number; max_keys: number }[];
}

export interface PluginDetails {
  status: PluginStatus;
  usage: Usage | null;
  programs: Programs | null;
  loads: { succeeded: number; failed: Record<string, number> };
  config: PluginConfig | null;
  search: { documents: number; bytes: number; embedded: number; complete: boolean; gaps: string[] } | null;
  requirements: { capability: string; status: string; granted: string[] }[];
  unmet: string[];
  /** The warnings about its grants and settings. */
  warnings: string[];
  log: { time: string; level: string; text: string; times: number }[];
}

export interface LogView {
  filter: string | null;
  until: string | null;
  by: string | null;
}

export interface Status {
  version: string;
  pid: number;
  started: string;
  uptime_seconds: number;
  generation: number;
  config_file: string | null;
  ready: boolean;
  not_ready: string[];
  reload_failure: { time: string; reason: string } | null;
  plugins: Page<PluginStatus>;
  sessions: number;
  watched: WatchedCounts;
  audit: AuditStatus | null;
  /** Why plugins could not be indexed for search, by plugin. */
  search_failures: Record<string, string>;
  log: LogView;
  cluster: Cluster | null;
}

/** The status of the audit log. */
export interface AuditStatus {
  file: string | null;
  failure: { since: string; reason: string } | null;
  refuses: boolean;
  dropped_lines: number;
  refused_requests: number;
}

export interface Cluster {
  name: string;
  hears: boolean;
  live: number;
  rate_divisor: number;
  differing: number;
  differing_cursor_keys: number;
  cache_drops: number;
  replicas: Page<Replica>;
}

export interface Replica {
  id: string;
  this: boolean;
  alive: boolean;
  silent_ms: number;
  version: string;
  machine: string;
  pid: number;
  config: string;
  differs: boolean;
  cursor_key_differs: boolean;
  leases: number;
  leased_plugins: string[];
}

export interface WatchedCounts {
  subscribers: number;
  resources: number;
  plugins: number;
  /** The updates of resources, and of the listing, that were sent since the start of the server. */
  updates: number;
  listing_updates: number;
}

/** A resource with subscriptions. Views of the console are not subscribers. */
export interface WatchedResource {
  uri: string;
  subscribers: number;
  unheard: number;
  views: number;
  principals: string[];
}

export interface Subscriptions {
  watched: WatchedCounts;
  resources: Page<WatchedResource>;
}

export interface Rule {
  line: number | null;
  principals: string[];
  groups: string[];
  operations: string[];
  allow: string[];
  deny: string[];
}

export interface ConfigView {
  generation: number;
  file: string | null;
  server: {
    name: string;
    http: string | null;
    tls: boolean;
    page_size: number;
    response_cache: number;
    confine: boolean;
    drain_delay_ms: number;
  };
  admin: string | null;
  audit: string | null;
  audit_values: { operations: string[]; decisions: string[]; outcomes: string[] };
  plugins: Page<PluginConfig>;
  principals: Page<string>;
  issuers: Page<{ name: string; issuer: string }>;
  groups: Page<{ name: string; principals: string[]; groups: string[] }>;
  rules: Page<Rule>;
}

export interface Reload {
  generation: number;
  /** For how long its config has been served. */
  served_ms: number;
  changed: boolean;
  plugins_added: string[];
  plugins_changed: string[];
  plugins_removed: string[];
  changed_keys: Record<string, string[]>;
  /** The failing plugins with the reason, and whether a reload would fail because an added or changed plugin is among them. */
  plugins_failing: Record<string, string>;
  would_fail: boolean;
  requires_restart: string[];
  settings_changed: string[];
  elapsed_ms: number;
}

/** A line of the audit log. */
export interface AuditLine {
  time: string;
  principal?: string;
  operation?: string;
  uri?: string;
  decision?: string;
  rule?: string;
  glob?: string;
  outcome?: string;
  plugin?: string;
  bytes?: number;
  duration_ms?: number;
  [member: string]: unknown;
}

/** An update that was sent to a subscriber. Without a URI, the listing has changed. */
export interface SentUpdate {
  time: string;
  principal: string;
  uri: string | null;
}

/** The principal whose view is requested. */
export interface Viewer {
  principal: string;
  groups: string[];
}

/** Returns the member of a request that names the principal whose view is requested; a client has only its own view. */
export function as(viewer: Viewer | null): { as?: Viewer } {
  return viewer ? { as: viewer } : {};
}

/** Returns a text that identifies a view. */
export function viewKey(viewer: Viewer | null): string {
  return viewer ? [viewer.principal, ...viewer.groups].join("\n") : "";
}

export interface Resource {
  uri: string;
  name: string;
  title: string | null;
  title_prefix: string | null;
  description: string | null;
  mime_type: string | null;
  size: number | null;
  audience: string[];
  priority: number | null;
  modified: string | null;
  /** The code of the language of its text, in a listing, as far as the search index has it. */
  language: string | null;
  listable: boolean;
  subscribable: boolean;
  notices: string[];
}

export interface Missing {
  plugin: string;
  reason: string;
}

export interface ResourceList {
  items: Resource[];
  next: string | null;
  missing: Missing[];
}

export interface Content {
  resource: Resource;
  text: string | null;
  blob: string | null;
  bytes: number;
  cut: boolean;
}

export interface Template {
  template: string;
  name: string;
  title: string | null;
  description: string | null;
  mime_type: string | null;
  variables: string[];
}

export interface Found {
  hits: { resource: Resource; snippet: { text: string; matches: boolean }[]; lines: [number, number] | null }[];
  total: number;
  partial: boolean;
  incomplete: string[];
}

export interface Passage {
  resource: Resource;
  text: string;
  lines: [number, number];
  tokens: number;
  reason: string;
}

export interface ContextView {
  passages: Passage[];
  tokens: number;
  over_budget: number;
  /** The best passages that do not fit the budget. */
  left_out: Passage[];
  near_copies: number;
  partial: boolean;
  incomplete: string[];
}

export interface Explanation {
  allowed: boolean;
  served: "here" | "only-if-listed" | "elsewhere" | "nowhere";
  served_at: string | null;
  principal: string;
  groups: string[];
  operation: string;
  decided: string;
  scopes: string[];
  uri: string;
  plugin: string;
  path: string;
  rule: ExplainedRule | null;
}

export interface ExplainedRule {
  number: number;
  line: number | null;
  key: string;
  glob: string;
}

/** The decision of the rules for a principal, a group, or all principals that the config does not name. */
export interface WhoMay {
  kind: "principal" | "group" | "others";
  name: string | null;
  decided: string;
  rule: ExplainedRule | null;
}

export interface WhoView {
  uri: string;
  plugin: string;
  operation: string;
  served: Explanation["served"];
  served_at: string | null;
  allowed: Page<WhoMay>;
  denied: Page<WhoMay>;
  cut: boolean;
}
