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
