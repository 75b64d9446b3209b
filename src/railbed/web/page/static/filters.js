// Which devices, ports, queues and kinds of events are shown.

import { deviceColour, kindColour } from "./colours.js";

const choice = (name, colour, checked) => {
  const line = document.createElement("label");
  const box = Object.assign(document.createElement("input"), { type: "checkbox", value: name, checked });
  const swatch = Object.assign(document.createElement("i"), { className: "swatch" });
  swatch.style.background = colour;
  line.append(box, swatch, name);
  return line;
};

const fill = (select, values) => {
  const chosen = select.value;
  const options = ["", ...values].map((value) => Object.assign(document.createElement("option"), { value, textContent: value || "all" }));
  select.replaceChildren(...options);
  select.value = values.includes(chosen) ? chosen : "";
  select.closest("label").hidden = values.length === 0;
};

const natural = (a, b) => a.localeCompare(b, "en", { numeric: true });
const distinct = (values) => [...new Set(values)].filter((value) => value !== "").sort(natural);

export class Filters {
  constructor(onFilter, onKinds) {
    this.devices = [];
    this.kinds = [];
    this.form = document.querySelector("#filters");
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", (event) => (event.target.closest("#kinds") ? onKinds() : onFilter()));
  }

  // `parted` has the meters whose part is a priority or a queue.
  // `earlier` are nodes that are gone.
  offer(series, marks, parted, earlier) {
    this.boxes("devices", distinct(series.map(([device]) => device)), (_, index) => deviceColour(index), false);
    this.setApart(earlier);
    this.boxes("kinds", distinct(marks.map(([, kind]) => kind)), kindColour, true);
    fill(document.querySelector("#port"), distinct(series.map(([, , port]) => port)));
    fill(document.querySelector("#part"), distinct(series.filter(([, meter]) => parted.has(meter)).map(([, , , part]) => part)));
  }

  boxes(id, names, colourOf, checked) {
    if (names.join() === this[id].join()) return;
    const before = new Map([...this.form.querySelectorAll(`#${id} input`)].map((box) => [box.value, box.checked]));
    this[id] = names;
    const legend = document.querySelector(`#${id} legend`);
    const fields = names.map((name, index) => choice(name, colourOf(name, index), before.get(name) ?? checked));
    document.querySelector(`#${id}`).replaceChildren(legend, ...fields);
    document.querySelector(`#${id}`).hidden = names.length === 0;
  }

  // Their boxes stay, in a part that is closed until it is needed.
  setApart(names) {
    const fieldset = document.querySelector("#devices");
    const part = fieldset.querySelector("details") ?? Object.assign(document.createElement("details"), { className: "earlier" });
    const labels = [...fieldset.querySelectorAll("label")].sort((a, b) => natural(a.textContent, b.textContent));
    const summary = Object.assign(document.createElement("summary"), { textContent: `Earlier (${names.length})` });
    part.replaceChildren(summary, ...labels.filter((label) => names.includes(label.textContent)));
    const present = labels.filter((label) => !names.includes(label.textContent));
    fieldset.replaceChildren(fieldset.querySelector("legend"), ...present, ...(names.length ? [part] : []));
  }

  recolour() {
    for (const [id, colourOf] of [["devices", (name) => deviceColour(this.devices.indexOf(name))], ["kinds", kindColour]]) {
      for (const box of this.form.querySelectorAll(`#${id} input`)) box.nextElementSibling.style.background = colourOf(box.value);
    }
  }

  checked(id) { return [...this.form.querySelectorAll(`#${id} input:checked`)].map((box) => box.value); }

  // For a request: what is not restricted is left out.
  get chosen() {
    const filter = { device: this.checked("devices") };
    for (const name of ["port", "part"]) {
      const { value } = document.querySelector(`#${name}`);
      if (value !== "") filter[name] = value;
    }
    return filter;
  }

  get hiddenKinds() {
    const shown = new Set(this.checked("kinds"));
    return new Set(this.kinds.filter((kind) => !shown.has(kind)));
  }
}
