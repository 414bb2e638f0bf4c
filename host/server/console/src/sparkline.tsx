// A small line of the last samples. The library of charts is loaded with the first of them.

import { useEffect, useRef } from "preact/hooks";
import type { Line } from "./chart";

interface Props {
  label: string;
  /** The times, in seconds. */
  at: number[];
  values: (number | null)[];
  show: (value: number) => string;
}

export function Sparkline({ label, at, values, show }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const line = useRef<Line | null>(null);
  useEffect(() => {
    let isGone = false;
    import("./chart.js").then(({ sparkline }) => {
      if (!isGone && place.current) {
        line.current = sparkline(place.current);
        line.current.update(at, values);
      }
    });
    return () => {
      isGone = true;
      line.current?.remove();
    };
  }, []);
  useEffect(() => line.current?.update(at, values));
  const last = values.at(-1);
  return (
    <figure>
      <figcaption>
        {label} <strong>{last == null ? "–" : show(last)}</strong>
      </figcaption>
      <div ref={place} class="sparkline" aria-hidden="true" />
    </figure>
  );
}
