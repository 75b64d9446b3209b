// A colour for each device, the same in all charts; readable on light and dark.

const HUES = [210, 28, 145, 350, 275, 185, 55, 320];
const LEVELS = { light: [42, 30, 52], dark: [66, 78, 54] };
export const KINDS = {
  fault: ["#c62828", "#ff8a80"],
  lost: ["#c62828", "#ff8a80"],
  error: ["#c62828", "#ff8a80"],
  restart: ["#b35900", "#ffb45e"],
  pause: ["#7b1fa2", "#d79bf0"],
  gap: ["#6b7580", "#9aa5b1"],
  clock: ["#6b7580", "#9aa5b1"],
  traffic: ["#b35900", "#ffb45e"],
  checkpoint: ["#2e7d32", "#81c784"],
  notice: ["#1565c0", "#79b4f2"],
};
const dark = matchMedia("(prefers-color-scheme: dark)");
// Asked for in every frame: computing a style there would cost more than the lines.
const cache = new Map();
const remember = (key, compute) => {
  if (!cache.has(key)) cache.set(key, compute());
  return cache.get(key);
};

export const onScheme = (callback) => dark.addEventListener("change", () => { cache.clear(); callback(); });
export const kindColour = (kind) => remember(kind, () => (KINDS[kind] ?? KINDS.notice)[dark.matches ? 1 : 0]);
export const variable = (name) => remember(name, () => getComputedStyle(document.documentElement).getPropertyValue(name).trim());

export const deviceColour = (index) => remember(index, () => {
  const level = LEVELS[dark.matches ? "dark" : "light"][Math.floor(index / HUES.length) % 3];
  return `hsl(${HUES[index % HUES.length]} 68% ${level}%)`;
});
