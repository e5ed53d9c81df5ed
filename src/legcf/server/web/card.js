// SPDX-License-Identifier: Apache-2.0
// The model card: what it is, how small, how good, and how it got there.
import { $, bytes, make } from "./ui.js";

const number = (value) => (typeof value === "number" ? value.toLocaleString("en") : value ?? "–");

const tiles = (model) => {
  const { card } = model;
  const entries = [["Data", card.name], ["Method", card.method], ["Backbone", card.backbone], ["Preset", card.preset], ["Protocol", card.protocol], ["Seed", card.seed],
    ["Trained parameters", number(card.num_params)], ["Items", number(model.items)], ["Users", model.users_stored ? number(model.users) : "solved when they come"],
    ["Width d", model.width], ["Meta-embeddings c", model.codebook], ["Terms a row t", model.terms], ["Numbers", model.dtype]];
  $("tiles").replaceChildren(...entries.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value }))));
};

const bar = (name, size, largest, own) => {
  const fill = make("div", { className: own ? "fill own" : "fill" });
  fill.style.width = `${(100 * size) / largest}%`;
  return make("div", { className: "row" }, make("span", {}, make("span", { textContent: name }), make("b", { textContent: bytes(size) })), make("div", { className: "track" }, fill));
};

const sizes = (model) => {
  const full = model.card.full_table_bytes;
  if (!full) return;
  $("size").replaceChildren(make("p", { className: "big", textContent: `${(full / model.bytes).toFixed(1)}× smaller` }), make("p", { className: "hint", textContent: "This whole file, with all that is in it, against the bare table of vectors in float32." }),
    make("div", { className: "bars" }, bar("This file", model.bytes, Math.max(full, model.bytes), true), bar("Full table", full, Math.max(full, model.bytes), false)));
};

// A model that was trained once more on every pair has the accuracy of the one that it was chosen as.
const chosenAs = ({ test = {}, validation = {} }) => {
  const rows = [["validation", validation], ["test", test]].flatMap(([part, metrics]) => ["recall@20", "ndcg@20"].filter((name) => typeof metrics[name] === "number").map((name) => make("tr", {}, make("th", { scope: "row", textContent: `${part} ${name}` }), make("td", { textContent: metrics[name].toFixed(4) }))));
  $("accuracy").replaceChildren(make("p", { className: "hint", textContent: "Of the model that it was chosen as: this one was trained once more, on every pair, and none is left to measure it by." }), make("table", {}, make("tbody", {}, ...rows)));
};

const accuracy = (model) => {
  const measured = model.card.serving?.accuracy;
  if (model.card.metrics?.final) { chosenAs(model.card.metrics); return; }
  if (!measured || !Object.keys(measured).length) { $("accuracy").replaceChildren(make("p", { className: "empty", textContent: "Not measured at export." })); return; }
  const rows = Object.entries(measured).flatMap(([part, metrics]) => Object.entries(metrics).map(([name, pair]) => make("tr", {}, make("th", { scope: "row", textContent: `${part} ${name}` }), make("td", { textContent: pair.before.toFixed(4) }), make("td", { textContent: pair.after.toFixed(4) }), make("td", { textContent: `${((100 * pair.after) / Math.max(pair.before, 1e-9)).toFixed(1)} %` }))));
  $("accuracy").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...["Metric", "With the graph", "This file", "Kept"].map((text) => make("th", { scope: "col", textContent: text })))), make("tbody", {}, ...rows)));
};

const svg = (tag, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};

// A line of the curve may hold a metric flat or under `validation`.
const valueOf = (line, name) => line[name] ?? line.validation?.[name];

const curve = (model) => {
  const lines = model.card.curve ?? [];
  const series = [["ndcg@20", "a"], ["recall@20", "b"]].map(([name, style]) => [name, style, lines.map((line, k) => [k + 1, valueOf(line, name)]).filter(([, value]) => typeof value === "number")]).filter(([, , points]) => points.length > 1);
  if (!series.length) { $("curve").replaceChildren(make("p", { className: "empty", textContent: "This model was not trained epoch by epoch." })); return; }
  const wide = 900, high = 260, left = 52, low = 30, most = Math.max(...series.flatMap(([, , points]) => points.map((point) => point[1]))) * 1.05, last = lines.length;
  const x = (epoch) => left + ((epoch - 1) / Math.max(last - 1, 1)) * (wide - left - 12), y = (value) => high - low - (value / most) * (high - low - 12);
  const summary = series.map(([name, , points]) => `${name} from ${points[0][1].toFixed(3)} to ${points.at(-1)[1].toFixed(3)}`).join(", ");
  const picture = svg("svg", { viewBox: `0 0 ${wide} ${high}`, class: "curve", role: "img", "aria-label": `Validation over ${last} epochs: ${summary}` });
  for (let k = 0; k <= 4; k++) {
    const value = (most * k) / 4;
    picture.append(svg("line", { x1: left, x2: wide - 12, y1: y(value), y2: y(value), class: "grid" }), svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(2)));
  }
  const steps = Math.max(1, Math.ceil(last / 10));
  for (let epoch = 1; epoch <= last; epoch += steps) picture.append(svg("text", { x: x(epoch), y: high - 8, "text-anchor": "middle" }, epoch));
  for (const [, style, points] of series) picture.append(svg("polyline", { points: points.map(([epoch, value]) => `${x(epoch)},${y(value)}`).join(" "), class: `line ${style}` }));
  const legend = make("p", { className: "legend" }, ...series.map(([name, style]) => make("span", {}, make("i", { className: style }), `validation ${name}`)));
  $("curve").replaceChildren(legend, picture);
};

export const showCard = (model) => { tiles(model); sizes(model); accuracy(model); curve(model); };
