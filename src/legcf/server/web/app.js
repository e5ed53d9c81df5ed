// SPDX-License-Identifier: Apache-2.0
// The page: choosing whom to recommend for and showing what; the address says what is shown, and can be changed by hand.
import { ask, keepTaste, keptTaste, tasteHint } from "./backend.js";
import { $, attempt, bytes, combo, findItems, isDark, make, problem, recommend, say, setHues, withId } from "./ui.js";
import { action, resultCards, row } from "./results.js";
import { redrawMap, showMap } from "./map.js";
import { showCard } from "./card.js";
import { about, rules, showAbout, showRules } from "./rules.js";

const taste = new Map(); // id → title
const views = ["recommend", "map", "model"].filter((view) => $(`tab-${view}`));
let user = null;
let turn = 0;
let acceptsEvents = false;

const itemActions = (item) => [
  action("Similar", `Similar to ${item.title}`, () => attempt(() => showSimilar(item))),
  action("Add to taste", `Add ${item.title} to a taste`, () => addToTaste(item)),
  ...(acceptsEvents && user !== null ? [action("Add to history", `Add ${item.title} to the history`, () => attempt(() => addToHistory(item)))] : []),
];

// An event of the user's, kept by the server: sent once, whatever happens on the way.
const addToHistory = async (item) => {
  const whom = user;
  const id = [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(16).padStart(8, "0")).join("");
  await ask("/interactions", { events: [{ id: `page-${id}`, user: whom, item: item.id }] });
  say(`${item.title} is in the history of ${whom}`);
  if (user === whom) await showUser(whom);
};

const clearResults = (title, text) => {
  $("results").replaceChildren();
  $("results-title").textContent = title;
  $("results-note").textContent = text;
  $("results-note").hidden = !text;
};

// `whom` is null where nobody was chosen yet.
const showResults = async (request, whom, hint) => {
  const mine = ++turn;
  const k = Number($("count").value);
  let answer;
  try { answer = await recommend({ ...request, ...rules(), k, explain: Math.min(k, 50) }); } catch (error) {
    if (mine === turn) { clearResults("Recommendations", error.message); problem(error.message); }
    return;
  }
  if (mine !== turn) return;
  problem(null);
  const title = whom === null ? "Popular items" : `Recommendations for ${whom}`;
  const unknown = whom !== null && answer.fallback ? `Nothing is known of ${whom} yet: these are the most popular items.` : "";
  clearResults(title, answer.items.length ? hint ?? unknown : "Nothing is left to recommend.");
  $("results").replaceChildren(...resultCards(answer, user !== null, itemActions));
  say(whom === null ? `${answer.items.length} popular items` : `${answer.items.length} recommendations for ${whom}`);
};

const chip = (item, remove) => {
  const element = make("li", {}, make("span", { textContent: item.title }));
  if (remove) {
    const button = make("button", { type: "button", textContent: "×", aria: { label: `Remove ${item.title}` } });
    button.addEventListener("click", remove);
    element.append(button);
  }
  return element;
};

const showHistory = (title, chips, more = "") => {
  $("history-title").textContent = title;
  $("history-title").hidden = !title;
  $("history").replaceChildren(...chips);
  if (more) $("history").append(make("li", { className: "more", textContent: more }));
};

const addressed = (hash) => new URLSearchParams(hash.slice(1).replaceAll("+", "%2B"));
const setAddress = (hash) => { if (addressed(location.hash).toString() !== addressed(hash).toString()) history.pushState(null, "", hash || location.pathname); };

const tasteAddress = () => `#items=${encodeURIComponent(JSON.stringify([...taste.keys()]))}`;

const setMode = (mode) => {
  document.querySelector(`input[name="mode"][value="${mode}"]`).checked = true;
  $("pane-user").hidden = mode !== "user";
  $("pane-taste").hidden = mode !== "taste";
};

const showPopular = async (hint) => {
  user = null;
  showHistory("", []);
  await showResults({}, null, hint);
};

const showUser = async (id) => {
  const mine = ++turn;
  user = id;
  setMode("user");
  $("user-search").value = id;
  setAddress(`#user=${encodeURIComponent(id)}`);
  showHistory("", []);
  clearResults(`Recommendations for user ${id}`, "Asking …");
  let past;
  try { past = await ask(withId("/api/history", "user", id)); } catch (error) {
    if (mine === turn) { clearResults("Recommendations", error.message); problem(error.message); }
    return;
  }
  if (mine !== turn) return;
  const shown = past.items.slice(0, 60);
  const rest = past.stored ? past.count - shown.length : 0;
  showHistory(past.stored ? `History (${past.count})` : "History", shown.map((item) => chip(item)), past.stored ? (rest ? `and ${rest} more` : "") : "This file stores no histories.");
  await showResults({ user: id }, `user ${id}`);
};

const showTaste = async () => {
  user = null;
  setMode("taste");
  setAddress(tasteAddress());
  keepTaste([...taste.keys()]);
  $("about").disabled = taste.size > 0; // items decide where there are any
  const features = taste.size ? null : about();
  if (features) { showHistory("", []); await showResults({ features }, "somebody like this"); return; }
  if (!taste.size) { await showPopular("Popular items for a start: add one or two things you like, and the best matches appear here."); return; }
  showHistory(`Your taste (${taste.size})`, [...taste].map(([id, title]) => chip({ title }, () => { taste.delete(id); attempt(showTaste); })));
  await showResults({ items: [...taste.keys()] }, taste.size === 1 ? "a taste of 1 item" : `a taste of ${taste.size} items`);
};

