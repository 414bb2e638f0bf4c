// Requests to the administration listener. Each has the key of the session as a header; the cookie is sent by the browser.

const STORED_KEY = "mcp-host-console-key";

/** Why a request has no answer. */
export class ApiError extends Error {
  constructor(
    /** The status code of HTTP; 0 if the server did not answer. */
    readonly status: number,
    message: string,
    readonly help: string | null = null,
  ) {
    super(message);
  }
}

export interface Session {
  principal: string;
  /** Whether the principal is an administrator, who sees the server and the views of others. */
  administrator: boolean;
}

/** Called when there is no session any more: its user has logged out, or else the server says so. */
let onLoggedOut: (isByUser: boolean) => void = () => {};

export function whenLoggedOut(action: (isByUser: boolean) => void): void {
  onLoggedOut = action;
}

/** Whether the last request was answered, by whatever status; and who is told of a change. */
let isAnswering = true;
let onAnswering: (isAnswering: boolean) => void = () => {};

export function whenAnswering(action: (isAnswering: boolean) => void): void {
  onAnswering = action;
  action(isAnswering);
}

function setAnswering(now: boolean): void {
  if (now !== isAnswering) {
    isAnswering = now;
    onAnswering(now);
  }
}

function headers(key: string | null, hasBody: boolean): HeadersInit {
  return { ...(key ? { "mcp-host-console": key } : {}), ...(hasBody ? { "content-type": "application/json" } : {}) };
}

async function send(method: string, path: string, body: unknown, signal: AbortSignal | undefined): Promise<Response> {
  const key = localStorage.getItem(STORED_KEY);
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers: headers(key, body !== undefined),
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
      cache: "no-store",
    });
  } catch (error) {
    if (signal?.aborted) {
      throw error;
    }
    setAnswering(false);
    throw new ApiError(0, String(error));
  }
  setAnswering(true);
  if (response.ok) {
    return response;
  }
  const refused: { error?: string; help?: string | null } = await response.json().catch(() => ({}));
  const problem = new ApiError(response.status, refused.error ?? `HTTP ${response.status}`, refused.help);
  // Another session may have begun meanwhile.
  if (response.status === 401 && path.startsWith("/api/") && key === localStorage.getItem(STORED_KEY)) {
    localStorage.removeItem(STORED_KEY);
    onLoggedOut(false);
  }
  throw problem;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send("GET", `/api/v1/${path}`, undefined, signal)).json();
}

export async function post<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return (await send("POST", `/api/v1/${path}`, body ?? {}, signal)).json();
}

/** Exchanges a code or the token for a session. */
export async function login(credentials: { code: string } | { token: string }): Promise<Session> {
  const session: Session & { key: string } = await (await send("POST", "/console/login", credentials, undefined)).json();
  localStorage.setItem(STORED_KEY, session.key);
  return session;
}

export async function logout(): Promise<void> {
  await send("POST", "/console/logout", {}, undefined);
  localStorage.removeItem(STORED_KEY);
  onLoggedOut(true);
}

export function hasKey(): boolean {
  return localStorage.getItem(STORED_KEY) !== null;
}

/** Reads server-sent events until the stream ends. */
export async function events(
  method: "GET" | "POST",
  path: string,
  body: unknown,
  opened: () => void,
  received: (event: string, data: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const response = await send(method, `/api/v1/${path}`, body, signal);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) {
    return;
  }
  opened();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    // The server ends lines with a line feed, and sends one line of data in an event.
    const parts = (waiting + value).split("\n\n");
    waiting = parts.pop() ?? "";
    for (const part of parts) {
      const lines = part.split("\n");
      const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = field("data");
      if (data !== undefined) {
        received(field("event") ?? "message", data);
      }
    }
  }
}
