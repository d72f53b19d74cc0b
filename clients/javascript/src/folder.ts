/** A store in a folder, for Node: one small file a report. */

import { link, mkdir, open, readdir, readFile, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import { toHex } from "./report.js";
import type { Kept, Store } from "./store.js";

const SUFFIX = ".report.json";

/** Keeps reports in a folder; several processes may share it. */
export class FolderStore implements Store {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async get(fingerprint: string, key: string): Promise<Kept | null> {
    const kept = await readKept(await this.#path(fingerprint, key));
    if (kept) await this.#sync(); // who wrote it may have been killed before that
    return kept;
  }

  async add(kept: Kept): Promise<Kept> {
    const path = await this.#path(kept.fingerprint, kept.key);
    const draft = await this.#write(kept);
    try {
      await link(draft, path); // fails where there is one: of two at once, one is kept
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
    } finally {
      await unlink(draft);
    }
    await this.#sync();
    return (await readKept(path))!;
  }

  async settle({ fingerprint, key }: Kept): Promise<void> {
    await rename(await this.#write({ fingerprint, key, bytes: null }), await this.#path(fingerprint, key));
    await this.#sync();
  }

  async all(): Promise<Kept[]> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const names = (await readdir(this.#folder)).filter((name) => name.endsWith(SUFFIX));
    const found = await Promise.all(names.map((name) => readKept(join(this.#folder, name))));
    await this.#sync();
    return found.filter((kept) => kept !== null);
  }

  /** A key may be any text, and is no name of a file. */
  async #path(fingerprint: string, key: string): Promise<string> {
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key));
    return join(this.#folder, `${fingerprint}-${toHex(new Uint8Array(digest))}${SUFFIX}`);
  }

  async #write(kept: Kept): Promise<string> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const draft = join(this.#folder, `${crypto.randomUUID()}.draft`);
    const file = await open(draft, "wx", 0o600);
    try {
      await file.writeFile(JSON.stringify({ ...kept, bytes: kept.bytes && [...kept.bytes] }));
      await file.sync();
    } finally {
      await file.close();
    }
    return draft;
  }

  async #sync(): Promise<void> {
    const folder = await open(this.#folder, "r");
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }
}

async function readKept(path: string): Promise<Kept | null> {
  try {
    const kept = JSON.parse(await readFile(path, "utf-8"));
    return { ...kept, bytes: kept.bytes && Uint8Array.from(kept.bytes) };
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown }).code;
}
