/** What every outbox does, whatever its store: for Node and for browsers. */

const URL = "http://collector.invalid";

/** A collector that answers in turn what it is told, and then accepts all; it keeps what it was sent. */
function collector(...answers) {
  const sent = [];
  const fetch = async (address, { body, headers }) => {
    const reports = typeof body === "string" ? JSON.parse(body).reports : split(body);
    sent.push({ address, headers, reports: reports.map((each) => String(each.payload ?? each)) });
    const next = answers.shift() ?? accept;
    if (next instanceof Error) throw next;
    return typeof next === "number" ? new Response('{"error": {"reason": "some", "message": "so"}}', { status: next }) : next(reports);
  };
  return { sent, how: { fetch, pause: 1, tries: 3 } };
}

function split(batch) {
  const [view, reports] = [new DataView(batch.buffer), []];
  for (let at = 9; at < batch.length; at += 4 + view.getUint32(at)) {
    reports.push(batch.slice(at + 4, at + 4 + view.getUint32(at)));
  }
  return reports;
}

const answer = (accepted, duplicates, failed) =>
  new Response(JSON.stringify({ accepted, duplicates, failed }), { status: accepted + duplicates ? 200 : 422 });
const accept = (reports) => answer(reports.length, 0, []);
const refuse = (reason) => (reports) => answer(reports.length - 1, 0, [{ index: 0, reason, message: "no" }]);

function equal(found, wanted) {
  const [left, right] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (left !== right) throw new Error(`${left} is not ${right}`);
}

const text = (report) => String(report.toBytes());

async function analystKey() {
  const { publicKey } = await crypto.subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, true, ["deriveBits"]);
  return btoa(String.fromCharCode(...new Uint8Array(await crypto.subtle.exportKey("raw", publicKey))));
}

