// What the server has, and the stream of what is new.

const query = (parameters) => {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const item of Array.isArray(value) ? value : [value]) search.append(name, item);
  }
  return search.toString();
};

const SILENT = "The server does not answer: it has ended, or the connection is lost. This page tries again until it answers.";

const read = async (path, parameters, signal) => {
  const response = await fetch(`/api/${path}?${query(parameters)}`, { signal }).catch((error) => {
    throw signal?.aborted ? error : new Error(SILENT);
  });
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
};

export const run = () => read("run", {});
export const drawn = (charts, filter, start, end, buckets, signal) =>
  read("drawn", { chart: charts, ...filter, start, end, buckets }, signal);
export const RETRY = 2000;
export const links = (start, end) => read("links", { start, end, buckets: 600 });

// Reconnects from where it stopped: `since` returns the time up to which points have arrived.
export class Live {
  constructor(onPoints, onEnded, onConnection) {
    Object.assign(this, { onPoints, onEnded, onConnection, source: null, charts: [], filter: {}, timer: 0 });
  }

  watch(charts, filter, since) {
    this.charts = charts;
    this.filter = filter;
    this.since = since;
    this.close();
    if (charts.length) this.open();
  }

  open() {
    const source = new EventSource(`/api/live?${query({ chart: this.charts, ...this.filter, since: this.since() })}`);
    this.source = source;
    source.addEventListener("open", () => this.onConnection(true));
    source.addEventListener("points", (event) => this.onPoints(JSON.parse(event.data)));
    source.addEventListener("ended", () => { this.close(); this.onEnded(); });
    source.addEventListener("error", () => {
      // The browser would reconnect from the same time as before, and get the same points again.
      this.close();
      this.onConnection(false);
      this.timer = setTimeout(() => this.open(), RETRY);
    });
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }
}
