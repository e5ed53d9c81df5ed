// SPDX-License-Identifier: Apache-2.0
// Rules of a request: attributes as filters, and how different the items are to be. Who somebody without items is.
import { $, make } from "./ui.js";

const fields = new Map(); // attribute → what its field asks for, undefined for nothing

const choice = (attribute, changed) => {
  const id = `rule-${fields.size}`;
  const options = attribute.values.map(({ value, items }) => make("option", { value, textContent: `${value} (${items})` }));
  const select = make("select", { id }, make("option", { value: "", textContent: "Any" }), ...options);
  const kind = make("select", { id: `${id}-kind`, aria: { label: `How ${attribute.name} is to be` } }, make("option", { value: "is", textContent: "is" }), make("option", { value: "not", textContent: "is not" }));
  fields.set(attribute.name, () => (select.selectedIndex === 0 ? undefined : kind.value === "not" ? { not: select.value } : select.value));
  for (const element of [select, kind]) element.addEventListener("change", changed);
  return make("div", { className: "rule" }, make("label", { className: "label", htmlFor: id, textContent: attribute.name }), kind, select);
};

const span = (attribute, changed) => {
  const id = `rule-${fields.size}`;
  const [low, high] = ["min", "max"].map((end) => make("input", { type: "number", step: "any", id: `${id}-${end}`, placeholder: String(attribute[end]), aria: { label: `${attribute.name}, ${end === "min" ? "at least" : "at most"}` } }));
  fields.set(attribute.name, () => {
    const wanted = {};
    if (low.value !== "") wanted.min = Number(low.value);
    if (high.value !== "") wanted.max = Number(high.value);
    return Object.keys(wanted).length ? wanted : undefined;
  });
  for (const element of [low, high]) element.addEventListener("change", changed);
  return make("div", { className: "rule" }, make("span", { className: "label", textContent: attribute.name }), low, make("span", { textContent: "to" }), high);
};

// Fields for the attributes of this model; `changed` is called whenever somebody changes one.
export const showRules = (attributes, changed) => {
  $("rules").hidden = !attributes.length;
  $("rule-fields").replaceChildren(...attributes.map((attribute) => (attribute.kind === "number" ? span : choice)(attribute, changed)));
  $("diversity").addEventListener("change", changed);
};

const known = new Map(); // column of users that the model learnt from → its field

// Fields for what the model knows of people without items; `changed` is called whenever somebody changes one.
export const showAbout = (columns, changed) => {
  $("about").hidden = !columns.length;
  $("about").append(...columns.map(({ name, kind }, place) => {
    const field = make("input", { id: `about-${place}`, type: kind === "number" ? "number" : "text", step: "any" });
    field.addEventListener("change", changed);
    known.set(name, () => (field.value === "" ? undefined : kind === "number" ? Number(field.value) : field.value));
    return make("div", { className: "rule" }, make("label", { className: "label", htmlFor: field.id, textContent: name }), field);
  }));
};

const filled = (fields) => Object.fromEntries([...fields].map(([name, wanted]) => [name, wanted()]).filter(([, wanted]) => wanted !== undefined));

// What is said of somebody without items; null for nothing.
export const about = () => { const said = filled(known); return Object.keys(said).length ? said : null; };

// What a request asks for beside the user.
export const rules = () => {
  const filter = filled(fields);
  const count = Object.keys(filter).length;
  $("rules-count").textContent = count ? `(${count})` : "";
  return { filter, diversity: Number($("diversity").value) };
};
