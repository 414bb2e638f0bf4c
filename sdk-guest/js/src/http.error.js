// Why a request has no response.

import { Denied, Internal, Unavailable } from "./failures.js";

/** Why there was no response: a case of `wasi:http/types.error-code`. */
export class HttpError extends Error {
  constructor(code, url) {
    super(`${url}: ${code}`);
    this.code = code;
  }

  get name() {
    return "HttpError";
  }

  toFailure() {
    if (this.code === "HTTP-request-denied") return new Denied(`requests to ${this.message.split(": ")[0]} are not granted`);
    const isFault = /invalid|URI|method|header/i.test(this.code);
    return isFault ? new Internal(this.message) : new Unavailable(this.message);
  }
}
