/**
 * Programs: what a randomizer tells a device, as its JSON has it.
 *
 * `docs/reference/wire.md` says what every field means.
 */

import type { Draw } from "./draws.js";

export type Domain =
  | { area: "box"; lower: number[]; upper: number[] }
  | { area: "l2_ball"; radius: number; non_negative: boolean };

export type CategoryTake = {
  take: "category";
  columns: [string];
  values: string[];
  other: number | null;
  missing: number | null;
};
export type BooleanTake = { take: "boolean"; columns: [string]; missing: number | null };
/** How a number is counted: as it is, in steps from an origin, or in seconds since 1970; is it clipped or refused? */
export type Counted = {
  out_of_bounds?: "clip";
  nullable: boolean;
  seconds?: number | null;
  /** Of dates, as in strftime; ISO 8601 is read as well. */
  format?: string;
  origin?: number;
  step?: number;
};
export type BinTake = Counted & {
  take: "bin";
  columns: [string];
  /** Of every coding of the column. */
  edges: number[][];
  spikes: number[];
  integer: boolean;
};
export type CellTake = {
  take: "cell";
  columns: [string, ...string[]];
  domain: Domain;
  side: number;
  codes: number[] | null;
  missing: number | null;
  out_of_bounds?: "clip";
};
export type PointTake = Counted & {
  take: "point";
  columns: string[];
  domain: Domain;
};
export type CodeTake = CategoryTake | BooleanTake | BinTake | CellTake;
export type Take = CodeTake | PointTake;

export type Joint = {
  columns: string[];
  /** By column: codes of every coding. */
  sizes: number[][];
  views: number;
  forms: number[][];
  weights: number[];
  sets: Record<string, { size: number; out: string }>;
};
export type Split = { choose: number; reports: { column: string; draw: Draw }[] };

export type Program = {
  version: 2;
  time_step: number;
  columns: Record<string, Take>;
  joint: Joint | null;
  split: Split | null;
  /** Names that a record may have, of which nothing is read. */
  unread?: string[];
};

/** Values by the names of a table's columns; null, or left out, where missing. */
export type DataRecord = { readonly [column: string]: unknown };
