/*
 * The playground's mathematics: made-up towns, the laws of reports, and the map that is learned from them.
 *
 * A map is the shares of SIDE · SIDE squares, in order of east, then north. Places are in unit coordinates, −1 … 1.
 * The laws are those of the draws that docs/reference/wire.md specifies, computed from the integers of the program
 * that the client runs, as `privot.mechanisms` does; nothing is fitted to what the client happens to draw. A law has
 *
 *   read(payload)           the report, a pair of integers;
 *   units(report)           where that is;
 *   nearest(units)          the pair of integers that a record is rounded to;
 *   probability(report, record)   P(report | record) of two such pairs;
 *   count(reports)          the share of reports in each bin, a coarser grid that reaches beyond the map;
 *   forward(map)            P(bin), if people live as the map says: Σ map(square) P(bin | square);
 *   backward(weights)       Σ weights(bin) P(bin | square), for each square.
 */
"use strict";

const SIDE = 32;

/** The law of what a program draws. */
function lawOf({ split }) {
  const { draw } = split.reports[0];
  return draw.draw === "window" ? new WindowLaw(draw) : new LaplaceLaw(draw);
}

/**
 * Windows: P(y | x) = a if ‖y − x‖₂ ≤ r, else b, on a grid of N steps; reports y reach r beyond it.
 *
 * L = `anywhere` of 2^64 words send a report to any of all K cells, the others to one of the m within r, so that
 * b = L / (2^64 K) and a = b + (1 − L/2^64) / m. A bin is as large as a square, N/SIDE cells wide, and a person lives
 * anywhere in their square, so P(bin | square) = b |bin| + (a − b) · (mean number of cells of the bin within r).
 */
class WindowLaw {
  #near; // (a − b) · that mean, by how far the bin is from the square
  #far; // b |bin|

  constructor({ steps, radius, anywhere }) {
    const share = Number(BigInt("0x" + anywhere)) / 2 ** 64;
    const base = steps + 2 * radius + 1;
    let window = 0;
    for (let k = -radius; k <= radius; k++) window += 1 + 2 * Math.floor(Math.sqrt(radius ** 2 - k ** 2));
    Object.assign(this, { steps, radius, base, each: steps / SIDE });
    this.outside = share / base ** 2;
    this.inside = this.outside + (1 - share) / window;
    this.rim = Math.ceil(radius / this.each) + 1; // bins beyond the map, on each side
    this.across = SIDE + 2 * this.rim;
    this.#near = this.#nearby();
    this.#far = this.#everywhere();
  }

  /** The number of a cell has two digits of this base: its coordinates, moved by r. */
  read(payload) {
    const number = payload.reduce((sum, byte) => sum * 256 + byte, 0);
    return [Math.floor(number / this.base) - this.radius, (number % this.base) - this.radius];
  }

  units(report) {
    return report.map((cell) => (2 * cell) / this.steps - 1);
  }

  nearest(units) {
    return units.map((u) => Math.round((u + 1) * (this.steps / 2)));
  }

  probability(report, record) {
    const square = (report[0] - record[0]) ** 2 + (report[1] - record[1]) ** 2;
    return square <= this.radius ** 2 ? this.inside : this.outside;
  }

  count(reports) {
    const shares = new Float64Array(this.across ** 2);
    for (const report of reports) {
      const [east, north] = report.map((cell) => Math.floor(cell / this.each) + this.rim);
      shares[east * this.across + north] += 1 / reports.length;
    }
    return shares;
  }

  forward(map) {
    const chances = this.#far.slice();
    this.#meet((square, bin, at, width) => {
      const share = map[square];
      for (let k = 0; k < width; k++) chances[bin + k] += share * this.#near[at + k];
    });
    return chances;
  }

  backward(weights) {
    const anywhere = weights.reduce((sum, weight, bin) => sum + weight * this.#far[bin], 0);
    const sums = new Float64Array(SIDE ** 2).fill(anywhere);
    this.#meet((square, bin, at, width) => {
      let sum = 0;
      for (let k = 0; k < width; k++) sum += weights[bin + k] * this.#near[at + k];
      sums[square] += sum;
    });
    return sums;
  }

  /** Every square, with the rows of bins around it: where a row begins, and in #near, and how long it is. */
  #meet(visit) {
    const width = 2 * this.rim + 1;
    for (let square = 0; square < SIDE ** 2; square++) {
      const corner = Math.floor(square / SIDE) * this.across + (square % SIDE);
      for (let row = 0; row < width; row++) visit(square, corner + row * this.across, row * width, width);
    }
  }

  #nearby() {
    const { each, radius, rim } = this;
    // Of a cell in a bin less a cell in a square; the square's first and last cells are half another's.
    const gaps = new Map();
    for (let cell = 0; cell < each; cell++) {
      for (let own = 0; own <= each; own++) {
        const weight = (own % each ? 1 : 0.5) / each;
        gaps.set(cell - own, (gaps.get(cell - own) ?? 0) + weight);
      }
    }
    const near = [];
    for (let east = -rim; east <= rim; east++) {
      for (let north = -rim; north <= rim; north++) {
        let cells = 0;
        for (const [x, share] of gaps) {
          for (const [y, other] of gaps) {
            if ((each * east + x) ** 2 + (each * north + y) ** 2 <= radius ** 2) cells += share * other;
          }
        }
        near.push((this.inside - this.outside) * cells);
      }
    }
    return Float64Array.from(near);
  }

  #everywhere() {
    const cells = new Float64Array(this.across);
    for (let cell = -this.radius; cell <= this.steps + this.radius; cell++) {
      cells[Math.floor(cell / this.each) + this.rim]++;
    }
    return Float64Array.from({ length: this.across ** 2 }, (_, bin) =>
      this.outside * cells[Math.floor(bin / this.across)] * cells[bin % this.across]);
  }
}

