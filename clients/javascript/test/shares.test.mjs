/** `node --test`: encoders that are refused, what one share alone says, and outboxes of shares. */

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";

const dist = process.env.PRIVOT_CLIENT ?? new URL("../dist", import.meta.url).pathname;
const { Encoder, Ledger, MemoryStore, Outbox, Panel, PrivotError, ShareOutbox } = await import(pathToFileURL(join(dist, "privot.js")));
const { FolderStore } = await import(pathToFileURL(join(dist, "node.js")));

const folder = new URL("../../../conformance/shares/", import.meta.url);
const suite = async (name) => JSON.parse(await readFile(new URL(`${name}.json`, folder), "utf-8"));
const { encoder: TEXT, vectors } = await suite("pairs_two");
const RECORD = vectors[0].record;
const encoder = await Encoder.load(TEXT);
const proving = await Encoder.load(TEXT.replace('"proofs":false', '"proofs":true'));

const refused = (text, pins, words) =>
  assert.rejects(Encoder.load(text, pins), (error) => error instanceof PrivotError && words.test(error.message));
/** The text of an encoder whose program is another. */
const withProgram = (change, text = TEXT) => {
  const fields = JSON.parse(text);
  return JSON.stringify({ ...fields, device: change(fields.device) });
};

test("an encoder that is not the pinned one, or not signed by the pinned key, is refused", async () => {
  const pins = { fingerprint: encoder.fingerprint };
  assert.equal((await Encoder.load(`\n${TEXT} \n`, pins)).fingerprint, encoder.fingerprint);
  await refused(TEXT.replace('"delta":1e-06', '"delta":1e-05'), pins, /encoder is not the pinned one/);
  await refused(TEXT.slice(0, -1), {}, /encoder is not readable/);
  const pair = await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"]);
  const signed = await crypto.subtle.sign({ name: "Ed25519" }, pair.privateKey, Buffer.from(TEXT));
  const publicKey = Buffer.from(await crypto.subtle.exportKey("raw", pair.publicKey)).toString("base64");
  const signature = Buffer.from(signed).toString("base64");
  await Encoder.load(TEXT, { publicKey, signature });
  await refused(TEXT, { publicKey }, /not signed/);
  await refused(TEXT + " ", { publicKey, signature }, /signature is not of the pinned key/);
});

test("images and other versions have no program for browsers", async () => {
  const [none, ...others] = [null, 1, 3].map((version) => withProgram((program) => version && { ...program, version }));
  for (const text of [none, ...others, "{}", "null"]) await refused(text, {}, /no program for browsers: leave images out/);
  await refused(TEXT.replace('"proofs":false', '"proofs":1'), {}, /has a field that no proof is for: proofs/);
});

test("a program whose vectors are others than it says is refused", async () => {
  const { encoder: places } = await suite("levels_map");
  const pairs = [
    (program) => ({ ...program, length: program.length + 1 }),
    (program) => ({ ...program, columns: null }),
    (program) => ({ ...program, unread: [1] }),
    (program) => ({ ...program, pairs: [] }),
    (program) => ({ ...program, pairs: undefined }),
    (program) => ({ ...program, pairs: program.pairs.map((pair) => ({ ...pair, weight: 0.5 })) }),
    (program) => ({ ...program, pairs: program.pairs.map((pair) => ({ ...pair, weight: 2 ** 13 })) }),
    (program) => ({ ...program, pairs: program.pairs.map((pair) => ({ ...pair, column: "constructor" })) }),
    (program) => ({ ...program, pairs: program.pairs.map((pair) => ({ ...pair, codes: [...pair.codes, [0]] })) }),
    (program) => ({ ...program, pairs: program.pairs.map((pair) => ({ ...pair, codes: [[0, 9]] })) }),
  ];
  const levels = [
    (program) => ({ ...program, pairs: [] }),
    ...[[], [1, 1], [2, 1], [1, 13], [0.5]].map((halvings) => (program) => ({
      ...program,
      levels: { ...program.levels, halvings },
    })),
  ];
  for (const change of pairs) await refused(withProgram(change), {}, /has a field that no proof is for/);
  for (const change of levels) await refused(withProgram(change, places), {}, /has a field that no proof is for/);
});

/** The statistic χ² of bytes against uniform ones. */
function chiSquare(bytes) {
  const counts = new Float64Array(256);
  for (const byte of bytes) counts[byte]++;
  const expected = bytes.length / 256;
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
}

// With 255 degrees of freedom, χ² is above 400 with a probability of 1.7·10⁻⁸, and below 145 with 3.4·10⁻⁹: six
// statistics raise a false alarm with a probability below 2·10⁻⁷.
const [LEAST, MOST] = [145, 400];

