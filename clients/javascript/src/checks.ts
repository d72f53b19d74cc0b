/**
 * Checks of a program: a device runs one only if the proofs of its draws apply to it.
 *
 * `docs/reference/wire.md` says what is refused, `privot.device.checks` in Python why. Reads no record.
 */

import { PrivotError } from "./errors.js";
import type { Domain, Draw, Joint, Program, SubsetDraw, Take, WindowDraw } from "./program.js";
import { hexadecimal, WORDS } from "./words.js";

const [MOST_CELLS, MOST_VALUES, MOST_SHEETS] = [2 ** 24, 2 ** 31, 2 ** 20];
const [SMALLEST, LARGEST] = [2 ** -500, 2 ** 500];

/** Refuses a program that no proof is for. */
export function requireProgram(program: Program): void {
  whole("time_step", program.time_step, 1, 2 ** 32);
  const { columns, joint, split, unread = [] } = program;
  need(typeof columns === "object" && columns !== null, "columns");
  need(list("unread", unread, 0).every(isText), "unread");
  const codes = new Map(Object.entries(columns).map(([name, take]) => [name, codesTaken(name, take)]));
  need(joint || split, "joint");
  if (joint) requireJoint(joint, codes);
  if (!split) return;
  const reports = list("reports", split.reports);
  whole("choose", split.choose, 1, reports.length);
  for (const { column, draw } of reports) {
    const taken = codes.get(column);
    need(taken && draw, "column");
    requireDraw(`column ${column}`, draw, columns[column]!, taken!);
  }
}

function need(holds: unknown, where: string): asserts holds {
  if (!holds) {
    throw new PrivotError(
      `the randomizer's program has a field that no proof is for: ${where}; nothing is drawn by it, calibrate it again`,
    );
  }
}

function isText(value: unknown): boolean {
  return typeof value === "string";
}

function list<T>(where: string, value: T[], least = 1): T[] {
  need(Array.isArray(value) && value.length >= least, where);
  return value;
}

function whole(where: string, value: number, least: number, most: number): number {
  need(Number.isInteger(value) && value >= least && value <= most, where);
  return value;
}

function finite(where: string, value: number, least = -LARGEST): number {
  need(typeof value === "number" && value >= least && value <= LARGEST, where);
  return value;
}

function digits(where: string, text: string, most: bigint): bigint {
  need(isText(text) && /^[0-9a-f]{1,400}$/.test(text), where);
  const number = hexadecimal(text);
  need(number >= 1n && number <= most, where);
  return number;
}

/** How many codes a column takes in each of its codings; none of points. */
function codesTaken(where: string, take: Take): number[] {
  need(take && list(where, take.columns).every(isText), where);
  const listed = (count: number, ...places: (number | null | undefined)[]) =>
    Math.max(count, ...places.map((place) => 1 + whole(where, place ?? 0, 0, MOST_VALUES - 1)));
  const { columns } = take;
  if (take.take === "cell") {
    requireDomain(where, take.domain, columns.length);
    const cells = whole(where, take.side, 1, MOST_CELLS) ** columns.length;
    need(cells <= MOST_CELLS, where);
    if (take.codes === null) return [listed(cells, take.missing)];
    need(list(where, take.codes).length === cells, where);
    const largest = take.codes.reduce((most, code) => Math.max(most, whole(where, code, -1, cells - 1)), 0);
    return [listed(largest + 1, take.missing)];
  }
  if (take.take === "point" || take.take === "bin") {
    need(typeof take.nullable === "boolean", where);
    whole(where, take.seconds ?? 1, 1, 2 ** 32);
    if ("step" in take) finite(where, take.step!, SMALLEST), finite(where, take.origin!);
  }
  if (take.take === "point") {
    requireDomain(where, take.domain, columns.length);
    need(!("step" in take) || columns.length === 1, where);
    return [];
  }
  need(columns.length === 1, where);
  if (take.take === "boolean") return [listed(2, take.missing)];
  if (take.take === "category") {
    need(list(where, take.values).every(isText), where);
    return [listed(take.values.length, take.other, take.missing)];
  }
  need(take.take === "bin" && typeof take.integer === "boolean", where);
  list(where, take.spikes, 0).forEach((spike) => finite(where, spike));
  return list(where, take.edges).map((edges) => {
    list(where, edges, 2).forEach((edge, at) => need(at === 0 || edges[at - 1]! < finite(where, edge), where));
    finite(where, edges[0]!);
    need(!take.integer || (Number.isInteger(edges[0]) && Number.isInteger(edges.at(-1))), where);
    return edges.length - 1 + take.spikes.length + Number(take.nullable);
  });
}

