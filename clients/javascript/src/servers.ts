/**
 * An outbox of shares: both are kept until both servers have theirs, and the same bytes are sent until then.
 *
 * The shares of one record are stored together before either is sent. A second encoding would be a second report of
 * the person, and a share that one server lacks is in no sum: the person would have taken part in vain.
 */

import { PrivotError } from "./errors.js";
import { joined } from "./payload.js";
import type { DataRecord } from "./program.js";
import { postShare, type Sending } from "./sending.js";
import type { Encoder, Shares } from "./shares.js";
import { BrowserStore, type Kept, MemoryStore, type Store } from "./store.js";

// A ledger, or an outbox of reports, may share the store.
const OWN = "shares-";
const ROLES = ["leader", "helper"] as const;
// Why a server takes no share of a report that it has counted already: both have arrived before.
const OPENED = "opened";

export type Role = (typeof ROLES)[number];

/** What became of what was waiting. */
export type ShareDelivery = {
  /** Records of which both servers have a share. */
  delivered: number;
  /** Those of which a server refused a share for good: they are in no sum, and are not sent again. */
  refused: { key: string; server: Role; reason: string; message: string }[];
  /** How many wait for the next time, and why. */
  waiting: number;
  trouble: string | null;
};

export class ShareOutbox {
  readonly #store: Store;

  /** In Node, over a `FolderStore`. All that an outbox keeps goes to the same two servers. */
  constructor(store: Store = new MemoryStore()) {
    this.#store = store;
  }

  /** A browser's, which keeps shares beyond this visit; one name for each campaign. */
  static async open(name = "privot"): Promise<ShareOutbox> {
    return new ShareOutbox(await BrowserStore.open(name));
  }

  /**
   * The shares of a record: made only if there were none yet of this encoder and key.
   *
   * Null if there were some, and they are settled.
   */
  async shares(encoder: Encoder, record: DataRecord, key = ""): Promise<Shares | null> {
    const kept = await this.#store.get(OWN + encoder.fingerprint, key);
    return kept ? kept.bytes && apart(kept.bytes) : this.keep(encoder, encoder.encode(record), key);
  }

  /**
   * Keep shares that an encoder made, to be sent: for a page that shows them before it stores anything.
   *
   * Others than these if another page kept some before, and null if those are settled.
   */
  async keep(encoder: Encoder, shares: Shares, key = ""): Promise<Shares | null> {
    const { bytes } = await this.#store.add({ fingerprint: OWN + encoder.fingerprint, key, bytes: together(shares) });
    return bytes && apart(bytes);
  }

  /** Whether shares of this encoder and key were made, and are settled: delivered, or refused for good. */
  async settled(encoder: Encoder, key = ""): Promise<boolean> {
    return (await this.#store.get(OWN + encoder.fingerprint, key))?.bytes === null;
  }

  /** The shares that wait to be acknowledged. */
  async waiting(): Promise<Shares[]> {
    return (await this.#unsettled()).map(({ bytes }) => apart(bytes));
  }

  /**
   * Send what waits to the addresses of the two servers, again and again where one is busy or out of reach.
   *
   * Never throws for the network's sake: what did not arrive waits, and `trouble` says why.
   */
  async send(servers: Record<Role, string>, how: Sending = {}): Promise<ShareDelivery> {
    const delivery: ShareDelivery = { delivered: 0, refused: [], waiting: 0, trouble: null };
    for (const kept of await this.#unsettled()) await this.#deliver(kept, servers, how, delivery);
    delivery.waiting = (await this.#unsettled()).length;
    return delivery;
  }

  async #deliver(kept: Waiting, servers: Record<Role, string>, how: Sending, delivery: ShareDelivery): Promise<void> {
    const shares = apart(kept.bytes);
    const answers = await Promise.allSettled(ROLES.map((role) => postShare(role, servers[role], shares[role], how)));
    const refused = ROLES.flatMap((server, at) => {
      const answer = answers[at]!;
      const failed = answer.status === "fulfilled" ? answer.value.failed.filter(({ reason }) => reason !== OPENED) : [];
      return failed.map(({ reason, message }) => ({ key: kept.key, server, reason, message }));
    });
    const failures = answers.filter((answer) => answer.status === "rejected").map(({ reason }) => reason);
    for (const error of failures) {
      if (!(error instanceof PrivotError)) throw error;
      delivery.trouble = error.message;
    }
    if (!refused.length && failures.length) return;
    delivery.refused.push(...refused);
    delivery.delivered += Number(!refused.length);
    await this.#store.settle(kept);
  }

  async #unsettled(): Promise<Waiting[]> {
    const all = await this.#store.all();
    return all.filter((kept): kept is Waiting => kept.bytes !== null && kept.fingerprint.startsWith(OWN));
  }
}

type Waiting = Kept & { bytes: Uint8Array };

/** Both shares as the bytes of one entry, so that no crash keeps one alone: the helper's, of less than 256, first. */
function together({ leader, helper }: Shares): Uint8Array {
  return joined([helper.length], helper, leader);
}

function apart(both: Uint8Array): Shares {
  const end = 1 + both[0]!;
  return { leader: both.slice(end), helper: both.slice(1, end) };
}