test("the leader's bytes are uniform, whatever the record is", () => {
  const [head, shares] = [33 + 16, 20_000];
  for (const record of [vectors[0].record, vectors[1].record]) {
    const made = Array.from({ length: shares }, () => encoder.encode(record).leader.subarray(head));
    assert.equal(made[0].length, 8 * encoder.program.length);
    const all = Buffer.concat(made);
    // A record adds to the two lowest bytes of three words: these places alone would show it.
    const low = all.filter((_, at) => at % 8 < 2);
    for (const bytes of [all, low]) {
      const found = chiSquare(bytes);
      assert.ok(found > LEAST && found < MOST, `χ² is ${found}`);
    }
  }
  const pads = Buffer.concat(Array.from({ length: shares }, () => Buffer.alloc(8 * encoder.program.length)));
  assert.ok(chiSquare(pads) > MOST, "a share without its pad is found");
});

test("the leader's bytes with a proof are uniform, whatever the record is", () => {
  for (const record of [vectors[0].record, vectors[1].record]) {
    const made = Array.from({ length: 200 }, () => proving.encode(record).leader.subarray(33 + 16));
    const found = chiSquare(Buffer.concat(made));
    assert.ok(found > LEAST && found < MOST, `χ² is ${found}`);
  }
});

test("ids and seeds are fresh, and both shares have one id", () => {
  const text = (bytes, from, to) => Buffer.from(bytes.slice(from, to)).toString("hex");
  for (const own of [encoder, proving]) {
    const made = Array.from({ length: 200 }, () => own.encode(RECORD));
    assert.equal(new Set(made.map(({ leader }) => text(leader, 33, 49))).size, 200);
    const seeds = made.flatMap(({ helper }) => text(helper, own.proofs ? 81 : 49).match(/.{32}/g));
    assert.equal(new Set(seeds).size, 200 * (own.proofs ? 3 : 2));
    for (const { leader, helper } of made) {
      assert.equal(text(leader, 33, 49), text(helper, 33, 49));
      assert.equal(text(leader, 0, 33), own.fingerprint + "00");
      assert.equal(text(helper, 0, 33), own.fingerprint + "01");
      assert.equal(text(leader, 49, 81) === text(helper, 49, 81), own.proofs, "the public share");
    }
  }
});

const SERVERS = { leader: "https://leader.invalid", helper: "https://helper.invalid/at/" };
const reply = (status, fields) => new Response(JSON.stringify(fields), { status });
const accept = () => reply(200, { accepted: 1, duplicates: 0, failed: [] });
const again = () => reply(200, { accepted: 0, duplicates: 1, failed: [] });
const failed = (reason) => () => reply(409, { accepted: 0, duplicates: 0, failed: [{ index: 0, reason, message: "no" }] });
const busy = (status) => () => reply(status, { error: { reason: "busy", message: "so" } });
const lost = () => {
  throw new TypeError("no network");
};

/** Two servers that answer in turn what they are told, and then accept; and what each was sent. */
function servers(leader = [], helper = []) {
  const [sent, answers] = [{ leader: [], helper: [] }, { leader: [...leader], helper: [...helper] }];
  const fetch = async (address, { body, headers }) => {
    const role = address === "https://leader.invalid/shares" ? "leader" : "helper";
    if (role === "helper") assert.equal(address, "https://helper.invalid/at/shares");
    assert.equal(headers["content-type"], "application/octet-stream");
    sent[role].push(String(body));
    return (answers[role].shift() ?? accept)();
  };
  return { sent, how: { fetch, pause: 1, tries: 2 } };
}

const told = (delivery) => [delivery.delivered, delivery.refused.length, delivery.waiting];

