/**
 * Values: what a record holds, as the integers and unit coordinates that a program draws from.
 *
 * The same few operations on 64-bit floats, in the same order, as in every implementation. Refusals name a
 * column and never a value, and happen before anything is drawn; values out of bounds are refused unless the program clips.
 */

import { PrivotError } from "./errors.js";
import type {
  BinTake, BooleanTake, CategoryTake, CellTake, CodeTake, Counted, DataRecord, Domain,
} from "./program.js";
import { lastNotAbove } from "./windows.js";

const INSIDE = 1 - 2 ** -40;
const [SCALE_ERROR, STEP_ERROR] = [1e-9, 1e-6];
const PULL = 1e-5;
const MOMENT = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?$/;
const YEARS = [-62_135_596_800, 253_402_300_799] as const; // 1 to 9999, in seconds since 1970
const LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** A value's code in every coding of its column, for programs that draw codes. */
export function codesOf(take: CodeTake, record: DataRecord): number[] {
  switch (take.take) {
    case "category":
      return [category(take, record)];
    case "boolean":
      return [boolean(take, record)];
    case "bin":
      return bins(take, record);
    case "cell":
      return [cell(take, record)];
  }
}

/** A value's unit coordinates, projected to the domain; null where it is missing. */
export function unitsOf(take: Placed, record: DataRecord): number[] | null {
  const point: number[] = [];
  for (const name of take.columns) {
    const number = numberOf(name, record, take);
    if (number === null) return null;
    point.push(number);
  }
  return projectUnits(take, point);
}

/** The nearest integer, halves to even. */
export function roundEven(number: number): number {
  const down = Math.floor(number);
  const rest = number - down;
  return rest > 0.5 || (rest === 0.5 && down % 2 !== 0) ? down + 1 : down;
}

/** Refuses a record that has a column which the schema lacks. */
export function refuseUnknown(record: DataRecord, known: Set<string>): void {
  const unknown = Object.keys(record).filter((name) => !known.has(name));
  if (unknown.length > 0) {
    throw new PrivotError(`columns ${unknown.sort().join(", ")} are not in the schema: leave them out`);
  }
}

function valueOf(name: string, record: DataRecord): unknown {
  return Object.hasOwn(record, name) ? (record[name] ?? null) : null;
}

function refuse(name: string, words: string): never {
  throw new PrivotError(`column '${name}' ${words}`);
}

function missing(name: string, code: number | null): number {
  return code ?? refuse(name, "has no value: give one, or a schema that allows none");
}

function category({ columns: [name], values, other, missing: code }: CategoryTake, record: DataRecord) {
  const value = valueOf(name, record);
  if (value === null || (value === "" && !values.includes(""))) return missing(name, code);
  if (typeof value !== "string") refuse(name, "holds no text: give one of its categories");
  const index = values.indexOf(value);
  if (index >= 0) return index;
  return other ?? refuse(name, `is none of its ${values.length} categories`);
}

function boolean({ columns: [name], missing: code }: BooleanTake, record: DataRecord): number {
  const value = valueOf(name, record);
  if (value === null) return missing(name, code);
  if (typeof value !== "boolean") refuse(name, "is neither true nor false");
  return Number(value);
}

function bins(take: BinTake, record: DataRecord): number[] {
  const number = numberOf(take.columns[0], record, take);
  return take.edges.map((edges) => binOf(take, edges, number));
}

function binOf(take: BinTake, edges: number[], value: number | null): number {
  const { spikes, integer } = take;
  if (value === null) return edges.length - 1 + spikes.length;
  const largest = edges.at(-1)! - (integer ? 1 : 0);
  let number = within(take, value, edges[0]!, largest);
  if (integer) number = roundEven(number);
  const spike = spikes.indexOf(number);
  if (spike >= 0) return edges.length - 1 + spike;
  return Math.min(lastNotAbove(edges, number), edges.length - 2);
}

function cell(take: CellTake, record: DataRecord): number {
  const units = unitsOf({ ...take, nullable: take.missing !== null }, record);
  if (units === null) return missing(take.columns[0], take.missing);
  const code = flatCell(take, units);
  // A code is never below 0, whatever program says so.
  return code >= 0 ? code : Math.max(0, flatCell(take, units.map((u) => u * (1 - PULL))));
}

function flatCell({ side, codes }: CellTake, units: number[]): number {
  let flat = 0;
  for (const u of units) flat = flat * side + clip(Math.floor((u + 1) * (side / 2)), 0, side - 1);
  return codes === null ? flat : codes[flat]!;
}

function clip(number: number, low: number, high: number): number {
  return Math.min(Math.max(number, low), high);
}

