/**
 * The exact law of a program: does the largest likelihood ratio of any two records exceed e^ε?
 *
 * In whole numbers alone, by the bounds that `privot.device.exact` in Python proves.
 */

import { sheetCells } from "./checks.js";
import type { Domain, Draw, LaplaceDraw, Program, Take } from "./program.js";
import { windowGeometry } from "./windows.js";
import { hexadecimal, WORDS } from "./words.js";

/** A fraction of whole numbers: above, and below. */
type Fraction = [bigint, bigint];
/** The number factor · e^exponent. */
type Ratio = { factor: Fraction; exponent: Fraction };

const ONE: Ratio = { factor: [1n, 1n], exponent: [0n, 1n] };
const [BITS, LARGEST] = [320n, 1n << 16n];

/** Whether any two records' reports differ by e^ε at most, of a program that `requireProgram` has let pass. */
export function isWithin({ columns, joint, split }: Program, epsilon: number): boolean {
  const fixed = joint
    ? [...sheetCells(joint)].map((cells) => subsetRatio(cells, joint.sets[cells]!)).reduce(larger)
    : ONE.factor;
  const ratios = (split?.reports ?? []).map(({ column, draw }) => ratioOf(draw, columns[column]!));
  const codes = ratios.filter(({ exponent }) => !exponent[0]).sort((r, s) => order(s.factor, r.factor));
  const noise = ratios.filter(({ exponent }) => exponent[0]).sort((r, s) => order(s.exponent, r.exponent));
  const choose = split?.choose ?? 0;
  const least = Math.max(0, choose - codes.length);
  for (let noisy = least; noisy <= Math.min(choose, noise.length); noisy++) {
    const chosen = [...noise.slice(0, noisy), ...codes.slice(0, choose - noisy)];
    const total = chosen.reduce(
      (product, { factor, exponent }) => ({
        factor: times(product.factor, factor),
        exponent: plus(product.exponent, exponent),
      }),
      { factor: fixed, exponent: ONE.exponent },
    );
    const left = plus(rational(epsilon), [-total.exponent[0], total.exponent[1]]);
    if (left[0] < 0n || order(total.factor, [expBelow(left), 1n << BITS]) > 0) return false;
  }
  return true;
}

function order([a, b]: Fraction, [c, d]: Fraction): number {
  const difference = a * d - c * b;
  return difference > 0n ? 1 : difference < 0n ? -1 : 0;
}

function larger(first: Fraction, second: Fraction): Fraction {
  return order(first, second) > 0 ? first : second;
}

function times([a, b]: Fraction, [c, d]: Fraction): Fraction {
  return [a * c, b * d];
}

function plus([a, b]: Fraction, [c, d]: Fraction): Fraction {
  return [a * d + c * b, b * d];
}

/** The rational number that a float is. */
function rational(number: number): Fraction {
  let below = 1n;
  for (; !Number.isInteger(number); below *= 2n) number *= 2;
  return [BigInt(number), below];
}

/** In units of 2^−320, a number that is at most e^x, for x ≥ 0: every step rounds down. */
function expBelow([above, below]: Fraction): bigint {
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

function either(odds: Fraction): Fraction {
  return larger(odds, [odds[1], odds[0]]);
}

function subsetRatio(cells: number, { size, out }: { size: number; out: string }): Fraction {
  const words = hexadecimal(out);
  return either([(WORDS - words) * BigInt(cells - size), words * BigInt(size)]);
}

function ratioOf(draw: Draw, take: Take): Ratio {
  switch (draw.draw) {
    case "response": {
      const slot = hexadecimal(draw.slot);
      return { ...ONE, factor: either([WORDS - BigInt(draw.values - 1) * slot, slot]) };
    }
    case "subset":
      return { ...ONE, factor: subsetRatio(draw.cells, draw) };
    case "window": {
      const { window, count } = windowGeometry(draw);
      const [near, words] = [BigInt(window), hexadecimal(draw.anywhere)];
      const total = BigInt(count) + (draw.nullable ? near : 0n);
      const below = words * near;
      const power = BigInt(draw.blocks);
      return { ...ONE, factor: [(below + (WORDS - words) * total) ** power, below ** power] };
    }
    case "laplace": {
      const [a, b] = [hexadecimal(draw.ratio[0]), hexadecimal(draw.ratio[1])];
      const { domain } = take as { domain: Domain };
      return { ...ONE, exponent: [farthest(draw, domain) * b, a] };
    }
  }
}

/** The largest ℓ1 distance of the integers of two records. */
function farthest({ dimension, grid_bits }: LaplaceDraw, domain: Domain): bigint {
  const [d, unit] = [BigInt(dimension), 1n << BigInt(grid_bits)];
  if (domain.area === "box") return 2n * d * unit;
  const half = d / 2n;
  const across = domain.non_negative ? rootAbove(half) + rootAbove(d - half) : 2n * rootAbove(d);
  return ((unit * across * ((1n << 53n) + d + 8n)) >> 181n) + d; // 53 + 128 bits
}

/** In units of 2^−128, a number that is at least the root. */
function rootAbove(number: bigint): bigint {
  const scaled = number << 256n;
  let root = 1n << 160n; // Newton's iteration falls to the root, rounded down
  for (let next = root; ; root = next) {
    next = (root + scaled / root) >> 1n;
    if (next >= root) break;
  }
  return root * root < scaled ? root + 1n : root;
}
