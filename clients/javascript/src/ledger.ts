/**
 * A device's ledger: what was drawn in which wave of which campaign; never a second draw in a slot.
 *
 * A report is drawn, stored, and handed out only then. A draw in wave t of a campaign is made only if none
 * of that campaign is within w − 1 waves of t, whatever the clock shows. Entries are numbered, and a store
 * keeps one of a number: of two tabs that would add one, one is kept, and the other looks again. What a
 * ledger that was lost had drawn lies in the wave of the loss or before: a new one waits, for the next wave
 * where a person's id outlives it, and for w waves where it drew the id itself. One whose store is emptied while
 * it is open draws nothing more.
 */

import type { Device } from "./device.js";
import { PrivotError } from "./errors.js";
import type { DataRecord } from "./program.js";
import type { Panel } from "./panel.js";
import { Report, toHex } from "./report.js";
import { MemoryStore, type Store } from "./store.js";

const NAME = "ledger";
const DAY = 86_400;

/** What the owner of a device allows all campaigns together: sums of ε and δ, in any so many days or ever. */
export type Limit = { epsilon: number; delta?: number; days?: number };

export type LedgerOptions = {
  /** The id that puts this person into a slot, if there is one that outlives the store. */
  person?: string;
  limit?: Limit;
  /** Whether a new ledger lets the waves go by in which a lost one may have reported: yes by default. */
  wait?: boolean;
  /** Seconds since 1970; the clock's by default. */
  now?: number;
};

type Head = { ledger: 1; person: string; own: boolean; begun: number; coin: string };
type Draw = { campaign: string; panel: string; wave: number; epsilon: number; delta: number; time: number; report: string };

export class Ledger {
  readonly #store: Store;
  readonly #head: Head;
  readonly #limit: Limit | null;
  readonly #wait: boolean;

  private constructor(store: Store, head: Head, { limit, wait = true }: LedgerOptions) {
    this.#store = store;
    this.#head = head;
    this.#limit = limit ?? null;
    this.#wait = wait;
  }

  /** The ledger in a store of its own, begun if there is none; refused if it is another person's. */
  static async open(store: Store = new MemoryStore(), options: LedgerOptions = {}): Promise<Ledger> {
    const { person, now = Date.now() / 1000 } = options;
    const coin = toHex(crypto.getRandomValues(new Uint8Array(16)));
    const fresh: Head = { ledger: 1, person: person ?? coin, own: person === undefined, begun: now, coin };
    const head = decoded<Head>((await store.get(NAME, "0"))?.bytes ?? (await added(store, 0, fresh)));
    if (head.ledger !== 1) throw new PrivotError("this is no ledger of this version: name another store");
    if (person !== undefined && person !== head.person) {
      throw new PrivotError("this is another person's ledger: each person has one of their own");
    }
    return new Ledger(store, head, options);
  }

  /** The public id of whom it belongs to. */
  get person(): string {
    return this.#head.person;
  }

