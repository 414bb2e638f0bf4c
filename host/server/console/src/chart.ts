// Charts, by uPlot.

import uPlot from "uplot";

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

/** The color of a variable of the style sheet, which has one for light and one for dark pages. */
function resolved(place: HTMLElement, name: string): string {
  place.style.color = `var(${name})`;
  const { color } = getComputedStyle(place);
  place.style.color = "";
  return color;
}

/** A line for each series over the same times, in seconds, with axes, in the colors of those names. It fills the width of its place. */
export function timeLines(place: HTMLElement, at: number[], series: (number | null)[][], colors: string[]): Line {
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
    axes: [axis, axis],
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
