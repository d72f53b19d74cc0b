/**
 * Draws: a record's integers in, a report's integers out, by integers and words alone.
 *
 * Each is the scalar form of a mechanism of Privot, whose module proves its law; `privot.wire.draws` in
 * Python is the same code. What is drawn before the record is used, and how many words it takes, is
 * independent of the record.
 */

import type { WindowGeometry } from "./windows.js";
import { below, type NextWord, smallBelow } from "./words.js";

/** The code itself, or another: `slot` words each lead to any other. */
export function response(values: number, slot: bigint, code: number, word: NextWord): number {
  const other = word() / slot;
  if (other >= BigInt(values - 1)) return code;
  return Number(other) + (Number(other) >= code ? 1 : 0);
}

/** `size` of `cells` cells, in order; the true one is left out by words below `out`. */
export function subset(
  cells: number,
  size: number,
  out: bigint,
  cell: number,
  word: NextWord,
): number[] {
  const others = cells - 1;
  const chosen = new Set<number>();
  for (let last = others - size; last < others; last++) {
    const candidate = smallBelow(last + 1, word);
    chosen.add(chosen.has(candidate) ? last : candidate);
  }
  const drawn = sorted([...chosen].map((other) => other + (other >= cell ? 1 : 0)));
  const place = smallBelow(size, word);
  if (word() >= out) drawn[place] = cell;
  return sorted(drawn);
}

/** The number of a reported cell: of the window of `cell`, or of any; null is a missing value. */
export function window(
  cells: WindowGeometry,
  nullable: boolean,
  anywhere: bigint,
  cell: number[] | null,
  word: NextWord,
): number {
  const near = BigInt(cells.window);
  const total = BigInt(cells.count) + (nullable ? near : 0n);
  const drawn = below(near * total, word);
  if (word() < anywhere) {
    const far = Number(drawn % total);
    return far < cells.count ? cells.reached(far) : cells.numbers;
  }
  return cell === null ? cells.numbers : cells.number(cell) + cells.offset(Number(drawn % near));
}

/** Noise of law P(k) ∝ exp(−|k| b/a). */
export function laplace(numerator: bigint, denominator: bigint, word: NextWord): bigint {
  for (;;) {
    const rest = below(numerator, word);
    if (!expCoin(rest, numerator, word)) continue;
    let whole = 0n;
    while (expCoin(1n, 1n, word)) whole++;
    const magnitude = (rest + numerator * whole) / denominator;
    const negative = (word() & 1n) === 1n;
    if (magnitude !== 0n || !negative) return negative ? -magnitude : magnitude;
  }
}

/** True with probability exp(−x/y), for x ≤ y. */
function expCoin(x: bigint, y: bigint, word: NextWord): boolean {
  let step = 1n;
  while (below(y * step, word) < x) step++;
  return step % 2n === 1n;
}

/** A uniform subset, in order: those whose words are smallest; nothing is drawn where all are. */
export function choose(total: number, chosen: number, word: NextWord): number[] {
  const all = Array.from({ length: total }, (_, index) => index);
  if (chosen === total) return all;
  const words = all.map(() => word());
  const order = [...all].sort((i, j) => (words[i]! < words[j]! ? -1 : words[i]! > words[j]! ? 1 : i - j));
  return sorted(order.slice(0, chosen));
}

/** An index, in proportion to the weights: the one whose share of all holds a uniform number. */
export function weighted(weights: number[], word: NextWord): number {
  let left = smallBelow(weights.reduce((sum, weight) => sum + weight, 0), word);
  return weights.findIndex((weight) => (left -= weight) < 0);
}

function sorted(numbers: number[]): number[] {
  return numbers.sort((a, b) => a - b);
}
