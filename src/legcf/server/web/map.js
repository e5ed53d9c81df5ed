// SPDX-License-Identifier: Apache-2.0
// The map: every point an item, beside those most like it. Drawn on a canvas; drag, wheel, pinch and keys move it.
import { ask } from "./backend.js";
import { $, attempt, colour, combo, findItems, isDark, make, say, withId } from "./ui.js";

let data = null, view = { x: 0, y: 0, zoom: 1 }, chosen = -1, hovered = -1, near = [], group = null, places = new Map(), actions = null;
const canvas = $("map");

const size = () => ({ width: canvas.clientWidth, height: canvas.clientHeight });
// Places tell neighbours, not distances, so the map may be stretched to the shape of its frame.
const scaleX = () => size().width * 0.45 * view.zoom;
const scaleY = () => size().height * 0.45 * view.zoom;
const toScreen = (k) => { const { width, height } = size(); return [width / 2 + (data.x[k] - view.x) * scaleX(), height / 2 - (data.y[k] - view.y) * scaleY()]; };
const radius = (k) => (0.6 + data.size[k] * 0.32) * Math.min(2.2, 0.8 + Math.sqrt(view.zoom) * 0.25);

export const redrawMap = () => {
  if (!data || $("view-map").hidden) return;
  const { width, height } = size(), ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio; canvas.height = height * ratio;
  const pen = canvas.getContext("2d"), dark = isDark(), ink = getComputedStyle(canvas).color;
  pen.scale(ratio, ratio);
  for (let k = data.x.length - 1; k >= 0; k--) {
    const [x, y] = toScreen(k);
    if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
    pen.globalAlpha = group === null ? 0.72 : data.meta[k] === group ? 0.95 : 0.09;
    pen.fillStyle = colour(data.meta[k], dark);
    pen.beginPath(); pen.arc(x, y, radius(k), 0, 7); pen.fill();
  }
  pen.globalAlpha = 1;
  if (chosen >= 0) links(pen, ink);
  for (const k of new Set([chosen, hovered])) if (k >= 0) {
    const [x, y] = toScreen(k);
    pen.strokeStyle = ink; pen.lineWidth = 2;
    pen.beginPath(); pen.arc(x, y, radius(k) + 4, 0, 7); pen.stroke();
  }
  labels(pen, width, height, ink, dark);
};

// From the chosen item to those most like it, wherever they stand.
const links = (pen, ink) => {
  const [x, y] = toScreen(chosen);
  pen.strokeStyle = ink; pen.lineWidth = 1; pen.globalAlpha = 0.45;
  for (const k of near) {
    const [otherX, otherY] = toScreen(k);
    pen.beginPath(); pen.moveTo(x, y); pen.lineTo(otherX, otherY); pen.stroke();
    pen.beginPath(); pen.arc(otherX, otherY, radius(k) + 3, 0, 7); pen.stroke();
  }
  pen.globalAlpha = 1;
};

// Titles of the best-known items, as many as fit without touching.
const labels = (pen, width, height, ink, dark) => {
  const taken = [];
  pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle";
  pen.lineWidth = 3; pen.strokeStyle = dark ? "#12141bdd" : "#f4f5f8dd"; pen.fillStyle = ink;
  const most = Math.round(width / 45);
  for (let k = 0, shown = 0; k < Math.min(data.x.length, 1200) && shown < most; k++) {
    if (group !== null && data.meta[k] !== group) continue;
    const [x, y] = toScreen(k);
    if (x < 4 || y < 10 || x > width - 40 || y > height - 10) continue;
    const title = data.titles[k].length > 24 ? data.titles[k].slice(0, 23) + "…" : data.titles[k];
    const left = x + radius(k) + 3, wide = pen.measureText(title).width;
    if (left + wide > width - 2 || taken.some((box) => left < box[2] && left + wide > box[0] && Math.abs(y - box[1]) < 15)) continue;
    taken.push([left, y, left + wide]); shown++;
    pen.strokeText(title, left, y); pen.fillText(title, left, y);
  }
};

const nearest = (x, y, reach = 14) => {
  let best = -1, least = reach * reach;
  for (let k = 0; k < data.x.length; k++) {
    const [px, py] = toScreen(k), gap = (px - x) ** 2 + (py - y) ** 2;
    if (gap < least && (group === null || data.meta[k] === group)) { least = gap; best = k; }
  }
  return best;
};

const choose = (k, centre = false) => attempt(async () => {
  chosen = k;
  near = [];
  if (centre) view = { x: data.x[k], y: data.y[k], zoom: Math.max(view.zoom, 4) };
  redrawMap();
  const item = { id: data.ids[k], title: data.titles[k] };
  const { items } = await ask(withId("/similar", "item", item.id, "&k=8"));
  if (chosen !== k) return;
  near = items.map((other) => places.get(other.id)).filter((place) => place !== undefined);
  const dot = make("span", { className: "dot" });
  dot.style.background = colour(data.meta[k], isDark());
  const add = make("button", { type: "button", className: "link", textContent: "Add to taste" });
  add.addEventListener("click", () => actions.addToTaste(item));
  const list = make("ul", { className: "groups" }, ...items.map((other) => {
    const button = make("button", { type: "button" }, make("span", { textContent: other.title }), make("small", { textContent: other.score.toFixed(2) }));
    button.addEventListener("click", () => (places.has(other.id) ? choose(places.get(other.id), true) : attempt(() => actions.showSimilar(other))));
    return make("li", {}, button);
  }));
  $("map-chosen").replaceChildren(make("h2", {}, dot, ` ${item.title}`), make("p", { className: "hint" }, "Most like it, linked on the map. ", add), list);
  redrawMap();
  say(`${item.title}. Most like it: ${items.slice(0, 4).map((other) => other.title).join(", ")}`);
});

