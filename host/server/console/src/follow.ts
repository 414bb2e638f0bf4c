// Events that the server sends as they happen, the newest of which are kept.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, events } from "./api";

/** The number of events that are kept. */
const KEPT = 200;
/** The pause before a stream that ended is opened again. */
const PAUSE = 1000;
/** The time in which a filter may still change before a stream is opened for it. */
const SETTLED = 200;

/** An event, or the number of events that came faster than they were read. */
export type Entry<T> = { number: number; event: T } | { number: number; missed: number };

export interface Followed<T> {
  /** The newest first. */
  entries: Entry<T>[];
  isOpen: boolean;
  error: Error | null;
  clear: () => void;
}

/** Follows the events of a name of a path, while `isPaused` is false. */
export function useFollowed<T>(path: string, name: string, isPaused: boolean): Followed<T> {
  const [entries, setEntries] = useState<Entry<T>[]>([]);
  const [isOpen, setOpen] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const count = useRef(0);
  useEffect(() => {
    if (isPaused) {
      return;
    }
    const ending = new AbortController();
    // Many events at once are shown at once.
    let waiting: Entry<T>[] = [];
    let frame = 0;
    const add = (entry: Entry<T>) => {
      waiting.push(entry);
      if (frame === 0) {
        frame = requestAnimationFrame(() => {
          const added = waiting.reverse();
          waiting = [];
          frame = 0;
          setEntries((now) => [...added, ...now].slice(0, KEPT));
        });
      }
    };
    const opened = () => {
      setOpen(true);
      setError(null);
    };
    const received = (event: string, data: string) => {
      count.current += 1;
      if (event === name) {
        add({ number: count.current, event: JSON.parse(data) });
      } else if (event === "missed") {
        add({ number: count.current, missed: JSON.parse(data).lines });
      }
    };
    const follow = async () => {
      while (!ending.signal.aborted) {
        try {
          await events("GET", path, undefined, opened, received, ending.signal);
        } catch (problem) {
          if (ending.signal.aborted) {
            return;
          }
          setError(problem instanceof ApiError ? problem : new ApiError(0, String(problem)));
        }
        setOpen(false);
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    };
    const timer = setTimeout(follow, SETTLED);
    return () => {
      clearTimeout(timer);
      cancelAnimationFrame(frame);
      ending.abort();
      setOpen(false);
    };
  }, [path, name, isPaused]);
  return { entries, isOpen, error, clear: () => setEntries([]) };
}
