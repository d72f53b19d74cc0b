/** `node test/refusals.mjs FILE CLIENT`: which of the randomizers of a file a client does not refuse in one line. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [file, client] = process.argv.slice(2);
const { Device, PrivotError } = await import(pathToFileURL(resolve(client)));
const broken = [];
for (const [index, text] of JSON.parse(await readFile(file, "utf-8")).entries()) {
  const found = await Device.load(text).catch((error) => error);
  const refused = found instanceof PrivotError && !found.message.includes("\n");
  if (!refused) broken.push([index, String(found)]);
}
console.log(JSON.stringify(broken));
