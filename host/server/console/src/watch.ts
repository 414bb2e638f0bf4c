// Changes of what a principal sees, which the server pushes while the page is visible.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, events } from "./api";
import { as, viewKey, type Viewer } from "./types";

/** The resources that one stream watches at most. */
const MAX_WATCHED = 64;
/** The pause before a stream that failed is opened again: the first, and the longest. */
const PAUSES = [250, 5000] as const;
/** The time in which a choice may still change before a stream is opened for it. */
const SETTLED = 50;

/** Whoever is told of changes: of the resource with a URI, or, with null, of the catalog. */
export class Updates {
  private readonly listeners = new Set<(uri: string | null) => void>();

  /** Adds a listener. Returns what removes it. */
  listen(listener: (uri: string | null) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  tell(uri: string | null): void {
    this.listeners.forEach((listener) => listener(uri));
  }
}

/**
 * Follows the changes of resources, and of the catalog if `listing`. Returns whether the stream is open. A stream that was interrupted
 * counts as a change of everything. Without anything to watch the stream ends with the session all the same, and so does the page.
 */
export function useWatch(viewer: Viewer | null, uris: string[], listing: boolean, updates: Updates): boolean {
  const [isLive, setLive] = useState(false);
  const interrupted = useRef(false);
  const watched = [...new Set(uris)].slice(0, MAX_WATCHED);
  const key = [viewKey(viewer), String(listing), ...watched].join("\n");
  useEffect(() => {
    let ending = new AbortController();
    const follow = async () => {
      const stop = ending.signal;
      let pause: number = PAUSES[0];
      let wanted = { uris: watched, listing };
      const opened = () => {
        setLive(true);
        pause = PAUSES[0];
        if (interrupted.current) {
          interrupted.current = false;
          [...wanted.uris, ...(listing ? [null] : [])].forEach((uri) => updates.tell(uri));
        }
      };
      const received = (event: string, data: string) => {
        if (event === "updated") {
          updates.tell((JSON.parse(data) as { uri: string }).uri);
        } else if (event === "listing") {
          updates.tell(null);
        }
      };
      await new Promise((resolve) => setTimeout(resolve, SETTLED));
      while (!stop.aborted) {
        try {
          await events("POST", "browse/watch", { ...as(viewer), ...wanted }, opened, received, stop);
        } catch (error) {
          if (!stop.aborted && error instanceof ApiError) {
            if (error.status === 401) {
              return;
            }
            // The token is not for subscriptions.
            if (error.status === 403) {
              wanted = { uris: [], listing: false };
            }
          }
        }
        if (stop.aborted) {
          return;
        }
        setLive(false);
        interrupted.current = true;
        await new Promise((resolve) => setTimeout(resolve, pause));
        pause = Math.min(pause * 2, PAUSES[1]);
      }
    };
    const shown = () => {
      ending.abort();
      if (document.visibilityState === "visible") {
        ending = new AbortController();
        void follow();
      } else {
        interrupted.current = true;
      }
    };
    shown();
    document.addEventListener("visibilitychange", shown);
    return () => {
      document.removeEventListener("visibilitychange", shown);
      ending.abort();
    };
  }, [key, updates]);
  return isLive;
}
