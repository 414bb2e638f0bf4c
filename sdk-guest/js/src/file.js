// Files of a granted folder, as what a function returns or lists.

import { Internal, InvalidRequest, NotFound } from "./failures.js";
import { FsError } from "./fs.error.js";
import { compareText, decodeUtf8 } from "./text.js";

const TYPES = {
  css: "text/css", csv: "text/csv", gif: "image/gif", html: "text/html", ics: "text/calendar", jpeg: "image/jpeg", jpg: "image/jpeg",
  js: "text/javascript", json: "application/json", md: "text/markdown", pdf: "application/pdf", png: "image/png", svg: "image/svg+xml",
  toml: "application/toml", txt: "text/plain", webp: "image/webp", xml: "text/xml", yaml: "application/yaml", zip: "application/zip",
};

/** Whether a folder that is joined with that text is still that folder or below it. */
export const isBelow = (text) => !text.startsWith("/") && !text.includes("\\") && !text.split("/").includes("..");

export class File {
  #system;
  #folder;

  /** `system` has the functions of the module `fs`. A name that is hidden, or leads out of the folder, is not found. */
  constructor(system, folder, name) {
    if (typeof folder !== "string" || typeof name !== "string") throw new TypeError("expected file(folder, name), both texts");
    if (!isBelow(name) || name.split("/").some((part) => part === "" || part.startsWith("."))) throw new NotFound();
    this.#system = system;
    this.#folder = folder;
    this.name = name;
    this.path = `${folder}/${name}`;
  }

  get mimeType() {
    return TYPES[/\.([^./]+)$/.exec(this.name)?.[1].toLowerCase()];
  }

  stat() {
    const found = this.#found(() => this.#system.stat(this.path));
    if (found.type !== "regular-file") throw new NotFound();
    return found;
  }

  bytes() {
    this.stat();
    return this.#found(() => this.#system.readFile(this.path));
  }

  text() {
    const text = decodeUtf8(this.bytes());
    if (text === undefined) throw new InvalidRequest(`expected a text file; ${this.name} is not UTF-8`);
    return text;
  }

  /** A file that is missing is not found; a folder that is missing is a fault of the config. */
  #found(operation) {
    try {
      return operation();
    } catch (error) {
      if (!(error instanceof FsError)) throw error;
      if (error.code !== "no-entry" && error.code !== "not-directory") throw new Internal(`cannot read ${error.message}`);
      granted(() => this.#system.stat(this.#folder));
      throw new NotFound();
    }
  }
}

function granted(operation) {
  try {
    return operation();
  } catch (error) {
    throw error instanceof FsError ? new Internal(`cannot read the folder ${error.message}; does \`grants.dirs\` grant it?`) : error;
  }
}

/** The files of a folder, sorted by name; hidden ones and those of folders in it are left out. */
export function filesOf(system, folder) {
  const names = granted(() => system.readDir(folder)).map(({ name }) => name);
  const visible = names.filter((name) => !name.startsWith(".") && isBelow(name)).sort(compareText);
  return visible.map((name) => new File(system, folder, name)).filter(isFile);
}

/** Returns a function of a path that returns what `make` makes of the file, or made of it before, until the file changes. */
export function memoOf(system, make) {
  let kept;
  return (path) => {
    const { size, modified } = system.stat(path);
    if (kept?.path !== path || kept.size !== size || kept.modified !== modified) {
      kept = { path, size, modified, value: make(system.readFile(path)) };
    }
    return kept.value;
  };
}

function isFile(file) {
  try {
    return file.stat() !== undefined;
  } catch (error) {
    if (error instanceof NotFound) return false;
    throw error;
  }
}
