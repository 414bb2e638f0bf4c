// The files of a folder: one resource per file, and a template for the first lines of each.

import {
  type Changes,
  type Config,
  type Contents,
  type Entry,
  type Needs,
  type Page,
  compareChanges,
  compareText,
  decodeSegment,
  decodeUtf8,
  detect,
  encodeSegment,
  Internal,
  InvalidRequest,
  NotFound,
  paginate,
  Provider,
  template,
} from "mcp-host-provider";
import { FsError, type Stat, readDir, readFile, stat } from "mcp-host-provider/fs";

/** MIME types by extension. */
const TYPES: Record<string, string> = { html: "text/html", json: "application/json", md: "text/markdown", png: "image/png", txt: "text/plain" };

/** What it would like to be granted: `mcp-host inspect` shows it. */
export const needs: Needs = {
  dirs: [{ guest: "/data", why: "the files" }],
  config: {
    dir: { type: "string", default: "/data", why: "the folder, at its guest path" },
    lines: { type: "integer", default: 10, why: "the number of lines of `first/FILE`" },
  },
};

export default class Files extends Provider {
  static info = { name: "{{name}}", version: "0.1.0", description: "The files of a folder.", watches: true };

  readonly #folder: string;
  readonly #lines: number;

  constructor(config: Config) {
    super(config);
    this.#folder = config.text("dir", "/data");
    this.#lines = config.integer("lines", 10);
  }

  override templates = [
    template("first/{file}", {
      name: "first-lines",
      title: "First lines of a file",
      mimeType: "text/plain",
      read: (path, { file }) => this.#firstLines(path, file ?? ""),
      complete: { file: () => this.#names().sort(compareText) },
    }),
  ];

  override listEntries(parent: string | undefined, cursor: string | undefined, limit: number): Page {
    if (parent !== undefined) {
      this.stat(parent);
      throw new InvalidRequest("expected no parent: a file has no children");
    }
    return paginate(this.#names(), cursor, limit, (name) => this.#entry(name));
  }

  override read(path: string): Contents | Contents[] {
    if (path.startsWith("first/")) return super.read(path);
    const name = fileName(path);
    const entry = this.#entry(name);
    if (!entry) throw this.#missing();
    return detect(entry, readFile(this.#path(name)));
  }

  override changes(watched: string[], since: string | undefined): Changes {
    const listing = this.#names().sort(compareText).map((name) => [name, this.#state(name)] as const);
    const state = (path: string) => this.#state(fileName(path.replace(/^first\//, "")));
    return compareChanges(watched, since, { state, listing });
  }

  #firstLines(path: string, file: string): Contents {
    if (!this.#stat(file)) throw this.#missing();
    const text = decodeUtf8(readFile(this.#path(file)));
    if (text === undefined) throw new InvalidRequest(`expected a text file; ${file} is not UTF-8`);
    const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
    const entry = { path, name: `first lines of ${file}`, mimeType: "text/plain", subscribable: true };
    return { entry, text: lines.slice(0, this.#lines).join("") };
  }

  /** The names of the files; hidden ones are left out. */
  #names(): string[] {
    try {
      return readDir(this.#folder).map(({ name }) => name).filter((name) => this.#stat(name));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Internal(`cannot read the folder ${this.#folder}: ${reason}`);
    }
  }

  /** What is thrown for a file that is not there. Fails if the folder is not there, which no client can help. */
  #missing(): NotFound {
    this.#names();
    return new NotFound();
  }

  /** The metadata of a file; undefined if there is no such file. */
  #stat(name: string): Stat | undefined {
    if (name === "" || name.startsWith(".") || name.includes("/")) return undefined;
    try {
      const found = stat(this.#path(name));
      return found.type === "regular-file" ? found : undefined;
    } catch (error) {
      if (error instanceof FsError) return undefined;
      throw error;
    }
  }

  /** The entry of a file; undefined if there is no such file. */
  #entry(name: string): Entry | undefined {
    const found = this.#stat(name);
    if (!found) return undefined;
    const mimeType = TYPES[name.split(".").at(-1) ?? ""];
    return { path: encodeSegment(name), name, mimeType, size: found.size, subscribable: true };
  }

  /** What changes when a file does; undefined if there is no such file. */
  #state(name: string): unknown {
    const found = this.#stat(name);
    return found && [found.size, found.modified];
  }

  #path(name: string): string {
    return `${this.#folder}/${name}`;
  }
}

/** The name of a file from its path. */
function fileName(segment: string): string {
  try {
    return decodeSegment(segment);
  } catch {
    throw new NotFound();
  }
}
