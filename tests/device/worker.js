// SPDX-License-Identifier: Apache-2.0
// Answer the questions of golden files in a Worker.
import { Legcf } from "./legcf.js";
import { answers } from "./answers.js";

onmessage = async ({ data: { bytes, questions } }) => {
  try { postMessage({ answers: answers(await Legcf.load(bytes), questions) }); } catch (error) { postMessage({ error: String(error) }); }
};
