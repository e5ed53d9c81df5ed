// The OpenAPI document as a readable page, without assets from elsewhere.
const make = (tag, options = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), options);
  element.append(...children);
  return element;
};
const spec = await (await fetch("/openapi.json")).json();
const resolve = (schema) => (schema?.$ref ? spec.components.schemas[schema.$ref.split("/").pop()] : schema) ?? {};
const kind = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return [...new Set(schema.anyOf.map(kind))].join(" or ");
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
document.getElementById("about").textContent = spec.info.description;
const root = document.getElementById("docs");
for (const [path, methods] of Object.entries(spec.paths)) for (const [method, operation] of Object.entries(methods)) {
  const panel = make("section", { className: "panel" }, make("h2", { textContent: `${method.toUpperCase()} ${path}` }), make("p", { textContent: operation.description ?? operation.summary, className: "hint" }));
  if (operation.parameters?.length) panel.append(...table("Parameters", operation.parameters.map((p) => [p.name, kind(p.schema), [p.description, bounds(p.schema)].filter(Boolean).join(" · ")])));
  const shown = new Set();
  const show = (schema, title) => {
    const name = schema?.$ref?.split("/").pop();
    const target = resolve(schema);
    if (!target.properties || shown.has(name)) return;
    shown.add(name);
    panel.append(...table(title ?? name, Object.entries(target.properties).map(([key, value]) => [key, kind(value), [value.description, bounds(value)].filter(Boolean).join(" · ")])));
    for (const value of Object.values(target.properties)) for (const inner of [value, value.items, ...(value.anyOf ?? [])]) if (inner?.$ref) show(inner);
  };
  show(operation.requestBody?.content?.["application/json"]?.schema, "Body");
  show(operation.responses?.["200"]?.content?.["application/json"]?.schema, "Answer");
  panel.append(make("p", { className: "hint", textContent: "Other answers: " + Object.keys(operation.responses).filter((code) => code !== "200").join(", ") + " with { \"detail\": one sentence }." }));
  root.append(panel, make("p"));
}
