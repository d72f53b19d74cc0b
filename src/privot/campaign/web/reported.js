// Reads a payload again, as anybody can, and puts what it says into words.

/** Rows of columns' names, what is said of them, and how sure that is: one for each part of a report. */
export function reported(program, payload, labels) {
  const bytes = new Reader(payload);
  const rows = [];
  if (program.joint) rows.push(joint(program.joint, bytes, labels));
  if (program.split) rows.push(...split(program, bytes, labels));
  return rows;
}

class Reader {
  constructor(bytes) { [this.bytes, this.at] = [bytes, 0]; }
  take(count) { return this.bytes.slice(this.at, (this.at += count)); }
  number(bound) { return this.take(width(bound)).reduce((sum, byte) => sum * 256 + byte, 0); }
  bits(total) {
    const held = this.take(Math.ceil(total / 8));
    return [...Array(total).keys()].filter((cell) => (held[cell >> 3] >> (cell & 7)) & 1);
  }
  set(cells, size) {
    if (size * width(cells) > Math.ceil(cells / 8)) return this.bits(cells);
    return Array.from({ length: size }, () => this.number(cells));
  }
}

const width = (bound, bytes = 1) => (bound > 256 ** bytes ? width(bound, bytes + 1) : bytes);
const setWidth = (cells, size) => Math.min(size * width(cells), Math.ceil(cells / 8));

function joint({ columns, sizes, views, forms, sets }, bytes, labels) {
  const sheet = bytes.number(forms.length * views);
  const asked = forms[Math.floor(sheet / views)];
  const coding = (column) => (sheet % views) % sizes[column].length;
  const size = (column) => sizes[column][coding(column)];
  const cells = asked.reduce((product, column) => product * size(column), 1);
  const start = bytes.at;
  const named = bytes.set(cells, sets[cells].size);
  bytes.at = start + Math.max(...Object.entries(sets).map(([cells, { size }]) => setWidth(+cells, size)));
  const shown = named.slice(0, 6).map((cell) => {
    const codes = [];
    for (const column of [...asked].reverse()) {
      codes.unshift(labels[columns[column]][coding(column)][cell % size(column)]);
      cell = Math.floor(cell / size(column));
    }
    return codes.join(", ");
  });
  const more = named.length > 6 ? ` … and ${named.length - 6} more` : "";
  const words = named.length > 1 ? `one of these ${named.length}: ${shown.join("; ")}${more}` : shown[0];
  return [asked.map((column) => columns[column]), words, among(1 - share(sets[cells].out), named.length, cells)];
}

function split(program, bytes, labels) {
  const { choose, reports } = program.split;
  const chosen = choose < reports.length ? bytes.bits(reports.length) : [...reports.keys()];
  return reports.flatMap(({ column, draw }, index) => {
    const words = field(draw, bytes, program.columns[column], labels[column]?.[0]);
    return chosen.includes(index) ? [[[column], words, sureness(draw)]] : [];
  });
}

/** The share of all words that are below a threshold. */
const share = (hexadecimal) => Number(BigInt(`0x${hexadecimal}`)) / 2 ** 64;

/** Of every answer the same: not how probable an answer is, which depends on what else is known. */
function among(probability, named, cells) {
  const percent = Math.ceil(probability * 1000) / 10;
  const place = named > 1 ? "among these" : "the one that it says";
  return `Whatever the true answer is, it is ${place} with a chance of at most ${percent}%, of ${cells} possible answers.`;
}

function sureness(draw) {
  if (draw.draw === "response") return among(1 - share(draw.slot) * (draw.values - 1), 1, draw.values);
  if (draw.draw === "subset") return among(1 - share(draw.out), draw.size, draw.cells);
  return undefined; // said in words by the campaign
}

function field(draw, bytes, take, labels) {
  if (draw.draw === "response") return labels[bytes.number(draw.values)];
  if (draw.draw === "subset") return bytes.set(draw.cells, draw.size).map((code) => labels[code]).join(" or ");
  if (draw.draw === "laplace") {
    const view = new DataView(bytes.take(8 * draw.dimension).buffer);
    const units = Array.from({ length: draw.dimension }, (_, j) => Number(view.getBigInt64(8 * j)) / 2 ** draw.grid_bits);
    return inWords(units, take);
  }
  const base = draw.steps + 2 * draw.radius + 1;
  const numbers = base ** draw.dimension;
  const units = [];
  for (let block = 0; block < draw.blocks; block += 1) {
    let number = bytes.number(numbers + Number(draw.nullable));
    if (number === numbers) return "no answer";
    const cell = [];
    for (let j = 0; j < draw.dimension; j += 1) {
      cell.unshift((number % base) - draw.radius);
      number = Math.floor(number / base);
    }
    units.push(...cell.map((place) => (place * 2) / draw.steps - 1));
  }
  return inWords(units, take);
}

function inWords(units, { domain, seconds }) {
  const numbers = units.map((u, j) => {
    if (domain.area !== "box") return u * domain.radius;
    return (domain.lower[j] + domain.upper[j]) / 2 + ((domain.upper[j] - domain.lower[j]) / 2) * u;
  });
  if (seconds) return moment(numbers[0] * seconds, seconds);
  return numbers.map((number) => number.toPrecision(3).replace(/e\+?(-?\d+)$/, " · 10^$1")).join(", ");
}

/** Seconds since 1970 as a date; noise carries far, beyond what dates can be. */
function moment(count, seconds) {
  if (Math.abs(count) > 8.64e12) return `a date ${count > 0 ? "after" : "before"} all calendars`;
  const [day, time] = new Date(count * 1000).toISOString().split("T");
  return seconds === 86400 ? day : `${day} ${time.slice(0, 5)}`;
}
