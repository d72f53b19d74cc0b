/** `node --test`: proofs by the draft's vectors, and by another library, which verifies them and refuses liars'. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import test from "node:test";
import { Field128 } from "@divviup/field";
import { Prio3 } from "@divviup/prio3";
import { Circuit } from "@divviup/prio3/dist/circuit.js";
import { Histogram } from "@divviup/prio3/dist/circuits/histogram.js";
import { Mul } from "@divviup/prio3/dist/gadgets/mul.js";
import { ParallelSum } from "@divviup/prio3/dist/gadgets/parallelSum.js";
import { FlpGeneric } from "@divviup/prio3/dist/genericFlp.js";
import { XofTurboShake128 } from "@divviup/xof";
import { histogram, lies, numbers, oneHot, pairs, products, RAND_BYTES, shard } from "./prover.mjs";

const vectors = JSON.parse(await readFile(new URL("../../../tests/aggregated/prio3_vectors.json", import.meta.url)));
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const upTo = (count) => Uint8Array.from({ length: count }, (_, k) => k);
const bits = (number, count) => Array.from({ length: count }, (_, bit) => BigInt((number >> bit) & 1));

// The draft's circuits that prove what a histogram does of each number. Beyond that they differ in sums of numbers, which
// a prover need not look at.
const CIRCUITS = {
  Histogram: ({ length, chunk }, bucket) => [histogram(length, chunk), numbers(length, { [bucket]: 1 })],
  SumVec({ length, bits: count, chunk, algorithm }, all) {
    return [{ ...histogram(length * count, chunk), algorithm }, all.flatMap((each) => bits(each, count))];
  },
  MultihotCountVec({ length, most, chunk }, all) {
    const count = most.toString(2).length;
    const weight = all.reduce((sum, each) => sum + each) + 2 ** count - 1 - most;
    return [{ ...histogram(length + count, chunk), algorithm: 4 }, [...all.map(BigInt), ...bits(weight, count)]];
  },
};

test("the draft's vectors of two servers are met", () => {
  const mine = vectors.filter(({ shares, proofs }) => shares === 2 && proofs === 1);
  assert.deepEqual(mine.map(({ circuit }) => circuit), ["Histogram", "SumVec", "MultihotCountVec"]);
  for (const { circuit, parameters, measurement, public_share, input_shares_sha256 } of mine) {
    const bodies = shard(...CIRCUITS[circuit](parameters, measurement), upTo(16), upTo(RAND_BYTES));
    for (const [server, body] of bodies.entries()) {
      assert.equal(hex(body.subarray(0, 32)), public_share, circuit);
      assert.equal(createHash("sha256").update(body.subarray(32)).digest("hex"), input_shares_sha256[server], circuit);
    }
  }
});

/** The library's circuit of any measurement, valid or not. */
const asItIs = (circuit) => Object.assign(circuit, { encode: (measurement) => measurement, decode: (sums) => sums });

/** The circuit `Pairs` of one-hot blocks, written from its definition on the library's framework. */
class Pairs extends Circuit {
  field = new Field128();
  jointRandLen = 2;

  constructor(sizes) {
    super();
    this.sizes = sizes;
    this.width = sizes.reduce((sum, size) => sum + size);
    this.chunk = Math.floor(Math.sqrt(this.width));
    this.gadgets = [new ParallelSum(new Mul(), this.chunk)];
    this.gadgetCalls = [Math.ceil(this.width / this.chunk)];
    this.measurementLen = this.outputLen = (this.width * (this.width + 1)) / 2;
  }

  eval(x, [r, s], shares) {
    const { field, width } = this;
    const place = (a, b) => a * width - (a * (a - 1)) / 2 + b - a;
    const range = (from, to) => Array.from({ length: to - from }, (_, k) => from + k);
    const weight = (k) => field.exp(r, BigInt(k + 1));
    const z = (a) => x[place(a, a)];
    const wires = range(0, width).flatMap((a) => [
      z(a),
      field.sum(range(a, width), (b) => field.mul(weight(place(a, b)), z(b))),
    ]);
    const padded = [...wires, ...new Array(2 * this.chunk * this.gadgetCalls[0] - 2 * width).fill(0n)];
    const found = field.sum(range(0, this.gadgetCalls[0]), (call) =>
      this.gadgets[0].eval(field, padded.slice(2 * this.chunk * call, 2 * this.chunk * (call + 1))),
    );
    let value = field.mul(s, field.sub(found, field.sum(x, (each, k) => field.mul(weight(k), each))));
    let start = 0;
    for (const [block, size] of this.sizes.entries()) {
      const rest = field.sub(field.sum(range(start, start + size), z), field.exp(BigInt(shares), -1n));
      value = field.add(value, field.mul(field.exp(s, BigInt(block + 2)), rest));
      start += size;
    }
    return value;
  }

  truncate(x) {
    return x;
  }
}

const scheme = (circuit, algorithm) => new Prio3(XofTurboShake128, new FlpGeneric(asItIs(circuit)), 2, 1, algorithm);
const random = (count) => Buffer.from(crypto.getRandomValues(new Uint8Array(count)));

/** Do both servers of the library take a report, whose shares are ours byte for byte? */
async function taken(theirs, ours, measurement) {
  const [nonce, rand] = [random(16), random(RAND_BYTES)];
  const { publicShare, inputShares } = await theirs.shardEncoded(measurement, nonce, rand);
  const made = shard(ours, measurement, nonce, rand);
  assert.deepEqual(made.map(hex), inputShares.map((share) => hex(publicShare) + hex(share)));
  const given = { verifyKey: random(16), nonces: [nonce], rands: [rand], measurements: [measurement] };
  try {
    const { agg_result } = await theirs.run({ aggregationParameter: 0, ...given });
    assert.deepEqual(agg_result.map(BigInt), measurement);
    return true;
  } catch (error) {
    if (!/Verify error/.test(error.message)) throw error;
    return false;
  }
}

test("another library makes the same shares of one bucket and accepts them, and refuses liars'", async () => {
  for (const [length, chunk] of [[1, 1], [2, 1], [7, 2], [16, 4], [31, 5], [65, 8], [12, 20]]) {
    const theirs = scheme(new Histogram(new Field128(), length, chunk), 3);
    const ours = histogram(length, chunk);
    assert.ok(await taken(theirs, ours, numbers(length, { [length - 1]: 1 })));
  }
  const theirs = scheme(new Histogram(new Field128(), 31, 5), 3);
  for (const [name, lie] of Object.entries(lies(31))) {
    assert.equal(await taken(theirs, histogram(31, 5), lie), false, name);
  }
});

test("another library makes the same shares of pairs and accepts them, and refuses liars'", async () => {
  for (const sizes of [[1], [2, 2], [3, 2, 4], [7], [2, 3, 2], [4, 4, 4, 4]]) {
    const z = oneHot(sizes, sizes.map((size) => size - 1));
    assert.ok(await taken(scheme(new Pairs(sizes), 0xffff0001), pairs(z.length), products(z)), String(sizes));
  }
  const theirs = scheme(new Pairs([3, 2, 4]), 0xffff0001);
  for (const [name, lie] of Object.entries(lies([3, 2, 4]))) {
    assert.equal(await taken(theirs, pairs(9), lie), false, name);
  }
});