const zoomAt = (factor, x = size().width / 2, y = size().height / 2) => {
  const { width, height } = size();
  const atX = view.x + (x - width / 2) / scaleX(), atY = view.y - (y - height / 2) / scaleY();
  view.zoom = Math.min(60, Math.max(0.6, view.zoom * factor));
  view.x = atX - (x - width / 2) / scaleX(); view.y = atY + (y - height / 2) / scaleY();
  redrawMap();
};

const listen = () => {
  const pointers = new Map();
  let moved = 0, gap = 0;
  const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, at(event)); moved = 0; });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (!pointers.has(event.pointerId)) {
      const k = nearest(x, y), tip = $("map-tip");
      tip.hidden = k < 0;
      if (k >= 0) { tip.textContent = data.titles[k]; tip.style.left = `${Math.min(x + 14, size().width - 180)}px`; tip.style.top = `${y + 14}px`; }
      if (k !== hovered) { hovered = k; canvas.style.cursor = k >= 0 ? "pointer" : "grab"; redrawMap(); }
      return;
    }
    const [px, py] = pointers.get(event.pointerId);
    pointers.set(event.pointerId, [x, y]);
    if (pointers.size === 2) {
      const [[ax, ay], [bx, by]] = [...pointers.values()], now = Math.hypot(ax - bx, ay - by);
      if (gap) zoomAt(now / gap, (ax + bx) / 2, (ay + by) / 2);
      gap = now; moved += 9;
      return;
    }
    moved += Math.abs(x - px) + Math.abs(y - py);
    view.x -= (x - px) / scaleX(); view.y += (y - py) / scaleY();
    redrawMap();
  });
  const up = (event) => {
    const [x, y] = at(event);
    const began = pointers.delete(event.pointerId); // else it began elsewhere, such as on the list above
    gap = 0;
    if (began && event.type === "pointerup" && moved < 6) { const k = nearest(x, y, 18); if (k >= 0) choose(k); }
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => { hovered = -1; $("map-tip").hidden = true; redrawMap(); });
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoomAt(Math.exp(-event.deltaY * 0.0016), ...at(event)); }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-60 / scaleX(), 0], ArrowRight: [60 / scaleX(), 0], ArrowUp: [0, 60 / scaleY()], ArrowDown: [0, -60 / scaleY()] };
    if (moves[event.key]) { view.x += moves[event.key][0]; view.y += moves[event.key][1]; redrawMap(); }
    else if (event.key === "+" || event.key === "=") zoomAt(1.4);
    else if (event.key === "-") zoomAt(1 / 1.4);
    else if (event.key === "Enter") { const k = nearest(size().width / 2, size().height / 2, 1e5); if (k >= 0) choose(k); }
    else return;
    event.preventDefault();
  });
  $("zoom-in").addEventListener("click", () => zoomAt(1.5));
  $("zoom-out").addEventListener("click", () => zoomAt(1 / 1.5));
  $("zoom-reset").addEventListener("click", () => { view = { x: 0, y: 0, zoom: 1 }; group = null; chosen = -1; near = []; showGroups(); redrawMap(); });
  new ResizeObserver(redrawMap).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { redrawMap(); showGroups(); });
  combo($("map-search"), $("map-options"), async (text) => (await findItems(text)).filter((item) => places.has(item.id)), (item) => { $("map-search").value = item.title; choose(places.get(item.id), true); });
};

const showGroups = () => $("map-groups").replaceChildren(...data.groups.map((entry) => {
  const dot = make("span", { className: "dot", aria: { hidden: "true" } });
  dot.style.background = colour(entry.meta, isDark());
  const name = entry.examples.join(" · ");
  const button = make("button", { type: "button", aria: { pressed: String(group === entry.meta) } }, dot, make("span", { textContent: name }), make("small", { textContent: entry.count }));
  button.addEventListener("click", () => { group = group === entry.meta ? null : entry.meta; showGroups(); redrawMap(); });
  return make("li", {}, button);
}));

export const showMap = async (given) => {
  actions = given;
  if (!data) {
    $("map-note").textContent = "Drawing the map …";
    const given = await ask("/api/map").catch((error) => { $("map-note").textContent = ""; throw error; });
    if (data) return;
    data = given;
    places = new Map(data.ids.map((id, k) => [id, k]));
    $("map-note").textContent = data.ids.length < data.of ? `The ${data.ids.length.toLocaleString("en")} best-known of ${data.of.toLocaleString("en")} items. Larger points have more users.` : "Larger points have more users.";
    showGroups();
    listen();
  }
  redrawMap();
};
