// The page: one time axis for all charts, read from the server and followed while the run goes on.

import * as api from "./api.js";
import { Chart } from "./chart.js";
import { deviceColour, kindColour } from "./colours.js";
import { Filters } from "./filters.js";
import { clock, day, duration, markText } from "./format.js";
import { Topology } from "./topology.js";

const AT_ONCE = 6;
const SETTLED = 120;
const LIVE_SPAN = 300;
const SHORTEST = 0.5;
// When a restart has just been reported, it is not known yet which nodes stay silent.
const SILENCE = 35000;
export const find = (selector) => document.querySelector(selector);

export class Page {
  constructor() {
    this.charts = new Map();
    this.series = [];
    this.marks = [];
    this.restarts = [];
    this.view = { start: 0, end: 1 };
    this.follow = false;
    this.reading = null;
    this.frame = 0;
    this.cursor = null;
    this.inSight = new IntersectionObserver((entries) => this.onVisible(entries));
    this.inReach = new IntersectionObserver((entries) => this.onNear(entries), { rootMargin: "300px" });
    this.lost = false;
    this.moving = false;
    this.filters = new Filters(() => this.onFilter(), () => this.onKinds());
    this.live = new api.Live((news) => this.onNews(news), () => this.update(), (connected) => this.onConnection(connected));
    // For measurements: what a redraw of all visible charts costs.
    this.redraws = [];
  }

  async start() {
    if (typeof uPlot === "undefined") {
      this.complain("The charts are missing, because this railbed was built without uPlot: reinstall it with a network connection, or run `python -m tools.uplot` in a clone.");
      return;
    }
    await this.refreshRun();
    if (this.about.live) this.followLive();
    else this.show(this.about.start, this.about.end);
    document.documentElement.dataset.ready = "yes";
  }

  // The run, its charts and its marks; also when series appear, and when it has ended.
  async refreshRun() {
    this.about = await api.run();
    this.series = this.about.series;
    this.marks = this.about.marks;
    this.restarts = restartsIn(this.marks);
    find("#loading").hidden = true;
    find("#run").textContent = `${this.about.run} · ${this.about.cluster}`;
    document.title = `${this.about.run} · railbed watch`;
    this.layOut();
    this.topology ??= new Topology(this.about.topology);
    this.showMarks();
    this.follow &&= this.about.live;
    this.showState();
    if (this.about.live) this.listen();
    else this.live.close();
    this.complain(this.about.charts.length ? "" : this.about.live ? "This run has no samples yet: they appear here as soon as they arrive." : "This run has no samples and no training steps.");
    if (!this.about.charts.length && this.about.live) this.updateLater();
    this.invalidate();
  }

  update() {
    this.refreshRun().catch((error) => {
      this.complain(error.message);
      this.updateLater();
    });
  }

  updateLater() {
    clearTimeout(this.updating);
    this.updating = setTimeout(() => this.update(), api.RETRY);
  }

  layOut() {
    const root = find("#charts");
    const parted = new Set(Object.keys(this.about.parts).filter((meter) => ["priority", "queue"].includes(this.about.parts[meter])));
    this.filters.offer(this.series, this.marks, parted, this.about.earlier);
    this.devices = new Map(this.filters.devices.map((name, index) => [name, index]));
    this.places = new Map([...new Set(this.series.map(([, , port, part]) => `${port} ${part}`))].map((place, index) => [place, index]));
    for (const about of this.about.charts) {
      if (this.charts.has(about.name)) continue;
      const chart = new Chart(about, this);
      this.charts.set(about.name, chart);
      this.groupOf(root, about.group).append(chart.figure);
      this.inSight.observe(chart.figure);
      this.inReach.observe(chart.figure);
    }
  }

  groupOf(root, name) {
    let group = root.querySelector(`[data-group="${name}"]`);
    if (group) return group;
    group = document.createElement("details");
    group.dataset.group = name;
    group.open = name !== "more";
    group.innerHTML = "<summary><h2></h2></summary>";
    group.querySelector("h2").textContent = this.about.groups[name];
    const order = Object.keys(this.about.groups);
    const after = [...root.children].find((other) => order.indexOf(other.dataset.group) > order.indexOf(name));
    root.insertBefore(group, after ?? null);
    return group;
  }

  // Of its device; if there is only one, of its port, priority, rank or GPU.
  colourOf(number) {
    const [device, , port, part] = this.series[number];
    return deviceColour((this.devices.size === 1 ? this.places.get(`${port} ${part}`) : this.devices.get(device)) ?? 0);
  }

  // --- the time axis ---

