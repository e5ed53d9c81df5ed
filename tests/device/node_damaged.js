// SPDX-License-Identifier: Apache-2.0
// node node_damaged.js LEGCF_JS FOLDER: reads every *.bad file; prints what was accepted, the slowest and the memory.
import { readdirSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [reader, folder] = process.argv.slice(2);
const { Legcf } = await import(pathToFileURL(reader));
const before = process.memoryUsage().rss;
const report = { files: 0, accepted: [], odd: [], slowest: 0, bytes: 0 };
for (const name of readdirSync(folder).filter((file) => file.endsWith(".bad"))) {
  const bytes = readFileSync(`${folder}/${name}`), start = performance.now();
  try {
    await Legcf.load(bytes);
    report.accepted.push(name);
  } catch (error) {
    if (error.constructor !== Error || !/^[A-Z].*\.$/s.test(error.message)) report.odd.push([name, String(error)]);
  }
  report.files++;
  report.slowest = Math.max(report.slowest, performance.now() - start);
  report.bytes = Math.max(report.bytes, process.memoryUsage().rss - before);
}
console.log(JSON.stringify(report));
