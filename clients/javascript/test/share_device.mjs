/**
 * `node test/share_device.mjs ENCODER FOLDER LEADER HELPER RECORDS [dist]`: devices that share one outbox in a folder.
 *
 * Each record of a JSON file is encoded once, and both shares are sent until both servers have them. Prints the key of
 * each record and the id of its shares as soon as they are delivered.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [encoderPath, folder, leader, helper, records, dist = join(import.meta.dirname, "../dist")] = process.argv.slice(2);
const { Encoder, ShareOutbox } = await import(pathToFileURL(join(dist, "privot.js")));
const { FolderStore } = await import(pathToFileURL(join(dist, "node.js")));
const encoder = await Encoder.load(readFileSync(encoderPath, "utf-8"));

for (const [key, record] of JSON.parse(readFileSync(records, "utf-8")).entries()) {
  const outbox = new ShareOutbox(new FolderStore(join(folder, String(key)))); // a device of its own
  const shares = await outbox.shares(encoder, record);
  if (!shares) continue; // before this program was killed
  let waiting = 1;
  while (waiting) {
    const delivery = await outbox.send({ leader, helper }, { tries: 2, pause: 20 });
    if (delivery.refused.length) throw new Error(JSON.stringify(delivery.refused));
    waiting = delivery.waiting;
  }
  console.log(JSON.stringify({ key, id: Buffer.from(shares.leader.slice(33, 49)).toString("hex") }));
}