/**
 * Laplace noise: to each coordinate, in integers of 2^−g, one of law P(k) = (1 − q)/(1 + q) q^|k| is added, q = e^(−b/a).
 *
 * Beyond an end of the map a report says the same however far it is, as q^|y − x| is then a product: one bin for all
 * that is beyond loses nothing. People live in the middle of their squares, as noise is far wider than those.
 */
class LaplaceLaw {
  #table; // P(bin | square) of one coordinate, and the same transposed
  #transposed;

  constructor({ ratio, grid_bits: bits }) {
    const [numerator, denominator] = ratio.map((digits) => Number(BigInt("0x" + digits)));
    this.scale = 2 ** bits;
    this.rate = denominator / numerator; // −ln q
    this.across = SIDE + 2;
    const middle = (square) => ((2 * square + 1) / SIDE - 1) * this.scale;
    const of = (bin, square) => this.#below(bin + 1, middle(square)) - this.#below(bin, middle(square));
    this.#table = tabulate(this.across, SIDE, of);
    this.#transposed = tabulate(SIDE, this.across, (square, bin) => of(bin, square));
  }

  /** Each coordinate is 64 bits in two's complement. */
  read(payload) {
    const view = new DataView(payload.buffer, payload.byteOffset);
    return [Number(view.getBigInt64(0)), Number(view.getBigInt64(8))];
  }

  units(report) {
    return report.map((integer) => integer / this.scale);
  }

  nearest(units) {
    return units.map((u) => Math.round(u * this.scale));
  }

  probability(report, record) {
    const distance = Math.abs(report[0] - record[0]) + Math.abs(report[1] - record[1]);
    return Math.tanh(this.rate / 2) ** 2 * Math.exp(-this.rate * distance);
  }

  count(reports) {
    const shares = new Float64Array(this.across ** 2);
    for (const report of reports) {
      const [east, north] = this.units(report).map((u) => Math.min(Math.max(columnOf(u), -1), SIDE) + 1);
      shares[east * this.across + north] += 1 / reports.length;
    }
    return shares;
  }

