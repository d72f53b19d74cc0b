/**
 * Prio3: shares of a vector for two servers, and a proof to both together that it is the vector of some record.
 *
 * The client of `privot.aggregated.prio3`, where theorem and proof are, byte for byte: version 8 of
 * draft-irtf-cfrg-vdaf with its names, one proof, and the circuits that sum products of two factors: the draft's
 * `Histogram` of places, and `Pairs` of tables. Verifying is the servers'.
 *
 * Who sees what: as with all shares. The time of BigInt's operations depends on the record, and stays on the device.
 */

import { turboshake128 } from "@noble/hashes/sha3-addons.js";
import { joined } from "./payload.js";

/** p, so that p − 1 has the factor 2^66, and a number of the order 2^66. */
export const MODULUS = 2n ** 128n - 7n * 2n ** 66n + 1n;
const GENERATOR = power(7n, 2n ** 62n - 7n);
const [ELEMENT_BYTES, SEED_BYTES, PROOFS] = [16, 16, 1];
const [LOW, WORD] = [2n ** 64n - 1n, 64n];

/** Random bytes that a report takes: three seeds for the helper, and a blind and a seed of the leader's. */
export const RAND_BYTES = 5 * SEED_BYTES;

/** What a seed is expanded for. */
const USAGE = {
  measurementShare: 1, proofShare: 2, jointRandomness: 3, proveRandomness: 4, jointRandSeed: 6, jointRandPart: 7,
};
type Usage = keyof typeof USAGE;

/** A validity circuit, as its prover needs it: x is valid if a sum of products is what it has to be, for random r. */
export type Circuit = {
  /** The draft's number of the algorithm. */
  algorithm: number;
  /** Numbers of a measurement, and products in one call of the gadget. */
  length: number;
  chunk: number;
  /** The two factors of each product, one after the other. */
  factors(measurement: bigint[], r: bigint): bigint[];
};

/** One of n numbers is 1, and the others are 0: all r^(i + 1) x_i (x_i − 1) vanish. */
export function histogram(length: number, chunk = Math.floor(Math.sqrt(length))): Circuit {
  const factors = (measurement: bigint[], r: bigint) => {
    const weights = powers(r, length + 1);
    const products = chunk * Math.ceil(length / chunk);
    return Array.from({ length: products }, (_, i) => {
      const number = measurement[i] ?? 0n; // the draft's padding
      return [(number * (weights[i + 1] ?? 0n)) % MODULUS, (number + MODULUS - 1n) % MODULUS];
    }).flat();
  };
  return { algorithm: 3, length, chunk, factors };
}

/** All products z_a z_b of `width` numbers z, row by row, with z on the diagonal: factors z_a and Σ_b≥a r_ab z_b. */
export function pairs(width: number): Circuit {
  const length = (width * (width + 1)) / 2;
  const factors = (measurement: bigint[], r: bigint) => {
    const starts = Array.from({ length: width }, (_, row) => row * width - (row * (row - 1)) / 2);
    const [weights, z] = [powers(r, length + 1), starts.map((start) => measurement[start]!)];
    return starts.flatMap((start, row) => {
      let inner = 0n;
      for (let column = row; column < width; column++) inner += weights[start + column - row + 1]! * z[column]!;
      return [z[row]!, inner % MODULUS];
    });
  };
  return { algorithm: 0xffff0001, length, chunk: Math.floor(Math.sqrt(width)), factors };
}

/** What the leader and the helper get beside the nonce: the public share, and their own. */
export function shard(
  circuit: Circuit,
  measurement: bigint[],
  nonce: Uint8Array,
  rand: Uint8Array,
): [leader: Uint8Array<ArrayBuffer>, helper: Uint8Array<ArrayBuffer>] {
  const [share, proofShare, blind, own, prover] = [0, 1, 2, 3, 4].map((at) =>
    rand.slice(at * SEED_BYTES, (at + 1) * SEED_BYTES),
  ) as [Uint8Array, Uint8Array, Uint8Array, Uint8Array, Uint8Array];
  const draw = (usage: Usage, seed: Uint8Array, binder: number[], length: number) =>
    expand(circuit, usage, seed, binder, length);
  const pad = draw("measurementShare", share, [1], circuit.length);
  const padded = encode(minus(measurement, pad));
  const parts = joined(
    derive(circuit, "jointRandPart", own, [0], nonce, padded),
    derive(circuit, "jointRandPart", blind, [1], nonce, encode(pad)),
  );
  const seed = derive(circuit, "jointRandSeed", new Uint8Array(SEED_BYTES), parts);
  const [r] = draw("jointRandomness", seed, [PROOFS], 1) as [bigint]; // the second weighs sums, which a prover skips
  const proof = prove(circuit.factors(measurement, r), draw("proveRandomness", prover, [PROOFS], 2 * circuit.chunk));
  const masked = encode(minus(proof, draw("proofShare", proofShare, [PROOFS, 1], proof.length)));
  return [joined(parts, padded, masked, own), joined(parts, rand.slice(0, 3 * SEED_BYTES))];
}

