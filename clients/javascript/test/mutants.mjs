/**
 * `node test/mutants.mjs`: does the conformance suite catch clients that are wrong in one place?
 *
 * Each mutant is one change of one line of the sources; the suite must find it out. Prints JSON.
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { check } from "./vectors.mjs";

// Name: file of src, what stands there, what the mutant has instead.
const MUTANTS = {
  "draws without rejection": ["words", "drawn >= limit", "false"],
  "rejects one word too few": ["words", "drawn >= limit", "drawn > limit"],
  "responds at the threshold": ["draws", "other >= BigInt(values - 1)", "other > BigInt(values - 1)"],
  "others of a response from the code on": ["draws", "Number(other) >= code ? 1", "Number(other) > code ? 1"],
  "set without the last on a repeat": ["draws", "? last : candidate", "? last - 1 : candidate"],
  "others of a set from the cell on": ["draws", "other >= cell ? 1", "other > cell ? 1"],
  "left out at the threshold": ["draws", "word() >= out", "word() > out"],
  "the true cell takes the first place": ["draws", "drawn[place] = cell", "drawn[0] = cell"],
  "the place is drawn after the coin": [
    "draws",
    "const place = smallBelow(size, word);\n  if (word() >= out)",
    "const coin = word(), place = smallBelow(size, word);\n  if (coin >= out)",
  ],
  "anywhere at the threshold": ["draws", "word() < anywhere", "word() <= anywhere"],
  "missing values weigh one cell": ["draws", "(nullable ? near : 0n)", "(nullable ? 1n : 0n)"],
  "offsets by quotient": ["draws", "Number(drawn % near)", "Number(drawn / total)"],
  "negative zero is kept": ["draws", "magnitude !== 0n || !negative", "true"],
  "the sign is the other way": ["draws", "(word() & 1n) === 1n", "(word() & 1n) === 0n"],
  "coins of one step less": ["draws", "return step % 2n === 1n", "return step % 2n === 0n"],
  "a coin that does not grow": ["draws", "below(y * step, word)", "below(y, word)"],
  "noise rounded up": ["draws", "(rest + numerator * whole) / denominator", "(rest + numerator * whole + denominator - 1n) / denominator"],
  "noise without its rest": ["draws", "(rest + numerator * whole)", "(numerator * whole)"],
  "columns of the largest words": ["draws", "words[i]! < words[j]! ? -1", "words[i]! < words[j]! ? 1"],
  "of equal words the last": ["draws", ": i - j)", ": j - i)"],
  "forms one number late": ["draws", "(left -= weight) < 0", "(left -= weight) <= 0"],
  "a view is drawn where there is one": ["device", "views > 1 ? smallBelow(views, word) : 0", "smallBelow(views, word)"],
  "every view the first": ["device", "view % sizes[column]!.length", "0"],
  "a sheet of all views": ["device", "form * views + view", "form"],
  "forms of equal weights": ["draws", "(left -= weight) < 0", "(left -= 1) < 0"],
  "cells of one coordinate one too few": ["windows", "steps + 2 * radius + 1", "steps + 2 * radius"],
  "offsets in another order": [
    "windows",
    "points = points.flatMap((point) =>\n      Array.from({ length: high - low + 1 }, (_, index) => [...point, low + index]),\n    )",
    "points = Array.from({ length: high - low + 1 }, (_, index) => low + index).flatMap((k) => points.map((point) => [...point, k]))",
  ],
  "cells moved by no radius": ["windows", "coordinate + this.#radius", "coordinate"],
  "reach of the ball too small": ["windows", "steps + 2 + 2 * this.#radius", "steps + 2 * this.#radius"],
  "the quadrant is forgotten": ["windows", "non_negative ? steps / 2 : 0", "0"],
  "rows counted one late": ["windows", "numbers[middle]! > other", "numbers[middle]! >= other"],
  "halves rounded up": ["values", "rest === 0.5 && down % 2 !== 0", "rest === 0.5"],
  "halves rounded down": ["values", "rest === 0.5 && down % 2 !== 0", "false"],
  "spikes ignored": ["values", "if (spike >= 0)", "if (false)"],
  "the largest number one too large": ["values", "(integer ? 1 : 0)", "0"],
  "no rounding of whole numbers": ["values", "if (integer) number = roundEven(number)", ""],
  "the last edge is a bin": ["values", "lastNotAbove(edges, number), edges.length - 2", "lastNotAbove(edges, number), edges.length - 1"],
  "the empty text is a category": ["values", '(value === "" && !values.includes(""))', "false"],
  "the empty text is missing": ["values", '(value === "" && !values.includes(""))', 'value === ""'],
  "texts are normalized": ["values", "values.indexOf(value)", 'values.indexOf(value.normalize("NFC"))'],
  "texts are trimmed": ["values", "values.indexOf(value)", "values.indexOf(value.trim())"],
  "holes of the grid are not pulled": ["values", "code >= 0 ? code : Math.max", "true ? code : Math.max"],
  "cells beyond the side": ["values", "clip(Math.floor((u + 1) * (side / 2)), 0, side - 1)", "Math.floor((u + 1) * (side / 2))"],
  "dates before 1970 rounded up": ["values", "Math.floor(secondsOf(name, value, take.format) / seconds)", "Math.trunc(secondsOf(name, value, take.format) / seconds)"],
  "formats are not read": ["values", "const match = parts ?", "const match = false ?"],
  "a format in another order": ["values", '["Y", "m", "d", "H", "M", "S"].map', '["Y", "d", "m", "H", "M", "S"].map'],
  "every fourth year": ["values", "year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)", "year % 4 === 0"],
  "any hour": ["values", "hour > 23", "hour > 24"],
  "dates in local time": ["values", "3600 * hour + 60 * minute", "3600 * (hour + 1) + 60 * minute"],
  "a box is not projected": ["values", "clip((within(take, x, low, high, axis) - center) / scale, -1, 1)", "(x - center) / scale"],
  "what is out of bounds is clipped": ["values", 'if (take.out_of_bounds === "clip") return', "return"],
  "what a program clips is refused": ["values", 'if (take.out_of_bounds === "clip") return', ""],
  "points out of a ball are not refused": ["values", "> SCALE_ERROR * radius && outside(take, axis)", ""],
  "steps have no rounding errors": ["values", "(take.step === undefined ? 0 : STEP_ERROR)", "0"],
  "a point on a sphere is out of bounds": ["values", "> SCALE_ERROR * radius", "> 0"],
  "a ball is not projected": ["values", "if (!(length > radius / largest)) return kept", "return kept"],
  "a ball to its very edge": ["values", "(radius * INSIDE)", "radius"],
  "a ball is projected once": ["values", "return projectBall(inside.map((x) => x / radius), 1, non_negative)", "return inside.map((x) => x / radius)"],
  "a quadrant is not projected": ["values", "nonNegative ? point.map((x) => Math.max(x, 0)) : point", "point"],
  "the length in another order": ["values", "for (const x of direction) square", "for (const x of [...direction].reverse()) square"],
  "the length by hypot": ["values", "Math.sqrt(square)", "Math.hypot(...direction)"],
  "missing where one coordinate is there": ["values", "if (number === null) return null", "if (number === null) { point.push(0); continue; }"],
  "yes is a number": ["values", 'if (typeof value !== "boolean")', "if (false)"],
  "texts are numbers": ["values", 'if (typeof value !== "number") refuse(name, "holds no number")', "return Number(value)"],
  "bits from the highest": ["payload", "1 << (place & 7)", "128 >> (place & 7)"],
  "bits where numbers are as long": ["payload", "chosen.length * bytes > ", "chosen.length * bytes >= "],
  "numbers of 256 in two bytes": ["payload", "most < BigInt(bound)", "most <= BigInt(bound)"],
  "the lowest byte first": ["payload", "packed[place] = ", "packed[bytes - 1 - place] = "],
  "zeros before the set": ["payload", "...held, ...zeros]", "...zeros, ...held]"],
  "zeros only as long as needed": ["payload", "Math.max(...sets) - held.length", "0"],
  "an id with its highest byte first": ["device", "word(), true)", "word(), false)"],
  "the next hour": ["device", "Math.floor(now / ", "Math.ceil(now / "],
  "columns nobody asked": ["values", "if (unknown.length > 0)", "if (false)"],
  "a joint cell in another order": ["device", "cell * size + taken.get(columns[column]!)![coding]!", "cell + cells * taken.get(columns[column]!)![coding]!"],
  "the program's order of drawing": ["device", "[...this.#joint(taken, word), ...this.#split(taken, word)]", "((split) => [...this.#joint(taken, word), ...split])(this.#split(taken, word))"],
  "which columns are not said": ["device", "chosen.length < reports.length ? packBits", "false ? packBits"],
  "noise on a coarser grid": ["draws", "BigInt(roundEven(u * 2 ** grid_bits))", "2n * BigInt(roundEven(u * 2 ** (grid_bits - 1)))"],
  "one window for all coordinates": ["draws", "at % dimension ? []", "at ? []"],
  "a seed before the id": [
    "shares",
    "const id = random(ID_BYTES);\n    const bodies = this.proofs ? this.#proven(added, id, random(RAND_BYTES)) : this.#padded(added, random(SEED_BYTES));",
    "const seed = random(this.proofs ? RAND_BYTES : SEED_BYTES), id = random(ID_BYTES);\n    const bodies = this.proofs ? this.#proven(added, id, seed) : this.#padded(added, seed);",
  ],
  "words with their highest byte first": ["shares", "BigInt(more), true)", "BigInt(more), false)"],
  "the first word is forgotten": ["shares", "words.setBigUint64(8 * place,", "if (place) words.setBigUint64(8 * place,"],
  "a pad without its record": ["shares", "+ BigInt(more)", ""],
  "the other server's number": ["shares", "[[...head, 0], [...head, 1]]", "[[...head, 1], [...head, 0]]"],
  "pairs in the order of a square": ["shares", "row * width - (row * (row - 1)) / 2 + column - row", "(column * (column + 1)) / 2 + row"],
  "the same factor on and off the diagonal": ["shares", "(j ? OTHER : DIAGONAL)", "DIAGONAL"],
  "weights of one column alone": ["shares", "weight * other.weight", "weight * weight"],
  "codes of the first coding alone": ["shares", "codes.map((coding) => coding[atom]).join()", "codes[0]![atom] + codes.slice(1).map((coding) => `,${coding[0]}`).join('')"],
  "missing places in the first cell": ["shares", "finest === null ? size - 1", "finest === null ? 0"],
  "the last axis first": ["shares", "for (const cell of cells) number", "for (const cell of [...cells].reverse()) number"],
  "cells of an axis side by side": ["shares", "finest >> (dimension * (depth - halvings[level]!))", "finest & (size - 1)"],
  "places on an edge in the cell before": ["shares", "Math.floor((u + 1) * 2 ** (depth - 1))", "Math.ceil((u + 1) * 2 ** (depth - 1)) - 1"],
  "another root of unity": ["prio3", "power(7n, 2n ** 62n - 7n)", "power(5n, 2n ** 62n - 7n)"],
  "parts are derived as their seed is": ["prio3", "jointRandPart: 7", "jointRandPart: 6"],
  "weights of cells from r^0 on": ["prio3", "weights[i + 1] ?? 0n", "weights[i] ?? 0n"],
  "cells are compared with 0": ["prio3", "(number + MODULUS - 1n) % MODULUS", "number"],
  "the padding is of ones": ["prio3", "measurement[i] ?? 0n", "measurement[i] ?? 1n"],
  "no padding": ["prio3", "chunk * Math.ceil(length / chunk)", "length"],
  "as many products in a call as calls": ["prio3", "chunk = Math.floor(Math.sqrt(length))", "chunk = Math.ceil(Math.sqrt(length))"],
  "as many pairs in a call as calls": ["prio3", "chunk: Math.floor(Math.sqrt(width))", "chunk: Math.ceil(Math.sqrt(width))"],
  "weights of pairs from r^0 on": ["prio3", "weights[start + column - row + 1]!", "weights[start + column - row]!"],
  "pairs without the diagonal": ["prio3", "let column = row;", "let column = row + 1;"],
  "one algorithm of pairs and of another's": ["prio3", "0xffff0001", "0xffff0002"],
  "another version of the draft": ["prio3", "[8, 8, 0, 0, 0, 0", "[8, 7, 0, 0, 0, 0"],
  "the algorithm's lowest byte first": ["prio3", "setUint32(3, algorithm)", "setUint32(3, algorithm, true)"],
  "RFC 9861's own domain": ["prio3", "{ D: 1 }", "{ D: 0x1f }"],
  "blinds of the other server": ["prio3", "[0, 1, 2, 3, 4].map", "[0, 1, 3, 2, 4].map"],
  "a proof that is bound to no nonce": ["prio3", "blind, [1], nonce, encode(pad)", "blind, [1], encode(pad)"],
  "both parts are the leader's": ["prio3", "blind, [1], nonce", "blind, [0], nonce"],
  "pads of no server": ["prio3", '"measurementShare", share, [1]', '"measurementShare", share, []'],
  "random values of no number of proofs": ["prio3", "prover, [PROOFS]", "prover, []"],
  "pads of a proof of no number of proofs": ["prio3", "proofShare, [PROOFS, 1]", "proofShare, [1]"],
  "the proof without a pad": ["prio3", 'encode(minus(proof, draw("proofShare", proofShare, [PROOFS, 1], proof.length)))', "encode(proof)"],
  "pads are added": ["prio3", "(number + MODULUS - others[k]!)", "(number + others[k]!)"],
  "the leader's blind is the helper's": ["prio3", "joined(parts, padded, masked, own)", "joined(parts, padded, masked, blind)"],
  "a helper without the public share": ["prio3", "joined(parts, rand.slice(0, 3 * SEED_BYTES))", "rand.slice(0, 3 * SEED_BYTES)"],
  "calls rounded down": ["prio3", "Math.ceil(factors.length / seeds.length)", "Math.floor(factors.length / seeds.length)"],
  "as many points as calls": ["prio3", "Math.floor(Math.log2(calls)) + 1", "Math.ceil(Math.log2(calls))"],
  "between the same points": ["prio3", "scaled(roots.slice(0, count), inverse(count))", "scaled(even, inverse(count))"],
  "one coefficient too many": ["prio3", "coefficients.slice(0, -1)", "coefficients"],
  "a difference the other way": ["prio3", "(low + MODULUS - high)", "(high + MODULUS - low)"],
  "roots for their inverses": ["prio3", "...roots.slice(1).reverse()", "...roots.slice(1)"],
  "the high word first": ["prio3", "ELEMENT_BYTES * k, number & LOW", "ELEMENT_BYTES * k, number >> WORD"],
  "elements without their high word": ["prio3", "+ (words.getBigUint64(at + 8, true) << WORD)", ""],
  "counts are proven, not ones": ["shares", "measurement[place - before] = 1n", "measurement[place - before] = BigInt(more)"],
  "all levels are proven": ["shares", "if (place >= before) measurement[place - before]", "measurement[place]"],
  "no proof is made": ["shares", "this.proofs ? this.#proven", "false ? this.#proven"],
  "another checksum": ["report", "~rest >>> 0", "rest >>> 0"],
};

const source = new URL("../src/", import.meta.url).pathname;
const suites = ["vectors", "shares"].flatMap((kind) => {
  const folder = join(import.meta.dirname, "../../../conformance", kind);
  return readdirSync(folder).sort().map((name) => [name, JSON.parse(readFileSync(join(folder, name), "utf-8"))]);
});
const sharesFirst = suites.toReversed();
const folder = mkdtempSync(join(tmpdir(), "privot-mutants-"));

/** The client with one change. */
async function mutated(index, file, from, to) {
  const plugin = {
    name: "mutant",
    setup: ({ onLoad }) =>
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const text = readFileSync(path, "utf-8");
        if (basename(path) !== `${file}.ts`) return { contents: text, loader: "ts" };
        if (text.split(from).length !== 2) throw new Error(`${file}.ts has not once: ${from}`);
        return { contents: text.replace(from, () => to), loader: "ts" };
      }),
  };
  const outfile = join(folder, `${index}.mjs`);
  await build({ entryPoints: [join(source, "index.ts")], bundle: true, format: "esm", outfile, plugins: [plugin], logLevel: "silent" });
  return import(pathToFileURL(outfile));
}

/** The first file that a client misses a vector of. */
async function caughtBy(client, file) {
  for (const [name, suite] of ["prio3", "shares"].includes(file) ? sharesFirst : suites) {
    try {
      if ((await check(client, suite)).missed.length) return name;
    } catch {
      return name;
    }
  }
  return null;
}

const found = {};
for (const [index, [name, [file, from, to]]] of Object.entries(MUTANTS).entries()) {
  found[name] = await caughtBy(await mutated(index, file, from, to), file);
}
rmSync(folder, { recursive: true });
const escaped = Object.keys(found).filter((name) => found[name] === null);
console.log(JSON.stringify({ mutants: Object.keys(found).length, escaped, caught_by: found }, null, 1));
process.exitCode = escaped.length ? 1 : 0;
