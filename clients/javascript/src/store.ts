/**
 * Stores: where an outbox keeps finished reports. In browsers IndexedDB; in Node a folder; or memory.
 *
 * What was added survives a crash that comes a moment later: a report that was sent and forgotten would be
 * drawn a second time.
 */

import { PrivotError } from "./errors.js";

/** One report, by its randomizer and a key of the person's choosing; its bytes until it is settled. */
export type Kept = {
  readonly fingerprint: string;
  readonly key: string;
  readonly bytes: Uint8Array | null;
  /** Whether it is to be sealed to an analyst before it is sent. */
  readonly shuffled?: boolean;
};

export interface Store {
  /** What is kept for a randomizer and a key. */
  get(fingerprint: string, key: string): Promise<Kept | null>;
  /** Keep a report unless one is kept already, at once for all who use the store; what is kept then. */
  add(kept: Kept): Promise<Kept>;
  /** Forget the bytes of a report, and remember that there was one. */
  settle(kept: Kept): Promise<void>;
  /** All that is kept. */
  all(): Promise<Kept[]>;
}

/** Keeps reports as long as the program runs: for tests, and for devices that report once a run. */
export class MemoryStore implements Store {
  readonly #kept = new Map<string, Kept>();

  async get(fingerprint: string, key: string): Promise<Kept | null> {
    return this.#kept.get(fingerprint + key) ?? null;
  }

  async add(kept: Kept): Promise<Kept> {
    const name = kept.fingerprint + kept.key;
    if (!this.#kept.has(name)) this.#kept.set(name, kept);
    return this.#kept.get(name)!;
  }

  async settle({ fingerprint, key }: Kept): Promise<void> {
    this.#kept.set(fingerprint + key, { fingerprint, key, bytes: null });
  }

  async all(): Promise<Kept[]> {
    return [...this.#kept.values()];
  }
}

const TABLE = "reports";

/** Keeps reports in a browser, for one site; all its tabs share them. */
export class BrowserStore implements Store {
  readonly #database: IDBDatabase;

  private constructor(database: IDBDatabase) {
    this.#database = database;
  }

  /** The store of this name; refused where a browser keeps nothing. */
  static async open(name: string): Promise<BrowserStore> {
    try {
      const request = indexedDB.open(name, 1);
      request.onupgradeneeded = () =>
        request.result.createObjectStore(TABLE, { keyPath: ["fingerprint", "key"] });
      return new BrowserStore(await answered(request));
    } catch {
      throw new PrivotError("this browser keeps no data of this page: leave the private window");
    }
  }

  async get(fingerprint: string, key: string): Promise<Kept | null> {
    return (await answered(this.#table("readonly").get([fingerprint, key]))) ?? null;
  }

  async add(kept: Kept): Promise<Kept> {
    const table = this.#table("readwrite");
    const stored = finished(table.transaction);
    const before: Kept | undefined = await answered(table.get([kept.fingerprint, kept.key]));
    if (!before) table.put(kept);
    await stored;
    return before ?? kept;
  }

  async settle({ fingerprint, key }: Kept): Promise<void> {
    const table = this.#table("readwrite");
    table.put({ fingerprint, key, bytes: null });
    await finished(table.transaction);
  }

  async all(): Promise<Kept[]> {
    return answered(this.#table("readonly").getAll());
  }

  #table(mode: IDBTransactionMode): IDBObjectStore {
    const transaction = this.#database.transaction(TABLE, mode, { durability: "strict" });
    return transaction.objectStore(TABLE);
  }
}

function answered<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function finished(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () =>
      reject(new PrivotError("this browser has no room for a report: free some, and try again"));
  });
}
