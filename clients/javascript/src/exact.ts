/**
 * The exact law of a program: does the largest likelihood ratio of any two records exceed e^ε?
 *
 * In whole numbers alone, by the bounds that `privot.device.exact` in Python proves.
 */

import { sheetCells } from "./checks.js";
import { subsetRatio, worstRatio } from "./draws.js";
import type { Program } from "./program.js";
import { BITS, expBelow, larger, ONE, order, plus, rational, times } from "./ratios.js";

/** Whether any two records' reports differ by e^ε at most, of a program that `requireProgram` has let pass. */
export function isWithin({ columns, joint, split }: Program, epsilon: number): boolean {
  const fixed = joint
    ? [...sheetCells(joint)].map((cells) => subsetRatio(cells, joint.sets[cells]!)).reduce(larger)
    : ONE.factor;
  const ratios = (split?.reports ?? []).map(({ column, draw }) => worstRatio(draw, columns[column]!));
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
