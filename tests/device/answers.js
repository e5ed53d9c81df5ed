// SPDX-License-Identifier: Apache-2.0
// Ask a model the questions of a golden file: the same code in Node, on a page and in a Worker.

const names = { exclude_seen: "excludeSeen" };
const plain = (key, value) => (typeof value === "bigint" || key === "id" || (key === "item" && typeof value !== "object") ? String(value) : value);

/** The answers as JSON has them; null where the model refuses. */
export const answers = (model, questions) => questions.map(({ ask, options }) => {
  const renamed = Object.fromEntries(Object.entries(options).map(([key, value]) => [names[key] ?? key, value]));
  try { return JSON.parse(JSON.stringify(model[ask](renamed), plain)); } catch (error) {
    if (error.constructor !== Error) throw error; // a mistake of the reader, no refusal
    return null;
  }
});