const addToTaste = (item) => {
  taste.set(item.id, item.title);
  if ($("similar").open) $("similar").close();
  chooseTab("recommend");
  say(`${item.title} added`);
  return attempt(showTaste);
};

export const showSimilar = async (item) => {
  const answer = await ask(withId("/similar", "item", item.id, "&k=12"));
  $("similar-title").textContent = `Similar to ${item.title}`;
  $("similar-list").replaceChildren(...answer.items.map((other) => make("li", {}, row(other, other.score, other.score.toFixed(2), [action("Add to taste", `Add ${other.title} to a taste`, () => addToTaste(other))]))));
  if (!$("similar").open) $("similar").showModal();
};

const chooseTab = (name) => {
  for (const view of views) {
    const chosen = view === name;
    $(`tab-${view}`).setAttribute("aria-selected", String(chosen));
    $(`tab-${view}`).tabIndex = chosen ? 0 : -1;
    $(`view-${view}`).hidden = !chosen;
  }
  if (name === "map") attempt(() => showMap({ showSimilar, addToTaste }));
};

// What the address asks for: #user=ID, #items=[IDs], #map, #model or nothing.
const follow = async () => {
  const wanted = addressed(location.hash);
  const tab = views.find((view) => wanted.has(view)) ?? "recommend";
  chooseTab(tab);
  if ($("similar").open) $("similar").close();
  if (wanted.has("user")) await showUser(wanted.get("user"));
  else if (wanted.has("items")) {
    let ids;
    try { ids = JSON.parse(wanted.get("items")); } catch { throw new Error("The address is not understood: after #items= comes a list such as [\"A\",\"B\"]."); }
    taste.clear();
    if (Array.isArray(ids) && ids.length) {
      const { items } = await ask(`/api/items?${ids.slice(0, 200).map((id) => `id=${encodeURIComponent(id)}`).join("&")}`);
      for (const item of items) taste.set(item.id, item.title);
      if (items.length < ids.length) { await showTaste(); problem(`${ids.length - items.length} of the ${ids.length} items in the address are not in this model.`); return; }
    }
    await showTaste();
  } else if (tab === "recommend" || !$("results").children.length) {
    if (document.querySelector('input[value="user"]').disabled) await showTaste();
    else { setMode("user"); $("user-search").value = ""; await showPopular("Choose a user, or build a taste, for recommendations of their own."); }
  }
};

for (const [place, view] of views.entries()) {
  const choose = (name) => {
    chooseTab(name);
    const here = user !== null ? `#user=${encodeURIComponent(user)}` : taste.size ? tasteAddress() : "";
    setAddress(name === "recommend" ? here : `#${name}`);
  };
  $(`tab-${view}`).addEventListener("click", () => choose(view));
  $(`tab-${view}`).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = views[(place + step + views.length) % views.length];
    choose(next);
    $(`tab-${next}`).focus();
  });
}
let lastUser = null;
for (const radio of document.querySelectorAll('input[name="mode"]')) radio.addEventListener("change", () => attempt(async () => {
  if (radio.value === "taste") { lastUser = user; await showTaste(); return; }
  if (lastUser !== null) { await showUser(lastUser); return; }
  setAddress("");
  await follow();
}));
const again = () => attempt(() => (user !== null ? showUser(user) : taste.size ? showTaste() : follow()));
$("count").addEventListener("change", again);
$("clear-taste").addEventListener("click", () => { taste.clear(); attempt(showTaste); });
$("similar-close").addEventListener("click", () => $("similar").close());
$("problem-close").addEventListener("click", () => problem(null));
$("random-user").addEventListener("click", () => attempt(async () => {
  const { users } = await ask(`/api/users?q=${Math.floor(Math.random() * 10)}&limit=100`);
  const pool = users.length ? users : (await ask("/api/users?limit=100")).users;
  if (pool.length) await showUser(pool[Math.floor(Math.random() * pool.length)]);
}));
$("theme").addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("legcf-theme", next); } catch { /* then it lasts until reload */ }
  redrawMap();
});
addEventListener("hashchange", () => attempt(follow));
combo($("user-search"), $("user-options"), async (text) => (await ask(`/api/users?q=${encodeURIComponent(text)}`)).users.map((id) => ({ id, label: String(id) })), (option) => showUser(option.id), showUser);
combo($("item-search"), $("item-options"), async (text) => (await findItems(text)).filter((item) => !taste.has(item.id)), (item) => { $("item-search").value = ""; addToTaste(item); });

attempt(async () => {
  const model = await ask("/api/model");
  const name = model.card.name ?? "legcf";
  $("model-name").textContent = name;
  $("model-line").textContent = `${model.items.toLocaleString("en")} items${model.users ? `, ${model.users.toLocaleString("en")} users` : ""} in ${bytes(model.bytes)}`;
  document.title = `${name} · recommendations from one small file`;
  setHues(model.hues);
  showCard(model);
  acceptsEvents = model.accepts_events;
  showRules(model.attributes, again);
  showAbout(model.user_features ?? [], () => attempt(showTaste));
  if (!model.users) document.querySelector('input[value="user"]').disabled = true;
  $("mode").hidden = !model.users;
  $("taste-hint").textContent = tasteHint;
  const kept = keptTaste();
  if (!location.hash && kept.length) history.replaceState(null, "", `#items=${encodeURIComponent(JSON.stringify(kept))}`);
  await follow();
}).then(() => { if ($("model-line").textContent.startsWith("Loading")) $("model-line").textContent = ""; });
