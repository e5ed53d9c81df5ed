// SPDX-License-Identifier: Apache-2.0
// node node_answers.js LEGCF_JS FOLDER: writes NAME.node.json beside each NAME.legcf.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { answers } from "./answers.js";

const [reader, folder] = process.argv.slice(2);
const { Legcf } = await import(pathToFileURL(reader));
for (const name of readdirSync(folder).filter((file) => file.endsWith(".legcf"))) {
  const path = `${folder}/${name.slice(0, -6)}`;
  const model = await Legcf.load(readFileSync(`${path}.legcf`));
  const { questions } = JSON.parse(readFileSync(`${path}.json`, "utf8"));
  writeFileSync(`${path}.node.json`, JSON.stringify(answers(model, questions)));
}
