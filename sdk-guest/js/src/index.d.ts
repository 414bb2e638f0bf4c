/**
 * An SDK for writing providers of MCP resources in JavaScript and TypeScript.
 *
 * ```ts
 * import { type Config, type Contents, NotFound, type Page, Provider } from "mcp-host-provider";
 *
 * export default class Greetings extends Provider {
 *   static info = { name: "greetings", version: "1.0.0", description: "`hello` greets whom the config key `name` names." };
 *   #name: string;
 *
 *   constructor(config: Config) {
 *     super(config);
 *     this.#name = config.text("name", "world");
 *   }
 *
 *   listEntries(): Page {
 *     return { entries: [{ path: "hello", name: "hello", mimeType: "text/plain" }] };
 *   }
 *
 *   read(path: string): Contents {
 *     if (path !== "hello") throw new NotFound();
 *     return { entry: { path, name: "hello", mimeType: "text/plain" }, text: `Hello, ${this.#name}!` };
 *   }
 * }
 * ```
 *
 * All calls are synchronous. Numbers are plain numbers. `console` writes to the host's log.
 */

/** The base class of failures: why a call returns no result. Throw one of its subclasses. */
export class Failure extends Error {}

/** There is no such resource. */
export class NotFound extends Failure {
  constructor(message?: string);
}

/**
 * The request is invalid: a path of an unknown form, a cursor that this provider did not issue. The message says to the client what
 * is expected.
 */
export class InvalidRequest extends Failure {}

/** The data source denies access. The client sees the message, so it must not contain secrets. */
export class Denied extends Failure {}

/** The resource exists or may exist, but is temporarily not available. The client sees the reason. */
export class Unavailable extends Failure {
  /** `retryAfter` is the time in milliseconds after which a retry makes sense, if it is known. */
  constructor(reason: string, options?: { retryAfter?: number });
  readonly retryAfter: number | undefined;
}

/**
 * The call needs data that is not prepared yet. The client gets the progress and a time to retry, or the information that the config of
 * the host does not let the provider prepare anything.
 */
export class BeingPrepared extends Unavailable {
  constructor();
}

/**
 * How far work is that takes longer than a call. A module that exports `prepare` is called for it in the background, where the config
 * has `limits.prepare`, after it was loaded and after changes; results are kept in a granted directory or in a bucket:
 *
 * ```ts
 * export const prepare: Prepare<Events> = (events, token, config) => {
 *   const done = events.index(Number(token ?? 0), config.integer("step", 1000));
 *   return progressOf(done, events.count, "events", done);
 * };
 * ```
 */
export interface Progress {
  /** The token of the next call: any text, but never the one of this call. None when everything is prepared. */
  nextToken?: string | undefined;
  /** The part that is prepared, in per cent: a whole number from 0 to 100. */
  percent?: number | undefined;
  /** What has been done, for administrators. */
  message?: string | undefined;
  /** The time in milliseconds after which everything is to be prepared again, although no change is reported. */
  againAfter?: number | undefined;
}

/** So many of all are prepared: `progressOf(3000, 5000, "events", 3000)`. If those are not all, the next call gets the token. */
export function progressOf(prepared: number, all: number, what: string, nextToken: string | number): Progress;

/**
 * The export `prepare` of a module. `token` is the `nextToken` of the call before. A call that throws is repeated with it. A provider of
 * functions takes the config, as they do.
 */
export type Prepare<P extends Provider> = (provider: P, token: string | undefined, config: Config) => Progress;

/** A fault of the provider, its data or its config. The message goes to the log only, without a stack. */
export class Internal extends Failure {}

/**
 * The `config` table of the plugin in `mcp-host.toml`: strings unchanged, other values as JSON. A value of another type is
 * `Internal`, with the key's name. For tests: `new Config({ rev: "main", depth: 3 })`.
 */
export class Config {
  constructor(values?: Record<string, unknown>);
  /** The keys, sorted. */
  readonly keys: string[];
  text(key: string): string | undefined;
  text(key: string, otherwise: string): string;
  number(key: string): number | undefined;
  number(key: string, otherwise: number): number;
  integer(key: string): number | undefined;
  integer(key: string, otherwise: number): number;
  boolean(key: string): boolean | undefined;
  boolean(key: string, otherwise: boolean): boolean;
  /** Returns a list, a table or any other value of JSON. */
  json(key: string, otherwise?: unknown): unknown;
}

