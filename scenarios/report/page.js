"use strict";
// Figures drawn with Bokeh, tables that sort and filter, and the switch between light and dark.

const root = document.documentElement;
const shapes = {  // markers of the legend, on a square of 12
  circle: "M6 2a4 4 0 1 0 .01 0z", square: "M2.5 2.5h7v7h-7z", triangle: "M6 1.5l4.5 8.5h-9z",
  inverted_triangle: "M6 10.5l4.5-8.5h-9z", diamond: "M6 1l3.5 5-3.5 5-3.5-5z", hex: "M6 1.5l4 2.3v4.4l-4 2.3-4-2.3v-4.4z",
  star: "M6 1l1.2 3.5h3.7l-3 2.2 1.1 3.6-3-2.2-3 2.2 1.1-3.6-3-2.2h3.7z",
  plus: "M4.5 1.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z", x: "M2 2l8 8M10 2l-8 8", cross: "M6 1v10M1 6h10",
  asterisk: "M6 1v10M1.7 3.5l8.6 5M10.3 3.5l-8.6 5", y: "M6 6v5M6 6l-4.3-3M6 6l4.3-3",
};

const isDark = () =>
  root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const element = (tag, attributes = {}, text = "") => {
  const made = Object.assign(document.createElement(tag), attributes);
  if (text) made.textContent = text;
  return made;
};
const number = (value) => (value === null || value === undefined ? "" : String(Number(value.toPrecision(5))));
const count = (value) => value.toLocaleString("en");
const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const unbroken = (text) => text.replace(/(?<==) | (?==)/g, "\u00a0");  // no line ends inside of `rate = 1/2`
// Over one to two decades Bokeh's ticks are evenly spaced, and leave the lower decade without any.
const logTicks = (values) => {
  const seen = values.filter((value) => value > 0), [low, high] = [Math.min(...seen), Math.max(...seen)];
  if (!(high / low > 10 && high / low < 100)) return null;
  const first = Math.floor(Math.log10(low)) - 1, decades = Array.from({ length: 5 }, (_, k) => 10 ** (first + k));
  const times = (factors) => decades.flatMap((decade) => factors.map((factor) => factor * decade));
  return new Bokeh.FixedTicker({ ticks: times([1, 2, 5]), minor_ticks: times([3, 4, 6, 7, 8, 9]) });
};
const wrapped = (text, width = 18) => {  // at most three lines
  const lines = unbroken(text).match(new RegExp(`\\S.{0,${width - 1}}(?=[ \\n]|$)|\\S{1,${width}}`, "g")) ?? [text];
  return lines.slice(0, 3).map((line) => line.trim()).join("\n") + (lines.length > 3 ? "…" : "");
};
const plain = (text) => new Bokeh.PlainText({ text });  // TeX in a label would load a script from elsewhere

const FIRST = 6;  // panels after which a page is ready

// --- figures -------------------------------------------------------------------------------------

class Curves {
  constructor(place, figure) {
    this.place = place;
    this.figure = figure;
    this.hidden = new Set();
    this.drawn = false;
  }

  async draw() {
    const plots = this.place.querySelector(".plots");
    this.curves = this.figure.panels.map(() => []);
    this.dark = isDark();
    plots.replaceChildren();
    const made = this.panels();
    this.legend();
    this.place.classList.add("live");
    for (const name of this.hidden) this.toggle(name, false);
    this.made = made;
    await Bokeh.Plotting.show(made.slice(0, FIRST), plots);
    ready();
    for (const plot of made.slice(FIRST)) {
      await new Promise((next) => setTimeout(next));  // a click in between is answered
      if (this.made !== made) return;  // the theme was switched
      made[0].document.add_root(plot);
    }
    this.drawn = true;
  }

  panels() {
    const { x, y, panels } = this.figure;
    const all = panels.flatMap((panel) => panel.curves);
    const places = all.flatMap((curve) => curve.spots.x.concat(curve.theory.x));
    this.ends = x.words.length ? [-0.5, x.words.length - 0.5] : [Math.min(...places), Math.max(...places)];
    if (!places.length) this.ends = x.log ? [1, 10] : [0, 1];
    const xs = x.words.length ? new Bokeh.Range1d({ start: this.ends[0], end: this.ends[1] }) : new Bokeh.DataRange1d();
    const ys = y.limits ? new Bokeh.Range1d({ start: y.limits[0], end: y.limits[1] }) : new Bokeh.DataRange1d();
    return panels.map((panel, index) => this.panel(panel, index, xs, ys));
  }

