/**
 * Payloads: a report's integers as bytes, of one width for all reports of a randomizer.
 *
 * The joint report, then the split reports; so the length of a payload says nothing, and two payloads are
 * equal if and only if the reports are.
 */

import type { Joint } from "./program.js";

/** b(n): bytes of a number 0 … bound−1. */
export function numberBytes(bound: number | bigint): number {
  let bytes = 1;
  for (let most = 256n; most < BigInt(bound); most *= 256n) bytes++;
  return bytes;
}

/** Bytes of a set of `size` of `cells` cells. */
export function setBytes(cells: number, size: number): number {
  return Math.min(size * numberBytes(cells), Math.ceil(cells / 8));
}

/** So many bytes of a number, the highest first; two's complement if it is negative. */
export function packNumber(number: number | bigint, bytes: number): number[] {
  const packed: number[] = new Array(bytes);
  let rest = BigInt(number);
  for (let place = bytes - 1; place >= 0; place--, rest >>= 8n) packed[place] = Number(rest & 255n);
  return packed;
}

/** `total` bits, of which these are on. */
export function packBits(places: number[], total: number): number[] {
  const bits: number[] = new Array(Math.ceil(total / 8)).fill(0);
  for (const place of places) bits[place >> 3]! |= 1 << (place & 7);
  return bits;
}

/** A set of cells: numbers, or bits where those are fewer bytes. */
export function packSet(chosen: number[], cells: number): number[] {
  const bytes = numberBytes(cells);
  if (chosen.length * bytes > Math.ceil(cells / 8)) return packBits(chosen, cells);
  return chosen.flatMap((cell) => packNumber(cell, bytes));
}

/** A joint report: its sheet, its set, and zeros up to the longest set of any. */
export function packJoint(joint: Joint, sheet: number, cells: number, chosen: number[]): number[] {
  const sheets = joint.forms.length * joint.views;
  const held = packSet(chosen, cells);
  const sets = Object.entries(joint.sets).map(([count, { size }]) => setBytes(Number(count), size));
  const zeros = new Array(Math.max(...sets) - held.length).fill(0);
  return [...packNumber(sheet, numberBytes(sheets)), ...held, ...zeros];
}

/** Bytes one after another. */
export function joined(...parts: ArrayLike<number>[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
