/**
 * `node test/lying_device.mjs ENCODER RECORD CLIENT`: an honest pair of shares with a proof, and liars' pairs, in hexadecimal.
 *
 * A liar shares what is no record's, with the proof that an honest device would make of it.
 */

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { histogram, lies, numbers, pairs, RAND_BYTES, shard } from "./prover.mjs";

const [encoderPath, record, client] = process.argv.slice(2);
const { Encoder } = await import(pathToFileURL(client));
const text = readFileSync(encoderPath, "utf-8");
const encoder = await Encoder.load(text);
const { leader, helper } = encoder.encode(JSON.parse(readFileSync(record, "utf-8")));
const random = (count) => crypto.getRandomValues(new Uint8Array(count));
const hex = (bytes) => Buffer.from(bytes).toString("hex");

const { program } = encoder;
const sizes = program.pairs?.map(({ codes }) => codes[0].length);
const take = Object.values(program.columns)[0];
const cells = program.levels && 2 ** (take.columns.length * program.levels.halvings.at(-1)) + Number(take.nullable);
const made = sizes ? pairs : histogram;
const width = sizes ? sizes.reduce((sum, size) => sum + size) : cells;

/** A liar's pair, for servers that expect the encoder's. */
function lie(circuit, measurement) {
  const id = random(16);
  const bodies = shard(circuit, measurement, id, random(RAND_BYTES));
  return [leader, helper].map((share, server) => hex(share.subarray(0, 33)) + hex(id) + hex(bodies[server]));
}

const found = { honest: [hex(leader), hex(helper)] };
for (const [name, measurement] of Object.entries(lies(sizes ?? cells))) found[name] = lie(made(width), measurement);
const longer = made(width + 1);
found["another length"] = lie(longer, numbers(longer.length, { 0: 1 }));
const plain = await Encoder.load(text.replace('"proofs":true', '"proofs":false'));
const unproven = plain.encode(JSON.parse(readFileSync(record, "utf-8")));
found["without a proof"] = [leader, helper].map((share, server) =>
  hex(share.subarray(0, 33)) + hex([unproven.leader, unproven.helper][server].subarray(33)),
);
console.log(JSON.stringify(found));
