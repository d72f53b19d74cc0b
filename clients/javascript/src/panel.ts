/**
 * A rotating panel: who reports in which wave, by public coins.
 *
 * A person has one slot of every w consecutive waves, for good, and reports there with the whole ε: so ε in
 * any w consecutive waves, and ⌈T/w⌉ ε in T, whatever their values are (`docs/guarantees.md` has the proof).
 */

import { PrivotError } from "./errors.js";
import { type Pins, requireSignature } from "./randomizer.js";

const FIELDS = ["name", "window", "start", "length", "seed", "waves"] as const;

export class Panel {
  private constructor(
    /** Of the campaign. */
    readonly name: string,
    /** w, so many consecutive waves hold one report of a person. */
    readonly window: number,
    /** Of wave 0, in seconds since 1970. */
    readonly start: number,
    /** Of a wave, in seconds. */
    readonly length: number,
    /** Of the public coins. */
    readonly seed: string,
    /** T; without end if null. */
    readonly waves: number | null,
  ) {}

  /**
   * Read `panel.json` as it was received; refused if it is none, or not what the holder of a pinned key signed.
   *
   * A panel decides how often a person reports, and no signature of a randomizer covers it.
   */
  static async load(text: string, { publicKey, signature }: Omit<Pins, "fingerprint"> = {}): Promise<Panel> {
    if (publicKey !== undefined) await requireSignature(text, publicKey, signature);
    return Panel.fromJson(text);
  }

  /** Read `panel.json` of who is trusted; refused if it is none. */
  static fromJson(text: string): Panel {
    let held: Record<string, unknown> | null = null;
    try {
      held = JSON.parse(text);
    } catch {
      // Refused below.
    }
    const { format, name, window, start, length, seed, waves } = held ?? {};
    const sound =
      format === 1 && Object.keys(held!).length === FIELDS.length + 1 && isText(name) && isText(seed) &&
      isCount(window, 1) && isCount(start, 0) && isCount(length, 1) && (waves === null || isCount(waves, 1));
    if (!sound) throw new PrivotError("this is no panel: give the JSON that `privot waves new` wrote");
    return new Panel(name, window, start, length, seed, waves);
  }

  /** All that it says, as text that is the same for the same panel. */
  get key(): string {
    return JSON.stringify(FIELDS.map((field) => this[field]));
  }

  /** s, of 0 … w − 1: the first 64 bits of HMAC-SHA-256 (seed, id), modulo w. */
  async slot(person: string): Promise<number> {
    const [how, encoder] = [{ name: "HMAC", hash: "SHA-256" }, new TextEncoder()];
    const key = await crypto.subtle.importKey("raw", encoder.encode(this.seed), how, false, ["sign"]);
    const digest = await crypto.subtle.sign("HMAC", key, encoder.encode(person));
    return Number(new DataView(digest).getBigUint64(0) % BigInt(this.window));
  }

  /** The number of the wave at a time, in seconds since 1970; refused before the first and after the last. */
  waveAt(seconds: number): number {
    const wave = this.waveOf(seconds);
    if (wave < 0) throw new PrivotError(`panel '${this.name}' has not begun: wave 0 begins at ${this.start}`);
    if (this.waves !== null && wave >= this.waves) {
      throw new PrivotError(`panel '${this.name}' has ended: it has ${this.waves} waves`);
    }
    return wave;
  }

  /** The same, with waves before the first, which are negative, and after the last. */
  waveOf(seconds: number): number {
    return Math.floor((seconds - this.start) / this.length);
  }

  /** The first wave from this one on in which a person reports; null if there is none. */
  async nextWave(person: string, wave: number): Promise<number | null> {
    const { window, waves } = this;
    const due = wave + ((((await this.slot(person)) - wave) % window) + window) % window;
    return waves === null || due < waves ? due : null;
  }
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length > 0 && value.length <= 200;
}

function isCount(value: unknown, least: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= least;
}
