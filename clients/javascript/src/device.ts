/** A device: runs a randomizer's program on one record, and makes the report that is sent. */

import { choose, drawField, fieldBytes, select, type Value, weighted } from "./draws.js";
import { packBits, packJoint, packNumber } from "./payload.js";
import type { DataRecord, Program, Take } from "./program.js";
import { type Pins, type Promised, readRandomizer } from "./randomizer.js";
import { Report } from "./report.js";
import { codesOf, refuseUnknown, unitsOf } from "./values.js";
import { hexadecimal, type NextWord, smallBelow, systemWords } from "./words.js";

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
    refuseUnknown(record, this.#known);
    const taken = new Map<string, Value>();
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

  #joint(taken: Map<string, Value>, word: NextWord): number[] {
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
    const drawn = select(cells, size, hexadecimal(out), cell, word);
    return packJoint(joint, form * views + view, cells, drawn);
  }

  #split(taken: Map<string, Value>, word: NextWord): number[] {
    const { split } = this.program;
    if (!split) return [];
    const { reports } = split;
    const chosen = choose(reports.length, split.choose, word);
    const held = chosen.length < reports.length ? packBits(chosen, reports.length) : [];
    const fields = reports.map(({ column, draw }, index) =>
      chosen.includes(index)
        ? drawField(draw, taken.get(column)!, word)
        : new Array<number>(fieldBytes(draw)).fill(0),
    );
    return held.concat(...fields);
  }
}
