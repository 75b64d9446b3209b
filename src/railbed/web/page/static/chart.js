// One chart: uPlot draws its axes and the cursor that all charts share; lines and marks are painted on its canvas.

import { kindColour, variable } from "./colours.js";
import { clock, format, label, ticks } from "./format.js";
import { Lines } from "./lines.js";
import { COARSE, FINE, paintLines, paintMarks } from "./paint.js";

const SHARED = "railbed";
const MOST_VALUES = 5;
const AXIS = 76;
// Room for the half of the last time on the axis.
const RIGHT = 26;
const moves = (type) => type === "mousemove" || type === "mouseleave";

export class Chart {
  // `page` has the view, the series, the marks and the colours.
  constructor(about, page) {
    Object.assign(this, { about, page, lines: new Lines(), plot: null, visible: false, near: false, stale: true, caption: "" });
    this.figure = document.createElement("figure");
    this.figure.innerHTML = '<figcaption><h3></h3><span class="peak">loading …</span><span class="values"></span></figcaption><div class="plot"></div>';
    [this.peak, this.values] = this.figure.querySelectorAll(".peak, .values");
    this.box = this.figure.querySelector(".plot");
    this.figure.querySelector("h3").textContent = about.title;
    this.figure.dataset.chart = about.name;
    // Reading a size while drawing would make the browser lay out the page for every chart of every frame.
    this.width = this.height = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (!contentRect.height) return;
      ({ width: this.width, height: this.height } = contentRect);
      this.draw(false);
    }).observe(this.box);
  }

  name(number) { return label(this.page.series[number], this.about, this.page.about.parts); }
  take(answer, grid) {
    this.lines.replace(answer, grid);
    this.stale = false;
    this.draw(true);
  }

  // Returns false if a series is not in the chart yet: it has to be read again.
  add(number, times, values) {
    return this.lines.add(number, times, values) || (this.about.quiet && !values.some((value) => value));
  }

  draw(describe) {
    if (this.stale || !(this.visible || (this.near && describe))) return;
    const { start, end } = this.page.view;
    const range = this.lines.range(start, end);
    // Also before it is in sight: a chart that collapses there would move what is being read.
    const flat = this.lines.all.size === 0 || range.high === -Infinity;
    if (flat !== this.flat) this.box.classList.toggle("flat", this.flat = flat);
    if (!this.visible) return;
    if (describe) this.describe(range);
    if (flat || this.width < 50) return;
    this.plot ??= this.create();
    if (this.plot.width !== this.width || this.plot.height !== this.height) this.plot.setSize({ width: this.width, height: this.height });
    const [bottom, top] = span(range, this.about.unit);
    this.plot.batch(() => {
      this.plot.setScale("x", { min: start, max: end });
      this.plot.setScale("y", { min: bottom, max: top });
    });
  }

  // What the chart shows, in words.
  describe({ high, where, when }) {
    const { lines, about } = this;
    const drawn = lines.all.size, hidden = lines.members - drawn;
    let text = "no samples here";
    if (where !== null) text = `peak ${format(high, about.unit)}, ${this.name(where)}, ${clock(when)}`;
    else if (drawn === 0 && lines.members) text = lines.members === 1 ? "0 throughout" : `0 in all ${lines.members} series`;
    if (drawn && hidden > 0) text += about.quiet ? `; ${hidden} more at 0` : `; ${hidden} more not drawn: use the filters`;
    if (text !== this.caption) {
      this.caption = this.peak.textContent = text;
      this.box.setAttribute("role", "img");
      this.box.setAttribute("aria-label", `${about.title}: ${text}`);
    }
  }

  // The largest values at a time; without a cursor the last ones of what is in progress.
  read(time) {
    if (!this.visible || this.stale) return;
    const { unit } = this.about;
    const reach = Math.max(15, (this.page.view.end - this.page.view.start) / 50);
    const entries = [], { generation } = this.page;
    let earlier = 0;
    for (const [number, line] of this.lines.all) {
      if (time === null && this.lines.endsBefore(line, generation)) { earlier += 1; continue; }
      const value = time === null ? [line.last, line.last] : this.lines.at(line, time, reach);
      if (value && value[1] === value[1]) entries.push([value[1], value[0], number]);
    }
    entries.sort((a, b) => b[0] - a[0]);
    const nodes = entries.slice(0, MOST_VALUES).map(([high, low, number]) => {
      const node = document.createElement("span");
      const swatch = document.createElement("i");
      swatch.className = "swatch";
      swatch.style.background = this.page.colourOf(number);
      const shown = [format(low, unit), format(high, unit)];
      node.append(swatch, `${this.name(number)} ${[...new Set(shown)].join(" to ")}`);
      return node;
    });
    if (entries.length > MOST_VALUES) nodes.push(`… ${entries.length - MOST_VALUES} more`);
    if (earlier) nodes.push(`${earlier} ended earlier`);
    this.values.replaceChildren(...nodes);
  }

  create() {
    const { page, about } = this;
    const text = () => variable("--soft"), grid = { stroke: () => variable("--grid"), width: 1 };
    const axis = { stroke: text, grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const { start, end } = page.view;
    return new uPlot({
      width: this.width, height: this.height, padding: [11, RIGHT, 0, 0], legend: { show: false },
      scales: { x: { time: true, auto: false }, y: { auto: false } },
      series: [{}, { show: true, points: { show: false }, paths: () => null }],
      axes: [{ ...axis, size: 26, space: (plot) => (plot.width < 500 ? 55 : 90), values: (_, times, __, ___, step) => ticks(times, step) }, { ...axis, size: AXIS, space: 30, values: (_, ticks) => ticks.map((tick) => format(tick, about.unit)) }],
      cursor: {
        y: false, points: { show: false }, drag: { x: true, y: false, setScale: false },
        // The other charts follow the cursor; a drag belongs to the chart in which it began.
        sync: { key: SHARED, filters: { pub: moves, sub: moves } }, bind: { dblclick: () => () => page.reset() },
      },
      hooks: {
        draw: [(plot) => {
          paintMarks(plot, page.shownMarks, kindColour);
          paintLines(plot, this.lines, (number) => page.colourOf(number), page.moving ? COARSE : FINE);
        }],
        setCursor: [(plot) => this.hovered(plot)],
        setSelect: [(plot) => {
          const { left, width } = plot.select;
          if (width < 4) return;
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          page.show(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
        }],
      },
    }, [[start, end], [null, null]], this.box);
  }

  hovered(plot) {
    if (plot.cursor.event === undefined && !this.box.matches(":hover")) return;
    const { left } = plot.cursor;
    this.page.point(left >= 0 ? plot.posToVal(left, "x") : null);
  }

  point(time) {
    if (!this.plot || !this.visible || this.box.matches(":hover")) return;
    this.plot.setCursor({ left: time === null ? -10 : this.plot.valToPos(time, "x"), top: time === null ? -10 : 5 }, false, false);
  }

  // With other colours or marks, also what is not in sight.
  redraw() { if (!this.stale) this.plot?.redraw(false, true); }
}

// The values of the axis: from zero for what cannot be negative, unless it hardly varies, as a loss.
const span = ({ low, high }, unit) => {
  if (unit === "share" && high <= 1 && high > 0.3) return [0, 1.02];
  if (unit !== "nat" && unit !== "°C" && unit !== "MHz") return [Math.min(0, low), high > 0 ? high * 1.08 : 1];
  const room = (high - low) * 0.08 || Math.abs(high) * 0.05 || 1;
  return [low - room, high + room];
};
