/** `node test/conformance.mjs [module]`: does the built client meet every vector, in Node? */

import { readdirSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { check } from "./vectors.mjs";

const built = process.argv[2] ? pathToFileURL(process.argv[2]) : new URL("../dist/privot.js", import.meta.url);
const privot = await import(built);
let [met, total] = [0, 0];
for (const kind of ["vectors", "shares"]) {
  const folder = new URL(`../../../conformance/${kind}/`, import.meta.url);
  for (const name of readdirSync(folder).sort()) {
    const found = await check(privot, JSON.parse(readFileSync(new URL(name, folder), "utf-8")));
    for (const line of found.missed) console.log(`${name}: ${line}`);
    met += found.met;
    total += found.total;
  }
}
console.log(`${met} of ${total} vectors are met by Node ${process.versions.node}`);
process.exitCode = met === total ? 0 : 1;
