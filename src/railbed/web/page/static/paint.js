// Lines and marks on the canvas of a chart. Whatever the data, a line has at most two points for every two pixels,
// and for every six while the view moves.

export const FINE = 2, COARSE = 6;

export const paintLines = (plot, lines, colourOf, column) => {
  const { ctx, bbox } = plot;
  const { min, max } = plot.scales.x, { min: bottom, max: top } = plot.scales.y;
  const first = Math.max(0, lines.place(min) - 1), last = Math.min(lines.count - 1, lines.place(max) + 1);
  const perBucket = (bbox.width / (max - min)) * lines.width;
  const left = bbox.left + ((lines.start + lines.width / 2 - min) / (max - min)) * bbox.width;
  const perValue = bbox.height / (top - bottom), floor = bbox.top + bbox.height + bottom * perValue;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - 1, bbox.width, bbox.height + 2);
  ctx.clip();
  ctx.lineWidth = Math.max(1, devicePixelRatio);
  ctx.lineJoin = "bevel";
  ctx.setLineDash([]);
  for (const [number, line] of lines.all) {
    ctx.strokeStyle = colourOf(number);
    ctx.beginPath();
    trace(ctx, line, { first, last, left, perBucket, floor, perValue, column });
    ctx.stroke();
  }
  ctx.restore();
};

const trace = (ctx, { low, high, gap }, { first, last, left, perBucket, floor, perValue, column: wide }) => {
  let joined = false, column = -Infinity, lowest = 0, highest = 0, before = 0;
  const flush = () => {
    const x = column * wide + wide / 2;
    let near = floor - lowest * perValue, far = floor - highest * perValue;
    // The end that is closer to the previous column comes first: an edge is drawn once, not three times.
    if (Math.abs(far - before) < Math.abs(near - before)) [near, far] = [far, near];
    if (joined) ctx.lineTo(x, near);
    else {
      ctx.moveTo(x - 1, near);
      ctx.lineTo(x + 1, near);
    }
    if (Math.abs(near - far) >= 0.5) ctx.lineTo(x, far);
    before = far;
    joined = true;
  };
  for (let place = first; place <= last; place++) {
    const value = low[place];
    if (value !== value) {
      if (gap[place]) {
        if (column !== -Infinity) flush();
        column = -Infinity;
        joined = false;
      }
      continue;
    }
    const here = Math.floor((left + place * perBucket) / wide);
    if (here === column) {
      if (value < lowest) lowest = value;
      if (high[place] > highest) highest = high[place];
      continue;
    }
    if (column !== -Infinity) flush();
    column = here;
    lowest = value;
    highest = high[place];
  }
  if (column !== -Infinity) flush();
};

const DASHED = new Set(["gap", "clock", "checkpoint"]);

export const paintMarks = (plot, marks, colourOf) => {
  const { ctx, bbox } = plot, { min, max } = plot.scales.x;
  ctx.save();
  ctx.lineWidth = Math.max(1, devicePixelRatio);
  let before = -Infinity;
  for (const [time, kind] of marks) {
    if (time < min || time > max) continue;
    const x = Math.round(bbox.left + ((time - min) / (max - min)) * bbox.width) + 0.5;
    if (x - before < 2 && DASHED.has(kind)) continue;
    before = x;
    ctx.strokeStyle = ctx.fillStyle = colourOf(kind);
    ctx.globalAlpha = DASHED.has(kind) ? 0.5 : 0.9;
    ctx.setLineDash(DASHED.has(kind) ? [3, 4] : []);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillRect(x - 2.5, bbox.top - 4, 5, 5);
  }
  ctx.restore();
};
