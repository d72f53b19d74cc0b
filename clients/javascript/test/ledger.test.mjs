/** `node --test`: panels and ledgers, in memory and in a folder; kills at random moments, jumping clocks. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";

const dist = process.env.PRIVOT_CLIENT ?? new URL("../dist", import.meta.url).pathname;
const { Device, Ledger, MemoryStore, Outbox, Panel, PrivotError } = await import(pathToFileURL(join(dist, "privot.js")));
const { FolderStore } = await import(pathToFileURL(join(dist, "node.js")));
const KILLS = Number(process.env.PRIVOT_KILLS ?? 3);

const folder = new URL("../../../conformance/vectors/", import.meta.url);
const { randomizer: TEXT, vectors } = JSON.parse(await readFile(new URL("joint_pairs.json", folder), "utf-8"));
const RECORD = vectors[0].record;
const device = await Device.load(TEXT);
const EPSILON = device.promise.epsilon;
const FIELDS = { format: 1, name: "bits", window: 4, start: 0, length: 3600, seed: "public", waves: 40 };
const panelOf = (fields) => Panel.fromJson(JSON.stringify({ ...FIELDS, ...fields }));
const PANEL = panelOf({});
const SLOT = await PANEL.slot("me");
const OLD = { person: "me", now: -1 };

const hex = (report) => Buffer.from(report.toBytes()).toString("hex");
const at = (wave, length = 3600) => ({ now: wave * length });
const refused = (promise, words) =>
  assert.rejects(promise, (error) => error instanceof PrivotError && words.test(error.message) && !error.message.includes("\n"));

test("slots are those on record, in Python as well", async () => {
  const panel = panelOf({ name: "commute", window: 6, start: 1767571200, length: 604800, seed: "2026", waves: 52 });
  assert.deepEqual(await Promise.all(["", "a", "ü", "person 7"].map((person) => panel.slot(person))), [0, 3, 2, 2]);
  assert.deepEqual([0, 604799, 604800].map((seconds) => panel.waveAt(1767571200 + seconds)), [0, 0, 1]);
  assert.throws(() => panel.waveAt(1767571199), /has not begun/);
  assert.throws(() => panel.waveAt(1767571200 + 52 * 604800), /has ended/);
});

test("what is no panel is refused", () => {
  for (const text of ["", "[]", "{}", "null", "3", JSON.stringify({ ...FIELDS, window: 0 }), JSON.stringify({ ...FIELDS, more: 1 })]) {
    assert.throws(() => Panel.fromJson(text), /no panel/);
  }
});

for (const [where, make] of [
  ["memory", async () => ((store) => () => store)(new MemoryStore())],
  ["a folder", async () => ((path) => () => new FolderStore(path))(join(await mkdtemp(join(tmpdir(), "privot-")), "box"))],
]) {
  const law = (name, run) => test(`in ${where}, ${name}`, async () => run(await make()));

  law("asked again it gives the same bytes", async (store) => {
    const open = () => Ledger.open(store(), OLD);
    const first = hex(await (await open()).report(device, RECORD, PANEL, at(SLOT)));
    for (let again = 0; again < 5; again++) assert.equal(hex(await (await open()).report(device, RECORD, PANEL, at(SLOT))), first);
    const later = hex(await (await open()).report(device, RECORD, PANEL, at(SLOT + 4)));
    assert.notEqual(later, first);
    assert.equal(hex(await (await open()).report(device, RECORD, PANEL, at(SLOT))), first);
    assert.deepEqual((await (await open()).reports(PANEL)).map(hex), [first, later]);
    assert.deepEqual(await (await open()).spent(), { epsilon: 2 * EPSILON, delta: 0 });
  });

  law("many at once draw one report", async (store) => {
    const ledgers = await Promise.all(Array.from({ length: 6 }, () => Ledger.open(store(), { now: -1e9 })));
    assert.equal(new Set(ledgers.map(({ person }) => person)).size, 1);
    const wave = await PANEL.slot(ledgers[0].person);
    const drawn = await Promise.all(ledgers.map((each) => each.report(device, RECORD, PANEL, at(wave))));
    assert.equal(new Set(drawn.map(hex)).size, 1);
  });

  law("nothing is drawn in a wave that is not due, or before one that is spent", async (store) => {
    const ledger = await Ledger.open(store(), OLD);
    await refused(ledger.report(device, RECORD, PANEL, at(SLOT + 1)), new RegExp(`in wave ${SLOT + 4}, and it is wave ${SLOT + 1}`));
    await refused(ledger.report(device, { ...RECORD, age: 999 }, PANEL, at(SLOT + 8)), /'age' is out of bounds/);
    assert.equal((await ledger.spent()).epsilon, 0);
    await ledger.report(device, RECORD, PANEL, at(SLOT + 8));
    await refused(ledger.report(device, RECORD, PANEL, at(SLOT + 4)), /set the clock/);
    await refused(ledger.report(device, RECORD, panelOf({ seed: "other" }), at(SLOT + 12)), /had another panel/);
    assert.equal((await ledger.reports(PANEL)).length, 1);
  });

  law("a new ledger waits", async (store) => {
    const ledger = await Ledger.open(store(), { person: "me", ...at(SLOT + 4) });
    await refused(ledger.report(device, RECORD, PANEL, at(SLOT + 4)), new RegExp(`from wave ${SLOT + 5} on`));
    await ledger.report(device, RECORD, PANEL, at(SLOT + 8));
    await refused(Ledger.open(store(), { person: "you" }), /another person/);
  });

  law("a new ledger with an id of its own waits for w waves", async (store) => {
    const ledger = await Ledger.open(store(), at(9));
    const next = await PANEL.nextWave(ledger.person, 9);
    await refused(ledger.report(device, RECORD, PANEL, at(next)), /from wave 13 on/);
    await ledger.report(device, RECORD, PANEL, at(await PANEL.nextWave(ledger.person, 13)));
  });

  law("campaigns add up to the owner's limit, at once as well", async (store) => {
    const limit = { epsilon: 2.5 * EPSILON };
    const panels = Array.from({ length: 5 }, (_, index) => panelOf({ name: `c${index}`, window: 1 }));
    const open = () => Ledger.open(store(), { ...OLD, limit });
    await open();
    const done = await Promise.allSettled(panels.map(async (panel) => (await open()).report(device, RECORD, panel, at(0))));
    assert.equal(done.filter(({ status }) => status === "fulfilled").length, 2);
    const { reason } = done.find(({ status }) => status === "rejected");
    assert.match(reason.message, new RegExp(`campaign 'c.' asks for ε = ${EPSILON}: ε = ${2 * EPSILON} is spent, and the limit is ε = ${2.5 * EPSILON} for ever`));
  });

  law("a limit is on any window of time", async (store) => {
    const daily = panelOf({ window: 1, length: 86400 });
    const ledger = await Ledger.open(store(), { ...OLD, limit: { epsilon: 2 * EPSILON, days: 7 } });
    const drawn = [];
    for (let day = 0; day < 20; day++) {
      await ledger.report(device, RECORD, daily, at(day, 86400)).then(() => drawn.push(day), () => null);
    }
    assert.deepEqual(drawn, [0, 1, 7, 8, 14, 15]);
  });

  law("what it drew is sent once by an outbox", async (store) => {
    const ledger = await Ledger.open(store(), OLD);
    const outbox = new Outbox();
    for (let again = 0; again < 2; again++) await outbox.keep(device, await ledger.report(device, RECORD, PANEL, at(SLOT)));
    assert.deepEqual((await outbox.waiting()).map(hex), (await ledger.reports(PANEL)).map(hex));
  });

  law("an outbox that shares the store sends none of its entries", async (store) => {
    const [ledger, shared] = [await Ledger.open(store(), OLD), store()];
    const report = await ledger.report(device, RECORD, PANEL, at(SLOT));
    const outbox = new Outbox(shared);
    await outbox.keep(device, report);
    assert.deepEqual((await outbox.waiting()).map(hex), [hex(report)]);
    const answer = JSON.stringify({ accepted: 1, duplicates: 0, failed: [] });
    await outbox.send("http://collector.invalid", { fetch: async () => new Response(answer) });
    assert.deepEqual((await outbox.waiting()).map(hex), []);
    assert.deepEqual((await ledger.reports(PANEL)).map(hex), [hex(report)]);
  });

  law("a clock that was set gives no budget back when it is right again", async (store) => {
    const ledger = await Ledger.open(store(), { ...OLD, limit: { epsilon: 2 * EPSILON, days: 365 } });
    const asked = (name, day) => ledger.report(device, RECORD, panelOf({ name, window: 1, waves: null }), at(day, 86400));
    for (const [name, day] of [["a", 10], ["b", 10], ["c", 376]]) await asked(name, day);
    for (const day of [11, 12, 374]) await refused(asked("d", day), /is spent, and the limit/);
    await asked("d", 376);
  });

  law("no campaign gives back what others spent", async (store) => {
    const ledger = await Ledger.open(store(), { ...OLD, limit: { epsilon: 2 * EPSILON } });
    for (const promise of [{ epsilon: -8, delta: 0 }, { epsilon: 1, delta: -1 }, { epsilon: Infinity, delta: 0 }, { epsilon: "1", delta: 0 }]) {
      const evil = Object.create(device, { promise: { value: promise } });
      await refused(ledger.report(evil, RECORD, PANEL, at(SLOT)), /promises nothing/);
    }
    assert.equal((await ledger.reports(PANEL)).length, 0);
  });

  law("three tenths are within a limit of three tenths", async (store) => {
    const small = Object.create(device, { promise: { value: { epsilon: 0.1, delta: 1e-7 } }, report: { value: () => device.report(RECORD) } });
    const ledger = await Ledger.open(store(), { ...OLD, limit: { epsilon: 0.3, delta: 1 } });
    for (const name of ["a", "b", "c"]) await ledger.report(small, RECORD, panelOf({ name }), at(SLOT));
    await refused(ledger.report(small, RECORD, panelOf({ name: "d" }), at(SLOT)), /ε = 0.3, δ = 3e-7 is spent/);
  });
}

test("a ledger whose store is emptied, or begun anew, while it is open draws no second report", async () => {
  const own = await mkdtemp(join(tmpdir(), "privot-"));
  const ledger = await Ledger.open(new FolderStore(own), OLD);
  await ledger.report(device, RECORD, PANEL, at(SLOT));
  for (const name of await readdir(own)) await unlink(join(own, name));
  for (let again = 0; again < 2; again++) await refused(ledger.report(device, RECORD, PANEL, at(SLOT)), /is gone/);
  await Ledger.open(new FolderStore(own), OLD);
  await refused(ledger.report(device, RECORD, PANEL, at(SLOT)), /replaced since it was opened/);
  await rm(own, { recursive: true });
});

test("a promise of another kind is none", async () => {
  const sealed = async (fields) => {
    const body = JSON.stringify(fields);
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(body));
    return `${body.slice(0, -1)},"fingerprint":"${Buffer.from(digest).toString("hex")}"}`;
  };
  const { fingerprint, ...fields } = JSON.parse(TEXT);
  const promised = async (change) => (await Device.load(await sealed({ ...fields, guarantee: { ...fields.guarantee, ...change } }))).promise;
  assert.deepEqual(await promised({}), device.promise);
  for (const change of [{ kind: "ZeroConcentratedDP" }, { kind: "GeoIndistinguishability" }, { neighboring: "replace_one" }]) {
    assert.equal((await promised(change)).epsilon, Infinity);
  }
});

test("a panel is what the holder of a pinned key signed", async () => {
  const [text, bytes] = [JSON.stringify(FIELDS), (words) => new TextEncoder().encode(words)];
  const base64 = (buffer) => Buffer.from(buffer).toString("base64");
  const mine = await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
  const publicKey = base64(await crypto.subtle.exportKey("raw", mine.publicKey));
  const signature = base64(await crypto.subtle.sign({ name: "Ed25519" }, mine.privateKey, bytes(text)));
  assert.equal((await Panel.load(text, { publicKey, signature: `${signature}\n` })).key, PANEL.key);
  assert.equal((await Panel.load(text)).key, PANEL.key);
  const weekly = text.replace('"window":4', '"window":1');
  assert.notEqual(weekly, text);
  await refused(Panel.load(weekly, { publicKey, signature }), /not of the pinned key/);
  await refused(Panel.load(text, { publicKey }), /is not signed/);
});

test("an entry that is gone is no reason to draw again", async () => {
  const own = await mkdtemp(join(tmpdir(), "privot-"));
  const ledger = await Ledger.open(new FolderStore(own), OLD);
  const first = new Set(await readdir(own));
  await ledger.report(device, RECORD, PANEL, at(SLOT));
  const [draw] = (await readdir(own)).filter((name) => !first.has(name));
  await ledger.report(device, RECORD, PANEL, at(SLOT + 4));
  await unlink(join(own, draw));
  await refused(ledger.report(device, RECORD, PANEL, at(SLOT)), /is gone/);
  await rm(own, { recursive: true });
});

// A device's life: in each wave of its own it makes a report, and sends it, which is to append it to a file.
const LIFE = `
  import { appendFileSync } from "node:fs";
  const [client, store, told, text, panelText, first, jumps] = process.argv.slice(1);
  const { Device, Ledger, Panel } = await import(client + "/privot.js");
  const { FolderStore } = await import(client + "/node.js");
  const [device, panel] = [await Device.load(text), Panel.fromJson(panelText)];
  const ledger = await Ledger.open(new FolderStore(store), { person: "me", now: -1 });
  for (let step = 0; step < 60; step++) {
    const wave = Math.max(0, Number(first) + step + Math.round((Math.random() - 0.5) * 2 * Number(jumps)));
    try {
      const report = await ledger.report(device, ${JSON.stringify(RECORD)}, panel, { now: 3600 * wave });
      appendFileSync(told, wave + " " + Buffer.from(report.toBytes()).toString("hex") + "\\n");
    } catch (error) {
      if (error.name !== "PrivotError") throw error;
    }
  }
`;

for (const jumps of [0, 5]) {
  test(`killed at ${KILLS} moments, with a clock that jumps by ${jumps} waves, no second draw`, async () => {
    const own = await mkdtemp(join(tmpdir(), "privot-"));
    const told = join(own, "told");
    const text = () => (existsSync(told) ? readFileSync(told, "utf-8") : "");
    for (let kill = 0; kill <= KILLS; kill++) {
      const lines = text().split("\n").slice(0, -1);
      const first = lines.length ? lines.at(-1).split(" ")[0] : "0";
      const panel = JSON.stringify({ ...FIELDS, waves: null });
      const command = ["--input-type=module", "-e", LIFE, pathToFileURL(dist).href, join(own, "box"), told, TEXT, panel, first, String(jumps)];
      const child = spawn(process.execPath, command, { stdio: ["ignore", "ignore", "inherit"] });
      const ended = new Promise((resolve) => child.on("exit", (code) => resolve(code ?? -1)));
      const enough = lines.length + Math.floor(Math.random() * 3);
      let code = null;
      ended.then((found) => (code = found));
      while (kill < KILLS && code === null && text().split("\n").length - 1 < enough) {
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      if (kill < KILLS) setTimeout(() => child.kill("SIGKILL"), Math.random() * 5);
      assert.ok([0, -1].includes(await ended));
    }
    const draws = [...new Set(text().split("\n").slice(0, -1))];
    const waves = draws.map((line) => Number(line.split(" ")[0])).sort((a, b) => a - b);
    assert.ok(waves.length >= 1);
    assert.deepEqual(waves.filter((wave, index) => index && wave - waves[index - 1] < 4), []);
    await rm(own, { recursive: true });
  });
}
