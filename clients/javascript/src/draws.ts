/**
 * Draws: what a device draws of one value, by integers and words alone; an object for each kind.
 *
 * A kind says how it draws, the bytes of its answers, which integers its proof covers, and the largest
 * likelihood ratio of two values that they imply; `privot.wire.draws` in Python is the same code, and
 * proves it. What is drawn before the record is used, and how many words it takes, is independent of the
 * record.
 */

import { digits, isText, list, MOST_CELLS, MOST_VALUES, need, whole } from "./fields.js";
import { numberBytes, packNumber, packSet, setBytes } from "./payload.js";
import type { Domain, PointTake, Take } from "./program.js";
import { either, type Fraction, ONE, type Ratio, rootAbove } from "./ratios.js";
import { roundEven } from "./values.js";
import { type WindowFields, type WindowGeometry, windowGeometry } from "./windows.js";
import { below, hexadecimal, type NextWord, smallBelow, WORDS } from "./words.js";

/** A code in every coding, unit coordinates, or a missing point. */
export type Value = number[] | null;
/** What was drawn: a code, a set of cells, a cell's number a block, or noisy integers. */
export type Answer = number[] | bigint[];

/** All that depends on a kind of draw, whose fields are those of a program. */
type Kind<F> = {
  /** Whether values are codes of one coding; else, points. */
  takesCodes: boolean;
  /** Refuses fields that the proof does not cover; all so many codes must be drawn of. */
  check(where: string, fields: F, take: Take, codes: number): void;
  worstRatio(fields: F, take: Take): Ratio;
  draw(fields: F, value: Value, word: NextWord): Answer;
  numBytes(fields: F): number;
  /** Numbers of equal width, unless there is another form. */
  pack?(fields: F, answer: Answer): number[];
};

export type ResponseDraw = { draw: "response"; values: number; slot: string };

const response: Kind<ResponseDraw> = {
  takesCodes: true,
  check(where, { values, slot }, _, codes) {
    whole(where, values, Math.max(2, codes), MOST_VALUES);
    digits(where, slot, (WORDS - 1n) / BigInt(values - 1));
  },
  worstRatio({ values, slot }) {
    const words = hexadecimal(slot);
    return { ...ONE, factor: either([WORDS - BigInt(values - 1) * words, words]) };
  },
  draw: ({ values, slot }, value, word) => [respond(values, hexadecimal(slot), value![0]!, word)],
  numBytes: ({ values }) => numberBytes(values),
};

/** The code itself, or another: `slot` words each lead to any other. */
function respond(values: number, slot: bigint, code: number, word: NextWord): number {
  const other = word() / slot;
  if (other >= BigInt(values - 1)) return code;
  return Number(other) + (Number(other) >= code ? 1 : 0);
}

export type SubsetLaw = { size: number; out: string };
export type SubsetDraw = SubsetLaw & { draw: "subset"; cells: number };

const subset: Kind<SubsetDraw> = {
  takesCodes: true,
  check(where, draw, _, codes) {
    requireSubset(where, whole(where, draw.cells, Math.max(2, codes), MOST_CELLS), draw);
  },
  worstRatio: (draw) => ({ ...ONE, factor: subsetRatio(draw.cells, draw) }),
  draw: ({ cells, size, out }, value, word) => select(cells, size, hexadecimal(out), value![0]!, word),
  numBytes: ({ cells, size }) => setBytes(cells, size),
  pack: ({ cells }, answer) => packSet(answer as number[], cells),
};

/** Refuses a set's size and its words unless the proof covers them. */
export function requireSubset(where: string, cells: number, law: SubsetLaw): void {
  whole(where, law?.size, 1, cells - 1);
  digits(where, law.out, WORDS - 1n);
}

/** The largest ratio of two cells' sets. */
export function subsetRatio(cells: number, { size, out }: SubsetLaw): Fraction {
  const words = hexadecimal(out);
  return either([(WORDS - words) * BigInt(cells - size), words * BigInt(size)]);
}

