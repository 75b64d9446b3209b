// The data of a chart: for every series the lowest and the highest value of each bucket, on one grid.

export class Lines {
  constructor() {
    this.start = 0;
    this.width = 1;
    this.count = 0;
    this.all = new Map();
    this.members = 0;
  }

  // Take over an answer of the server: null is a bucket between two samples, false is a gap.
  replace(answer, { start, end, buckets }) {
    this.start = start;
    this.width = (end - start) / buckets;
    this.count = buckets;
    this.members = answer.members;
    this.all = new Map(answer.series.map(([number, low, high]) => [number, this.line(low, high ?? low)]));
  }

  line(low, high) {
    const length = Math.max(64, low.length * 2);
    const line = { low: new Float64Array(length).fill(NaN), high: new Float64Array(length).fill(NaN), gap: new Uint8Array(length), last: NaN, until: -1 };
    for (let index = 0; index < low.length; index++) {
      if (low[index] === false) line.gap[index] = 1;
      else if (low[index] !== null) {
        line.low[index] = low[index];
        line.high[index] = high[index];
        line.last = high[index];
        line.until = index;
      }
    }
    return line;
  }

  // Add samples that arrived; return whether the series is drawn here.
  add(number, times, values) {
    const line = this.all.get(number);
    if (!line) return false;
    for (let index = 0; index < times.length; index++) {
      const place = Math.floor((times[index] - this.start) / this.width);
      if (place < 0) continue;
      if (place >= line.low.length) grow(line, place);
      this.count = Math.max(this.count, place + 1);
      put(line, place, values[index]);
    }
    return true;
  }

  // Whether a line has no values at or after a time: it is of ranks or nodes that are gone.
  endsBefore(line, time) { return this.start + (line.until + 1) * this.width < time; }

  end() { return this.start + this.count * this.width; }
  place(time) { return Math.floor((time - this.start) / this.width); }

  // The value at a time, or the last one before it that is not beyond a gap.
  at(line, time, reach) {
    let place = Math.min(this.place(time), this.count - 1);
    const first = Math.max(0, place - Math.ceil(reach / this.width));
    for (; place >= first; place--) {
      if (line.gap[place]) return null;
      if (line.low[place] === line.low[place]) return [line.low[place], line.high[place]];
    }
    return null;
  }

  // The lowest and highest value between two times, with the series and time of the highest.
  range(from, to) {
    const first = Math.max(0, this.place(from)), last = Math.min(this.count - 1, this.place(to));
    let low = Infinity, high = -Infinity, where = null, when = 0;
    for (const [number, line] of this.all) {
      const { low: lows, high: highs } = line;
      for (let place = first; place <= last; place++) {
        if (lows[place] < low) low = lows[place];
        if (highs[place] > high) { high = highs[place]; where = number; when = place; }
      }
    }
    return { low, high, where, when: this.start + (when + 0.5) * this.width };
  }
}

const put = (line, place, value) => {
  if (value === null) {
    if (line.low[place] !== line.low[place]) line.gap[place] = 1;
    return;
  }
  line.gap[place] = 0;
  line.last = value;
  line.until = Math.max(line.until, place);
  if (!(line.low[place] <= value)) line.low[place] = value;
  if (!(line.high[place] >= value)) line.high[place] = value;
};

const grow = (line, place) => {
  const length = Math.max(place + 1, line.low.length * 2);
  for (const name of ["low", "high"]) {
    const longer = new Float64Array(length).fill(NaN);
    longer.set(line[name]);
    line[name] = longer;
  }
  const gap = new Uint8Array(length);
  gap.set(line.gap);
  line.gap = gap;
};
