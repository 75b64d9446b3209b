// Numbers and times as people read them.

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

const digits = (value) => {
  const size = Math.abs(value);
  if (size >= 99.95 || size === 0) return value.toFixed(0);
  if (size >= 9.995) return value.toFixed(1);
  if (size >= 0.0995) return value.toFixed(2);
  return String(Number(value.toPrecision(2)));
};

const prefixed = (value) => {
  for (const [size, prefix] of PREFIXES) if (Math.abs(value) >= size * 0.9995) return [value / size, prefix];
  return [value, ""];
};

export const format = (value, unit) => {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (unit === "share") return `${digits(value * 100)} %`;
  if (unit === "s" && Math.abs(value) < 0.9995) {
    return value === 0 ? "0 s" : Math.abs(value) < 0.0009995 ? `${digits(value * 1e6)} µs` : `${digits(value * 1e3)} ms`;
  }
  if (["bit/s", "B", "W"].includes(unit)) {
    const [scaled, prefix] = prefixed(value);
    return `${digits(scaled)} ${prefix}${unit}`;
  }
  if (unit === "1/s") {
    const [scaled, prefix] = prefixed(value);
    return `${digits(scaled)}${prefix} /s`;
  }
  return unit === "nat" ? digits(value) : `${digits(value)} ${unit}`;
};

const two = (value) => String(value).padStart(2, "0");

export const clock = (seconds, fine = false) => {
  const date = new Date(seconds * 1000);
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return fine ? `${text}.${Math.floor(date.getMilliseconds() / 100)}` : text;
};

export const day = (seconds) => {
  const date = new Date(seconds * 1000);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
};

export const duration = (seconds) => {
  if (seconds < 90) return `${digits(seconds)} s`;
  if (seconds < 5400) return `${digits(seconds / 60)} min`;
  return seconds < 172800 ? `${digits(seconds / 3600)} h` : `${digits(seconds / 86400)} days`;
};

// `node1/eth1 priority 3`: the device, its port, and the number of its part with what it numbers.
export const label = ([device, meter, port, part], chart, parts) => {
  const several = chart.meters.length > 1 ? ` ${meter.replaceAll("_", " ")}` : "";
  const word = { priority: "prio", gpu: "GPU" }[parts[meter]] ?? parts[meter] ?? "";
  return `${device}${port ? `/${port}` : ""}${part === "" ? "" : ` ${word} ${part}`}${several}`;
};

// What happened, and to whom unless the text begins with that.
export const markText = ([, , subject, text]) => (subject && !text.startsWith(subject) ? `${subject}: ${text}` : text);

// Times of an axis whose ticks are `step` seconds apart.
export const ticks = (times, step) => times.map((time) => {
  if (step >= 86400) return day(time).slice(5);
  return step >= 60 ? clock(time).slice(0, 5) : clock(time, step < 1);
});
