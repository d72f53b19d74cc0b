/** `node --test`: randomizers that are refused, reports, outboxes in memory and in a folder. */

import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";
import { LAWS } from "./laws.mjs";

const dist = process.env.PRIVOT_CLIENT ?? new URL("../dist", import.meta.url).pathname;
const { Device, MemoryStore, Outbox, PrivotError, Report, writeBatch } = await import(
  pathToFileURL(join(dist, "privot.js"))
);
const { FolderStore } = await import(pathToFileURL(join(dist, "node.js")));

const folder = new URL("../../../conformance/vectors/", import.meta.url);
const suite = async (name) => JSON.parse(await readFile(new URL(`${name}.json`, folder), "utf-8"));
const { randomizer: TEXT, vectors } = await suite("joint_pairs");
const RECORD = vectors[0].record;
const device = await Device.load(TEXT);

const refused = (text, pins, words) =>
  assert.rejects(Device.load(text, pins), (error) => error instanceof PrivotError && words.test(error.message));

async function sealed(fields) {
  const body = JSON.stringify(fields);
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(body));
  return `${body.slice(0, -1)},"fingerprint":"${Buffer.from(digest).toString("hex")}"}`;
}

test("an altered randomizer is refused", async () => {
  const steps = TEXT.replace('"time_step":3600', '"time_step":1');
  assert.notEqual(steps, TEXT);
  for (const text of [steps, TEXT.slice(0, -3), TEXT + " x", TEXT.replace(",", ", "), "{}", "", "\ufeff" + TEXT]) {
    await refused(text, {}, /altered/);
  }
  assert.equal((await Device.load(`\n${TEXT} \n`)).fingerprint, device.fingerprint);
});

test("a randomizer that is not the pinned one is refused", async () => {
  await refused(TEXT, { fingerprint: "0".repeat(64) }, /pinned/);
  await Device.load(TEXT, { fingerprint: device.fingerprint });
});

test("a randomizer without a program, or of another version, is refused", async () => {
  for (const program of [null, undefined, {}, { version: 1 }, { ...device.program, version: "2" }]) {
    await refused(await sealed({ format: 1, device: program }), {}, /no program/);
  }
});

test("a program that exceeds what it states is refused, and a promise that is none", async () => {
  const columns = { yes: { take: "boolean", columns: ["yes"], missing: null } };
  const draw = { draw: "response", values: 2, slot: (2n ** 62n).toString(16) }; // a ratio of 3
  const split = { choose: 1, reports: [{ column: "yes", draw }] };
  const program = { version: 2, time_step: 3600, columns, joint: null, split };
  const text = (epsilon) => sealed({ device: program, guarantee: { kind: "PureDP", neighboring: "local", epsilon } });
  const [low, high] = [1.0986122886681096, 1.0986122886681098]; // ln 3 is between
  await refused(await text(low), {}, /exceeds the epsilon 1.0986122886681096/);
  assert.equal((await Device.load(await text(high))).promise.epsilon, high);
  for (const epsilon of [undefined, "9", -1, null]) await refused(await text(epsilon), {}, /promises nothing/);
});

test("a signature is of the pinned key and the whole text", async () => {
  const bytes = (text) => new TextEncoder().encode(text);
  const base64 = (buffer) => Buffer.from(buffer).toString("base64");
  const pair = async () => crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
  const [mine, other] = [await pair(), await pair()];
  const signature = base64(await crypto.subtle.sign({ name: "Ed25519" }, mine.privateKey, bytes(TEXT)));
  const publicKey = base64(await crypto.subtle.exportKey("raw", mine.publicKey));
  const foreign = base64(await crypto.subtle.exportKey("raw", other.publicKey));
  await Device.load(TEXT, { publicKey, signature: signature + "\n", fingerprint: device.fingerprint });
  await refused(TEXT, { publicKey }, /not signed/);
  await refused(TEXT, { publicKey: foreign, signature }, /signature is not/);
  await refused(TEXT + "\n", { publicKey, signature }, /signature is not/);
  await refused(TEXT, { publicKey, signature: signature.slice(4) }, /64 bytes/);
  await refused(TEXT, { publicKey: "?", signature }, /publicKey is not 32 bytes/);
});

test("signatures of RFC 8032 verify, so that other languages may sign", async () => {
  // Section 7.1, test 2: the message is the byte 72, "r", which is signed and yet no randomizer.
  const hex = (text) => Buffer.from(text, "hex").toString("base64");
  const publicKey = hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  const signature = hex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da" +
      "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
  );
  await refused("r", { publicKey, signature }, /altered/);
  await refused("s", { publicKey, signature }, /signature is not/);
});