/** The description of a provider. */
export interface Info {
  name: string;
  version: string;
  title?: string | undefined;
  description?: string | undefined;
  /** Whether `changes` reports changes. */
  watches?: boolean | undefined;
}

/**
 * What a provider would like to be granted; `mcp-host inspect` shows it as an entry of the config. Asking grants nothing. The module
 * that is built exports it:
 *
 * ```ts
 * export const needs: Needs = { dirs: [{ guest: "/data", why: "the files" }] };
 * ```
 *
 * The build evaluates that export on Node, where the interfaces of WASI are empty.
 */
export interface Needs {
  /** Origins that it sends requests to: `https://docs.rs`, `https://*.example.com`. */
  http?: { origin: string; why?: string }[];
  /** Directories, by the path at which it expects them. Read-only, unless `mode` is `rw`. */
  dirs?: { guest: string; mode?: "ro" | "rw"; why?: string }[];
  /** Key-value buckets that it opens. `optional` if it does not open one unless it is granted. */
  keyvalue?: { bucket: string; optional?: boolean; why?: string }[];
  /** SQL databases that it queries. */
  sql?: { database: string; why?: string }[];
  /** Environment variables that it reads. */
  env?: { name: string; why?: string }[];
  /**
   * Keys of its config. `required` if the provider does not work without one; `address` if it is the address of a server, or a list of
   * addresses.
   */
  config?: Record<
    string,
    {
      type: "string" | "integer" | "float" | "boolean" | "array" | "table";
      default?: unknown;
      required?: boolean;
      address?: boolean;
      why?: string;
    }
  >;
  /** Limits that it does not work below, as the config writes them: `{ memory: { min: "256MiB" } }`. */
  limits?: { [Key in LimitKey]?: { min: string; why?: string } };
}

/** A limit that a provider may ask for, by its key below `limits`. */
export type LimitKey =
  | "memory"
  | "cpu"
  | "deadline"
  | "response-size"
  | "http.rate"
  | "http.body"
  | "http.timeout"
  | "prepare.cpu"
  | "prepare.memory";

/** An icon that clients may display. `src` is an `https:` or `data:` URI. */
export interface Icon {
  src: string;
  mimeType?: string | undefined;
  sizes?: string[] | undefined;
  theme?: "light" | "dark" | undefined;
}

interface Metadata {
  name: string;
  title?: string | undefined;
  description?: string | undefined;
  mimeType?: string | undefined;
  audience?: ("user" | "assistant")[] | undefined;
  /** The importance, from 0 to 1. */
  priority?: number | undefined;
  icons?: Icon[] | undefined;
  /** Further metadata, with names that have a prefix of the provider's own: `{ "example.com/branch": "main" }`. */
  meta?: Record<string, unknown> | undefined;
}

/** One resource: all its metadata, without its content. */
export interface Entry extends Metadata {
  /** The path, percent-encoded; see `encodeSegment`. */
  path: string;
  /** The size in bytes. */
  size?: number | undefined;
  /** The time of the last change: a date, its text, or milliseconds since 1970. */
  lastModified?: Date | string | number | undefined;
  /** Whether `listEntries` with this path as the parent lists its children. */
  listable?: boolean | undefined;
  /** Whether `changes` can watch it. */
  subscribable?: boolean | undefined;
  /** How long a reader may assume that it is unchanged, in milliseconds. */
  ttlMs?: number | undefined;
}

/** The content of a resource. Bytes are binary content, unless `isText` says that they are UTF-8; see `detect`. */
export type Contents = { entry: Entry } & ({ text: string } | { bytes: Uint8Array; isText?: boolean });

/** One page of a listing; see `paginate`. */
export interface Page {
  entries: Entry[];
  /** The cursor of the next page, none on the last. */
  nextCursor?: string | undefined;
}

/** The completions of a variable, best first, not percent-encoded. Clients get at most 100 of those that they may see. */
export interface Completion {
  values: string[];
  total?: number | undefined;
  hasMore?: boolean | undefined;
}

