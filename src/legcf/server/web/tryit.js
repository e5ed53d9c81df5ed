// SPDX-License-Identifier: Apache-2.0
// A form for one operation: filled with examples, sent from the page, and the answer as it came.
import { make } from "./ui.js";

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const keyField = () => document.getElementById("try-key")?.value ?? "";

// The schema of a parameter, be it plain or JSON.
export const written = (parameter) => parameter.schema ?? parameter.content["application/json"].schema;
const usual = (value) => (value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));

const field = (parameter, id) => {
  const input = make("input", { type: "text", id, value: parameter.example ?? "", placeholder: usual(written(parameter).default) });
  return [make("label", { className: "label", htmlFor: id, textContent: `${parameter.name}${parameter.required ? "" : " (optional)"}` }), input];
};

const address = (path, parameters, inputs) => {
  const query = [];
  let filled = path;
  parameters.forEach((parameter, k) => {
    const value = inputs[k].value;
    if (parameter.in === "path") filled = filled.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (value !== "" || parameter.required) query.push(`${parameter.name}=${encodeURIComponent(value)}`);
  });
  return query.length ? `${filled}?${query.join("&")}` : filled;
};

const shortened = (text, most = 20000) => (text.length > most ? `${text.slice(0, most)}\n… and ${(text.length - most).toLocaleString("en")} more characters` : text);
const pretty = (text) => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };

// Ids of this model in place of the document's, wherever those still stand.
export const fillIn = (ids) => {
  const replaced = (value) => {
    if (Array.isArray(value)) return value.map(replaced);
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, replaced(inner)]));
    return ids.has(value) ? ids.get(value) : value;
  };
  for (const input of document.querySelectorAll(".try input, .try textarea")) {
    if (input.tagName === "INPUT") input.value = replaced(input.value);
    else try { input.value = JSON.stringify(replaced(JSON.parse(input.value)), null, 2); } catch { continue; } // somebody is writing
    input.dispatchEvent(new Event("input", { bubbles: true }));
  }
};

export const tryIt = (spec, path, method, operation) => {
  const parameters = operation.parameters ?? [];
  const fields = parameters.map((parameter, k) => field(parameter, `${operation.operationId}-${k}`));
  const inputs = fields.map(([, input]) => input);
  const reference = operation.requestBody?.content["application/json"].schema.$ref;
  const example = reference ? spec.components.schemas[reference.split("/").pop()].examples?.[0] : undefined;
  const body = reference ? make("textarea", { rows: 9, spellcheck: false, value: JSON.stringify(example ?? {}, null, 2), id: `${operation.operationId}-body` }) : null;
  const command = make("pre", { className: "command" });
  const output = make("pre", { className: "answer", tabIndex: 0, hidden: true });
  const status = make("p", { className: "hint", aria: { role: "status" } });

  const describe = () => {
    const parts = [`curl --path-as-is ${shell(location.origin + address(path, parameters, inputs))}`];
    if (operation.security) parts.push("-H \"X-API-Key: $LEGCF_API_KEY\"");
    if (!["GET", "POST"].includes(method.toUpperCase())) parts.push(`-X ${method.toUpperCase()}`);
    if (body) parts.push("-H 'Content-Type: application/json'", `-d ${shell(body.value)}`);
    command.textContent = parts.join(" \\\n  ");
  };
  const send = async () => {
    const headers = body ? { "Content-Type": "application/json" } : {};
    if (operation.security && keyField()) headers["X-API-Key"] = keyField();
    status.textContent = "Asking …";
    const start = performance.now();
    try {
      const answer = await fetch(address(path, parameters, inputs), { method: method.toUpperCase(), headers, ...(body ? { body: body.value } : {}) });
      const text = await answer.text();
      status.textContent = `${answer.status} after ${Math.round(performance.now() - start)} ms, request ${answer.headers.get("x-request-id") ?? "–"}`;
      output.textContent = shortened(pretty(text));
      output.hidden = false;
    } catch {
      status.textContent = "The server does not answer. Is it still running?";
      output.hidden = true;
    }
  };

  const form = make("form", { className: "try" }, make("h3", { textContent: "Try it" }), ...fields.map((pair) => make("div", {}, ...pair)));
  if (body) form.append(make("div", { className: "wide" }, make("label", { className: "label", htmlFor: body.id, textContent: "Body" }), body));
  form.append(make("div", { className: "wide" }, make("button", { type: "submit", className: "primary", textContent: "Send" })), command, status, output);
  form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
  form.addEventListener("input", describe);
  describe();
  return form;
};
