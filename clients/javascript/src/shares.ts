/**
 * Shares: what a record adds to the sums of two servers, split so that each share is noise by itself.
 *
 * A record's contribution is a vector of public length: of a table, its pairs of codes; of a place, its cell at
 * every level. The leader gets the vector plus SHAKE128 of a fresh seed, word by word modulo 2^64, and the helper
 * gets the seed. Where an encoder has proofs, shares are those of `prio3.ts`: of zeros and ones, which say where the
 * vector is not zero. `docs/reference/wire.md` has the bytes, `privot.aggregated.shares` what holds, and why.
 *
 * Who sees what: a share alone is uniform words, or a seed; both together are the record, so each goes over a
 * connection of its own. Lengths, and the number of words that a record changes, are the same for all records.
 * A refusal names a column and never a value, happens before anything is drawn, and stays on the device. Noise is
 * the servers': each of them refuses an encoder by which it would add too little.
 */

/*! SHAKE128 and TurboSHAKE128 are those of @noble/hashes: MIT License, Copyright (c) 2022 Paul Miller (paulmillr.com) */
import { shake128 } from "@noble/hashes/sha3.js";
import { codesTaken } from "./checks.js";
import { PrivotError } from "./errors.js";
import { list, need, whole } from "./fields.js";
import { joined, packNumber } from "./payload.js";
import { type Circuit, histogram, pairs as allPairs, RAND_BYTES, shard } from "./prio3.js";
import type { CodeTake, DataRecord, PointTake, Take } from "./program.js";
import { type Pins, readEncoder } from "./randomizer.js";
import { codesOf, refuseUnknown, unitsOf } from "./values.js";
import { hexadecimal } from "./words.js";

const [ID_BYTES, SEED_BYTES] = [16, 32];
// Factors of the entries of products: on the diagonal, and of the others, each of which stands for two.
const [DIAGONAL, OTHER] = [29, 41];
const [MOST_WORDS, MOST_WEIGHT] = [2 ** 24, 2 ** 12];

/** The field `device` of `encoder.json`: `pairs` of a table, or `levels` of one place. */
export type ShareProgram = {
  version: 2;
  /** Words of a contribution. */
  length: number;
  columns: Record<string, Take>;
  /** Names that a record may have, of which nothing is read. */
  unread: string[];
  /** By column: its weight, and in each of its codings the codes of its finest cells. */
  pairs?: { column: string; weight: number; codes: number[][] }[];
  /** How often each axis is halved at every level, the coarsest first. */
  levels?: { column: string; halvings: number[] };
};

/** The two shares of one record, each for one server alone. */
export type Shares = { leader: Uint8Array<ArrayBuffer>; helper: Uint8Array<ArrayBuffer> };

/** So many random bytes. */
export type RandomBytes = (count: number) => Uint8Array;

/** From a record to the words that it adds to, and how much to each. */
type Added = [place: number, more: number];
type Contribution = (record: DataRecord) => Added[];

export class Encoder {
  readonly #heads: [leader: number[], helper: number[]];
  readonly #known: Set<string>;
  readonly #contribution: Contribution;
  readonly #circuit: Circuit;

  private constructor(
    /** SHA-256 of the encoder's text, 64 hexadecimal digits. */
    readonly fingerprint: string,
    /** Its field `device`. */
    readonly program: ShareProgram,
    /** Whether shares have a proof that they are a record's. */
    readonly proofs: boolean,
  ) {
    const head = packNumber(hexadecimal(fingerprint), 32);
    this.#heads = [[...head, 0], [...head, 1]];
    this.#known = new Set(Object.values(program.columns).flatMap((take) => take.columns).concat(program.unread));
    this.#contribution = program.pairs ? pairCounts(program) : levelCounts(program);
    this.#circuit = program.pairs ? allPairs(widthOf(program.pairs)) : histogram(cellsOf(program).at(-1)!);
  }

  /**
   * Read the text of `encoder.json`, as it was received.
   *
   * Refused if it is not what is pinned, is unsigned where a key is pinned, or has no program for browsers.
   */
  static async load(text: string, pins: Pins = {}): Promise<Encoder> {
    const { fingerprint, program, proofs } = await readEncoder(text, pins);
    if (program?.version !== 2) {
      throw new PrivotError(
        "the encoder has no program for browsers: leave images out, or use the version that made it",
      );
    }
    requireShareProgram(program);
    need(typeof proofs === "boolean", "proofs");
    return new Encoder(fingerprint, program, proofs);
  }

  /**
   * The shares of a record: what leaves the device, once.
   *
   * A second call makes a second report: a `ShareOutbox` keeps both shares until both servers have them.
   *
   * Arguments:
   *   record: Values by the names of the table's columns; null where missing.
   *   random: Where the id and the seed come from; the system's generator by default.
   */
  encode(record: DataRecord, random: RandomBytes = systemBytes): Shares {
    refuseUnknown(record, this.#known);
    const added = this.#contribution(record);
    const id = random(ID_BYTES);
    const bodies = this.proofs ? this.#proven(added, id, random(RAND_BYTES)) : this.#padded(added, random(SEED_BYTES));
    const [leader, helper] = this.#heads.map((head, server) => joined(head, id, bodies[server]!));
    return { leader: leader!, helper: helper! };
  }

  #padded(added: Added[], seed: Uint8Array): Uint8Array[] {
    const padded = shake128(seed, { dkLen: 8 * this.program.length });
    const words = new DataView(padded.buffer, padded.byteOffset, padded.length);
    for (const [place, more] of added) {
      words.setBigUint64(8 * place, words.getBigUint64(8 * place, true) + BigInt(more), true);
    }
    return [padded, seed];
  }

