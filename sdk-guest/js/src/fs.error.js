// The error of a file operation.

export class FsError extends Error {
  constructor(code, path, reason = code) {
    super(`${path}: ${reason}`);
    this.code = code;
    this.path = path;
  }

  get name() {
    return "FsError";
  }
}
