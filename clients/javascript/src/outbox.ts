/**
 * An outbox: draws once, keeps the finished report, and sends the same bytes until they are acknowledged.
 *
 * A second draw of a record is a second budget spent, and a report that is lost is a person who took part in
 * vain. So a report is stored before it is sent; after it is settled its bytes are forgotten, and that
 * there was one is remembered.
 */

import type { Device } from "./device.js";
import { PrivotError } from "./errors.js";
import type { DataRecord } from "./program.js";
import { Report, toHex } from "./report.js";
import { sealReport } from "./sealing.js";
import { post, type Sending } from "./sending.js";
import { BrowserStore, type Kept, MemoryStore, type Store } from "./store.js";

// Reports of a batch, where they are to go together: far below the limits of any collector.
const BATCH = 100;

/** What became of what was waiting. */
export type Delivery = {
  /** Reports that the collector has now, and those that it had before. */
  accepted: number;
  duplicates: number;
  /** Those that it refused for good: they are not sent again, nor drawn again. */
  refused: { key: string; reason: string; message: string }[];
  /** How many wait for the next time, and why. */
  waiting: number;
  trouble: string | null;
};

export class Outbox {
  readonly #store: Store;

  /** In Node, over a `FolderStore`. All that an outbox keeps goes to one collector. */
  constructor(store: Store = new MemoryStore()) {
    this.#store = store;
  }

  /** A browser's, which keeps reports beyond this visit; one name for each collector. */
  static async open(name = "privot"): Promise<Outbox> {
    return new Outbox(await BrowserStore.open(name));
  }

  /**
   * The report of a record: drawn only if there was none yet of this randomizer and key.
   *
   * Null if there was one and it is settled. The key never leaves: name with it what a person reports
   * several times, a week for instance, each of which spends a budget of its own.
   */
  async report(device: Device, record: DataRecord, key = ""): Promise<Report | null> {
    const { fingerprint, promise } = device;
    const { shuffled } = promise;
    const kept =
      (await this.#store.get(fingerprint, key)) ??
      (await this.#store.add({ fingerprint, key, bytes: device.report(record).toBytes(), shuffled }));
    return kept.bytes && Report.fromBytes(kept.bytes);
  }

  /** Keep a report that a `Ledger` drew, to be sent; one that was settled is not sent again. */
  async keep(device: Device, report: Report): Promise<void> {
    const { fingerprint, promise } = device;
    await this.#store.add({ fingerprint, key: toHex(report.id), bytes: report.toBytes(), shuffled: promise.shuffled });
  }

  /** Whether a report of this randomizer and key was drawn, and is settled: delivered, or refused for good. */
  async settled({ fingerprint }: Device, key = ""): Promise<boolean> {
    return (await this.#store.get(fingerprint, key))?.bytes === null;
  }

  /** The reports that wait to be acknowledged. */
  async waiting(): Promise<Report[]> {
    return (await this.#unsettled()).map(({ bytes }) => Report.fromBytes(bytes));
  }

  /**
   * Send what waits to the collector at an address, again and again where it is busy or out of reach.
   *
   * Never throws for the network's sake: what did not arrive waits, and `trouble` says why.
   */
  async send(url: string, how: Sending = {}): Promise<Delivery> {
    const delivery: Delivery = { accepted: 0, duplicates: 0, refused: [], waiting: 0, trouble: null };
    for (const batch of batches(await this.#unsettled(), how.together ? BATCH : 1)) {
      try {
        await this.#deliver(batch, url, how, delivery);
      } catch (error) {
        if (!(error instanceof PrivotError)) throw error;
        delivery.trouble = error.message;
      }
    }
    delivery.waiting = (await this.#unsettled()).length;
    return delivery;
  }

  async #deliver(batch: Waiting[], url: string, how: Sending, delivery: Delivery): Promise<void> {
    const { sealTo } = how;
    if (!sealTo && batch.some((kept) => kept.shuffled)) {
      throw new PrivotError("these reports are to be shuffled, and leave sealed alone: give the analyst's public key as sealTo");
    }
    const reports = await Promise.all(batch.map((kept) => (sealTo ? this.#sealed(kept, sealTo) : kept.bytes)));
    const answer = await post(url, batch[0]!.fingerprint, reports, how);
    const again = new Set<number>();
    for (const { index, reason, message } of answer.failed) {
      if (reason === "checksum") {
        again.add(index); // damaged on its way: the same bytes go once more
        delivery.trouble = message;
      } else {
        delivery.refused.push({ key: batch[index]!.key, reason, message });
      }
    }
    delivery.accepted += answer.accepted;
    delivery.duplicates += answer.duplicates;
    for (const [index, kept] of batch.entries()) {
      if (again.has(index)) continue;
      if (sealTo) await this.#store.settle(sealedPlace(kept)); // first, so that no crash leaves it for good
      await this.#store.settle(kept);
    }
  }

  /** The sealed bytes of a report: sealed once, to the first key that is given, and kept for every try. */
  async #sealed(waiting: Waiting, sealTo: string): Promise<Uint8Array> {
    const place = sealedPlace(waiting);
    const seal = async () => (await sealReport(Report.fromBytes(waiting.bytes), sealTo)).toBytes();
    const kept = await this.#store.get(place.fingerprint, place.key);
    const { bytes } = kept ?? (await this.#store.add({ ...place, bytes: await seal() }));
    if (!bytes) throw new PrivotError("another page has just sent this report");
    return bytes;
  }

  async #unsettled(): Promise<Waiting[]> {
    const all = await this.#store.all();
    const settled = new Set(all.filter(({ bytes }) => !bytes).map(({ fingerprint, key }) => fingerprint + key));
    // A ledger may share the store: its entries, and sealed copies, are not to be sent.
    const waiting = all.filter((kept): kept is Waiting => kept.bytes !== null && kept.fingerprint.length === 64);
    // A crash, or another page, is between a sealed copy and its report: both have arrived.
    const arrived = waiting.filter((kept) => settled.has(sealedPlace(kept).fingerprint + kept.key));
    for (const kept of arrived) await this.#store.settle(kept);
    return waiting.filter((kept) => !arrived.includes(kept));
  }
}

type Waiting = Kept & { bytes: Uint8Array };

/** Where the sealed bytes of a report are kept. */
function sealedPlace({ fingerprint, key }: Kept): Kept {
  return { fingerprint: `sealed-${fingerprint}`, key, bytes: null };
}

/** So many reports of one randomizer each. */
function batches(waiting: Waiting[], size: number): Waiting[][] {
  const own = new Map<string, Waiting[]>();
  for (const kept of waiting) own.set(kept.fingerprint, [...(own.get(kept.fingerprint) ?? []), kept]);
  return [...own.values()].flatMap((all) =>
    all.flatMap((_, at) => (at % size ? [] : [all.slice(at, at + size)])),
  );
}