  show(start, end, follow = false) {
    const total = Math.max(this.about.end - this.about.start, 10);
    const span = Math.min(Math.max(end - start, SHORTEST), total * 1.2);
    const middle = (start + end) / 2;
    this.view = { start: middle - span / 2, end: middle + span / 2 };
    this.follow = follow && this.about.live;
    this.span = span;
    find('[data-action="follow"]').setAttribute("aria-pressed", String(this.follow));
    this.moving = true;
    this.schedule();
    this.settle();
  }

  reset() { this.show(this.about.start, this.about.end); }

  followLive() {
    this.show(this.about.end - LIVE_SPAN, this.about.end, true);
    this.span = LIVE_SPAN;
    this.view = this.latest();
  }

  // The end of a run in progress: all of it, until it is longer than the part that is followed.
  latest() {
    const { start, end } = this.about;
    return { start: Math.max(end - this.span, Math.min(start, end - 10)), end };
  }

  zoom(factor, at = (this.view.start + this.view.end) / 2) {
    const { start, end } = this.view;
    if (this.follow) this.show(end - (end - start) * factor, end, true);
    else this.show(at - (at - start) * factor, at + (end - at) * factor);
  }

  pan(share) {
    const by = (this.view.end - this.view.start) * share;
    this.show(this.view.start + by, this.view.end + by);
  }

  jump(direction) {
    const middle = (this.view.start + this.view.end) / 2;
    const later = this.shownMarks.filter(([time]) => (time - middle) * direction > 0.05);
    const mark = direction > 0 ? later[0] : later.at(-1);
    if (mark) this.centre(mark[0]);
  }

  centre(time) {
    const half = Math.min((this.view.end - this.view.start) / 2, 60);
    this.show(time - half, time + half);
    this.point(time);
  }

  // --- drawing: at most once per frame, and only what is on the screen ---