  forward(map) {
    return product(product(this.#table, map, SIDE, SIDE), this.#transposed, SIDE, this.across);
  }

  backward(weights) {
    return product(product(this.#transposed, weights, this.across, this.across), this.#table, this.across, SIDE);
  }

  /** P(record + k is below the bin). */
  #below(bin, record) {
    if (bin === 0 || bin === this.across) return bin && 1;
    const end = ((2 * (bin - 1)) / SIDE - 1) * this.scale - record;
    const tail = Math.exp(-this.rate * Math.max(end, 1 - end)) / (1 + Math.exp(-this.rate));
    return end > 0 ? 1 - tail : tail;
  }
}

/**
 * The map that makes the reports likely: expectation maximization, smoothed after each step as in Li et al.,
 * *Estimating numerical distributions under local differential privacy* (2020), with the leaps of Varadhan and Roland,
 * *Simple and globally convergent methods for accelerating the convergence of any EM algorithm* (2008).
 *
 * A generator: yields the share of work done, so that a page stays alive in between; returns the map.
 */
function* learn(law, reports, { leaps = 10, smoothing = 0.05 } = {}) {
  const counts = law.count(reports);
  const step = (map) => {
    const chances = law.forward(map);
    const ratios = law.backward(counts.map((share, bin) => (share > 0 ? share / chances[bin] : 0)));
    return smoothed(map.map((share, square) => share * ratios[square]), smoothing);
  };
  let map = new Float64Array(SIDE ** 2).fill(SIDE ** -2);
  for (let leap = 1; leap <= leaps; leap++) {
    const one = step(map);
    const two = step(one);
    const turns = two.map((share, square) => share - 2 * one[square] + map[square]);
    const length = Math.max(1, Math.sqrt(squares(one.map((share, at) => share - map[at])) / squares(turns)));
    const far = map.map((share, square) => {
      const there = share + 2 * length * (one[square] - share) + length ** 2 * turns[square];
      return Math.max(there, two[square] / 10); // shares stay positive
    });
    map = step(normalized(far));
    yield leap / leaps;
  }
  return map;
}

/** A map in which each square gives a part of its share to its neighbors, and keeps what would fall off the map. */
function smoothed(map, part) {
  const along = (from, stride) => from.map((share, square) => {
    const place = Math.floor(square / stride) % SIDE;
    const before = place > 0 ? from[square - stride] : share;
    const after = place < SIDE - 1 ? from[square + stride] : share;
    return share + (part / 4) * (before - 2 * share + after);
  });
  return along(along(map, SIDE), 1);
}

/** Where places are: shares of squares. Those beyond the map are in none. */
function mapOf(places) {
  const map = new Float64Array(SIDE ** 2);
  for (const place of places) {
    const [east, north] = place.map(columnOf);
    if (Math.min(east, north) >= 0 && Math.max(east, north) < SIDE) map[east * SIDE + north] += 1 / places.length;
  }
  return map;
}

/** The share of people who would have to move to another square of 16 · 16 to make one map of the other. */
function misplaced(map, truth) {
  const gaps = new Float64Array(16 ** 2);
  map.forEach((share, square) => {
    const district = (Math.floor(square / SIDE / 2) * 16) + Math.floor((square % SIDE) / 2);
    gaps[district] += truth[square] - share;
  });
  return gaps.reduce((sum, gap) => sum + Math.max(gap, 0), 0);
}

/** Places of so many people who live as a map says; their chance is no privacy's, so Math.random serves. */
function peopleOf(map, count) {
  const ends = Float64Array.from(map);
  for (let square = 1; square < ends.length; square++) ends[square] += ends[square - 1];
  // A square's share slopes down to the middles of its neighbors, so that no grid shows.
  const within = (column) => (2 * (column + 0.5 + Math.random() - Math.random())) / SIDE - 1;
  return Array.from({ length: count }, () => {
    const drawn = Math.random() * ends.at(-1);
    let [low, high] = [0, ends.length - 1];
    while (low < high) {
      const half = (low + high) >> 1;
      if (ends[half] > drawn) high = half;
      else low = half + 1;
    }
    return [fold(within(Math.floor(low / SIDE))), fold(within(low % SIDE))];
  });
}

/** Parts of each town: the share of people in it, and a place there. */
const TOWNS = {
  river: [
    [0.42, around(-0.12, -0.08, 0.12)],
    [0.12, around(0.7, -0.34, 0.07)],
    [0.1, around(0.4, 0.6, 0.06)],
    [0.3, along((t) => [2 * t - 1, 0.62 - 1.3 * t + 0.16 * Math.sin(9 * t)], 0.035)],
    [0.06, anywhere],
  ],
  villages: [
    [0.42, around(-0.45, -0.4, 0.1)],
    [0.3, around(0.52, -0.1, 0.08)],
    [0.22, around(-0.1, 0.58, 0.07)],
    [0.06, anywhere],
  ],
  ring: [
    [0.24, around(0, 0, 0.1)],
    [0.7, along((t) => [0.64 * Math.cos(2 * Math.PI * t), 0.64 * Math.sin(2 * Math.PI * t)], 0.05)],
    [0.06, anywhere],
  ],
};

/** Homes of so many made-up people. */
function homesOf(town, count) {
  return Array.from({ length: count }, () => {
    for (;;) {
      let drawn = Math.random();
      const [, place] = TOWNS[town].find(([share]) => (drawn -= share) < 0) ?? TOWNS[town].at(-1);
      const home = place();
      if (Math.max(...home.map(Math.abs)) < 1) return home;
    }
  });
}

function around(east, north, spread) {
  return () => [east + spread * normal(), north + spread * normal()];
}

function along(path, spread) {
  return () => path(Math.random()).map((u) => u + spread * normal());
}

function anywhere() {
  return [2 * Math.random() - 1, 2 * Math.random() - 1];
}

function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}

/** A coordinate's column of squares; below 0, or SIDE and more, beyond the map. */
function columnOf(u) {
  return Math.floor(((u + 1) * SIDE) / 2);
}

/** What lies beyond an end of the map, as far on this side of it. */
function fold(u) {
  return 1 - Math.abs(2 - Math.abs(u + 1));
}

function tabulate(rows, columns, value) {
  return Float64Array.from({ length: rows * columns }, (_, at) => value(Math.floor(at / columns), at % columns));
}

/** Of a matrix with so many columns, `inner`, and another with `columns`. */
function product(left, right, inner, columns) {
  return tabulate(left.length / inner, columns, (row, column) => {
    let sum = 0;
    for (let k = 0; k < inner; k++) sum += left[row * inner + k] * right[k * columns + column];
    return sum;
  });
}

function squares(numbers) {
  return numbers.reduce((sum, number) => sum + number ** 2, 0);
}

function normalized(map) {
  const total = map.reduce((sum, share) => sum + share, 0);
  return map.map((share) => share / total);
}