test("names of columns may be those of every object", async () => {
  const yes = (name) => ({ take: "boolean", columns: [name], missing: 2 });
  const names = ["constructor", "__proto__", "10", "2"];
  const columns = Object.fromEntries(names.map((name) => [name, yes(name)]));
  const draw = { draw: "response", values: 3, slot: "1" }; // of 2^64 words, 2 lead elsewhere
  const split = { choose: 4, reports: names.map((column) => ({ column, draw })) };
  const program = { version: 2, time_step: 3600, columns, joint: null, split };
  const own = await Device.load(await sealed({ device: program, guarantee: { epsilon: 4 * 64 } }));
  assert.deepEqual([...own.report({}).payload], [2, 2, 2, 2]);
  assert.deepEqual([...own.report(JSON.parse('{"__proto__": true, "2": false}')).payload], [2, 1, 2, 0]);
});

test("words are fresh", () => {
  const reports = Array.from({ length: 300 }, () => device.report(RECORD));
  assert.equal(new Set(reports.map((report) => report.toJson().id)).size, 300);
  assert.ok(Math.abs(reports[0].time - Date.now() / 3.6e6) < 2);
});

test("a report reads its own bytes, and no damaged ones", () => {
  const report = device.report(RECORD);
  const bytes = report.toBytes();
  assert.deepEqual(Report.fromBytes(bytes).toJson(), report.toJson());
  for (let at = 0; at < bytes.length; at++) {
    const damaged = bytes.slice();
    damaged[at] ^= 1;
    assert.throws(() => Report.fromBytes(damaged), PrivotError);
    assert.throws(() => Report.fromBytes(bytes.slice(0, at)), PrivotError);
  }
});

test("a batch holds reports and bytes alike", () => {
  const report = device.report(RECORD);
  assert.deepEqual(writeBatch([report]), writeBatch([report.toBytes()]));
  assert.equal(Buffer.from(writeBatch([])).toString("hex"), "505654420100000000");
});

for (const [name, law] of Object.entries(LAWS)) {
  test(`in memory, ${name}`, async () => {
    const store = new MemoryStore();
    await law(device, RECORD, async () => new Outbox(store));
  });
  test(`in a folder, ${name}`, async () => {
    const own = await mkdtemp(join(tmpdir(), "privot-"));
    await law(device, RECORD, async () => new Outbox(new FolderStore(join(own, "box"))));
    const drafts = (await readdir(join(own, "box")).catch(() => [])).filter((each) => each.endsWith("draft"));
    assert.deepEqual(drafts, []);
    await rm(own, { recursive: true });
  });
}

test("a damaged file is no reason to draw again", async () => {
  const own = await mkdtemp(join(tmpdir(), "privot-"));
  const outbox = new Outbox(new FolderStore(own));
  await outbox.report(device, RECORD);
  const [file] = await readdir(own);
  const { writeFile } = await import("node:fs/promises");
  await writeFile(join(own, file), "{");
  await assert.rejects(outbox.report(device, RECORD));
  await rm(own, { recursive: true });
});

test("a page that is closed between a sealed copy and its report leaves neither", async () => {
  class Closed extends MemoryStore {
    left = 1;
    async settle(kept) {
      if (this.left-- <= 0) throw new RangeError("closed");
      await super.settle(kept);
    }
  }
  const [store, { publicKey }] = [new Closed(), await crypto.subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, true, ["deriveBits"])];
  const sealTo = Buffer.from(await crypto.subtle.exportKey("raw", publicKey)).toString("base64");
  const fetch = async () => new Response('{"accepted": 1, "duplicates": 0, "failed": []}');
  await new Outbox(store).report(device, RECORD);
  await assert.rejects(new Outbox(store).send("http://collector.invalid", { sealTo, fetch }), RangeError);
  store.left = Infinity;
  assert.deepEqual(await new Outbox(store).waiting(), []); // acknowledged, and not sent again
  assert.deepEqual((await store.all()).map(({ bytes }) => bytes), [null, null]);
});

test("a process that is killed while it keeps a report leaves no bytes of it once that is settled", async () => {
  const [own, bytes] = [await mkdtemp(join(tmpdir(), "privot-")), [...device.report(RECORD).toBytes()]];
  const code = `import fs from "node:fs/promises"; import { syncBuiltinESMExports } from "node:module";
    fs.rm = () => process.kill(process.pid, "SIGKILL"); syncBuiltinESMExports();
    const { FolderStore } = await import(${JSON.stringify(pathToFileURL(join(dist, "node.js")).href)});
    await new FolderStore(${JSON.stringify(own)}).add({ fingerprint: "a", key: "b", bytes: Uint8Array.of(${bytes}) });`;
  assert.equal(spawnSync(process.execPath, ["--input-type=module", "-e", code]).signal, "SIGKILL");
  assert.equal((await readdir(own)).length, 2);
  const store = new FolderStore(own);
  await store.settle({ fingerprint: "a", key: "b" });
  assert.equal((await readdir(own)).length, 1);
  assert.deepEqual(await store.all(), [{ fingerprint: "a", key: "b", bytes: null }]);
  await rm(own, { recursive: true });
});