/** The changes since a token; see `compareChanges`. */
export interface Changes {
  /** The `since` of the next call: opaque to the host, which stores it. */
  token: string;
  /** The watched paths whose content or metadata changed, appeared or disappeared. */
  changed?: string[] | undefined;
  listingChanged?: boolean | undefined;
  /** The recommended delay in milliseconds before the next poll. */
  pollAfter?: number | undefined;
}

/** The values of a template's variables. */
export type Variables = Record<string, string | undefined>;

/** A family of resources; made by `template`. */
export interface Template extends Metadata {
  readonly pathTemplate: string;
  readonly pattern: PathTemplate;
  read(path: string, variables: Variables): Contents | Contents[];
  readonly complete: Record<string, Completer>;
}

/** Returns candidates, of which those that start with `value` are used, or a completion. */
export type Completer = (value: string, known: Variables) => Iterable<string> | Completion;

/** Declares a family of resources, whose paths an RFC 6570 template gives: `log/{rev}{?limit}`. */
export function template(
  pathTemplate: string,
  options: Metadata & {
    read(path: string, variables: Variables): Contents | Contents[];
    complete?: Record<string, Completer>;
  },
): Template;

/**
 * The base class of a provider. The module exports the class as its default.
 *
 * The host usually creates a fresh instance for every call, and may drop one between any two: what must last is stored outside.
 * Calls never overlap. The constructor is called before the first call; it should be cheap.
 */
export abstract class Provider {
  constructor(config: Config);

  /** The templates of the resources that can be read by building a path. */
  templates: Template[];

  /**
   * Lists the children of `parent`, or without one the resources that are most useful at the top level. `limit`, at least 1, is the
   * number of entries that the host can use; a page may have fewer. Throws `NotFound` if there is no such parent, and
   * `InvalidRequest` if it is not listable or the cursor is unknown.
   */
  listEntries(parent: string | undefined, cursor: string | undefined, limit: number): Page;

  /**
   * Reads a resource. By default, the first template that matches does. Several contents with the same path are the same resource in
   * several formats, the preferred first.
   */
  read(path: string): Contents | Contents[];

  /** Returns the metadata of a resource. By default it is read for that. */
  stat(path: string): Entry;

  /** Completes a variable of a template. By default, the template's completer does, if there is one. */
  complete(pathTemplate: string, variable: string, value: string, known: Variables): Completion;

  /** Returns what changed since a token; without one, nothing has. Only called if `info` says that the provider `watches`. */
  changes(watched: string[], since: string | undefined): Changes;
}

/** A template that can be matched and expanded: `{var}` is one segment, `{+var}` several, `{?a,b}` a query with any of these. */
export class PathTemplate {
  constructor(template: string);
  readonly text: string;
  readonly variables: string[];
  /** Returns the percent-decoded values of the variables; undefined if the path does not match. */
  match(path: string): Variables | undefined;
  /** Expands the template to a path. Values are not percent-encoded. */
  expand(values: Variables): string;
}

/**
 * Returns the page after `cursor`. The keys, each at most 4000 bytes, may be in any order; pages are sorted by key. `entry` makes the
 * entry of a key, or undefined if it was removed in the meantime. Throws `InvalidRequest` if the cursor is not one of this function's.
 */
export function paginate(
  keys: Iterable<string>,
  cursor: string | undefined,
  limit: number,
  entry: (key: string) => Entry | undefined,
): Page;

/** Returns the candidates that start with `typed`, each once: the first 1000, and the number of all. */
export function matching(candidates: Iterable<string>, typed: string): Completion;

/** Returns bytes as text if they are UTF-8, else as binary content. */
export function detect(entry: Entry, bytes: Uint8Array): Contents;

/**
 * Compares the state of the watched paths, and of the listing, with that at the token. `state` returns what identifies the state of a
 * path, such as the size and modification time of its file, or undefined if it does not exist; both are compared as JSON.
 */
export function compareChanges(
  watched: string[],
  since: string | undefined,
  current: { state: (path: string) => unknown; listing?: unknown },
): Changes;

