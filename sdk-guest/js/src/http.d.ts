/**
 * HTTP requests to the origins of `grants.http`. The host does not follow redirects, since each origin is granted separately. In
 * a unit test a function answers the requests: `fake`.
 */

/** Why there was no response: `code` is a case of the error of `wasi:http`, such as `HTTP-request-denied` or `DNS-timeout`. */
export class HttpError extends Error {
  readonly code: string;
  /** Returns the failure that a client can act on: `Denied`, `Unavailable` or `Internal`. */
  toFailure(): Error;
}

export interface Response {
  status: number;
  /** The headers, with names in lower case; several values are separated by commas. */
  headers: Record<string, string>;
  /** Reads the body. One of more than `limit` bytes is an `Internal` failure. */
  read(limit: number): Uint8Array;
}

/** Sends a request and waits for the response. The timeout is in milliseconds; keep it below the plugin's `deadline`. */
export function request(
  url: string,
  options?: { method?: string; headers?: Record<string, string>; body?: string | Uint8Array; timeout?: number },
): Response;

/**
 * In unit tests, makes a function answer requests. A request for which it returns nothing is not granted. In a component it has no effect.
 */
export function fake(
  answer: (
    url: string,
    options: { method: string; headers: Record<string, string>; body?: string | Uint8Array | undefined; timeout?: number | undefined },
  ) => { status?: number; headers?: Record<string, string>; body?: string | Uint8Array } | undefined,
): void;