  // An empty plot with its title, axes and tools.
  frame(panel, { x, y, ...options }) {
    const [ink, grid] = this.dark ? ["#d5d9de", "#3a4047"] : ["#333333", "#d9d9d9"];
    const plot = Bokeh.Plotting.figure({
      sizing_mode: "stretch_width", tools: "box_zoom,pan,wheel_zoom,reset,save", ...options,
      x_axis_type: x.log ? "log" : "linear", y_axis_type: y.log ? "log" : "linear", toolbar_location: "below",
      background_fill_color: null, border_fill_color: null, outline_line_color: null, min_border_right: 12,
    });
    plot.toolbar.logo = null;
    plot.toolbar.stylesheets = [":host { margin-top: 6px; }"];  // the marks of tools in use stay off the label above
    const zoom = plot.toolbar.tools.find((tool) => tool instanceof Bokeh.BoxZoomTool);
    plot.toolbar.active_drag = matchMedia("(pointer: coarse)").matches ? null : zoom;  // a finger scrolls the page
    if (panel.title) {
      const text = plain(wrapped(panel.title, this.figure.panels.length > 2 ? 34 : 46));
      plot.add_layout(new Bokeh.Title({ text, text_color: ink, text_font_size: "13px" }), "above");
    }
    for (const [axis, about] of [[plot.xaxes[0], x], [plot.yaxes[0], y]]) {
      axis.axis_label = plain(about.label);
      axis.axis_label_text_font_style = "normal";
      axis.axis_label_text_color = axis.major_label_text_color = ink;
      axis.axis_line_color = axis.major_tick_line_color = axis.minor_tick_line_color = ink;
      axis.axis_label_text_font_size = axis.major_label_text_font_size = "12px";
    }
    for (const one of [plot.xgrids[0], plot.ygrids[0]]) one.grid_line_color = grid;
    return plot;
  }

  panel(panel, index, x_range, y_range) {
    const { x, y } = this.figure, slanted = x.words.length > 5;
    const plot = this.frame(panel, { x, y, x_range, y_range, height: slanted ? 400 : 320 });
    if (y.log) plot.yaxes[0].major_label_policy = new Bokeh.NoOverlap();  // within a decade ticks are evenly spaced
    const ticker = y.log ? logTicks(this.figure.panels.flatMap((one) => one.curves.flatMap((curve) => curve.spots.y))) : null;
    if (ticker) plot.yaxes[0].ticker = plot.ygrids[0].ticker = ticker;
    const labels = x.words.length ? x.words.map((word, at) => [at, word]) : Object.entries(x.ticks);
    if (labels.length) {
      const ticks = labels.map(([at]) => Number(at)), between = ticks.slice(1).map((at) => at - 0.5);
      plot.xaxes[0].ticker = new Bokeh.FixedTicker({ ticks });
      plot.xgrids[0].ticker = new Bokeh.FixedTicker({ ticks: x.words.length ? between : ticks });
      const many = labels.length > 5;
      const names = labels.map(([at, word]) => [Number(at), plain(many ? short(word, 22) : wrapped(word))]);
      plot.xaxes[0].major_label_overrides = new Map(names);
      plot.xaxes[0].major_label_orientation = slanted ? 0.6 : 0;
    } else if (x.whole) {
      plot.xaxes[0].ticker.min_interval = 1;
    }
    const hovered = panel.curves.flatMap((curve) => this.curve(plot, curve, index));
    const counted = this.figure.counted;
    const rows = [["series", "$name"], [x.label, "@at"], [y.label, "@value"], ["interval", "@interval"]];
    if (counted) rows.push(["errors", "@counts"]);
    if (panel.curves.some(({ spots, levels }) => [spots, levels].some((one) => one.n && one.n[0] !== one.total?.[0]))) {
      rows.push(["trials", "@trials"]);
    }
    if (this.figure.seed !== null) rows.push(["seed", String(this.figure.seed)]);
    const tooltips = rows.map(([head, value]) => [head.replace(/[@${}]/g, ""), value]);
    plot.add_tools(new Bokeh.HoverTool({ tooltips, renderers: hovered, line_policy: "nearest" }));
    return plot;
  }

