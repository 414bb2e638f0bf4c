/**
 * Files of the granted directories, by absolute guest path. On Node.js, the same functions use its file system, for unit tests.
 */

/** Why a file operation failed: an error code of `wasi:filesystem`, such as `no-entry` or `not-permitted`. */
export class FsError extends Error {
  readonly code: string;
  readonly path: string;
}

export type FileType =
  | "block-device" | "character-device" | "directory" | "fifo" | "regular-file" | "socket" | "symbolic-link" | "unknown";

export interface Stat {
  type: FileType;
  /** The size in bytes. */
  size: number;
  /** The time of the last modification, in milliseconds since 1970, with a fraction. */
  modified: number | undefined;
}

/** Reads a whole file. */
export function readFile(path: string): Uint8Array;
/** Reads at most `length` bytes from the beginning of a file. */
export function readFileStart(path: string, length: number): Uint8Array;
/** Reads a file of UTF-8. */
export function readTextFile(path: string): string;
/** Replaces the content of a file, or creates it. */
export function writeFile(path: string, bytes: Uint8Array): void;
/** Returns the entries of a directory, in no particular order. */
export function readDir(path: string): { name: string; type: FileType }[];
/** Returns the metadata of a file. Symbolic links are followed. */
export function stat(path: string): Stat;

/** A file of a folder. As the result of `read` of a resource it is read, as text if it is UTF-8; in a listing it has its metadata. */
export interface File {
  /** The name, relative to the folder. */
  readonly name: string;
  readonly path: string;
  /** By the name's extension. */
  readonly mimeType: string | undefined;
  stat(): Stat;
  bytes(): Uint8Array;
  /** Throws `InvalidRequest` if it is not UTF-8. */
  text(): string;
}

/**
 * A file of a folder, whose name may come from a client: `NotFound` if it leads out of the folder, or has a part that begins with a dot.
 * It is not read before it is used. A file that does not exist is `NotFound`, a folder that does not is `Internal`.
 */
export function file(folder: string, name: string): File;
/** The files of a folder, sorted by name, without hidden ones and folders. */
export function files(folder: string): File[];

/**
 * Returns a function of a path that returns what `make` makes of the file's bytes, or made of them before: until its size or modification
 * time changes, within a call, and where the host uses instances again, across calls. It keeps the result of the last file only.
 *
 * ```ts
 * const events = memo((bytes) => parse(decodeUtf8(bytes)));
 * events("/calendar/team.ics");
 * ```
 */
export function memo<T>(make: (bytes: Uint8Array) => T): (path: string) => T;
