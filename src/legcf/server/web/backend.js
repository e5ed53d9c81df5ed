// SPDX-License-Identifier: Apache-2.0
// What the page asks, answered by the server. A page that works without one has a backend of its own (device/backend.js).
const $ = (id) => document.getElementById(id);

let key = null;
let asking = null; // one dialog, however many requests wait for it
try { key = sessionStorage.getItem("legcf-key"); } catch { /* storage may be barred */ }
export const currentKey = () => key;

const askKey = (wrong) => {
  asking ??= new Promise((resolve, reject) => {
    const dialog = $("key");
    $("key-wrong").hidden = !wrong;
    $("key-input").value = "";
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      asking = null;
      if (dialog.returnValue !== "given" || !$("key-input").value) { reject(new Error("This server needs a key. Reload the page to enter one.")); return; }
      key = $("key-input").value;
      try { sessionStorage.setItem("legcf-key", key); } catch { /* then it lasts until reload */ }
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
};

// Integers beyond 2^53 would be rounded: an id keeps its digits as text, which the server takes as well.
const exact = (name, value, context) => (typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? context.source : value);

const send = async (path, body) => {
  const headers = {};
  const used = key;
  if (used) headers["X-API-Key"] = used;
  if (body) headers["Content-Type"] = "application/json";
  try {
    return [await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers }), used];
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
};

// Ask the server. A refusal becomes an Error with the server's own sentence.
export const ask = async (path, body) => {
  if (key && !/^[\x20-\x7e]+$/.test(key)) await askKey(true); // a header cannot carry it, so it cannot be right
  const [response, used] = await send(path, body);
  if (response.status === 401) {
    if (used === key) await askKey(Boolean(used)); // else another request has a new key already
    return ask(path, body);
  }
  let content;
  try { content = JSON.parse(await response.text(), exact); } catch { throw new Error(`The server answered ${response.status}, and not in JSON.`); }
  if (!response.ok) throw new Error(content.detail ?? `The server answered ${response.status}.`);
  return content;
};

// What the page says beside the search box, and what it keeps of a taste: here the address keeps it.
export const tasteHint = "Nobody with this list needs to be in the training data.";
export const keptTaste = () => [];
export const keepTaste = () => {};
