// The page: choosing whom to recommend for, showing what and why; the map and the model card live in their own files.
import { $, ask, bytes, colour, combo, findItems, isDark, make, problem, say, setHues } from "./ui.js";
import { showMap, redrawMap } from "./map.js";
import { showCard } from "./card.js";

const taste = new Map(); // id → title
let user = null;
let turn = 0;

const meter = (share) => {
  const inner = make("i");
  inner.style.width = `${Math.max(2, Math.min(100, 100 * share))}%`;
  return make("span", { className: "meter", aria: { hidden: "true" } }, inner);
};

const whyPanel = (why) => {
  const body = make("div", { className: "why-body" });
  const largest = Math.max(...why.because.map((item) => item.score), 1e-9);
  if (why.because.length) body.append(make("div", {}, make("h3", { textContent: "Because of these items" }), make("ul", {}, ...why.because.map((item) => make("li", {}, meter(item.score / largest), make("span", { textContent: item.title }))))));
  if (why.shared.length) body.append(make("div", {}, make("h3", { textContent: "Shared meta-embeddings" }), make("ul", {}, ...why.shared.map((shared) => {
    const dot = make("span", { className: "dot", aria: { hidden: "true" } });
    dot.style.background = colour(shared.meta, isDark());
    const names = shared.examples.slice(0, 3).map((item) => item.title).join(" · ");
    return make("li", {}, dot, make("span", { textContent: `#${shared.meta} ${names ? "as in " + names : ""}` }));
  }))));
  if (why.neighbours > 0) body.append(make("div", {}, make("h3", { textContent: "Neighbours" }), make("p", { className: "hint", textContent: `Users with items in common add ${why.neighbours.toPrecision(3)} to the score of ${why.score.toPrecision(3)}.` })));
  const first = why.because.slice(0, 2).map((item) => item.title).join(" and ");
  const summary = make("summary", {}, "Why? ", make("b", { textContent: first ? `You have ${first}` : "It fits your taste" }));
  if (user !== null) summary.querySelector("b").textContent = first ? `Has ${first}` : "It fits this taste";
  return make("details", { className: "why" }, summary, body);
};

const resultCard = (item, why, best, worst) => {
  const share = best > worst ? 0.15 + 0.85 * (item.score - worst) / (best - worst) : 1;
  const similar = make("button", { type: "button", className: "link", textContent: "Similar", aria: { label: `Similar to ${item.title}` } });
  similar.addEventListener("click", () => showSimilar(item));
  const like = make("button", { type: "button", className: "link", textContent: "Add to taste", aria: { label: `Add ${item.title} to a taste` } });
  like.addEventListener("click", () => addToTaste(item));
  const line = make("div", { className: "card-line" }, make("span", { className: "card-title", textContent: item.title }), make("span", { className: "card-actions" }, similar, like), meter(share), make("span", { className: "score", textContent: item.score.toPrecision(3), title: "Score" }));
  const card = make("li", {}, line);
  if (why && (why.because.length || why.shared.length || why.neighbours > 0)) card.append(whyPanel(why));
  return card;
};