/** Laws by name: each takes a device, a record of it, and a way to open one new store again and again. */
export const LAWS = {
  async "a second call gives the same bytes, after a restart too"(device, record, open) {
    const first = text(await (await open()).report(device, record));
    equal(text(await (await open()).report(device, record)), first);
    equal((await (await open()).waiting()).map(text), [first]);
  },
  async "an answer out of bounds leaves nothing, and whether one took part is known"(device, record, open) {
    const trouble = await (await open()).report(device, { ...record, age: 999 }).catch((error) => error.message);
    equal(trouble, "column 'age' is out of bounds (17 to 90): correct it");
    equal([(await (await open()).waiting()).length, await (await open()).settled(device)], [0, false]);
    await (await open()).report(device, record);
    equal(await (await open()).settled(device), false);
    await (await open()).send(URL, collector().how);
    equal(await (await open()).settled(device), true);
  },
  async "two at once draw one report"(device, record, open) {
    const both = await Promise.all([await open(), await open()].map((each) => each.report(device, record)));
    equal(text(both[0]), text(both[1]));
    equal((await (await open()).waiting()).length, 1);
  },
  async "a report is sealed once, and leaves in no other form"(device, record, open) {
    const lost = new Error("no answer");
    const { sent, how } = collector(lost, lost, lost);
    const [sealTo, otherKey] = [await analystKey(), await analystKey()];
    const plain = (await (await open()).report(device, record)).toBytes();
    equal((await (await open()).send(URL, { ...how, sealTo })).waiting, 1);
    equal((await (await open()).send(URL, { ...how, sealTo: otherKey })).accepted, 1); // nor to another key
    const all = sent.map(({ reports }) => reports[0]);
    equal([all.length, new Set(all).size, all[0].split(",").length], [4, 1, plain.length + 62 + 81]);
    equal(all[0].split(",").slice(49, 53), ["0", "0", "0", "0"]);
    equal((await (await open()).waiting()).length, 0);
  },
  async "a report that is to be shuffled does not leave open"(device, record, open) {
    const { sent, how } = collector();
    const [shuffled, sealTo] = [Object.create(device, { promise: { value: { ...device.promise, shuffled: true } } }), await analystKey()];
    const drawn = device.report(record);
    shuffled.report = () => drawn;
    await (await open()).report(shuffled, record);
    await (await open()).keep(shuffled, device.report(record));
    const found = await (await open()).send(URL, how);
    equal([sent.length, found.waiting, found.trouble.includes("sealTo")], [0, 2, true]);
    equal((await (await open()).send(URL, { ...how, sealTo })).accepted, 2);
  },
  async "keys are reports of their own"(device, record, open) {
    const outbox = await open();
    const [one, two] = [await outbox.report(device, record, "1"), await outbox.report(device, record, "../ü")];
    if (text(one) === text(two)) throw new Error("two keys have one report");
    equal(text(await outbox.report(device, record, "../ü")), text(two));
  },
  async "the same bytes are sent until they are acknowledged"(device, record, open) {
    const busy = collector(503, new TypeError("no network"), 429);
    const first = text(await (await open()).report(device, record));
    const found = await (await open()).send(URL + "/", busy.how);
    equal([found.waiting, found.accepted, busy.sent.length], [1, 0, 3]);
    const next = collector();
    equal((await (await open()).send(URL, next.how)).accepted, 1);
    equal([...busy.sent, ...next.sent].map(({ reports }) => reports), [[first], [first], [first], [first]]);
    equal(next.sent[0].address, `${URL}/v1/campaigns/${device.fingerprint}/reports`);
    equal(next.sent[0].headers["content-type"], "application/vnd.privot.batch");
  },
  async "what is acknowledged is neither drawn nor sent again"(device, record, open) {
    await (await open()).report(device, record);
    await (await open()).send(URL, collector().how);
    equal(await (await open()).report(device, record), null);
    const again = collector();
    equal((await (await open()).send(URL, again.how)).accepted, 0);
    equal(again.sent.length, 0);
  },
  async "what is refused for good is neither drawn nor sent again"(device, record, open) {
    const outbox = await open();
    await outbox.report(device, record, "mine");
    const found = await outbox.send(URL, collector(refuse("payload")).how);
    equal(found.refused, [{ key: "mine", reason: "payload", message: "no" }]);
    equal([found.waiting, await outbox.report(device, record, "mine")], [0, null]);
  },
  async "what was damaged on its way is sent again"(device, record, open) {
    const outbox = await open();
    const first = text(await outbox.report(device, record));
    equal((await outbox.send(URL, collector(refuse("checksum")).how)).waiting, 1);
    equal(text(await outbox.report(device, record)), first);
  },
  async "no other page's success is an acknowledgment"(device, record, open) {
    const strange = [
      "<html>log in</html>", "{}", "null", '{"accepted": 0, "duplicates": 0, "failed": []}',
      '{"accepted": 0, "duplicates": 0, "failed": [{"index": 7, "reason": "id"}]}',
      '{"accepted": 2, "duplicates": -1, "failed": []}', '{"accepted": "1", "duplicates": 0, "failed": []}',
    ];
    const outbox = await open();
    await outbox.report(device, record);
    for (const page of strange) {
      const found = await outbox.send(URL, { ...collector(() => new Response(page)).how, tries: 1 });
      equal([page, found.waiting, found.accepted], [page, 1, 0]);
    }
  },
  async "one that is refused for good keeps none of the others"(device, record, open) {
    const outbox = await open();
    for (const key of ["a", "b", "c"]) await outbox.report(device, record, key);
    const found = await outbox.send(URL, { ...collector(refuse("format")).how, together: true });
    equal([found.refused.length, found.accepted, found.waiting], [1, 2, 0]);
  },
  async "a request that is refused is not repeated, and loses nothing"(device, record, open) {
    const outbox = await open();
    await outbox.report(device, record);
    for (const status of [400, 401, 404, 413, 422]) {
      const stern = collector(status);
      const found = await outbox.send(URL, stern.how);
      equal([stern.sent.length, found.waiting, found.trouble.includes(`${status} (so)`)], [1, 1, true]);
    }
  },
  async "reports of one device go apart, so that no batch links them"(device, record, open) {
    const [outbox, found] = [await open(), collector()];
    for (const key of ["1", "2"]) await outbox.report(device, record, key);
    await outbox.keep(device, device.report(record));
    equal((await outbox.send(URL, found.how)).accepted, 3);
    equal(found.sent.map(({ reports }) => reports.length), [1, 1, 1]);
  },
  async "many go in batches where they are told to, and a failing one keeps none of the others"(device, record, open) {
    const outbox = await open();
    for (let key = 0; key < 230; key++) await outbox.report(device, record, String(key));
    const once = collector(404);
    const found = await outbox.send(URL, { ...once.how, together: true });
    equal(once.sent.map(({ reports }) => reports.length), [100, 100, 30]);
    equal([found.accepted, found.waiting], [130, 100]);
  },
  async "JSON says the same"(device, record, open) {
    const outbox = await open();
    const { payload } = (await outbox.report(device, record)).toJson();
    const found = collector();
    await outbox.send(URL, { ...found.how, format: "json", headers: { authorization: "Bearer t" } });
    equal(found.sent[0].reports, [payload]);
    equal(found.sent[0].headers, { "content-type": "application/json", authorization: "Bearer t" });
  },
  async "a record that is refused keeps nothing"(device, record, open) {
    const outbox = await open();
    let refused = false;
    await outbox.report(device, { ...record, nobody: 1 }).catch(() => (refused = true));
    equal([refused, (await outbox.waiting()).length], [true, 0]);
  },
};

/** The laws that fail, and why; `store(name)` gives a way to open a store that is new for a name. */
export async function broken(device, record, store) {
  const found = [];
  for (const [index, [name, law]] of Object.entries(LAWS).entries()) {
    await law(device, record, store(`law ${index}`)).catch((error) => found.push(`${name}: ${error}`));
  }
  return found;
}
