/** The prover of shares by itself, `src/prio3.ts` as it is now, which the client does not export; and liars. */

import { readFileSync } from "node:fs";
import { build } from "esbuild";

/** The prover with a change of its source. */
export async function prover(change = (text) => text) {
  const resolveDir = new URL("../src", import.meta.url).pathname;
  const contents = change(readFileSync(`${resolveDir}/prio3.ts`, "utf-8"));
  const stdin = { contents, resolveDir, loader: "ts" };
  const { outputFiles } = await build({ stdin, bundle: true, format: "esm", write: false, logLevel: "silent" });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

export const { histogram, MODULUS, pairs, RAND_BYTES, shard } = await prover();

/** So many zeros, and other numbers at their places. */
export function numbers(length, others) {
  const all = new Array(length).fill(0n);
  for (const [place, number] of Object.entries(others)) all[place] = (BigInt(number) + MODULUS) % MODULUS;
  return all;
}

/** All products of numbers, row by row. */
export function products(z) {
  return z.flatMap((a, row) => z.slice(row).map((b) => (a * b) % MODULUS));
}

/** One-hot blocks side by side. */
export function oneHot(sizes, places) {
  return sizes.flatMap((size, block) => numbers(size, { [places[block]]: 1 }));
}

/** Measurements that are no record's, by name: of a histogram of so many buckets, or of pairs of blocks of these sizes. */
export function lies(of) {
  if (typeof of === "number") {
    return {
      "count 2 in a cell": numbers(of, { 3: 2 }),
      "two cells": numbers(of, { 3: 1, 7: 1 }),
      "nothing": numbers(of, {}),
      "a minus and two": numbers(of, { 3: 1, 7: 1, 8: -1 }),
      "a huge count": numbers(of, { 3: 10 ** 15 }),
    };
  }
  const first = oneHot(of, of.map(() => 0));
  const width = first.length;
  const changed = (others) => products(first.map((one, at) => one + BigInt(others[at] ?? 0)));
  const valid = products(first);
  return {
    "count 2 in a cell": changed({ 0: 1 }),
    "two cells of a column": changed({ 1: 1 }),
    "no cell of the last column": changed({ [width - of.at(-1)]: -1 }),
    "products without a pair": valid.map((one, at) => (at && at < width ? 0n : one)),
    "another pair": valid.map((one, at) => (at === width - 1 ? one + 1n : one)),
    "everything ten times": valid.map((one) => 10n * one),
  };
}
