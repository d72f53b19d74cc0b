/**
 * Checks of a program: a device runs one only if the proofs of its draws apply to it.
 *
 * `docs/reference/wire.md` says what is refused, `privot.device.exact` in Python why. Reads no record.
 */

import { requireDraw, requireSubset } from "./draws.js";
import { finite, isText, list, MOST_CELLS, MOST_VALUES, need, SMALLEST, whole } from "./fields.js";
import type { Domain, Joint, Program, Take } from "./program.js";

const MOST_SHEETS = 2 ** 20;

/** Refuses a program that no proof is for. */
export function requireProgram(program: Program): void {
  whole("time_step", program.time_step, 3600, 2 ** 32); // a report says the hour
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

/** How many codes a column takes in each of its codings; none of points. */
export function codesTaken(where: string, take: Take): number[] {
  need(take && list(where, take.columns).every(isText), where);
  if ("out_of_bounds" in take) need(take.out_of_bounds === "clip", `${where}, out_of_bounds`);
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
    if ("format" in take) need(isFormat(take.format), `${where}, format`);
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

/** Has a format of dates each code of strftime once, and those of days? */
function isFormat(format: unknown): boolean {
  const codes = isText(format) ? [...(format as string).matchAll(/%(.?)/g)].map(([, code]) => code!) : [];
  const fits = ["Y", "m", "d"].every((code) => codes.includes(code)) && codes.every((code) => /^[YmdHMS]$/.test(code));
  return fits && new Set(codes).size === codes.length;
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