  /**
   * The report of the wave that it is now: drawn, or what was drawn in it before.
   *
   * Refused where this wave is none of the person's, or is too near to a spent one, or where the owner's
   * limit would be passed; and if the record cannot be used. Send it by `Outbox.keep`.
   */
  async report(
    device: Device,
    record: DataRecord,
    panel: Panel,
    { now = Date.now() / 1000 } = {},
  ): Promise<Report> {
    const wave = panel.waveAt(now);
    if (!device.promise) {
      throw new PrivotError("a ledger is of reports, and shares for two servers have no waves: use a `ShareOutbox`");
    }
    const { epsilon, delta } = device.promise;
    if (!isLoss(epsilon) || !isLoss(delta)) throw new PrivotError("the randomizer promises nothing: calibrate it");
    const due = await panel.nextWave(this.person, wave);
    for (;;) {
      const draws = await this.#draws();
      const own = this.#own(draws, panel);
      const before = own.find((draw) => draw.wave === wave);
      if (before) return Report.fromBytes(fromHex(before.report));
      this.#requireDue(panel, wave, due, Math.max(-1, ...own.map((draw) => draw.wave)));
      this.#requireWithin(device, panel, draws, now);
      const report = toHex(device.report(record, { now }).toBytes());
      const time = Math.max(now, ...draws.map((draw) => draw.time));
      const draw: Draw = { campaign: panel.name, panel: panel.key, wave, epsilon, delta, time, report };
      // Where another tab was first, this draw was seen by nobody, and the next look finds theirs.
      await added(this.#store, draws.length + 1, draw);
    }
  }

  /** All reports of a campaign, to be sent again as they are. */
  async reports(panel: Panel): Promise<Report[]> {
    return this.#own(await this.#draws(), panel).map(({ report }) => Report.fromBytes(fromHex(report)));
  }

  /** What was drawn in the last days, or ever, in all campaigns together. */
  async spent(days?: number, now = Date.now() / 1000): Promise<{ epsilon: number; delta: number }> {
    const draws = recent(await this.#draws(), days, now);
    const [epsilon, delta] = [draws.map((draw) => draw.epsilon), draws.map((draw) => draw.delta)];
    return { epsilon: Number(decimal(sum(epsilon))), delta: Number(decimal(sum(delta))) };
  }

  async #draws(): Promise<Draw[]> {
    const kept = (await this.#store.all()).filter(({ fingerprint }) => fingerprint === NAME);
    const numbered = new Map(kept.map(({ key, bytes }) => [Number(key), bytes]));
    if (decoded<Head>(numbered.get(0) ?? null).coin !== this.#head.coin) {
      throw new PrivotError("this ledger was replaced since it was opened: open it anew");
    }
    return Array.from({ length: kept.length - 1 }, (_, at) => decoded<Draw>(numbered.get(at + 1) ?? null));
  }

  #own(draws: Draw[], { name, key }: Panel): Draw[] {
    const own = draws.filter(({ campaign }) => campaign === name);
    if (own.some(({ panel }) => panel !== key)) {
      throw new PrivotError(
        `campaign '${name}' had another panel when this device reported: give that one; a changed panel ` +
          "is a campaign with a name of its own",
      );
    }
    return own;
  }

  #requireDue(panel: Panel, wave: number, due: number | null, last: number): void {
    const { name, window } = panel;
    if (wave < last) {
      throw new PrivotError(
        `the clock shows wave ${wave} of campaign '${name}', and wave ${last} is spent: set the clock; ` +
          "nothing is drawn in a wave before",
      );
    }
    if (due !== wave) {
      const when = due === null ? "no more" : `in wave ${due}`;
      throw new PrivotError(`campaign '${name}' asks this person ${when}, and it is wave ${wave}`);
    }
    if (last >= 0 && wave - last < window) {
      throw new PrivotError(
        `wave ${wave} of campaign '${name}' is less than ${window} waves after wave ${last}, which is ` +
          "spent: keep the id of a person",
      );
    }
    const { begun, own } = this.#head;
    const first = panel.waveOf(begun);
    const least = first + (own ? window : 1);
    if (this.#wait && first >= 0 && wave < least) {
      throw new PrivotError(
        `this ledger is new, and a lost one may have reported in campaign '${name}': it reports from ` +
          `wave ${least} on, and it is wave ${wave}`,
      );
    }
  }

  #requireWithin({ promise }: Device, { name }: Panel, draws: Draw[], now: number): void {
    if (!this.#limit) return;
    const { epsilon, delta = 0, days } = this.#limit;
    const before = recent(draws, days, now);
    const [losses, slack] = [before.map((draw) => draw.epsilon), before.map((draw) => draw.delta)];
    if (
      sum([...losses, promise.epsilon, -epsilon]) > 0n ||
      sum([...slack, promise.delta, -delta]) > 0n
    ) {
      const figures = (e: number | string, d: number | string) => `ε = ${e}` + (Number(d) ? `, δ = ${d}` : "");
      const when = days === undefined ? "for ever" : `in any ${days} days`;
      throw new PrivotError(
        `campaign '${name}' asks for ${figures(promise.epsilon, promise.delta)}: ` +
          `${figures(decimal(sum(losses)), decimal(sum(slack)))} is spent, and the limit is ` +
          `${figures(epsilon, delta)} ${when}; wait, or raise the limit`,
      );
    }
  }
}

/** Draws of the last days, and those of later times than a clock shows: set back, it gives nothing back. */
function recent(draws: Draw[], days: number | undefined, now: number): Draw[] {
  if (days === undefined) return draws;
  return draws.filter(({ time }) => time > now - days * DAY);
}

/** What adds to a sum: a negative number would give others' budget back. */
function isLoss(number: unknown): boolean {
  return typeof number === "number" && number >= 0 && number < Infinity;
}

const DIGITS = 340;

/** The exact sum of numbers as they are written, in units of 10^−340. */
function sum(numbers: number[]): bigint {
  return numbers.reduce((total, number) => {
    const [digits, exponent = "0"] = String(number).split("e") as [string, string?];
    const [whole, fraction = ""] = digits.split(".") as [string, string?];
    return total + BigInt(whole + fraction) * 10n ** BigInt(DIGITS + Number(exponent) - fraction.length);
  }, 0n);
}

function decimal(total: bigint): string {
  const digits = String(total).padStart(DIGITS + 1, "0");
  return String(Number(`${digits.slice(0, -DIGITS)}.${digits.slice(-DIGITS)}`));
}

async function added(store: Store, number: number, entry: Head | Draw): Promise<Uint8Array | null> {
  const bytes = new TextEncoder().encode(JSON.stringify(entry));
  return (await store.add({ fingerprint: NAME, key: String(number), bytes })).bytes;
}

function decoded<T>(bytes: Uint8Array | null): T {
  if (bytes === null) {
    throw new PrivotError("an entry of this ledger is gone: restore it, or begin another in a new store");
  }
  return JSON.parse(new TextDecoder().decode(bytes));
}

function fromHex(digits: string): Uint8Array {
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}
