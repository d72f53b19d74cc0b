/** Does a client meet the vectors of a file of `conformance/vectors/` or `shares/`? For Node and for browsers. */

const MASK = (1n << 64n) - 1n;
// More than any report takes: a client that draws forever is wrong, too.
const MOST_WORDS = 100_000;

/** The listed words, then SplitMix64's. */
export function words(listed, seed) {
  let [next, state] = [0, BigInt(seed)];
  return () => {
    if (next === MOST_WORDS) throw new Error("no end of words");
    if (next++ < listed.length) return BigInt("0x" + listed[next - 1]);
    state = (state + 0x9e3779b97f4a7c15n) & MASK;
    let z = state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
    return z ^ (z >> 31n);
  };
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

async function isMet(device, vector) {
  const word = words(vector.words, vector.seed);
  const bytes = device.report(vector.record, { word, now: vector.now }).toBytes();
  if ("report" in vector) return hex(bytes) === vector.report;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return hex(digest.subarray(0, 8)) === vector.digest;
}

/** Are both shares what a vector says, by its id and its seed? */
async function sharesAreMet(encoder, vector) {
  const drawn = [vector.id, vector.seed].map((text) => Uint8Array.from(text.match(/../g), (byte) => parseInt(byte, 16)));
  const shares = encoder.encode(vector.record, () => drawn.shift());
  const digest = async (share) => hex(new Uint8Array(await crypto.subtle.digest("SHA-256", share)));
  return (await digest(shares.leader)) === vector.leader && (await digest(shares.helper)) === vector.helper;
}

/** Is a record refused before anything is drawn? `use` makes a report of it, and calls its second argument to draw. */
function isRefused(use, record, PrivotError) {
  let drawn = 0;
  try {
    use(record, () => drawn++);
  } catch (error) {
    return error instanceof PrivotError && drawn === 0;
  }
  return false;
}

/** How many vectors of a file are met, of how many, and what became of the first others. */
export async function check({ Device, Encoder, PrivotError }, suite) {
  const missed = [];
  const device = suite.randomizer && (await Device.load(suite.randomizer));
  const encoder = suite.encoder && (await Encoder.load(suite.encoder));
  for (const [index, vector] of suite.vectors.entries()) {
    const met = device ? isMet(device, vector) : sharesAreMet(encoder, vector);
    const found = await met.catch((error) => String(error));
    if (found !== true) missed.push(`vector ${index}: ${found || "other bytes"}`);
  }
  const draw = (record, drawn) => device.report(record, { word: () => BigInt(drawn()) });
  const encode = (record, drawn) => encoder.encode(record, (count) => new Uint8Array(count).fill(drawn()));
  for (const [index, record] of suite.refused.entries()) {
    if (!isRefused(device ? draw : encode, record, PrivotError)) missed.push(`record ${index} is not refused`);
  }
  const total = suite.vectors.length + suite.refused.length;
  return { met: total - missed.length, total, missed: missed.slice(0, 5) };
}