/** `size` of `cells` cells, in order; the true one is left out by words below `out`. */
export function select(
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

export type WindowDraw = WindowFields & { draw: "window"; nullable: boolean; anywhere: string; blocks: number };

const window: Kind<WindowDraw> = {
  takesCodes: false,
  check(where, { dimension, steps, radius, area, non_negative, nullable, anywhere, blocks }, take) {
    const { domain, columns } = take as PointTake;
    whole(where, dimension, 1, 3);
    whole(where, blocks, 1, 2 ** 16);
    need(blocks * dimension === columns.length, where);
    whole(where, steps, 2, 2 ** 16);
    need((steps & (steps - 1)) === 0, where);
    whole(where, radius, 0, 2 ** 18);
    need((steps + 2 * radius + 1) ** dimension <= 2 ** 26, where);
    need(area === domain.area && non_negative === (domain.area === "l2_ball" && domain.non_negative), where);
    need(nullable === (take as PointTake).nullable && !(nullable && blocks > 1), where);
    digits(where, anywhere, WORDS);
  },
  worstRatio(draw) {
    const { window, count } = windowGeometry(draw);
    const [near, words] = [BigInt(window), hexadecimal(draw.anywhere)];
    const total = BigInt(count) + (draw.nullable ? near : 0n);
    const below = words * near;
    const power = BigInt(draw.blocks);
    return { ...ONE, factor: [(below + (WORDS - words) * total) ** power, below ** power] };
  },
  draw(draw, units, word) {
    const { dimension, steps, nullable } = draw;
    const [cells, anywhere] = [windowGeometry(draw), hexadecimal(draw.anywhere)];
    if (units === null) return [reported(cells, nullable, anywhere, null, word)];
    const own = units.map((u) => roundEven((u + 1) * (steps / 2)));
    const blocks = own.flatMap((_, at) => (at % dimension ? [] : [own.slice(at, at + dimension)]));
    return blocks.map((block) => reported(cells, nullable, anywhere, block, word));
  },
  numBytes: (draw) => draw.blocks * numberBytes(windowGeometry(draw).numbers + Number(draw.nullable)),
};

/** The number of a reported cell: of the window of `cell`, or of any; null is a missing value. */
function reported(
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

export type LaplaceDraw = {
  draw: "laplace";
  dimension: number;
  ratio: [string, string];
  grid_bits: number;
};

const laplace: Kind<LaplaceDraw> = {
  takesCodes: false,
  check(where, { dimension, ratio, grid_bits }, take) {
    need(!(take as PointTake).nullable && dimension === take.columns.length, where);
    whole(where, grid_bits, 0, 40);
    need(list(where, ratio, 2).length === 2, where);
    const [a, b] = [digits(where, ratio[0], 1n << 53n), digits(where, ratio[1], 1n << 1100n)];
    need(a <= b << 40n, where);
  },
  worstRatio(draw, take) {
    const [a, b] = [hexadecimal(draw.ratio[0]), hexadecimal(draw.ratio[1])];
    return { ...ONE, exponent: [farthest(draw, (take as PointTake).domain) * b, a] };
  },
  draw({ ratio, grid_bits }, value, word) {
    const [a, b] = [hexadecimal(ratio[0]), hexadecimal(ratio[1])];
    const scaled = value!.map((u) => BigInt(roundEven(u * 2 ** grid_bits)));
    return scaled.map((integer) => integer + noise(a, b, word));
  },
  numBytes: ({ dimension }) => 8 * dimension,
};

/** Noise of law P(k) ∝ exp(−|k| b/a). */
function noise(numerator: bigint, denominator: bigint, word: NextWord): bigint {
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

/** The largest ℓ1 distance of the integers of two records. */
function farthest({ dimension, grid_bits }: LaplaceDraw, domain: Domain): bigint {
  const [d, unit] = [BigInt(dimension), 1n << BigInt(grid_bits)];
  if (domain.area === "box") return 2n * d * unit;
  const half = d / 2n;
  const across = domain.non_negative ? rootAbove(half) + rootAbove(d - half) : 2n * rootAbove(d);
  return ((unit * across * ((1n << 53n) + d + 8n)) >> 181n) + d; // 53 + 128 bits
}

/** A kind of draw is here, and its fields in `Draw`. */
const KINDS = { response, subset, window, laplace };
/** A draw of a program. */
export type Draw = ResponseDraw | SubsetDraw | WindowDraw | LaplaceDraw;

function kindOf(draw: Draw): Kind<Draw> {
  return KINDS[draw.draw] as Kind<Draw>;
}

/** Refuses a draw that the proof of its kind does not cover. */
export function requireDraw(where: string, draw: Draw, take: Take, codes: number[]): void {
  need(isText(draw.draw) && Object.hasOwn(KINDS, draw.draw), where);
  const kind = kindOf(draw);
  need(codes.length === Number(kind.takesCodes), where);
  kind.check(where, draw, take, codes[0] ?? 0);
}

/** The largest likelihood ratio of two values. */
export function worstRatio(draw: Draw, take: Take): Ratio {
  return kindOf(draw).worstRatio(draw, take);
}

/** Bytes of every answer. */
export function fieldBytes(draw: Draw): number {
  return kindOf(draw).numBytes(draw);
}

/** The bytes of what is drawn of a value. */
export function drawField(draw: Draw, value: Value, word: NextWord): number[] {
  const kind = kindOf(draw);
  const answer = kind.draw(draw, value, word);
  const width = kind.numBytes(draw) / answer.length;
  return kind.pack?.(draw, answer) ?? answer.flatMap((number: number | bigint) => packNumber(number, width));
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
