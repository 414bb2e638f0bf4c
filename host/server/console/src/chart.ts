// Charts, by uPlot.

import uPlot from "uplot";
import type { Language } from "./language";

export interface Line {
  update(at: number[], values: (number | null)[]): void;
  remove(): void;
}

/** A line without axes that fills its place. */
export function sparkline(place: HTMLElement): Line {
  const color = getComputedStyle(place).color;
  const width = () => Math.max(40, place.clientWidth);
  const options: uPlot.Options = {
    width: width(),
    height: 48,
    legend: { show: false },
    cursor: { show: false },
    select: { show: false, left: 0, top: 0, width: 0, height: 0 },
    axes: [{ show: false }, { show: false }],
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    series: [{}, { stroke: color, width: 1.5, fill: "transparent", points: { show: false } }],
  };
  const plot = new uPlot(options, [[], []], place);
  const resized = new ResizeObserver(() => plot.setSize({ width: width(), height: 48 }));
  resized.observe(place);
  return {
    update: (at, values) => plot.setData([at, values]),
    remove: () => {
      resized.disconnect();
      plot.destroy();
    },
  };
}

const DAY = 86_400;

/** Where a second, or a minute, is the first of a year, of a day, or of a minute. */
const OF_SECONDS = ["\n{YYYY}/{M}/{D} {H}:{mm}", null, "\n{M}/{D} {H}:{mm}", null, "\n{H}:{mm}", null, 1] as const;
const OF_MINUTES = ["\n{YYYY}/{M}/{D}", null, "\n{M}/{D}", null, null, null, 1] as const;

/** The labels of times in Japanese, by the distance of the ticks in seconds. The library has those in English. */
const JAPANESE_TIMES: uPlot.Axis.Values = [
  [365 * DAY, "{YYYY}年", null, null, null, null, null, null, 1],
  [28 * DAY, "{M}月", "\n{YYYY}年", null, null, null, null, null, 1],
  [DAY, "{M}/{D}", "\n{YYYY}年", null, null, null, null, null, 1],
  [60, "{H}:{mm}", ...OF_MINUTES],
  [1, ":{ss}", ...OF_SECONDS],
  [0.001, ":{ss}.{fff}", ...OF_SECONDS],
];

/** The space on the right in pixels, for half of the label of the last time. */
const LABEL = 28;

/** The color of a variable of the style sheet, which has one for light and one for dark pages. */
function resolved(place: HTMLElement, name: string): string {
  place.style.color = `var(${name})`;
  const { color } = getComputedStyle(place);
  place.style.color = "";
  return color;
}

/**
 * A line for each series over the same times, in seconds, with axes in a language, in the colors of those names. It fills the width of its
 * place.
 */
export function timeLines(place: HTMLElement, at: number[], series: (number | null)[][], colors: string[], language: Language): Line {
  const [text, line, ...strokes] = ["--muted", "--line", ...colors].map((name) => resolved(place, name));
  const axis: uPlot.Axis = { stroke: text!, grid: { stroke: line!, width: 1 }, ticks: { show: false } };
  const width = () => Math.max(40, place.clientWidth);
  const height = 200;
  const options: uPlot.Options = {
    width: width(),
    height,
    legend: { show: false },
    cursor: { show: false },
    select: { show: false, left: 0, top: 0, width: 0, height: 0 },
    axes: [language === "ja" ? { ...axis, values: JAPANESE_TIMES } : axis, axis],
    padding: [null, LABEL, null, null],
    series: [{}, ...series.map((_, index) => ({ stroke: strokes[index]!, width: 1.5, points: { show: at.length < 40 } }))],
  };
  const plot = new uPlot(options, [at, ...series], place);
  const resized = new ResizeObserver(() => plot.setSize({ width: width(), height }));
  resized.observe(place);
  return {
    update: (at, values) => plot.setData([at, values]),
    remove: () => {
      resized.disconnect();
      plot.destroy();
    },
  };
}
