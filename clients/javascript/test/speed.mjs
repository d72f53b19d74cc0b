/** How long one report takes, or the two shares of one record: the least of several batches. */

const BATCHES = 10;
const REPORTS = 200;
const [PAIRS, PROVEN_PAIRS] = [20, 3];

/** Milliseconds of one call, the least of all batches and the first. */
function timed(each, count) {
  const took = Array.from({ length: BATCHES }, () => {
    const start = performance.now();
    for (let index = 0; index < count; index++) each();
    return (performance.now() - start) / count;
  });
  return { least: Math.min(...took), first: took[0] };
}

/** Microseconds of one report of each named randomizer and record. */
export async function microseconds({ Device }, cases) {
  const found = {};
  for (const [name, { randomizer, record }] of Object.entries(cases)) {
    const device = await Device.load(randomizer);
    const { least, first } = timed(() => device.report(record).toBytes(), REPORTS);
    found[name] = { least: 1000 * least, first: 1000 * first };
  }
  return found;
}

/** Milliseconds and bytes of the shares of each named encoder and record. */
export async function ofShares({ Encoder }, cases) {
  const found = {};
  for (const [name, { encoder: text, record }] of Object.entries(cases)) {
    const encoder = await Encoder.load(text);
    const { leader, helper } = encoder.encode(record);
    const took = timed(() => encoder.encode(record), encoder.proofs ? PROVEN_PAIRS : PAIRS);
    found[name] = { words: encoder.program.length, leader: leader.length, helper: helper.length, ...took };
  }
  return found;
}