/** A finite number, perhaps in steps, or steps of some seconds since 1970; null where missing. */
function numberOf(name: string, record: DataRecord, take: Counted): number | null {
  const value = valueOf(name, record);
  const seconds = take.seconds ?? null;
  if (value === null || Number.isNaN(value)) return take.nullable ? null : missing(name, null);
  if (seconds !== null) return Math.floor(secondsOf(name, value, take.format) / seconds);
  if (typeof value !== "number") refuse(name, "holds no number");
  if (!(Math.abs(value) < 2 ** 1023)) refuse(name, "is infinite, or too large for a number");
  return take.step === undefined ? value : (value - take.origin!) / take.step;
}

/** Seconds since 1970 of a date or a time without an offset, in a format of strftime or in ISO 8601. */
function secondsOf(name: string, value: unknown, format?: string): number {
  const text = typeof value === "string" ? value : "";
  const own = format?.replace(/[^\w%]/g, "\\$&").replace(/%(.)/g, (_, code) => `(?<${code}>[0-9]{${code === "Y" ? 4 : 2}})`);
  const parts = own && new RegExp(`^${own}$`).exec(text)?.groups;
  const match = parts ? ["Y", "m", "d", "H", "M", "S"].map((code) => parts[code]) : MOMENT.exec(text)?.slice(1);
  if (!match) refuse(name, `holds no date: write it as ${format ?? "2024-05-31 or …T12:00:00"}`);
  const [year, month, day, hour, minute, second] = match.map((part) => Number(part ?? 0)) as [
    number, number, number, number, number, number,
  ];
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = (LENGTHS[month - 1] ?? 0) + (leap && month === 2 ? 1 : 0);
  if (year < 1 || day < 1 || day > days || hour > 23 || minute > 59 || second > 59) {
    refuse(name, "holds a date that no calendar has");
  }
  const before = year - 1;
  const leaps = Math.floor(before / 4) - Math.floor(before / 100) + Math.floor(before / 400);
  const months = LENGTHS.slice(0, month - 1).reduce((sum, length) => sum + length, 0);
  const since = 365 * before + leaps - 719_162 + months + (leap && month > 2 ? 1 : 0) + day - 1;
  return 86_400 * since + 3600 * hour + 60 * minute + second;
}

type Placed = Counted & { columns: string[]; domain: Domain };

/** The bounds of a column's number along an axis as texts, and the distance of values if they have one. */
export function limitsOf(
  take: BinTake | CellTake | Placed,
  axis = 0,
): { min: string; max: string; step: number | undefined } {
  const { seconds, origin = 0, step }: Partial<Counted> = take;
  const text = (number: number) =>
    seconds
      ? new Date(1000 * clip(seconds * number, ...YEARS)).toISOString().slice(0, seconds === 86_400 ? 10 : 19)
      : String(Number((origin + number * (step ?? 1)).toPrecision(12)));
  if ("edges" in take) {
    const { edges: [edges], integer } = take;
    const [min, max] = [text(edges![0]!), text(edges!.at(-1)! - Number(integer))];
    return { min, max, step: step ?? (integer && !seconds ? 1 : undefined) };
  }
  const { domain } = take;
  if (domain.area === "box") return { min: text(domain.lower[axis]!), max: text(domain.upper[axis]!), step };
  return { min: text(domain.non_negative ? 0 : -domain.radius), max: text(domain.radius), step };
}

/** A number clipped to its bounds, if it is within them or the program clips. */
function within(take: BinTake | Placed, x: number, low: number, high: number, axis = 0): number {
  const inside = clip(x, low, high);
  if (Math.abs(x - inside) > SCALE_ERROR * ((high - low) / 2) + (take.step === undefined ? 0 : STEP_ERROR)) outside(take, axis);
  return inside;
}

function outside(take: BinTake | Placed, axis: number): void {
  if (take.out_of_bounds === "clip") return;
  const { min, max } = limitsOf(take, axis);
  refuse(take.columns[axis]!, `is out of bounds (${min} to ${max}): correct it`);
}

/** Unit coordinates of the domain's point that a point is projected to. */
function projectUnits(take: Placed, point: number[]): number[] {
  const { domain } = take;
  if (domain.area === "box") {
    return point.map((x, axis) => {
      const [low, high] = [domain.lower[axis]!, domain.upper[axis]!];
      const [center, scale] = [(low + high) / 2, (high - low) / 2];
      return clip((within(take, x, low, high, axis) - center) / scale, -1, 1);
    });
  }
  const { radius, non_negative } = domain;
  const inside = projectBall(point, radius, non_negative);
  point.forEach((x, axis) => Math.abs(x - inside[axis]!) > SCALE_ERROR * radius && outside(take, axis));
  return projectBall(inside.map((x) => x / radius), 1, non_negative);
}

function projectBall(point: number[], radius: number, nonNegative: boolean): number[] {
  const kept = nonNegative ? point.map((x) => Math.max(x, 0)) : point;
  const largest = Math.max(...kept.map(Math.abs), radius * 2 ** -60);
  const direction = kept.map((x) => x / largest);
  let square = 0;
  for (const x of direction) square += x * x;
  const length = Math.sqrt(square);
  if (!(length > radius / largest)) return kept;
  return direction.map((x) => (x / length) * (radius * INSIDE));
}