  schedule(describe = false) {
    this.describing ||= describe;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      const began = performance.now();
      for (const chart of this.charts.values()) chart.draw(this.describing);
      this.describing = false;
      queueMicrotask(() => { this.redraws.push(performance.now() - began); if (this.redraws.length > 2000) this.redraws.shift(); });
    });
  }

  // Once the view rests: read it at its own resolution.
  settle() {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      this.moving = false;
      this.schedule(true);
      this.invalidate();
      this.updateMap();
    }, SETTLED);
  }

  updateMap() { this.topology?.update(this.view.start, this.view.end).catch(() => {}); }

  invalidate() {
    clearTimeout(this.retrying);
    this.reading?.abort();
    this.reading = new AbortController();
    for (const chart of this.charts.values()) chart.wanted = true;
    this.read();
  }

  // The buckets lie on a grid that does not move with the view, so that a line keeps its shape while it moves.
  grid() {
    const { start, end } = this.view;
    const span = end - start, width = span / Math.max(60, Math.round((find("#charts").clientWidth - 90) / 3));
    const margin = span / 2;
    const first = Math.floor((start - margin) / width), last = Math.ceil((end + (this.follow ? 0 : margin)) / width) + 1;
    return { start: first * width, end: last * width, buckets: Math.min(last - first, 2000) };
  }

  async read() {
    const { signal } = this.reading;
    const grid = this.grid();
    for (;;) {
      const wanted = [...this.charts.values()].filter((chart) => chart.near && chart.wanted).slice(0, AT_ONCE);
      if (!wanted.length || signal.aborted) return;
      for (const chart of wanted) chart.wanted = false;
      try {
        const answer = await api.drawn(wanted.map((chart) => chart.about.name), this.filters.chosen, grid.start, grid.end, grid.buckets, signal);
        for (const chart of wanted) chart.take(answer.charts[chart.about.name], grid);
        for (const chart of wanted) chart.read(this.cursor);
        this.complain("");
      } catch (error) {
        if (signal.aborted) return;
        this.complain(error.message);
        for (const chart of wanted) chart.wanted = true;
        clearTimeout(this.retrying);
        this.retrying = setTimeout(() => this.read(), api.RETRY);
        return;
      }
    }
  }

  onVisible(entries) {
    for (const { target, isIntersecting } of entries) {
      const chart = this.charts.get(target.dataset.chart);
      chart.visible = isIntersecting;
      chart.draw(true);
      chart.read(this.cursor);
    }
  }

  // Only charts in sight, or nearly, get new points: one that comes closer has to be read again.
  onNear(entries) {
    for (const { target, isIntersecting } of entries) {
      const chart = this.charts.get(target.dataset.chart);
      chart.near = isIntersecting;
      chart.wanted ||= isIntersecting;
    }
    if (this.reading) this.read();
    clearTimeout(this.listening);
    if (this.about?.live) this.listening = setTimeout(() => this.listen(), SETTLED);
  }

  // --- what is new ---

  listen() {
    const names = [...this.charts.values()].filter((chart) => chart.near).map((chart) => chart.about.name);
    // With nothing in sight, one chart still brings the news about series and events.
    if (!names.length) names.push(...[...this.charts.keys()].slice(0, 1));
    // Samples arrive late, and taking the same one twice changes nothing.
    this.live.watch(names, this.filters.chosen, () => this.about.end - 10);
  }

  // A server that has been started again may have other series.
  onConnection(connected) {
    const returned = connected && this.lost;
    this.lost = !connected;
    this.showState();
    if (returned) this.update();
  }

  onNews({ end, points = [], marks, series }) {
    if (series !== undefined && series !== this.series.length) this.update();
    if (marks) { this.marks = marks; this.layOut(); this.showMarks(); this.onRestart(); }
    this.about.end = Math.max(this.about.end, end);
    for (const [number, times, values] of points) {
      for (const chart of this.charts.values()) {
        if (chart.stale || !chart.about.meters.includes(this.series[number]?.[1])) continue;
        if (!chart.add(number, times, values)) chart.wanted = true;
      }
    }
    if (this.follow) {
      this.view = this.latest();
      if (this.charts.size && [...this.charts.values()].some((chart) => !chart.stale && chart.lines.count > 4000)) this.invalidate();
    }
    this.schedule(true);
    if (this.cursor === null) for (const chart of this.charts.values()) chart.read(null);
    if (this.reading) this.read();
    if (!(this.mapped > Date.now() - 5000)) {
      this.mapped = Date.now();
      this.updateMap();
    }
    document.documentElement.dataset.points = String(Number(document.documentElement.dataset.points ?? 0) + points.length);
  }

  // Nodes may be gone: now, or once they have been silent for a while.
  onRestart() {
    const restarts = restartsIn(this.marks);
    if (restarts.length > this.restarts.length) for (const wait of [0, SILENCE]) setTimeout(() => this.update(), wait);
    this.restarts = restarts;
  }

  // When the generation began that is the last one in view; lines that ended before it are of earlier ones.
  get generation() { return this.restarts.findLast((time) => time <= this.view.end) ?? -Infinity; }

  onFilter() {
    if (this.about.live) this.listen();
    this.invalidate();
  }

  // --- words ---

  get shownMarks() { return this.visibleMarks ?? []; }

  onKinds() {
    this.showMarks();
    for (const chart of this.charts.values()) chart.redraw();
  }

  showMarks() {
    const hidden = this.filters.hiddenKinds;
    this.visibleMarks = this.marks.filter(([, kind]) => !hidden.has(kind));
    find("#events h2").textContent = `Events (${this.visibleMarks.length})`;
    const items = this.visibleMarks.slice(-500).reverse().map((mark) => {
      const [time, kind] = mark;
      const button = Object.assign(document.createElement("button"), { type: "button" });
      const name = Object.assign(document.createElement("span"), { className: "kind", textContent: kind });
      name.style.color = kindColour(kind);
      button.append(`${clock(time)} `, name, ` ${markText(mark)}`);
      button.addEventListener("click", () => this.centre(time));
      const item = document.createElement("li");
      item.append(button);
      return item;
    });
    find("#marks").replaceChildren(...items);
  }

  showState() {
    const { live, status, start, end } = this.about;
    find('[data-action="follow"]').hidden = !live;
    const state = find("#state");
    state.classList.toggle("live", live && !this.lost);
    const length = `${day(start)} ${clock(start)}, ${duration(end - start)}`;
    state.textContent = live ? (this.lost ? "connection lost, trying again" : "live") : `${status} · ${length}`;
  }

  complain(text) {
    if (text) find("#loading").hidden = true;
    find("#problem").textContent = text;
    find("#problem").hidden = !text;
  }

  // The cursor of all charts.
  point(time) {
    this.cursor = time;
    this.pointing ||= requestAnimationFrame(() => {
      this.pointing = 0;
      for (const chart of this.charts.values()) {
        chart.point(this.cursor);
        chart.read(this.cursor);
      }
      find("#cursor").textContent = this.cursor === null ? "" : this.words(this.cursor);
    });
  }

  words(time) {
    const near = (this.view.end - this.view.start) / 120;
    const marks = this.shownMarks.filter(([when]) => Math.abs(when - time) < near).slice(0, 2);
    return [clock(time, this.view.end - this.view.start < 60), ...marks.map((mark) => `${mark[1]} ${markText(mark)}`)].join(" · ");
  }
}

const restartsIn = (marks) => marks.filter(([, kind]) => kind === "restart").map(([time]) => time);
