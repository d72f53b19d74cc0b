/**
 * The device of Privot: one person's record in; out come one report's bytes, or two servers' shares.
 *
 * Meets `docs/reference/wire.md` word by word, in browsers and in Node, with nothing to install beside it.
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
export { type Role, type ShareDelivery, ShareOutbox } from "./servers.js";
export { Encoder, type RandomBytes, type ShareProgram, type Shares } from "./shares.js";
export { limitsOf } from "./values.js";
export { BrowserStore, type Kept, MemoryStore, type Store } from "./store.js";