/** Encodes one name as one segment of a path. */
export function encodeSegment(name: string): string;
/** One value of a query, percent-encoded as a client does that expands `{?name}`. */
export function encodeQuery(value: string): string;
/** Decodes one segment to a name. Throws `InvalidRequest` if it has a slash or a query, or is malformed. */
export function decodeSegment(segment: string): string;
/** Splits a path from its query, if it has one. */
export function splitQuery(path: string): [path: string, query: string | undefined];
/** Returns the text of UTF-8 bytes; undefined if they are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | undefined;
/** Returns a text as bytes of UTF-8. */
export function encodeUtf8(text: string): Uint8Array;
/** Compares by code points, as bytes of UTF-8 compare. */
export function compareText(a: string, b: string): number;

/** The type of a template's variable. */
export interface Variable<T> {
  readonly expected: string;
  convert(given: string): T | undefined;
}

/** Text. Of all types: a missing or empty value of a query is the default; without a default, it is an invalid request. */
export function text(otherwise?: string): Variable<string>;
/** An integer. */
export function integer(otherwise?: number): Variable<number>;
/** A number, without an exponent. */
export function number(otherwise?: number): Variable<number>;
/** `true` or `false`. */
export function boolean(otherwise?: boolean): Variable<boolean>;
/** A day as `2026-11-28`: midnight in UTC. */
export function date(otherwise?: Date): Variable<Date>;
/** One of some values, which are completed. */
export function oneOf<const T extends string | number | boolean>(values: readonly T[], otherwise?: T): Variable<T>;
/** A variable of a query that may be missing. */
export function optional<T>(of: Variable<T>): Variable<T | undefined>;

type Commas<Q extends string> = Q extends `${infer First},${infer Rest}` ? First | Commas<Rest> : Q;
type PathNames<T extends string> = T extends `${string}{${infer E}}${infer Rest}`
  ? (E extends `?${string}` ? never : E extends `+${infer N}` ? N : E) | PathNames<Rest>
  : never;
type QueryNames<T extends string> = T extends `${string}{?${infer Q}}` ? Commas<Q> : never;
type Typed<V, N, Otherwise> = N extends keyof V ? (V[N] extends Variable<infer R> ? R : Otherwise) : Otherwise;

/** The arguments of a function: the template's variables, of their types; without one text, of a query perhaps undefined. */
export type Arguments<T extends string, V> = { [N in PathNames<T>]: Typed<V, N, string> } & {
  [N in QueryNames<T>]: Typed<V, N, string | undefined>;
};

/** The result of a function: text, JSON, bytes, a file of `mcp-host-provider/fs`, or contents. Undefined or null: no such resource. */
export type Body = string | object | Uint8Array | null | undefined;

/** One entry of a listing: the value of the template's variable (of several: an array, or an object by name), and metadata. */
export interface Item extends Partial<Omit<Entry, "path" | "listable" | "subscribable">> {
  value: unknown;
  /** A file, from which the entry takes its size, MIME type and time of the last change. */
  file?: object | undefined;
}

export interface ResourceOptions<T extends string, V> extends Partial<Metadata> {
  /** The types of variables. */
  variables?: V;
  read(values: Arguments<T, V>, config: Config): Body;
  /**
   * The listed items: values, files or `Item`s, in any order that stays the same while the data do. Only the items that
   * a page needs are taken.
   */
  list?(config: Config): Iterable<unknown>;
  /** Completion; without it, by the type, or by the first listing that has a variable of that name. */
  complete?: { [N in PathNames<T> | QueryNames<T>]?: (value: string, known: Variables, config: Config) => Iterable<string> | Completion };
  /** A value that differs when the content does. Default: the size and time of a file, or a digest of the result of `read`. */
  fingerprint?(values: Arguments<T, V>, config: Config): unknown;
  subscribable?: boolean;
  ttlMs?: number;
}

/** A resource, or all of a template; `resource` creates it. */
export interface Resource {
  readonly isResource: true;
}

/**
 * Declares the resource of a path, or all of an RFC 6570 template, by a function that reads them:
 *
 * ```ts
 * resource("events/{uid}{?days}", { variables: { days: integer(7) }, read: ({ uid, days }) => find(uid, days) })
 * ```
 */
export function resource<const T extends string, V extends { [N in PathNames<T> | QueryNames<T>]?: Variable<unknown> } = {}>(
  pathTemplate: T,
  options: ResourceOptions<T, V>,
): Resource;

/** Returns the class of a provider of these resources, which the module exports as its default. It reports changes. */
export function provider(info: Info, resources: readonly Resource[]): { new (config: Config): Provider; info: Info };