const showResults = async (request, whom) => {
  const mine = ++turn;
  const k = Number($("count").value);
  let answer;
  try {
    answer = (await ask("/recommend", { requests: [{ ...request, k, explain: k }] })).results[0];
    problem(null);
  } catch (error) { problem(error.message); return; }
  if (mine !== turn) return;
  const scores = answer.items.map((item) => item.score);
  const best = Math.max(...scores), worst = Math.min(...scores);
  const reasons = new Map(answer.why.map((why) => [why.item, why]));
  $("results").replaceChildren(...answer.items.map((item) => resultCard(item, reasons.get(item.id), best, worst)));
  $("results-empty").hidden = answer.items.length > 0;
  $("results-empty").textContent = "Nothing is left to recommend.";
  $("results-title").textContent = `Recommendations for ${whom}`;
  say(`${answer.items.length} recommendations for ${whom}`);
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

const showUser = async (id) => {
  user = id;
  $("user-search").value = id;
  history.replaceState(null, "", `#user=${encodeURIComponent(id)}`);
  let past;
  try { past = await ask(`/api/history/${encodeURIComponent(id)}`); } catch (error) { problem(error.message); return; }
  const shown = past.items.slice(0, 60);
  $("history-title").textContent = past.stored ? `History (${past.count})` : "History";
  $("history").replaceChildren(...shown.map((item) => chip(item)));
  if (past.count > shown.length) $("history").append(make("li", { className: "more", textContent: `and ${past.count - shown.length} more` }));
  if (!past.stored) $("history").append(make("li", { className: "more", textContent: "This file stores no histories." }));
  await showResults({ user: id }, `user ${id}`);
};

const showTaste = async () => {
  user = null;
  $("history-title").textContent = `Your taste (${taste.size})`;
  $("history").replaceChildren(...[...taste].map(([id, title]) => chip({ title }, () => { taste.delete(id); showTaste(); })));
  history.replaceState(null, "", taste.size ? `#items=${encodeURIComponent(JSON.stringify([...taste.keys()]))}` : "#");
  if (!taste.size) {
    turn++;
    $("results").replaceChildren();
    $("results-empty").hidden = false;
    $("results-empty").textContent = "Add an item or two, and the best matches appear here.";
    $("results-title").textContent = "Recommendations";
    return;
  }
  await showResults({ items: [...taste.keys()] }, taste.size === 1 ? "a taste of 1 item" : `a taste of ${taste.size} items`);
};

const addToTaste = (item) => {
  taste.set(item.id, item.title);
  if ($("similar").open) $("similar").close();
  chooseTab("recommend");
  setMode("taste");
  say(`${item.title} added`);
};

const setMode = (mode) => {
  document.querySelector(`input[name="mode"][value="${mode}"]`).checked = true;
  $("pane-user").hidden = mode !== "user";
  $("pane-taste").hidden = mode !== "taste";
  if (mode === "taste") showTaste();
  else if ($("user-search").value) showUser($("user-search").value);
};

export const showSimilar = async (item) => {
  let answer;
  try { answer = await ask(`/similar/${encodeURIComponent(item.id)}?k=12`); } catch (error) { problem(error.message); return; }
  $("similar-title").textContent = `Similar to ${item.title}`;
  $("similar-list").replaceChildren(...answer.items.map((other) => {
    const like = make("button", { type: "button", className: "link", textContent: "Add to taste", aria: { label: `Add ${other.title} to a taste` } });
    like.addEventListener("click", () => addToTaste(other));
    return make("li", {}, make("div", { className: "card-line" }, make("span", { className: "card-title", textContent: other.title }), make("span", { className: "card-actions" }, like), meter(other.score), make("span", { className: "score", textContent: other.score.toFixed(2) })));
  }));
  if (!$("similar").open) $("similar").showModal();
};

const views = ["recommend", "map", "model"];
const chooseTab = (name) => {
  for (const view of views) {
    const chosen = view === name;
    $(`tab-${view}`).setAttribute("aria-selected", String(chosen));
    $(`tab-${view}`).tabIndex = chosen ? 0 : -1;
    $(`view-${view}`).hidden = !chosen;
  }
  if (name === "map") showMap({ showSimilar, addToTaste }).catch((error) => problem(error.message));
};

for (const [place, view] of views.entries()) {
  $(`tab-${view}`).addEventListener("click", () => chooseTab(view));
  $(`tab-${view}`).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = views[(place + step + views.length) % views.length];
    chooseTab(next);
    $(`tab-${next}`).focus();
  });
}
for (const radio of document.querySelectorAll('input[name="mode"]')) radio.addEventListener("change", () => setMode(radio.value));
$("count").addEventListener("change", () => (user !== null ? showUser(user) : showTaste()));
$("clear-taste").addEventListener("click", () => { taste.clear(); showTaste(); });
$("similar-close").addEventListener("click", () => $("similar").close());
$("random-user").addEventListener("click", async () => {
  const { users } = await ask(`/api/users?q=${Math.floor(Math.random() * 10)}&limit=100`);
  const pool = users.length ? users : (await ask("/api/users?limit=100")).users;
  if (pool.length) showUser(pool[Math.floor(Math.random() * pool.length)]);
});
$("theme").addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("legcf-theme", next); } catch { /* then it lasts until reload */ }
  redrawMap();
});
combo($("user-search"), $("user-options"), async (text) => (await ask(`/api/users?q=${encodeURIComponent(text)}`)).users.map((id) => ({ id, label: String(id) })), (option) => showUser(option.id));
combo($("item-search"), $("item-options"), async (text) => (await findItems(text)).filter((item) => !taste.has(item.id)), (item) => { $("item-search").value = ""; addToTaste(item); });

const start = async () => {
  const model = await ask("/api/model");
  $("model-name").textContent = model.card.name ?? "legcf";
  $("model-line").textContent = `${model.items.toLocaleString("en")} items, ${model.users.toLocaleString("en")} users in ${bytes(model.bytes)}`;
  document.title = `${model.card.name ?? "legcf"} · recommendations from one small file`;
  setHues(model.hues);
  showCard(model);
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (!model.users) { document.querySelector('input[value="user"]').disabled = true; setMode("taste"); }
  if (wanted.has("user")) await showUser(wanted.get("user"));
  else if (wanted.has("items")) {
    for (const id of JSON.parse(wanted.get("items"))) {
      const [item] = (await ask(`/api/items?q=${encodeURIComponent(id)}&limit=1`)).items;
      if (item) taste.set(item.id, item.title);
    }
    setMode("taste");
  }
};
start().catch((error) => problem(error.message));
