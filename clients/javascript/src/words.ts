/**
 * Words: uniform 64-bit integers, and what is drawn from them exactly.
 *
 * A device takes one word after another from WebCrypto; a conformance test hands it words that are
 * written down. Everything drawn is a function of them, in a fixed order: that is what two
 * implementations can be compared by.
 */

export const WORDS = 1n << 64n;

export type NextWord = () => bigint;

// 2 kB a call: enough for most reports, far from the 65 536 bytes that WebCrypto gives at once.
const BLOCK = 256;

/** Words of the system's generator, in blocks; each is handed out once and then overwritten. */
export function systemWords(): NextWord {
  const block = new BigUint64Array(BLOCK);
  let next = BLOCK;
  return () => {
    if (next === BLOCK) {
      crypto.getRandomValues(block);
      next = 0;
    }
    const word = block[next]!;
    block[next++] = 0n;
    return word;
  };
}

/** A uniform integer 0 … bound−1, exactly: words beyond the last full multiple are drawn again. */
export function below(bound: bigint, word: NextWord): bigint {
  const limit = WORDS - (WORDS % bound);
  let drawn = word();
  while (drawn >= limit) drawn = word();
  return drawn % bound;
}

/** `below` of a bound that is a safe number. */
export function smallBelow(bound: number, word: NextWord): number {
  return Number(below(BigInt(bound), word));
}

/** An integer that a program writes in hexadecimal. */
export function hexadecimal(digits: string): bigint {
  return BigInt("0x" + digits);
}
