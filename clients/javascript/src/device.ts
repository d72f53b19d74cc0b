/** A device: runs a randomizer's program on one record, and makes the report that is sent. */

import { choose, laplace, response, subset, weighted, window } from "./draws.js";
import { PrivotError } from "./errors.js";
import { type Answer, fieldBytes, packBits, packField, packJoint, packNumber } from "./payload.js";
import type { DataRecord, Draw, Program, Take, WindowDraw } from "./program.js";
import { type Pins, type Promised, readRandomizer } from "./randomizer.js";
import { Report } from "./report.js";
import { codesOf, roundEven, unitsOf } from "./values.js";
import { windowGeometry } from "./windows.js";
import { hexadecimal, type NextWord, smallBelow, systemWords } from "./words.js";

/** A code in every coding, unit coordinates, or a missing point. */
type Taken = number[] | null;

export class Device {
  readonly #bytes: Uint8Array;
  readonly #takes: [string, Take][];
  readonly #known: Set<string>;
  readonly #word = systemWords();

  private constructor(
    /** Of the randomizer, 64 hexadecimal digits. */
    readonly fingerprint: string,
    /** Its field `device`. */
    readonly program: Program,
    /** What one report promises, by its field `guarantee`. */
    readonly promise: Promised,
  ) {
    this.#bytes = Uint8Array.from(packNumber(hexadecimal(fingerprint), 32));
    this.#takes = Object.entries(program.columns);
    this.#known = new Set(this.#takes.flatMap(([, take]) => take.columns));
    for (const name of program.unread ?? []) this.#known.add(name);
  }

  /**
   * Read a randomizer's JSON, the text as it was received.
   *
   * Refused if it was altered, is not what is pinned, is unsigned where a key is pinned, or has no
   * program that this device runs.
   */
  static async load(text: string, pins: Pins = {}): Promise<Device> {
    const { fingerprint, program, promise } = await readRandomizer(text, pins);
    return new Device(fingerprint, program, promise);
  }

  /**
   * One report of a record: what leaves the device, once.
   *
   * Whoever sends it again sends these bytes; a second call spends the budget a second time: an
   * `Outbox` keeps them. A value that cannot be used is refused before anything is drawn.
   *
   * Arguments:
   *   record: Values by the names of the table's columns; null where missing.
   *   word: Where uniform 64-bit words come from.
   *   now: Seconds since 1970; the clock's by default.
   */
  report(record: DataRecord, { word = this.#word, now = Date.now() / 1000 } = {}): Report {
    this.#refuseUnknown(record);
    const taken = new Map<string, Taken>();
    for (const [name, take] of this.#takes) {
      taken.set(name, take.take === "point" ? unitsOf(take, record) : codesOf(take, record));
    }
    const payload = [...this.#joint(taken, word), ...this.#split(taken, word)];
    const id = new Uint8Array(Report.ID_BYTES);
    const halves = new DataView(id.buffer);
    for (let at = 0; at < id.length; at += 8) halves.setBigUint64(at, word(), true);
    const step = Math.max(0, Math.floor(now / this.program.time_step));
    return new Report(this.#bytes, id, step, Uint8Array.from(payload));
  }

  #refuseUnknown(record: DataRecord): void {
    const unknown = Object.keys(record).filter((name) => !this.#known.has(name));
    if (unknown.length > 0) {
      throw new PrivotError(`columns ${unknown.sort().join(", ")} are not in the schema: leave them out`);
    }
  }

  #joint(taken: Map<string, Taken>, word: NextWord): number[] {
    const { joint } = this.program;
    if (!joint) return [];
    const { columns, sizes, views, forms, weights, sets } = joint;
    const form = weighted(weights, word);
    const view = views > 1 ? smallBelow(views, word) : 0;
    let [cell, cells] = [0, 1];
    for (const column of forms[form]!) {
      const coding = view % sizes[column]!.length;
      const size = sizes[column]![coding]!;
      cell = cell * size + taken.get(columns[column]!)![coding]!;
      cells *= size;
    }
    const { size, out } = sets[cells]!;
    const drawn = subset(cells, size, hexadecimal(out), cell, word);
    return packJoint(joint, form * views + view, cells, drawn);
  }

  #split(taken: Map<string, Taken>, word: NextWord): number[] {
    const { split } = this.program;
    if (!split) return [];
    const { reports } = split;
    const chosen = choose(reports.length, split.choose, word);
    const held = chosen.length < reports.length ? packBits(chosen, reports.length) : [];
    const fields = reports.map(({ column, draw }, index) =>
      chosen.includes(index)
        ? packField(draw, answer(draw, taken.get(column)!, word))
        : new Array<number>(fieldBytes(draw)).fill(0),
    );
    return held.concat(...fields);
  }
}

/** What one split column's mechanism draws of its one code, or of unit coordinates. */
function answer(draw: Draw, value: Taken, word: NextWord): Answer {
  switch (draw.draw) {
    case "response":
      return [response(draw.values, hexadecimal(draw.slot), value![0]!, word)];
    case "subset":
      return subset(draw.cells, draw.size, hexadecimal(draw.out), value![0]!, word);
    case "window":
      return windows(draw, value, word);
    case "laplace": {
      const [a, b] = [hexadecimal(draw.ratio[0]), hexadecimal(draw.ratio[1])];
      const scaled = value!.map((u) => BigInt(roundEven(u * 2 ** draw.grid_bits)));
      return scaled.map((integer) => integer + laplace(a, b, word));
    }
  }
}

function windows(draw: WindowDraw, units: number[] | null, word: NextWord): number[] {
  const { dimension, steps, nullable } = draw;
  const [cells, anywhere] = [windowGeometry(draw), hexadecimal(draw.anywhere)];
  if (units === null) return [window(cells, nullable, anywhere, null, word)];
  const own = units.map((u) => roundEven((u + 1) * (steps / 2)));
  const blocks = own.flatMap((_, at) => (at % dimension ? [] : [own.slice(at, at + dimension)]));
  return blocks.map((block) => window(cells, nullable, anywhere, block, word));
}
