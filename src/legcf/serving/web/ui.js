// Small helpers that every view uses: elements, requests, search boxes.
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
export const problem = (text) => { $("problem").hidden = !text; $("problem").textContent = text ?? ""; };

let key = null;
try { key = sessionStorage.getItem("legcf-key"); } catch { /* storage may be barred */ }

const askKey = () => new Promise((resolve) => {
  const dialog = $("key");
  dialog.addEventListener("close", () => {
    key = $("key-input").value;
    try { sessionStorage.setItem("legcf-key", key); } catch { /* then it lasts until reload */ }
    resolve();
  }, { once: true });
  if (!dialog.open) dialog.showModal();
});

// Ask the server. A refusal becomes an Error with the server's own sentence.
export const ask = async (path, body) => {
  const headers = {};
  if (key) headers["X-API-Key"] = key;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  if (response.status === 401) { await askKey(); return ask(path, body); }
  const content = await response.json();
  if (!response.ok) throw new Error(content.detail ?? `The server answered ${response.status}.`);
  return content;
};

// A combobox: type, choose by mouse, or by arrows and Enter; Escape closes.
export const combo = (input, list, find, choose) => {
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
    let found;
    try { found = await find(input.value.trim()); } catch (error) { problem(error.message); return; }
    if (mine !== turn || document.activeElement !== input) return;
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
    } else if (event.key === "Enter" && !list.hidden) { event.preventDefault(); take(active >= 0 ? active : 0); }
  });
};

export const findItems = async (text) => (await ask(`/api/items?q=${encodeURIComponent(text)}`)).items.map((item) => ({ ...item, label: item.title, note: `${item.users} users` }));

// The colour of an anchor, as the server chose it.
let hues = [220];
export const setHues = (given) => { hues = given; };
export const colour = (meta, dark) => `hsl(${hues[meta % hues.length]} ${dark ? "70% 64%" : "65% 42%"})`;
export const isDark = () => getComputedStyle(document.documentElement).colorScheme.includes("dark");
export const bytes = (size) => size >= 1e6 ? `${(size / 1e6).toFixed(2)} MB` : `${(size / 1e3).toFixed(0)} kB`;
