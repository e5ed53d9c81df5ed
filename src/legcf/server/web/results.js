// SPDX-License-Identifier: Apache-2.0
// A list of recommendations: what, how strongly, and why in plain words.
import { make } from "./ui.js";

export const meter = (share) => {
  const inner = make("i");
  inner.style.width = `${Math.max(2, Math.min(100, 100 * share))}%`;
  return make("span", { className: "meter", aria: { hidden: "true" } }, inner);
};

// One row: title, what can be done with it, how strong. The last two never leave their row.
export const row = (item, share, score, actions) => make("div", { className: "card-line" },
  make("span", { className: "card-title", textContent: item.title }),
  make("span", { className: "card-actions" }, ...actions),
  make("span", { className: "strength" }, meter(share), make("span", { className: "score", textContent: score, title: "Score" })));

export const action = (text, label, act) => {
  const button = make("button", { type: "button", className: "link", textContent: text, aria: { label } });
  button.addEventListener("click", act);
  return button;
};

const part = (title, ...content) => make("div", {}, make("h3", { textContent: title }), ...content);
const share = (value, whole) => `${Math.round(100 * Math.min(1, Math.max(0, value / whole)))} %`;

// `known`: somebody else is looked at, not the person who looks.
const whyPanel = (why, known) => {
  const text = known ? why.text.replace(/^Because you have/, "Because they have") : why.text;
  const summary = make("summary", {}, "Why? ", make("b", { textContent: text }));
  const body = make("div", { className: "why-body" });
  const largest = Math.max(...why.because.map((item) => item.score), 1e-9);
  if (why.because.length) body.append(part("What speaks for it", make("ul", {}, ...why.because.map((item) => make("li", {}, meter(item.score / largest), make("span", { textContent: item.title }))))));
  const named = new Set([...why.because.map((item) => item.id), why.item]);
  const alike = new Map(why.shared.flatMap((shared) => shared.examples.filter((item) => !named.has(item.id)).slice(0, 2).map((item) => [item.id, item.title])));
  if (alike.size) body.append(part("Liked by the same kind of people", make("ul", {}, ...[...alike.values()].slice(0, 4).map((title) => make("li", { textContent: title })))));
  if (why.neighbours > 0 && why.score > 0) body.append(part("Other people", make("p", { textContent: `${share(why.neighbours, why.score)} of the score comes from people who have some of the same items.` })));
  if (!body.children.length) return make("p", { className: "why plain", textContent: text });
  return make("details", { className: "why" }, summary, body);
};

export const resultCards = (answer, known, actions) => {
  const scores = answer.items.map((item) => item.score);
  const best = Math.max(...scores), worst = Math.min(...scores);
  const reasons = new Map(answer.why.map((why) => [why.item, why]));
  return answer.items.map((item) => {
    const strength = best > worst ? 0.15 + (0.85 * (item.score - worst)) / (best - worst) : 1;
    const score = answer.fallback ? "" : item.score.toPrecision(3); // popularity is no score
    const card = make("li", {}, row(item, strength, score, actions(item)));
    if (reasons.has(item.id) && !answer.fallback) card.append(whyPanel(reasons.get(item.id), known));
    return card;
  });
};