/** The values of all wires at α^0, and the coefficients of the gadget's polynomial. */
function prove(factors: bigint[], seeds: bigint[]): bigint[] {
  const calls = Math.ceil(factors.length / seeds.length);
  const count = 2 ** (Math.floor(Math.log2(calls)) + 1); // P, the least power of two above them
  // The gadget's polynomial by its values at roots of order 2P: those of order P are every second one of them.
  const roots = powers(power(GENERATOR, 2n ** 66n / BigInt(2 * count)), 2 * count);
  const [even, twists] = [roots.filter((_, k) => k % 2 === 0), scaled(roots.slice(0, count), inverse(count))];
  const wire = (at: number) => {
    const values = [seeds[at]!, ...Array.from({ length: count - 1 }, (_, call) => factors[call * seeds.length + at] ?? 0n)];
    const twisted = transform(values, inverses(even)).map((number, k) => (number * twists[k]!) % MODULUS);
    const between = transform(twisted, even);
    return values.flatMap((value, k) => [value, between[k]!]);
  };
  const gadget: bigint[] = new Array(2 * count).fill(0n);
  for (let at = 0; at < seeds.length; at += 2) {
    const [left, right] = [wire(at), wire(at + 1)];
    left.forEach((value, k) => (gadget[k]! += value * right[k]!));
  }
  const coefficients = transform(gadget.map((value) => value % MODULUS), inverses(roots));
  return [...seeds, ...scaled(coefficients.slice(0, -1), inverse(2 * count))];
}

/** A polynomial with these coefficients at the roots of unity, by Stockham's transform; by inverse roots, n times back. */
function transform(values: bigint[], roots: bigint[]): bigint[] {
  const half = values.length / 2;
  for (let step = 1; step <= half; step *= 2) {
    const next: bigint[] = new Array(2 * half);
    for (let at = 0; at < half; at++) {
      const [low, high, column] = [values[at]!, values[at + half]!, at % step];
      const sum = low + high;
      next[2 * at - column] = sum < MODULUS ? sum : sum - MODULUS;
      next[2 * at - column + step] = ((low + MODULUS - high) * roots[at - column]!) % MODULUS;
    }
    values = next;
  }
  return values;
}

/** The inverses of all roots of unity, in their order. */
function inverses(roots: bigint[]): bigint[] {
  return [roots[0]!, ...roots.slice(1).reverse()];
}

function inverse(number: number): bigint {
  return power(BigInt(number), MODULUS - 2n);
}

function scaled(numbers: bigint[], factor: bigint): bigint[] {
  return numbers.map((number) => (number * factor) % MODULUS);
}

function power(base: bigint, exponent: bigint): bigint {
  let found = 1n;
  for (; exponent > 0n; exponent >>= 1n, base = (base * base) % MODULUS) {
    if (exponent & 1n) found = (found * base) % MODULUS;
  }
  return found;
}

/** 1, a, …, a^(count − 1). */
function powers(base: bigint, count: number): bigint[] {
  const found = [1n];
  while (found.length < count) found.push((found.at(-1)! * base) % MODULUS);
  return found;
}

function minus(numbers: bigint[], others: bigint[]): bigint[] {
  return numbers.map((number, k) => (number + MODULUS - others[k]!) % MODULUS);
}

/** Elements as bytes, the lowest first. */
function encode(numbers: bigint[]): Uint8Array<ArrayBuffer> {
  const bytes = new DataView(new ArrayBuffer(ELEMENT_BYTES * numbers.length));
  numbers.forEach((number, k) => {
    bytes.setBigUint64(ELEMENT_BYTES * k, number & LOW, true);
    bytes.setBigUint64(ELEMENT_BYTES * k + 8, number >> WORD, true);
  });
  return new Uint8Array(bytes.buffer);
}

/** Elements drawn from TurboSHAKE128, uniform by rejection. */
function expand(circuit: Circuit, usage: Usage, seed: Uint8Array, binder: number[], length: number): bigint[] {
  const stream = absorbed(circuit, usage, seed, binder);
  const found: bigint[] = [];
  while (found.length < length) {
    const drawn = stream.xof(ELEMENT_BYTES * (length - found.length));
    const words = new DataView(drawn.buffer, drawn.byteOffset, drawn.length);
    for (let at = 0; at < drawn.length; at += ELEMENT_BYTES) {
      const number = words.getBigUint64(at, true) + (words.getBigUint64(at + 8, true) << WORD);
      if (number < MODULUS) found.push(number);
    }
  }
  return found;
}

function derive(circuit: Circuit, usage: Usage, seed: Uint8Array, ...binder: ArrayLike<number>[]): Uint8Array {
  return absorbed(circuit, usage, seed, ...binder).xof(SEED_BYTES);
}

/** TurboSHAKE128 of a domain separation tag, a seed and what it is bound to. */
function absorbed({ algorithm }: Circuit, usage: Usage, seed: Uint8Array, ...binder: ArrayLike<number>[]) {
  const tag = new Uint8Array([8, 8, 0, 0, 0, 0, 0, 0, USAGE[usage]]); // its length, and the draft's version
  new DataView(tag.buffer).setUint32(3, algorithm);
  return turboshake128.create({ D: 1 }).update(joined(tag, seed, ...binder));
}
