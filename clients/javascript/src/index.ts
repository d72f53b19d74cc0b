/**
 * The device of Privot: one person's record in, one report's bytes out, by the integers of a randomizer.
 *
 * Meets `docs/reference/wire.md` word by word, in browsers and in Node, with no dependency.
 */

export { Device } from "./device.js";
export { PrivotError } from "./errors.js";
export type { DataRecord, Program } from "./program.js";
export type { Pins, Promised } from "./randomizer.js";
export { Report, type ReportJson, writeBatch } from "./report.js";
export { Ledger, type LedgerOptions, type Limit } from "./ledger.js";
export { type Delivery, Outbox } from "./outbox.js";
export { Panel } from "./panel.js";
export { sealReport } from "./sealing.js";
export type { Sending } from "./sending.js";
export { BrowserStore, type Kept, MemoryStore, type Store } from "./store.js";