  #proven(added: Added[], id: Uint8Array, rand: Uint8Array): Uint8Array[] {
    const measurement: bigint[] = new Array(this.#circuit.length).fill(0n);
    const before = this.program.length - measurement.length; // words of coarser levels, which servers add up
    for (const [place] of added) if (place >= before) measurement[place - before] = 1n;
    return shard(this.#circuit, measurement, id, rand);
  }
}

/** Bytes of the system's generator. */
function systemBytes(count: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(count));
}

/** Products of the weights of a record's codes: the upper triangle of a matrix, row by row. */
function pairCounts({ pairs = [], columns }: ShareProgram): Contribution {
  let width = 0;
  const taken = pairs.map(({ column, weight, codes }) => {
    const atoms = new Map(codes[0]!.map((_, atom) => [codes.map((coding) => coding[atom]).join(), atom]));
    const start = width;
    width += atoms.size;
    return { column, weight, atoms, start, take: columns[column] as CodeTake };
  });
  const place = (row: number, column: number) => row * width - (row * (row - 1)) / 2 + column - row;
  return (record) => {
    const at = taken.map(({ column, take, atoms, start }) => {
      const atom = atoms.get(codesOf(take, record).join());
      need(atom !== undefined, `codes of column ${column}`);
      return start + atom;
    });
    return taken.flatMap(({ weight }, i) =>
      taken.slice(i).map((other, j): Added => [
        place(at[i]!, at[i + j]!),
        (j ? OTHER : DIAGONAL) * weight * other.weight,
      ]),
    );
  };
}

/** One count at each level: of the cell in which a place lies, or of missing places, the last of a level. */
function levelCounts(program: ShareProgram): Contribution {
  const { column, halvings } = program.levels!;
  const take = program.columns[column] as PointTake;
  const [dimension, depth, sizes] = [take.columns.length, halvings.at(-1)!, cellsOf(program)];
  return (record) => {
    const units = unitsOf(take, record);
    const finest = units && cellNumber(units, depth);
    let start = 0;
    return sizes.map((size, level): Added => {
      const cell = finest === null ? size - 1 : finest >> (dimension * (depth - halvings[level]!));
      start += size;
      return [start - size + cell, 1];
    });
  };
}

/** Cells of every level, with that of missing places. */
function cellsOf({ levels, columns: takes }: ShareProgram): number[] {
  const { columns, nullable } = takes[levels!.column] as PointTake;
  return levels!.halvings.map((level) => 2 ** (columns.length * level) + Number(nullable));
}

/** Codes of all columns of a table. */
function widthOf(pairs: NonNullable<ShareProgram["pairs"]>): number {
  return pairs.reduce((sum, { codes }) => sum + codes[0]!.length, 0);
}

/** The number of the finest cell: one bit an axis for each halving, the coarsest first. */
function cellNumber(units: number[], depth: number): number {
  const last = 2 ** depth - 1;
  const cells = units.map((u) => Math.min(Math.max(Math.floor((u + 1) * 2 ** (depth - 1)), 0), last));
  let number = 0;
  for (let bit = depth - 1; bit >= 0; bit--) {
    for (const cell of cells) number = 2 * number + ((cell >> bit) & 1);
  }
  return number;
}

/** Refuses a program whose vectors have another length than it says, or columns that it does not take. */
function requireShareProgram(program: ShareProgram): void {
  const { length, columns, unread, pairs, levels } = program;
  whole("length", length, 1, MOST_WORDS);
  need(typeof columns === "object" && columns !== null, "columns");
  need(list("unread", unread, 0).every((name) => typeof name === "string"), "unread");
  const codes = new Map(Object.entries(columns).map(([name, take]) => [name, codesTaken(name, take)]));
  need((pairs === undefined) !== (levels === undefined), "pairs and levels");
  if (levels) {
    const take = columns[levels.column];
    need(take?.take === "point" && take.domain.area === "box" && take.columns.length <= 3, "levels");
    list("halvings", levels.halvings).forEach((level, at, all) => whole("halvings", level, (all[at - 1] ?? 0) + 1, 12));
    need(take.columns.length * levels.halvings.at(-1)! <= 24, "halvings");
    need(cellsOf(program).reduce((sum, size) => sum + size, 0) === length, "length");
    return;
  }
  for (const { column, weight, codes: listed } of list("pairs", pairs!)) {
    const taken = codes.get(column) ?? [];
    need(taken.length && list(column, listed).length === taken.length, column);
    whole("weight", weight, 1, MOST_WEIGHT);
    listed.forEach((coding, at) => {
      need(list(column, coding).length === listed[0]!.length, column);
      coding.forEach((code) => whole(column, code, 0, taken[at]! - 1));
    });
  }
  const width = widthOf(pairs!);
  need((width * (width + 1)) / 2 === length, "length");
}
