/**
 * Shares: what a record adds to the sums of two servers, split so that each share is noise by itself.
 *
 * A record's contribution is a vector of public length: of a table, its pairs of codes; of a place, its cell at
 * every level. The leader gets the vector plus SHAKE128 of a fresh seed, word by word modulo 2^64, and the helper
 * gets the seed. `docs/reference/wire.md` has the bytes, `privot.aggregated.shares` the proofs.
 *
 * Who sees what: a share alone is uniform words, or a seed; both together are the record, so each goes over a
 * connection of its own. Lengths, and the number of words that a record changes, are the same for all records.
 * A refusal names a column and never a value, happens before anything is drawn, and stays on the device. Noise is
 * the servers': each of them refuses an encoder by which it would add too little.
 */

/*! SHAKE128 is that of @noble/hashes: MIT License, Copyright (c) 2022 Paul Miller (paulmillr.com) */
import { shake128 } from "@noble/hashes/sha3.js";
import { codesTaken } from "./checks.js";
import { PrivotError } from "./errors.js";
import { list, need, whole } from "./fields.js";
import { packNumber } from "./payload.js";
import type { CodeTake, DataRecord, PointTake, Take } from "./program.js";
import { type Pins, readEncoder } from "./randomizer.js";
import { codesOf, refuseUnknown, unitsOf } from "./values.js";
import { hexadecimal } from "./words.js";

const [ID_BYTES, SEED_BYTES] = [16, 32];
// Factors of the entries of products: on the diagonal, and of the others, each of which stands for two.
const [DIAGONAL, OTHER] = [29, 41];
const [MOST_WORDS, MOST_WEIGHT] = [2 ** 24, 2 ** 12];

/** Bytes of a helper's share: the fingerprint, its number, the id and the seed. */
export const HELPER_BYTES = 33 + ID_BYTES + SEED_BYTES;

/** The field `device` of `encoder.json`: `pairs` of a table, or `levels` of one place. */
export type ShareProgram = {
  version: 1;
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
type Contribution = (record: DataRecord) => [place: number, added: number][];

export class Encoder {
  readonly #heads: [leader: number[], helper: number[]];
  readonly #known: Set<string>;
  readonly #contribution: Contribution;

  private constructor(
    /** SHA-256 of the encoder's text, 64 hexadecimal digits. */
    readonly fingerprint: string,
    /** Its field `device`. */
    readonly program: ShareProgram,
  ) {
    const head = packNumber(hexadecimal(fingerprint), 32);
    this.#heads = [[...head, 0], [...head, 1]];
    this.#known = new Set(Object.values(program.columns).flatMap((take) => take.columns).concat(program.unread));
    this.#contribution = program.pairs ? pairCounts(program) : levelCounts(program);
  }

  /**
   * Read the text of `encoder.json`, as it was received.
   *
   * Refused if it is not what is pinned, is unsigned where a key is pinned, or has no program for browsers.
   */
  static async load(text: string, pins: Pins = {}): Promise<Encoder> {
    const { fingerprint, program } = await readEncoder(text, pins);
    if (program?.version !== 1) {
      throw new PrivotError(
        "the encoder has no program for browsers: leave images out, calibrate it without proofs, or use " +
          "the version that made it",
      );
    }
    requireShareProgram(program);
    return new Encoder(fingerprint, program);
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
    const [id, seed] = [random(ID_BYTES), random(SEED_BYTES)];
    const padded = shake128(seed, { dkLen: 8 * this.program.length });
    const words = new DataView(padded.buffer, padded.byteOffset, padded.length);
    for (const [place, more] of added) {
      words.setBigUint64(8 * place, words.getBigUint64(8 * place, true) + BigInt(more), true);
    }
    const [leader, helper] = this.#heads;
    return { leader: joined(leader, id, padded), helper: joined(helper, id, seed) };
  }
}

/** Bytes of the system's generator. */
function systemBytes(count: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(count));
}

function joined(head: number[], id: Uint8Array, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const share = new Uint8Array(head.length + id.length + body.length);
  share.set(head);
  share.set(id, head.length);
  share.set(body, head.length + id.length);
  return share;
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
      taken.slice(i).map((other, j): [number, number] => [
        place(at[i]!, at[i + j]!),
        (j ? OTHER : DIAGONAL) * weight * other.weight,
      ]),
    );
  };
}

/** One count at each level: of the cell in which a place lies, or of missing places, the last of a level. */
function levelCounts({ levels, columns }: ShareProgram): Contribution {
  const { column, halvings } = levels!;
  const take = columns[column] as PointTake;
  const [dimension, depth] = [take.columns.length, halvings.at(-1)!];
  const sizes = levelSizes(take, halvings);
  return (record) => {
    const units = unitsOf(take, record);
    const finest = units && cellNumber(units, depth);
    let start = 0;
    return sizes.map((size, level): [number, number] => {
      const cell = finest === null ? size - 1 : finest >> (dimension * (depth - halvings[level]!));
      start += size;
      return [start - size + cell, 1];
    });
  };
}

/** Cells of every level, with that of missing places. */
function levelSizes({ columns, nullable }: PointTake, halvings: number[]): number[] {
  return halvings.map((level) => 2 ** (columns.length * level) + Number(nullable));
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
function requireShareProgram({ length, columns, unread, pairs, levels }: ShareProgram): void {
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
    need(levelSizes(take, levels.halvings).reduce((sum, size) => sum + size, 0) === length, "length");
    return;
  }
  let width = 0;
  for (const { column, weight, codes: listed } of list("pairs", pairs!)) {
    const taken = codes.get(column) ?? [];
    need(taken.length && list(column, listed).length === taken.length, column);
    whole("weight", weight, 1, MOST_WEIGHT);
    listed.forEach((coding, at) => {
      need(list(column, coding).length === listed[0]!.length, column);
      coding.forEach((code) => whole(column, code, 0, taken[at]! - 1));
    });
    width += listed[0]!.length;
  }
  need((width * (width + 1)) / 2 === length, "length");
}