  // Columns of spots with the words of their tooltips.
  source(spots, x) {
    const { words, ticks } = this.figure.x;
    const at = (index) => spots[index] ?? [];
    const columns = { x, y: spots.y.map((y) => y ?? NaN), at: [], value: [], interval: [], counts: [], trials: [] };
    const floor = this.figure.y.log && this.figure.y.limits ? this.figure.y.limits[0] : -Infinity;
    columns.low = spots.y.map((_, i) => Math.max(at("low")[i] ?? NaN, floor));
    columns.high = spots.y.map((_, i) => at("high")[i] ?? NaN);
    spots.y.forEach((y, i) => {
      const [low, high, total, n] = [at("low")[i], at("high")[i], at("total")[i], at("n")[i]];
      columns.at.push(words.length && x[i] !== undefined ? words[Math.round(x[i])] : ticks[x[i]] ?? number(x[i]));
      columns.value.push(y === null ? "no error seen" : number(y));
      columns.interval.push(y === null ? `below ${number(high)}` : high == null ? "none" : `${number(low)} to ${number(high)}`);
      columns.counts.push(total == null ? "" : `${count(at("errors")[i])} of ${count(total)} ${this.figure.counted}s`);
      columns.trials.push(n && n !== total ? count(n) : "");
    });
    return new Bokeh.ColumnDataSource({ data: columns });
  }

  // Draws a curve; returns what the pointer may touch. The interval is hidden with its curve.
  curve(plot, curve, index) {
    const { bars, x, beside } = this.figure;
    const colour = curve.colour[Number(this.dark)], paper = this.dark ? "#15181c" : "#ffffff";
    const own = this.curves[index], touched = [], width = curve.width;
    const keep = (renderer) => { renderer.name = curve.label; own.push(renderer); return renderer; };
    const field = (name) => ({ field: name });
    if (curve.theory.x.length && !beside) {
      keep(plot.line(curve.theory.x, curve.theory.y, { color: colour, width: 1.1, line_dash: [5, 4] }));
    }
    if (curve.spots.x.length) {
      const source = this.source(curve.spots, curve.spots.x);
      const banded = (name) => source.data[name].some((value) => !Number.isNaN(value));
      if (banded("low") && bars) {
        keep(plot.segment(field("x"), field("low"), field("x"), field("high"), { source, color: colour, line_width: 1.2 }));
      } else if (banded("low")) {
        keep(plot.varea({ x: field("x"), y1: field("low"), y2: field("high"), source, fill_color: colour, fill_alpha: this.dark ? 0.24 : 0.16 }));
      }
      if (!x.words.length && !(bars && curve.theory.x.length)) {
        keep(plot.line(field("x"), field("y"), { source, color: colour, line_width: width, line_dash: curve.dash }));
      }
      const every = bars ? 1 : Math.max(Math.floor(curve.spots.x.length / 15), 1);
      const filter = new Bokeh.IndexFilter({ indices: curve.spots.x.map((_, i) => i).filter((i) => i % every === 0) });
      const face = curve.hollow ? null : colour, size = (curve.shape === "diamond" ? 9 : 6) + 1.2 * width;
      const marks = { source, size, marker: curve.shape, line_color: colour, fill_color: face, line_width: 1.4 };
      keep(plot.scatter(field("x"), field("y"), { ...marks, view: new Bokeh.CDSView({ filter }) }));
      touched.push(keep(plot.scatter(field("x"), field("y"), { source, size: 10, line_alpha: 0, fill_alpha: 0 })));
      const silent = curve.spots.y.flatMap((value, i) => (value === null ? [i] : []));
      if (silent.length) {  // an upper limit alone
        const view = new Bokeh.CDSView({ filter: new Bokeh.IndexFilter({ indices: silent }) });
        const arrow = { source, view, size: 7 + 3 * (curve.series % 4), marker: "inverted_triangle", line_color: colour, fill_color: paper };
        touched.push(keep(plot.scatter(field("x"), field("high"), arrow)));
      }
    }
    for (let i = 0; i < curve.levels.y.length; i++) {
      const level = Object.fromEntries(Object.entries(curve.levels).map(([name, values]) => [name, [values[i], values[i]]]));
      const source = this.source(level, this.ends);
      source.data = { ...source.data, at: ["every value", "every value"] };
      if (level.low?.[0] != null) {
        keep(plot.varea({ x: field("x"), y1: field("low"), y2: field("high"), source, fill_color: colour, fill_alpha: 0.12 }));
      }
      touched.push(keep(plot.line(field("x"), field("y"), { source, color: colour, line_width: width, line_dash: curve.dash })));
    }
    if (curve.theory.x.length && beside) {
      keep(plot.line(curve.theory.x, curve.theory.y, { color: this.dark ? "#eeeeee" : "#333333", width: 1.1, line_dash: [5, 4] }));
    }
    return touched;
  }

