/**
 * Reports and batches: what goes over the wire, in bytes and in JSON.
 *
 * Beside the payload a report says: which randomizer, fresh coins, and the hour. `docs/reference/wire.md`
 * has the table of bytes.
 */

import { PrivotError } from "./errors.js";

const VERSION = 1;
const HEAD = 54;
const ID_BYTES = 16;
const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = (rest >>> 1) ^ (rest & 1 ? 0xedb88320 : 0);
  return rest;
});

/** The JSON form of a report. */
export type ReportJson = {
  version: 1;
  fingerprint: string;
  id: string;
  time: number;
  extensions: [];
  payload: string;
  checksum: string;
};

/** One report: the fingerprint of its randomizer, 16 random bytes, the time in steps, what was drawn. */
export class Report {
  static readonly ID_BYTES = ID_BYTES;

  constructor(
    readonly fingerprint: Uint8Array,
    readonly id: Uint8Array,
    readonly time: number,
    readonly payload: Uint8Array,
  ) {}

  /** The binary form. */
  toBytes(): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(HEAD + 4 + this.payload.length + 4);
    const view = new DataView(bytes.buffer);
    bytes[0] = VERSION;
    bytes.set(this.fingerprint, 1);
    bytes.set(this.id, 33);
    view.setUint32(49, this.time);
    view.setUint32(HEAD, this.payload.length);
    bytes.set(this.payload, HEAD + 4);
    view.setUint32(bytes.length - 4, checksum(bytes.subarray(0, -4)));
    return bytes;
  }

  /** Read the binary form; refused if it is damaged. */
  static fromBytes(bytes: Uint8Array): Report {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const whole =
      bytes.length >= HEAD + 8 &&
      bytes[0] === VERSION &&
      bytes[HEAD - 1] === 0 &&
      view.getUint32(HEAD) === bytes.length - HEAD - 8 &&
      view.getUint32(bytes.length - 4) === checksum(bytes.subarray(0, -4));
    if (!whole) throw new PrivotError("these bytes are no report of version 1: they were damaged");
    const [fingerprint, id] = [bytes.slice(1, 33), bytes.slice(33, 49)];
    return new Report(fingerprint, id, view.getUint32(49), bytes.slice(HEAD + 4, -4));
  }

  /** The same without its time, as it is sealed: the hour would say who sent it. */
  withoutTime(): Report {
    return new Report(this.fingerprint, this.id, 0, this.payload);
  }

  /** The JSON form: the same content, ids in hexadecimal and the payload in base64. */
  toJson(): ReportJson {
    return {
      version: VERSION,
      fingerprint: toHex(this.fingerprint),
      id: toHex(this.id),
      time: this.time,
      extensions: [],
      payload: toBase64(this.payload),
      checksum: toHex(this.toBytes().subarray(-4)),
    };
  }
}

/** Reports, some of which may be bytes already, as one batch. */
export function writeBatch(reports: readonly (Report | Uint8Array)[]): Uint8Array<ArrayBuffer> {
  const parts = reports.map((each) => (each instanceof Report ? each.toBytes() : each));
  const batch = new Uint8Array(parts.reduce((sum, part) => sum + 4 + part.length, 9));
  const view = new DataView(batch.buffer);
  batch.set([0x50, 0x56, 0x54, 0x42, VERSION]); // PVTB
  view.setUint32(5, parts.length);
  let at = 9;
  for (const part of parts) {
    view.setUint32(at, part.length);
    batch.set(part, at + 4);
    at += 4 + part.length;
  }
  return batch;
}

/** CRC-32, as in zlib and PNG. */
export function checksum(bytes: Uint8Array): number {
  let rest = 0xffffffff;
  for (const byte of bytes) rest = (rest >>> 8) ^ CRC_TABLE[(rest ^ byte) & 255]!;
  return ~rest >>> 0;
}

/** Bytes in lower-case hexadecimal. */
export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}
