/** Fields of a program, which are refused unless a proof covers them. */

import { PrivotError } from "./errors.js";
import { hexadecimal } from "./words.js";

export const MOST_CELLS = 2 ** 24;
export const MOST_VALUES = 2 ** 31;
export const [SMALLEST, LARGEST] = [2 ** -500, 2 ** 500];

/** Refuses a program unless a condition on a field holds. */
export function need(holds: unknown, where: string): asserts holds {
  if (!holds) {
    throw new PrivotError(
      `the program has a field that no proof is for: ${where}; nothing is drawn by it, calibrate it again`,
    );
  }
}

/** Is a field a text? */
export function isText(value: unknown): boolean {
  return typeof value === "string";
}

/** A field that is a list of so many or more. */
export function list<T>(where: string, value: T[], least = 1): T[] {
  need(Array.isArray(value) && value.length >= least, where);
  return value;
}

/** A field that is a whole number in a range. */
export function whole(where: string, value: number, least: number, most: number): number {
  need(Number.isInteger(value) && value >= least && value <= most, where);
  return value;
}

/** A field that is a number in a range. */
export function finite(where: string, value: number, least = -LARGEST): number {
  need(typeof value === "number" && value >= least && value <= LARGEST, where);
  return value;
}

/** The integer, at least 1, of a field of hexadecimal digits. */
export function digits(where: string, text: string, most: bigint): bigint {
  need(isText(text) && /^[0-9a-f]{1,400}$/.test(text), where);
  const number = hexadecimal(text);
  need(number >= 1n && number <= most, where);
  return number;
}
