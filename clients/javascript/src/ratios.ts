/** Likelihood ratios in whole numbers, and bounds of the exponential, as `privot.device.exact` proves them. */

/** A fraction of whole numbers: above, and below. */
export type Fraction = [bigint, bigint];
/** The number factor · e^exponent. */
export type Ratio = { factor: Fraction; exponent: Fraction };

export const ONE: Ratio = { factor: [1n, 1n], exponent: [0n, 1n] };
export const [BITS, LARGEST] = [320n, 1n << 16n];

/** Negative, zero or positive, as the first is less, equal or more. */
export function order([a, b]: Fraction, [c, d]: Fraction): number {
  const difference = a * d - c * b;
  return difference > 0n ? 1 : difference < 0n ? -1 : 0;
}

/** The larger of two. */
export function larger(first: Fraction, second: Fraction): Fraction {
  return order(first, second) > 0 ? first : second;
}

/** The product. */
export function times([a, b]: Fraction, [c, d]: Fraction): Fraction {
  return [a * c, b * d];
}

/** The sum. */
export function plus([a, b]: Fraction, [c, d]: Fraction): Fraction {
  return [a * d + c * b, b * d];
}

/** The rational number that a float is. */
export function rational(number: number): Fraction {
  let below = 1n;
  for (; !Number.isInteger(number); below *= 2n) number *= 2;
  return [BigInt(number), below];
}

/** In units of 2^−320, a number that is at most e^x, for x ≥ 0: every step rounds down. */
export function expBelow([above, below]: Fraction): bigint {
  if (above > LARGEST * below) [above, below] = [LARGEST, 1n];
  let halvings = 0;
  for (; above > below; below *= 2n) halvings++;
  let [total, term] = [0n, 1n << BITS];
  for (let i = 1n; i <= 64n; i++) {
    total += term;
    term = (term * above) / (below * i);
  }
  while (halvings--) total = (total * total) >> BITS;
  return total;
}

/** The larger of odds and their inverse. */
export function either(odds: Fraction): Fraction {
  return larger(odds, [odds[1], odds[0]]);
}

/** In units of 2^−128, a number that is at least the root. */
export function rootAbove(number: bigint): bigint {
  const scaled = number << 256n;
  let root = 1n << 160n; // Newton's iteration falls to the root, rounded down
  for (let next = root; ; root = next) {
    next = (root + scaled / root) >> 1n;
    if (next >= root) break;
  }
  return root * root < scaled ? root + 1n : root;
}
