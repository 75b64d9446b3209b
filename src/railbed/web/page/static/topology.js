// Nodes, switches and links; wide and warm lines are busy.

import { links } from "./api.js";
import { variable } from "./colours.js";
import { format } from "./format.js";

const NS = "http://www.w3.org/2000/svg";
const BUSY = [[0.8, "#c62828"], [0.5, "#e07b00"], [0.2, "#c9a400"], [0.02, "#3b8f5a"]];
const NARROWEST = 300, ROW = 90, BOX = 84, HIGH = 30, MOST_ROWS = 12;

const make = (name, attributes, parent) => {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent?.append(node);
  return node;
};

export class Topology {
  constructor(about) {
    this.about = about;
    this.section = document.querySelector("#topology");
    this.section.hidden = !about || about.links.length === 0;
    this.lines = [];
  }

  get open() { return !this.section.hidden && this.section.open; }

  // Rows of nodes that fit, half of them above the switches and half below.
  draw(wide) {
    const { nodes, switches } = this.about;
    const most = Math.max(2, Math.floor(wide / (BOX + 8)));
    const count = Math.ceil(nodes.length / most), each = Math.ceil(nodes.length / (nodes.length > 8 ? Math.max(2, count) : count));
    const rows = [];
    for (let first = 0; first < nodes.length; first += each) rows.push(nodes.slice(first, first + each));
    rows.splice(Math.ceil(rows.length / 2), 0, switches);
    const places = new Map();
    rows.forEach((row, level) => row.forEach((name, index) => {
      places.set(name, [((index + 0.5) * wide) / row.length, (level + 0.5) * ROW]);
    }));
    const picture = make("svg", { viewBox: `0 0 ${wide} ${rows.length * ROW}`, role: "img" });
    const drawn = new Map();
    this.lines = this.about.links.map(([node, port, peer, peerPort]) => {
      const [x1, y1] = places.get(node), [x2, y2] = places.get(peer) ?? [wide / 2, ROW];
      const all = this.about.links.filter(([other, , target]) => other === node && target === peer).length;
      const turn = drawn.get(`${node} ${peer}`) ?? 0;
      drawn.set(`${node} ${peer}`, turn + 1);
      const shift = (turn - (all - 1) / 2) * 16;
      const line = make("line", { x1: x1 + shift, y1, x2: x2 + shift, y2 }, picture);
      make("title", {}, line).textContent = `${node}/${port} – ${peer} ${peerPort}`;
      return line;
    });
    const width = Math.min(BOX, (wide / Math.max(...rows.map((row) => row.length))) * 0.92);
    for (const [name, [x, y]] of places) {
      make("rect", { x: x - width / 2, y: y - HIGH / 2, width, height: HIGH, rx: switches.includes(name) ? 2 : 12 }, picture);
      const text = make("text", { x, y }, picture);
      text.textContent = name;
      if (name.length * 7.5 > width) text.setAttribute("textLength", width - 6);
    }
    this.picture = picture;
    this.wide = wide;
    document.querySelector("#map").replaceChildren(picture);
  }

  async update(start, end) {
    if (!this.open) return;
    const wide = Math.max(NARROWEST, document.querySelector("#map").clientWidth);
    if (wide !== this.wide) this.draw(wide);
    const rates = await links(start, end);
    const most = Math.max(1, ...rates.flatMap((pair) => pair.map((rate) => rate?.[0] ?? 0)));
    const rows = this.about.links.map(([node, port, peer, peerPort, rail, speed], index) => {
      const [sent, received] = rates[index];
      const mean = Math.max(sent?.[0] ?? 0, received?.[0] ?? 0);
      const share = speed ? mean / (speed * 1e9) : null;
      this.paint(this.lines[index], share ?? mean / most, sent || received);
      return { name: `${node}/${port} – ${peer}${peerPort ? ` ${peerPort}` : ""}${peer === rail ? "" : ` (${rail})`}`, sent, received, mean, share };
    }).sort((a, b) => b.mean - a.mean);
    const named = rows.slice(0, 3).map((row) => `${row.name} ${format(row.mean, "bit/s")}`);
    this.picture.setAttribute("aria-label", `${this.about.nodes.length} nodes, ${this.about.links.length} links; busiest: ${named.join(", ")}`);
    document.querySelector("#links tbody").replaceChildren(...rows.slice(0, MOST_ROWS).map(tableRow));
  }

  paint(line, share, measured) {
    const [, colour] = BUSY.find(([limit]) => share >= limit) ?? [0, variable("--line")];
    line.setAttribute("stroke", measured ? colour : variable("--line"));
    line.setAttribute("stroke-width", measured ? 1.5 + 7 * Math.min(1, share) : 1);
    line.setAttribute("stroke-dasharray", measured ? "none" : "3 4");
  }
}

const tableRow = ({ name, sent, received, share }) => {
  const row = document.createElement("tr");
  const texts = [name, ...[sent, received].flatMap((rate) => [format(rate?.[0], "bit/s"), format(rate?.[1], "bit/s")]), format(share, "share")];
  for (const text of texts) row.insertCell().textContent = text;
  return row;
};
