/** Reports of one record, drawn from WebCrypto and read from their bytes: how often each was which. */

const read = (bytes, from, to) => bytes.slice(from, to).reduce((number, byte) => number * 256 + byte, 0);

/** Files of the conformance suite, a record of each, and what is read of a payload. */
export const LAWS = {
  response_nullable: { record: { work: "clerk" }, outcome: (payload) => payload[0] },
  subset_list: { record: { c: "c2" }, outcome: (payload) => payload[0] },
  window_number: { record: { n: 50 }, outcome: (payload) => read(payload, 0, 2) },
  // Sixteen cells of noise are one: 2^20 are a unit, and the signed number is read by its float.
  laplace_number: {
    record: { n: 50 },
    outcome: (payload) => {
      const noise = Number(new DataView(payload.buffer).getBigInt64(0));
      return Math.sign(noise) * Math.floor(Math.abs(noise) / 2 ** 14);
    },
  },
};

/** By name: the randomizer's program and its counts. */
export async function counts({ Device }, fetched, draws) {
  const found = {};
  for (const [name, { record, outcome }] of Object.entries(LAWS)) {
    const device = await Device.load((await fetched(`/vectors/${name}.json`)).randomizer);
    const seen = new Map();
    for (let draw = 0; draw < draws; draw++) {
      const key = outcome(device.report(record).payload);
      seen.set(key, (seen.get(key) ?? 0) + 1);
    }
    found[name] = { program: device.program, counts: Object.fromEntries(seen) };
  }
  return found;
}