  legend() {
    const all = this.figure.panels.flatMap((panel) => panel.curves), { words } = this.figure.x;
    const sorted = all.filter((curve) => curve.label).sort((one, other) => one.spots.x.length - other.spots.x.length);
    const named = new Map(sorted.map((curve) => [curve.label, curve]));  // of several the one with most spots
    const list = this.buttons([...named.values()], (curve) => curve.levels.y.length || !words.length, (curve) => curve.spots.x.length);
    if (all.some((curve) => curve.theory.x.length)) list.append(element("span", { className: "theory" }, `dashed: ${this.figure.theory}`));
  }

  buttons(curves, joined, marked) {
    const list = this.place.querySelector(".legend");
    list.replaceChildren();
    for (const curve of curves.sort((one, other) => one.series - other.series)) {
      const colour = curve.colour[Number(this.dark)];
      const button = element("button", { type: "button", title: "Show or hide this curve" });
      const open = ["x", "cross", "asterisk", "y"].includes(curve.shape) || curve.hollow;
      button.innerHTML = `<svg width="44" height="12" aria-hidden="true" fill="none" stroke="${colour}">
        <path d="${joined(curve) ? "M0 6h44" : ""}" stroke-width="${Math.min(curve.width, 2.4)}" stroke-dasharray="${curve.dash.join(" ")}"/>
        <path d="${marked(curve) ? shapes[curve.shape] : ""}" transform="translate(16 0)" stroke-width="1.4"
          fill="${open ? "var(--paper)" : colour}"/></svg>`;
      button.append(element("span", {}, curve.label));
      button.dataset.label = curve.label;
      button.setAttribute("aria-pressed", String(!this.hidden.has(curve.label)));
      button.addEventListener("click", () => this.toggle(curve.label, this.hidden.has(curve.label)));
      list.append(button);
    }
    return list;
  }

  toggle(name, shown) {
    if (shown) this.hidden.delete(name); else this.hidden.add(name);
    for (const renderer of this.curves.flat()) if (renderer.name === name) renderer.visible = shown;
    for (const button of this.place.querySelectorAll(".legend button")) {
      if (button.dataset.label === name) button.setAttribute("aria-pressed", String(shown));
    }
  }
}

const blues = ["#f7fbff", "#e3eef9", "#d0e1f2", "#b7d4ea", "#94c4df", "#6aaed6", "#4a98c9", "#2e7ebc", "#1764ab"];

// Packets of a link: each panel has axes of its own, and marks with numbers at the pointer.
class Marks extends Curves {
  panels() {
    return this.figure.panels.map((panel, index) => this.panel(panel, index));
  }

  panel(panel, index) {
    const [x_range, y_range] = [panel.x, panel.y].map(({ limits: [start, end] }) => new Bokeh.Range1d({ start, end }));
    const square = { frame_width: 300, frame_height: 300, width: 372, height: panel.title ? 410 : 385, sizing_mode: "fixed" };
    const plot = this.frame(panel, { x: panel.x, y: panel.y, x_range, y_range, ...(panel.borders ? square : { height: 320 }) });
    for (const [axis, about] of [[plot.xaxes[0], panel.x], [plot.yaxes[0], panel.y]]) {
      if (about.whole) Object.assign(axis.ticker, { min_interval: 1, num_minor_ticks: 0 });
    }
    if (panel.borders) {  // lines where decisions change
      for (const [grid, ticks] of [[plot.xgrids[0], panel.borders[0]], [plot.ygrids[0], panel.borders[1]]]) {
        Object.assign(grid, { ticker: new Bokeh.FixedTicker({ ticks }), grid_line_dash: [5, 4] });
      }
    }
    const touched = panel.groups.flatMap((group) => {
      const made = this.group(plot, group, panel);
      made.name = group.label;
      this.curves[index].push(made);
      return group.touched ? [made] : [];
    });
    const tooltips = panel.tips.map(([head, column]) => [head, `@{${column}}`]);
    plot.add_tools(new Bokeh.HoverTool({ tooltips, renderers: touched, limit: 3 }));
    return plot;
  }

