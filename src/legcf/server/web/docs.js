// SPDX-License-Identifier: Apache-2.0
// The OpenAPI document as a readable page with every operation to be tried, without assets from elsewhere.
import { currentKey } from "./backend.js";
import { attempt, make, problem } from "./ui.js";
import { fillIn, tryIt, written } from "./tryit.js";

const kind = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return [...new Set(either.map(kind))].join(" or ");
  if (schema.type === "array") return `list of ${kind(schema.items)}`;
  return schema.type ?? "any";
};

const bounds = (schema) => {
  const parts = [];
  if (schema.minimum !== undefined) parts.push(`≥ ${schema.minimum}`);
  if (schema.maximum !== undefined) parts.push(`≤ ${schema.maximum}`);
  if (schema.maxItems !== undefined) parts.push(`at most ${schema.maxItems}`);
  if (schema.default !== undefined) parts.push(`default ${JSON.stringify(schema.default)}`);
  return parts.join(", ");
};

const table = (title, rows) => {
  const body = make("tbody");
  for (const [name, type, note] of rows) body.append(make("tr", {}, make("th", { textContent: name, scope: "row" }), make("td", { textContent: type }), make("td", { textContent: note })));
  return [make("p", { className: "label", textContent: title }), make("table", {}, body)];
};

// Every schema that an operation speaks of, once.
const schemas = (spec, first, title) => {
  const shown = new Set(), parts = [];
  const show = (schema, name) => {
    const id = schema?.$ref?.split("/").pop();
    const target = id ? spec.components.schemas[id] : schema;
    if (!target?.properties || shown.has(id)) return;
    shown.add(id);
    parts.push(...table(name ?? id, Object.entries(target.properties).map(([key, value]) => [key, kind(value), [value.description, bounds(value)].filter(Boolean).join(" · ")])));
    for (const value of Object.values(target.properties)) for (const inner of [value, value.items, ...(value.anyOf ?? []), ...(value.items?.anyOf ?? [])]) if (inner?.$ref) show(inner);
  };
  show(first, title);
  return parts;
};

const panel = (spec, path, method, operation) => {
  const section = make("section", { className: "panel operation" }, make("h2", { textContent: `${method.toUpperCase()} ${path}` }), make("p", { textContent: operation.summary, className: "hint" }));
  if (operation.parameters?.length) section.append(...table("Parameters", operation.parameters.map((p) => [p.name, kind(written(p)), [p.description, p.required ? "required" : "", bounds(written(p))].filter(Boolean).join(" · ")])));
  const body = operation.requestBody?.content["application/json"].schema;
  section.append(tryIt(spec, path, method, operation));
  const details = make("details", {}, make("summary", { textContent: "Everything it takes and gives" }), ...schemas(spec, body, "Body"), ...schemas(spec, operation.responses["200"].content["application/json"]?.schema, "Answer"));
  const others = Object.entries(operation.responses).filter(([code]) => code !== "200");
  if (others.length) details.append(...table('Other answers, with { "detail": one sentence }', others.map(([code, answer]) => [code, "", answer.description])));
  if (details.children.length > 1) section.append(details);
  return section;
};

// The document's examples are nobody's ids: those of the model are asked for, if the server tells them.
const fillWithOwn = async (key) => {
  const headers = key ? { "X-API-Key": key } : {};
  const found = async (path) => { const answer = await fetch(path, { headers }); return answer.ok ? answer.json() : null; };
  const [users, items] = await Promise.all([found("/api/users?limit=1"), found("/api/items?limit=3")]);
  const pairs = [["alice", users?.users[0]], ...["tea-green", "cup-blue", "tea-black"].map((name, k) => [name, items?.items[k]?.id])];
  fillIn(new Map(pairs.filter(([, id]) => id !== undefined)));
};

attempt(async () => {
  const answer = await fetch("/openapi.json").catch(() => { throw new Error("The server does not answer. Is it still running?"); });
  const spec = await answer.json();
  document.getElementById("about").textContent = spec.info.description;
  const root = document.getElementById("docs");
  if (spec.components.securitySchemes) {
    const needed = make("section", { className: "panel" }, make("h2", { textContent: "Key" }), make("p", { className: "hint", textContent: "This server asks for a key, as X-API-Key or as a bearer token. What is tried here sends this one." }), make("label", { className: "label", htmlFor: "try-key", textContent: "API key" }), make("input", { id: "try-key", type: "password", autocomplete: "off", value: currentKey() ?? "" }));
    root.append(needed);
    needed.querySelector("input").addEventListener("change", (event) => attempt(() => fillWithOwn(event.target.value)));
  }
  for (const [path, methods] of Object.entries(spec.paths)) for (const [method, operation] of Object.entries(methods)) root.append(panel(spec, path, method, operation));
  problem(null);
  if (!spec.components.securitySchemes || currentKey()) await fillWithOwn(currentKey());
});
