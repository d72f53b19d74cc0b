/**
 * Windows: the cells that a report reaches, counted by rows in which all but the last coordinate are
 * fixed.
 */

/** Of a grid, and of windows on it. */
export type WindowFields = {
  dimension: number;
  steps: number;
  radius: number;
  area: "box" | "l2_ball";
  non_negative: boolean;
};

/** What the first cell of each row counts as, and how many cells come before it; the last is all. */
type Rows = { firsts: number[]; starts: number[] };

export class WindowGeometry {
  /** Cells of one coordinate, −r … N + r. */
  readonly base: number;
  /** How many numbers cells may have; this one stands for a missing value. */
  readonly numbers: number;
  /** Number m of cells of a window. */
  readonly window: number;
  /** Number n of cells of reports. */
  readonly count: number;
  readonly #radius: number;
  readonly #window: Rows;
  readonly #reached: Rows | null;

  constructor({ dimension, steps, radius, area, non_negative }: WindowFields) {
    this.#radius = radius;
    this.base = steps + 2 * radius + 1;
    this.numbers = this.base ** dimension;
    this.#window = windowRows(dimension, radius, this.base);
    this.window = this.#window.starts.at(-1)!;
    const low = non_negative ? steps / 2 : 0;
    this.#reached = area === "box" ? null : this.#ballRows(dimension, steps, low);
    this.count = this.#reached ? this.#reached.starts.at(-1)! : this.numbers;
  }

  /** The number of a cell: its coordinates, moved by r, are digits. */
  number(cell: number[]): number {
    return digits(cell.map((coordinate) => coordinate + this.#radius), this.base);
  }

  /** What the index-th cell of a window adds to a record's number. */
  offset(index: number): number {
    return inRow(this.#window, index);
  }

  /** The number of the index-th cell of reports. */
  reached(index: number): number {
    return this.#reached ? inRow(this.#reached, index) : index;
  }

  #ballRows(dimension: number, steps: number, low: number): Rows {
    const least = low - this.#radius;
    const most = steps + this.#radius;
    const across = steps + 2 + 2 * this.#radius;
    const firsts: number[] = [];
    const starts = [0];
    for (const row of grid(dimension - 1, least, most)) {
      const rest = across ** 2 - row.reduce((sum, k) => sum + (2 * k - steps) ** 2, 0);
      if (rest < 0) continue;
      const reach = rootDown(rest); // |2k − N| ≤ reach
      const first = Math.max(least, Math.floor((steps - reach + 1) / 2));
      const last = Math.min(most, Math.floor((steps + reach) / 2));
      if (first <= last) {
        firsts.push(this.number([...row, first]));
        starts.push(starts.at(-1)! + last - first + 1);
      }
    }
    return { firsts, starts };
  }
}

const geometries = new WeakMap<WindowFields, WindowGeometry>();

/** The cells of a program's windows, computed once for each. */
export function windowGeometry(draw: WindowFields): WindowGeometry {
  let found = geometries.get(draw);
  if (!found) geometries.set(draw, (found = new WindowGeometry(draw)));
  return found;
}

function windowRows(dimension: number, radius: number, base: number): Rows {
  const firsts: number[] = [];
  const starts = [0];
  for (const row of grid(dimension - 1, -radius, radius)) {
    const rest = radius ** 2 - row.reduce((sum, k) => sum + k ** 2, 0);
    if (rest < 0) continue;
    const reach = rootDown(rest);
    firsts.push(digits([...row, -reach], base));
    starts.push(starts.at(-1)! + 2 * reach + 1);
  }
  return { firsts, starts };
}

/** The number that these digits make, which may be negative. */
function digits(places: number[], base: number): number {
  return places.reduce((number, digit) => number * base + digit, 0);
}

function inRow({ firsts, starts }: Rows, index: number): number {
  const row = lastNotAbove(starts, index);
  return firsts[row]! + index - starts[row]!;
}

/** The place of the last of these increasing numbers that is not above another; −1 if all are. */
export function lastNotAbove(numbers: number[], other: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! > other) high = middle;
    else low = middle + 1;
  }
  return low - 1;
}

/** The largest integer whose square is at most this integer. */
function rootDown(square: number): number {
  const root = Math.floor(Math.sqrt(square));
  return root * root > square ? root - 1 : root;
}

function grid(dimension: number, low: number, high: number): number[][] {
  let points: number[][] = [[]];
  for (let axis = 0; axis < dimension; axis++) {
    points = points.flatMap((point) =>
      Array.from({ length: high - low + 1 }, (_, index) => [...point, low + index]),
    );
  }
  return points;
}
