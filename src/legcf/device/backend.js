// SPDX-License-Identifier: Apache-2.0
// What the page asks, answered by the model file itself: as the server answers, but on this device.
import { Legcf } from "./legcf.js";

const plain = (id) => (typeof id === "bigint" ? String(id) : id); // JSON has no integers beyond 2^53
const scored = ({ id, score, name }) => ({ id: plain(id), title: name, score });

let size = 0; // bytes of the file

// The file stands in the page, or beside it on a host.
const load = async () => {
  const inside = document.getElementById("model");
  const bytes = inside ? Uint8Array.from(atob(inside.textContent), (letter) => letter.charCodeAt(0)) : await (await fetched("model.legcf")).arrayBuffer();
  inside?.remove();
  size = bytes.byteLength;
  return Legcf.load(bytes);
};

const fetched = async (address) => {
  let response;
  try { response = await fetch(address); } catch { throw new Error("The model file does not come. Are you online?"); }
  if (!response.ok) throw new Error(`The host answered ${response.status} in place of the model file.`);
  return response;
};

let loading = null;
const opened = () => { loading ??= load(); return loading; };

let searched = null; // items by popularity, and their names in small letters
const searchable = (model) => {
  searched ??= {
    order: Uint32Array.from({ length: model.numItems }, (_, item) => item).sort((a, b) => model.popularity(b) - model.popularity(a) || a - b),
    names: Array.from({ length: model.numItems }, (_, item) => model.name(item).toLowerCase()),
  };
  return searched;
};

const find = (ids, id) => { try { return ids.position(id); } catch { return -1; } };
const entry = (model, item) => ({ id: plain(model.items.at(item)), title: model.name(item), users: Math.max(model.popularity(item), 1) });

// Items whose title holds the text, or whose id is the text; the best known first.
const searchItems = (model, text, limit) => {
  const { order, names } = searchable(model), small = text.toLowerCase().trim(), exact = text ? find(model.items, text) : -1;
  const found = exact < 0 ? [] : [exact];
  for (let i = 0; i < order.length && found.length < limit; i++) if (order[i] !== exact && names[order[i]].includes(small)) found.push(order[i]);
  return found.map((item) => entry(model, item));
};

const searchUsers = (model, text, limit) => {
  const found = [];
  for (let user = 0; user < model.numUsers && found.length < limit; user++) if (String(model.users.at(user)).startsWith(text)) found.push(plain(model.users.at(user)));
  return found;
};

const recommend = (model, { user, items, k, filter, diversity, explain }) => {
  const found = model.recommend({ user, items, k, filter, diversity }), fallback = found[0]?.fallback ?? null;
  const why = fallback ? [] : model.explain({ user, items, item: found.slice(0, explain).map(({ id }) => id) }).map((one) => ({
    ...one,
    item: plain(one.item),
    because: one.because.map(scored),
    shared: one.shared.map((part) => ({ ...part, examples: part.examples.map(scored) })),
  }));
  return { items: found.map(scored), why, fallback };
};

const describe = (model) => ({
  card: model.card, bytes: size, items: model.numItems, users: model.numUsers, users_stored: Boolean(model.userTable), accepts_events: false,
  hues: [220], attributes: model.attributes(), width: model.table.width, codebook: model.table.book ? model.table.book.length / model.table.width : null, terms: model.table.terms,
});

const answers = {
  "/api/model": describe,
  "/api/items": (model, query) => {
    const ids = query.getAll("id").map((id) => find(model.items, id)).filter((item) => item >= 0);
    return { items: query.has("id") ? ids.map((item) => entry(model, item)) : searchItems(model, query.get("q") ?? "", Number(query.get("limit") ?? 12)) };
  },
  "/api/users": (model, query) => ({ users: searchUsers(model, query.get("q") ?? "", Number(query.get("limit") ?? 12)) }),
  "/api/history": (model, query) => {
    const items = model.history(query.get("user")).map((id) => entry(model, model.items.position(id)));
    return { stored: Boolean(model.histories), count: items.length, items: items.sort((a, b) => b.users - a.users).slice(0, 500) };
  },
  "/similar": (model, query) => ({ items: model.similar({ item: query.get("item"), k: Number(query.get("k")) }).map(scored) }),
  "/recommend": (model, query, { requests }) => ({ results: requests.map((request) => recommend(model, request)), errors: requests.map(() => null) }),
};

export const ask = async (path, body) => {
  const model = await opened(), [name, query] = path.split("?");
  return answers[name](model, new URLSearchParams(query ?? ""), body);
};

// What is picked stays in this browser.
const place = `legcf-picks ${location.pathname}`;
export const tasteHint = "What you pick stays in this browser: nothing is sent anywhere.";
export const keptTaste = () => { try { return JSON.parse(localStorage.getItem(place)) ?? []; } catch { return []; } };
export const keepTaste = (ids) => { try { localStorage.setItem(place, JSON.stringify(ids)); } catch { /* then it lasts until the page is closed */ } };

if (location.protocol.startsWith("http") && !document.getElementById("model")) navigator.serviceWorker?.register("service-worker.js").catch(() => {});