  group(plot, group, panel) {
    const colour = group.colour[Number(this.dark)], [x, y] = [{ field: "x" }, { field: "y" }];
    const ends = { low: group.data.y.map((one) => one - 0.4), high: group.data.y.map((one) => one + 0.4) };
    const source = new Bokeh.ColumnDataSource({ data: { ...group.data, ...ends } });
    if (group.kind === "line") return plot.line(x, y, { source, color: colour, line_width: 1, line_dash: group.dash });
    if (group.kind === "strokes") return plot.segment(x, { field: "low" }, x, { field: "high" }, { source, color: colour, line_width: 1.4 });
    if (group.kind === "rows") return plot.hbar({ y, height: 0.8, left: panel.x.limits[0], right: panel.x.limits[1], source, color: colour });
    if (group.kind === "cells") {
      const transform = new Bokeh.LinearColorMapper({ palette: blues, low: -30, high: 10 });
      return plot.rect(x, y, 1, 1, { source, fill_color: { field: "height", transform }, line_color: null });
    }
    const face = group.hollow ? (this.dark ? "#15181c" : "#ffffff") : colour;
    return plot.scatter(x, y, { source, size: group.size, marker: group.shape, line_color: colour, fill_color: face, line_width: 1 });
  }

  legend() {
    const all = this.figure.panels.flatMap((panel) => panel.groups).filter((one) => one.label && !one.hollow);
    const marked = all.filter((one) => one.kind === "scatter"), named = new Map(marked.map((one) => [one.label, one]));
    const joined = (one) => all.some(({ kind, label }) => kind === "line" && label === one.label);
    this.buttons([...named.values()], joined, () => true);
  }
}

// --- tables --------------------------------------------------------------------------------------

const key = (row, column) => {
  const text = row.cells[column].textContent.trim(), value = parseFloat(text.replace(/^<\s*/, "").replace(/,/g, ""));
  return [text, value];
};

const parts = (text) => text.toLowerCase().split(/[\s,;=[\]]+/).filter(Boolean);

function sortable(table) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = element("button", { type: "button" }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [row, ...key(row, column)]);
      const numbers = rows.every(([, text, value]) => !text || !Number.isNaN(value));
      const order = ([, one, a], [, other, b]) => {
        if (!one || !other) return !one - !other;  // empty cells stay last
        const found = numbers ? a - b : one.localeCompare(other, "en", { numeric: true });
        return down ? -found : found;
      };
      body.append(...rows.sort(order).map(([row]) => row));
    });
  });
  if (body.rows.length < 8) return;
  const field = element("input", { type: "search", placeholder: "Filter rows, e.g. digital 20 dB" });
  field.setAttribute("aria-label", "Filter the rows of the table");
  field.addEventListener("input", () => {
    const words = parts(field.value);
    for (const row of body.rows) {
      const known = [...row.cells].flatMap((cell) => parts(cell.textContent));
      row.hidden = !words.every((word) => known.some((one) => one.startsWith(word)));  // 30 is no part of 0.0307
    }
  });
  table.closest(".scroll").before(field);
}

// --- page ----------------------------------------------------------------------------------------

document.querySelectorAll("table:has(thead)").forEach(sortable);
const drawn = (place) => {
  const figure = JSON.parse(place.querySelector("script").textContent);
  return new (figure.panels.some((panel) => panel.groups) ? Marks : Curves)(place, figure);
};
const figures = new Map([...document.querySelectorAll("figure.curves")].map((place) => [place, drawn(place)]));
const failed = (error) => console.error("this figure is shown as a picture", error);
let turn = Promise.resolve();  // one figure after the other: the first is there soonest
const near = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    turn = turn.then(() => figures.get(target).draw()).catch(failed).then(ready);
  }
  turn.then(ready);
}, { rootMargin: "300px" });
const ready = () => { root.dataset.ready ??= String(Math.round(performance.now())); };
figures.forEach((_, place) => near.observe(place));
if (!figures.size) ready();
const redraw = () => figures.forEach((one) => { if (one.made) one.draw().catch(failed); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
const choice = document.querySelector("#theme");
choice.hidden = false;
choice.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; redraw(); });
