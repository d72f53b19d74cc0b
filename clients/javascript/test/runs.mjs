/** What a page does in a browser, by the path it is opened at; `read` fetches JSON. */

import { broken } from "./laws.mjs";
import { counts } from "./counts.mjs";
import { microseconds, ofShares } from "./speed.mjs";
import { check } from "./vectors.mjs";

const suites = async (read, kind) => (await read(`/${kind}`)).map((name) => [name, () => read(`/${kind}/${name}`)]);

export const runs = {
  /** Vectors met, refusals included. */
  async conformance(privot, read) {
    const found = { met: 0, total: 0, missed: [] };
    for (const [name, suite] of [...(await suites(read, "vectors")), ...(await suites(read, "shares"))]) {
      const { met, total, missed } = await check(privot, await suite());
      found.met += met;
      found.total += total;
      found.missed.push(...missed.map((line) => `${name}: ${line}`));
    }
    return found;
  },

  /** Laws of outboxes that keep reports in IndexedDB, and a signature of this browser's. */
  async outbox({ Device, Outbox }, read) {
    const { randomizer, vectors } = await read("/vectors/joint_pairs.json");
    const pair = await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
    const base64 = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)));
    const text = new TextEncoder().encode(randomizer);
    const device = await Device.load(randomizer, {
      publicKey: base64(await crypto.subtle.exportKey("raw", pair.publicKey)),
      signature: base64(await crypto.subtle.sign({ name: "Ed25519" }, pair.privateKey, text)),
    });
    return { broken: await broken(device, vectors[0].record, (name) => () => Outbox.open(name)) };
  },

  /** Reports that ledgers in IndexedDB draw, as tabs would at once: in one wave, and up to a limit. */
  async ledger({ BrowserStore, Device, Ledger, Panel }, read) {
    const { randomizer, vectors } = await read("/vectors/joint_pairs.json");
    const [device, { record }] = [await Device.load(randomizer), vectors[0]];
    const panelOf = (name) =>
      Panel.fromJson(JSON.stringify({ format: 1, name, window: 1, start: 0, length: 3600, seed: "s", waves: null }));
    const limit = { epsilon: 2.5 * device.promise.epsilon };
    const open = async () => Ledger.open(await BrowserStore.open("ledger"), { person: "me", now: -1, limit });
    const text = async (name) => String((await (await open()).report(device, record, panelOf(name), { now: 0 })).toBytes());
    const wave = new Set(await Promise.all(Array.from({ length: 6 }, () => text("one"))));
    const campaigns = await Promise.allSettled(["two", "three", "four"].map(text));
    const again = (await text("one")) === [...wave][0];
    return { wave: wave.size, campaigns: campaigns.filter(({ status }) => status === "fulfilled").length, again };
  },

  /** How often 10⁶ draws gave what, by randomizer. */
  counts: async (privot, read) => counts(privot, read, 1_000_000),

  /** Microseconds of one report of ten columns. */
  speed: async (privot, read) => microseconds(privot, await read("/cases.json")),

  /** Milliseconds and bytes of one record's shares. */
  encoding: async (privot, read) => ofShares(privot, await read("/cases.json")),
};
