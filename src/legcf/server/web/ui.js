// SPDX-License-Identifier: Apache-2.0
// Small helpers that every view uses: elements, requests, search boxes.
import { ask } from "./backend.js";

export const $ = (id) => document.getElementById(id);

export const make = (tag, options = {}, ...children) => {
  const { dataset, aria, ...rest } = options;
  const element = Object.assign(document.createElement(tag), rest);
  Object.assign(element.dataset, dataset ?? {});
  for (const [name, value] of Object.entries(aria ?? {})) element.setAttribute(name === "role" ? "role" : `aria-${name}`, value);
  element.append(...children);
  return element;
};

export const say = (text) => { $("status").textContent = text; };
export const problem = (text) => { $("problem").hidden = !text; $("problem-text").textContent = text ?? ""; };

// Whatever fails in `work` is told; null is given back then.
export const attempt = async (work) => {
  try { return await work(); } catch (error) { problem(error.message); return null; }
};

// A batch of one: its result, or its error.
export const recommend = async (request) => {
  const { results, errors } = await ask("/recommend", { requests: [request] });
  if (errors[0]) throw new Error(errors[0].detail);
  return results[0];
};

// An id in the query and not in the path: browsers take `..` out of paths, however it is written.
export const withId = (path, name, id, more = "") => `${path}?${name}=${encodeURIComponent(id)}${more}`;

// A combobox: type, choose by mouse, or by arrows and Enter; Escape closes. `typed` takes what was only typed.
export const combo = (input, list, find, choose, typed = null) => {
  let options = [], active = -1, turn = 0, timer;
  // closing also calls off what is still being looked up, or the list would open again behind the choice
  const close = () => { clearTimeout(timer); turn++; list.hidden = true; active = -1; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); };
  const mark = (place) => {
    active = place;
    [...list.children].forEach((element, k) => element.setAttribute("aria-selected", String(k === place)));
    if (place >= 0) { input.setAttribute("aria-activedescendant", list.children[place].id); list.children[place].scrollIntoView({ block: "nearest" }); }
  };
  const take = (place) => { const option = options[place]; close(); if (option) choose(option); };
  const open = async () => {
    const mine = ++turn;
    const found = await attempt(() => find(input.value.trim()));
    if (found === null || mine !== turn || document.activeElement !== input) return;
    options = found;
    list.replaceChildren(...found.map((option, k) => {
      const element = make("li", { id: `${list.id}-${k}`, aria: { role: "option", selected: "false" } }, make("span", { textContent: option.label }));
      if (option.note) element.append(make("small", { textContent: option.note }));
      element.addEventListener("mousedown", (event) => { event.preventDefault(); take(k); });
      return element;
    }));
    if (!found.length) list.append(make("li", { className: "none", textContent: "Nothing found" }));
    list.hidden = false;
    active = -1;
    input.setAttribute("aria-expanded", "true");
    say(found.length ? `${found.length} suggestions` : "Nothing found");
  };
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(open, 120); });
  input.addEventListener("focus", open);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) open();
      else if (options.length) mark((active + (event.key === "ArrowDown" ? 1 : -1) + options.length) % options.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      const text = input.value.trim();
      if (!list.hidden && active >= 0) take(active);
      else if (typed && text) { close(); typed(text); }
      else if (!list.hidden) take(0);
    }
  });
};

export const findItems = async (text) => (await ask(`/api/items?q=${encodeURIComponent(text)}`)).items.map((item) => ({ ...item, label: item.title, note: `${item.users} users` }));

// The colour of an anchor, as the server chose it.
let hues = [220];
export const setHues = (given) => { hues = given; };
export const colour = (meta, dark) => `hsl(${hues[meta % hues.length]} ${dark ? "70% 64%" : "65% 42%"})`;
export const isDark = () => getComputedStyle(document.documentElement).colorScheme.includes("dark");
export const bytes = (size) => size >= 1e6 ? `${(size / 1e6).toFixed(2)} MB` : `${(size / 1e3).toFixed(0)} kB`;