function requireDomain(where: string, domain: Domain, dimension: number): void {
  if (domain?.area === "l2_ball") {
    finite(where, domain.radius, SMALLEST);
    need(typeof domain.non_negative === "boolean", where);
    return;
  }
  need(domain?.area === "box", where);
  const { lower, upper } = domain;
  need(list(where, lower).length === dimension && list(where, upper).length === dimension, where);
  lower.forEach((low, axis) => need(finite(where, upper[axis]!) - finite(where, low) >= SMALLEST, where));
}

function requireJoint({ columns, sizes, views, forms, weights, sets }: Joint, codes: Map<string, number[]>): void {
  need(list("sizes", sizes).length === list("columns", columns).length, "sizes");
  need(list("weights", weights).length === list("forms", forms).length && forms.length <= 2 ** 16, "weights");
  columns.forEach((name, at) => {
    const taken = codes.get(name) ?? [];
    need(taken.length && list("sizes", sizes[at]!).length === taken.length, "sizes");
    sizes[at]!.forEach((size, coding) => whole("sizes", size, Math.max(2, taken[coding]!), MOST_CELLS));
  });
  const total = weights.reduce((sum, weight) => sum + whole("weights", weight, 1, MOST_VALUES - 1), 0);
  need(total < MOST_VALUES, "weights");
  whole("views", views, 1, MOST_SHEETS / forms.length);
  need(typeof sets === "object" && sets !== null, "sets");
  for (const form of forms) {
    list("forms", form).forEach((column) => whole("forms", column, 0, columns.length - 1));
    need(new Set(form).size === form.length, "forms");
  }
  const cells = sheetCells({ sizes, forms, views });
  need(Object.keys(sets).length === cells.size, "sets");
  for (const count of cells) {
    need(count <= MOST_CELLS && Object.hasOwn(sets, count), "sets");
    requireSubset("sets", count, sets[count]!);
  }
}

/** Numbers of cells that sheets have: every form in every view. */
export function sheetCells({ sizes, forms, views }: Pick<Joint, "sizes" | "forms" | "views">): Set<number> {
  const found = new Set<number>();
  for (const form of forms) {
    for (let view = 0; view < views; view++) {
      found.add(form.reduce((cells, column) => cells * sizes[column]![view % sizes[column]!.length]!, 1));
    }
  }
  return found;
}

function requireSubset(where: string, cells: number, law: Pick<SubsetDraw, "size" | "out">): void {
  whole(where, law?.size, 1, cells - 1);
  digits(where, law.out, WORDS - 1n);
}

function requireDraw(where: string, draw: Draw, take: Take, codes: number[]): void {
  if (draw.draw === "response" || draw.draw === "subset") {
    need(codes.length === 1, where);
    const least = Math.max(2, codes[0]!);
    if (draw.draw === "subset") {
      requireSubset(where, whole(where, draw.cells, least, MOST_CELLS), draw);
    } else {
      const values = whole(where, draw.values, least, MOST_VALUES);
      digits(where, draw.slot, (WORDS - 1n) / BigInt(values - 1));
    }
    return;
  }
  need(take.take === "point", where);
  whole(where, draw.dimension, 1, take.columns.length);
  if (draw.draw === "window") {
    requireWindow(where, draw, take.domain, take);
    return;
  }
  need(draw.draw === "laplace" && !take.nullable && draw.dimension === take.columns.length, where);
  whole(where, draw.grid_bits, 0, 40);
  need(list(where, draw.ratio, 2).length === 2, where);
  const [a, b] = [digits(where, draw.ratio[0], 1n << 53n), digits(where, draw.ratio[1], 1n << 1100n)];
  need(a <= b << 40n, where);
}

function requireWindow(
  where: string,
  { dimension, steps, radius, area, non_negative, nullable, anywhere, blocks }: WindowDraw,
  domain: Domain,
  take: { nullable: boolean; columns: string[] },
): void {
  whole(where, blocks, 1, 2 ** 16);
  need(dimension <= 3 && blocks * dimension === take.columns.length, where);
  whole(where, steps, 2, 2 ** 16);
  need((steps & (steps - 1)) === 0, where);
  whole(where, radius, 0, 2 ** 18);
  need((steps + 2 * radius + 1) ** dimension <= 2 ** 26, where);
  need(area === domain.area && non_negative === (domain.area === "l2_ball" && domain.non_negative), where);
  need(nullable === take.nullable && !(nullable && blocks > 1), where);
  digits(where, anywhere, WORDS);
}
