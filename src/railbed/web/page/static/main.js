// Buttons, keys and gestures of the page.

import { onScheme } from "./colours.js";
import { find, Page } from "./page.js";

const page = new Page();
window.railbed = page;

const actions = {
  left: () => page.pan(-0.25),
  right: () => page.pan(0.25),
  in: () => page.zoom(0.5),
  out: () => page.zoom(2),
  reset: () => page.reset(),
  follow: () => page.followLive(),
  previous: () => page.jump(-1),
  next: () => page.jump(1),
  back: () => page.point((page.cursor ?? page.view.end) - (page.view.end - page.view.start) / 200),
  forth: () => page.point((page.cursor ?? page.view.start) + (page.view.end - page.view.start) / 200),
  help: () => {
    const help = find("#help");
    help.hidden = !help.hidden;
    find('[data-action="help"]').setAttribute("aria-expanded", String(!help.hidden));
  },
};
const KEYS = { ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", 0: "reset", l: "follow", L: "follow", "[": "previous", "]": "next", ",": "back", ".": "forth", "?": "help" };

find(".bar").addEventListener("click", (event) => actions[event.target.dataset?.action]?.());
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  const action = actions[KEYS[event.key]];
  if (action) {
    event.preventDefault();
    action();
  }
});
find("#charts").addEventListener("wheel", (event) => {
  const box = event.target.closest(".u-over");
  if (!box || !(event.ctrlKey || event.shiftKey)) return;
  event.preventDefault();
  const { left, width } = box.getBoundingClientRect();
  const { start, end } = page.view;
  if (event.ctrlKey) page.zoom(Math.exp(event.deltaY / 400), start + ((event.clientX - left) / width) * (end - start));
  else page.pan((event.deltaY || event.deltaX) / 1000);
}, { passive: false });
addEventListener("resize", () => { page.schedule(); page.settle(); });
find("#topology").addEventListener("toggle", () => page.updateMap());
onScheme(() => {
  page.filters.recolour();
  page.showMarks();
  for (const chart of page.charts.values()) {
    chart.redraw();
    chart.read(page.cursor);
  }
  page.updateMap();
});
page.start().catch((error) => page.complain(error.message));
