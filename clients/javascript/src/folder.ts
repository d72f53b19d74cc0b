/** A store in a folder, for Node: one small file a report. */

import { link, mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
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
    const draft = await this.#write(kept, path);
    try {
      await link(draft, path); // fails where there is one: of two at once, one is kept
    } catch (error) {
      // Without a draft, another process has settled the report.
      if (!["EEXIST", "ENOENT"].includes(String(codeOf(error)))) throw error;
    } finally {
      await rm(draft, { force: true });
    }
    await this.#sync();
    return (await readKept(path))!;
  }

  async settle({ fingerprint, key }: Kept): Promise<void> {
    const [path, draft] = [await this.#path(fingerprint, key), await this.#write({ fingerprint, key, bytes: null })];
    // Drafts of a killed process have the report's bytes. They go first: then no crash leaves one of a settled report.
    const left = (await readdir(this.#folder)).map((name) => join(this.#folder, name));
    for (const other of left) if (other !== path && other.startsWith(path)) await rm(other, { force: true });
    await rename(draft, path);
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

  /** Write a draft, named by the path of the report whose bytes it has. */
  async #write(kept: Kept, path = join(this.#folder, "settled")): Promise<string> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const draft = `${path}.${crypto.randomUUID()}.draft`;
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