/** What an outbox of shares does, whatever its store: each law gets a way to open one store again and again. */
const LAWS = {
  async "a second call gives the same shares, and two at once make one pair"(open, encoder) {
    const both = await Promise.all([open(), open()].map((outbox) => outbox.shares(encoder, RECORD)));
    assert.deepEqual(both[0], both[1]);
    assert.deepEqual(await open().waiting(), [both[0]]);
  },
  async "shares wait until both servers have them, and the same bytes are sent"(open, encoder) {
    const shares = await open().shares(encoder, RECORD);
    const [one, other, last] = [servers([], [lost, busy(503)]), servers([busy(429), lost], []), servers([again], [again])];
    const first = await open().send(SERVERS, one.how);
    assert.deepEqual(told(first), [0, 0, 1]);
    assert.match(first.trouble, /the helper answers 503 \(so\): the shares are kept/);
    const second = await open().send(SERVERS, other.how);
    assert.deepEqual(told(second), [0, 0, 1]);
    assert.match(second.trouble, /the leader cannot be reached/);
    assert.deepEqual(told(await open().send(SERVERS, last.how)), [1, 0, 0]);
    const [leader, helper] = ["leader", "helper"].map((role) => [one, other, last].flatMap(({ sent }) => sent[role]));
    assert.deepEqual([leader.length, helper.length], [4, 4]);
    assert.deepEqual([...new Set(leader)], [String(shares.leader)]);
    assert.deepEqual([...new Set(helper)], [String(shares.helper)]);
  },
  async "shares that were shown are kept, unless others are, or were"(open, encoder) {
    const [shown, late] = [encoder.encode(RECORD), encoder.encode(RECORD)];
    assert.deepEqual([await open().settled(encoder), await open().waiting()], [false, []]);
    assert.deepEqual(await open().keep(encoder, shown), shown);
    assert.deepEqual(await open().keep(encoder, late), shown);
    assert.deepEqual([await open().settled(encoder), await open().shares(encoder, RECORD)], [false, shown]);
    const { sent, how } = servers();
    await open().send(SERVERS, how);
    assert.deepEqual(sent, { leader: [String(shown.leader)], helper: [String(shown.helper)] });
    assert.deepEqual([await open().settled(encoder), await open().keep(encoder, late)], [true, null]);
    assert.deepEqual(await open().waiting(), []);
  },
  async "what was delivered is neither made nor sent again"(open, encoder) {
    await open().shares(encoder, RECORD);
    await open().send(SERVERS, servers().how);
    assert.equal(await open().shares(encoder, RECORD), null);
    const { sent, how } = servers();
    assert.deepEqual(told(await open().send(SERVERS, how)), [0, 0, 0]);
    assert.deepEqual(sent, { leader: [], helper: [] });
  },
  async "a report that a server has opened has arrived"(open, encoder) {
    await open().shares(encoder, RECORD);
    assert.deepEqual(told(await open().send(SERVERS, servers([failed("opened")], [failed("opened")]).how)), [1, 0, 0]);
  },
  async "a share that a server refuses for good is told, and neither is sent again"(open, encoder) {
    await open().shares(encoder, RECORD, "mine");
    const found = await open().send(SERVERS, servers([lost, lost], [failed("other")]).how);
    assert.deepEqual(found.refused, [{ key: "mine", server: "helper", reason: "other", message: "no" }]);
    assert.deepEqual([told(found), await open().shares(encoder, RECORD, "mine")], [[0, 1, 0], null]);
  },
  async "a request that is refused is not repeated, and loses nothing"(open, encoder) {
    await open().shares(encoder, RECORD);
    for (const status of [400, 401, 404, 413, 415]) {
      const { sent, how } = servers([busy(status)]);
      const found = await open().send(SERVERS, how);
      assert.deepEqual([told(found), sent.leader.length], [[0, 0, 1], 1]);
      assert.match(found.trouble, new RegExp(`the leader answers ${status} \\(so\\)`));
    }
  },
  async "no other page's success is an acknowledgment"(open, encoder) {
    await open().shares(encoder, RECORD);
    const strange = ["<html>", "{}", "null", '{"accepted": 0, "duplicates": 0, "failed": []}'];
    for (const text of strange) {
      const page = () => new Response(text);
      assert.deepEqual(told(await open().send(SERVERS, servers([page, page]).how)), [0, 0, 1]);
    }
  },
  async "a record that is refused keeps nothing"(open, encoder) {
    await assert.rejects(open().shares(encoder, { ...RECORD, nobody: 1 }), /nobody are not in the schema/);
    assert.deepEqual(await open().waiting(), []);
  },
};

const work = await mkdtemp(join(tmpdir(), "privot-shares-"));
test.after(() => rm(work, { recursive: true }));

for (const [name, law] of Object.entries(LAWS)) {
  for (const own of [encoder, proving]) {
    test(`in memory${own.proofs ? ", with proofs" : ""}: ${name}`, () => {
      const store = new MemoryStore();
      return law(() => new ShareOutbox(store), own);
    });
  }
  test(`in a folder: ${name}`, () => law(() => new ShareOutbox(new FolderStore(join(work, name))), encoder));
}

test("a ledger of waves takes no encoder", async () => {
  const fields = { format: 1, name: "week", window: 2, start: 0, length: 60, seed: "s", waves: null };
  const panel = Panel.fromJson(JSON.stringify(fields));
  await assert.rejects((await Ledger.open()).report(encoder, RECORD, panel), /use a `ShareOutbox`/);
});

test("an outbox of reports over the same store sends no share", async () => {
  const store = new MemoryStore();
  await new ShareOutbox(store).shares(encoder, RECORD);
  assert.deepEqual(await new Outbox(store).waiting(), []);
});
