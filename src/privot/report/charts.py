"""Charts of the pages of tables: bars of codes, a heat map of all pairs, histograms of numbers.

- **Bars** of a column that has codes: categories by their share, bins in their own order.
- **The heat map** of pairs: the model's errors below the diagonal, the dependence to learn above it.
  Colors go by the root of an error up to the largest, so that none is cut off and small ones differ.
- **Histograms**, real beside synthetic, with ticks at their quantiles. Numbers that the schema declares
  on a log scale stand on one. Of others the central 99 % are shown, or, where 90 % lie on less than a
  tenth of that, the central 95 %: else a tail would leave no shape to see.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
from matplotlib.ticker import LogLocator, MaxNLocator

from privot.evaluation.estimates import ValueCheck
from privot.evaluation.number_check import NumberCheck
from privot.schema import Schema
from privot.schema.columns.number import NumberColumn
from privot.schema.domains import Array

MAX_PAIRED = 30  # columns
WIDTH, HEIGHT = 320.0, 110.0  # of a histogram
_MAX_BARS = 16
_MAX_NUMBERS, _MAX_LETTERS = 12, 16  # columns of a heat map with numbers, letters of their names
_CELL, _LETTER, _GAP = 40.0, 7.2, 6.0
_BINS = 40
_CUTS = (0.005, 0.025)  # left out at either end
_INNER, _NARROW = 0.05, 0.1  # what lies on less of the field than a tenth has the narrower one
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_MAX_MARKS = 4
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)  # between marks of dates
_LAST_DATE = 95.0  # percent of the width: beyond, there is no room for its words


@dataclass(frozen=True)
class Bar:
    """A bar of one value, or of several: shares of synthetic and of real records.

    Arguments:
        label: Label of the value, or values.
        synthetic: Share of synthetic records.
        real: Share of real records, where there are some.
        checked: The share by reports alone, where it is one code that they estimate.
    """

    label: str
    synthetic: float
    real: float | None = None
    checked: ValueCheck | None = None

    @property
    def longest(self) -> float:
        """The largest share that is shown of it."""
        high = self.checked.reports.high if self.checked else 0.0
        return max(self.synthetic, self.real or 0.0, high)


def bars_of(
    schema: Schema,
    name: str,
    synthetic: pa.Table,
    real: pa.Table | None = None,
    checked: Sequence[ValueCheck] = (),
) -> tuple[Bar, ...]:
    """Return the bars of one column that has codes.

    Categories stand in the order of their real shares (or else the synthetic ones), the rare ones in one
    bar; bins stand in their own order, neighbors in one bar where they are many.
    """
    column = schema.coded[name]
    alphabet = column.alphabet
    ours = _shares(schema, name, synthetic)
    truth = None if real is None else _shares(schema, name, real)
    binned = alphabet.centers is not None
    ranks = -(ours if truth is None else truth) if alphabet.centers is None else alphabet.centers
    order = np.argsort(ranks, kind="stable")
    present = [int(code) for code in order if code != alphabet.missing]
    groups = _neighbors(present) if binned else _frequent(present)
    groups += [[alphabet.missing]] if alphabet.missing is not None else []
    names = _name_range if binned else _name_others
    return tuple(
        Bar(
            names([column.labels[c] for c in g]),
            float(ours[g].sum()),
            None if truth is None else float(truth[g].sum()),
            checked[g[0]] if checked and len(g) == 1 else None,
        )
        for g in groups
    )


def _shares(schema: Schema, name: str, table: pa.Table) -> np.ndarray:
    column = schema.coded[name]
    codes = column.encode_codes(name, table)
    return np.bincount(codes, minlength=column.alphabet.size) / table.num_rows


def _neighbors(codes: list[int]) -> list[list[int]]:
    parts = min(len(codes), _MAX_BARS)
    return [[int(code) for code in group] for group in np.array_split(codes, parts)]


def _frequent(codes: list[int]) -> list[list[int]]:
    most = _MAX_BARS if len(codes) <= _MAX_BARS else _MAX_BARS - 1
    rest = codes[most:]
    return [[code] for code in codes[:most]] + ([rest] if rest else [])


def _name_range(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} … {labels[-1]}"


def _name_others(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{len(labels)} others"


@dataclass(frozen=True)
class Cell:
    """A cell of the heat map: place, strength of its color, description, number and kind."""

    x: float
    y: float
    strength: float
    words: str
    text: str
    kind: str


@dataclass(frozen=True)
class HeatMap:
    """A square of cells with names at its left and below it.

    Arguments:
        names: Names of columns, shortened.
        cells: Two a pair, one a column.
        margin: Room for names.
        size: Size of a cell.
        marks: Marks of the color bar: how far along it, and the number there.
    """

    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    margin: float
    size: float
    marks: tuple[tuple[float, str], ...]

    @property
    def side(self) -> float:
        """Length of the square."""
        return self.size * len(self.names)


def heat_map(
    names: Sequence[str],
    own: Mapping[str, float],
    below: Mapping[tuple[str, str], float],
    above: Mapping[tuple[str, str], float],
    words: tuple[str, str, str],
) -> HeatMap:
    """Return the heat map of the columns with the largest errors, at most 30.

    Arguments:
        names: Columns in order.
        own: Errors of single columns, on the diagonal.
        below: Errors by pairs of names in that order.
        above: Dependence by the same pairs.
        words: Names of the three kinds of numbers: own, below, above.
    """
    errors: dict[str, list[float]] = {name: [] for name in names}
    for (first, second), error in below.items():
        errors[first].append(error)
        errors[second].append(error)
    chosen = worst([float(np.mean(errors[name] or [0.0])) for name in names], MAX_PAIRED)
    shown = [names[i] for i in chosen]
    place = {name: i for i, name in enumerate(shown)}
    pairs = [pair for pair in below if pair[0] in place and pair[1] in place]
    numbers = [*(own[n] for n in shown), *(below[p] for p in pairs), *(above[p] for p in pairs)]
    top = max(max(numbers), 1e-9)
    few = len(shown) <= _MAX_NUMBERS

    def cell(i: int, j: int, value: float, what: str, kind: str) -> Cell:
        said = (
            f"{shown[i]}: {what}" if i == j else f"{shown[min(i, j)]} × {shown[max(i, j)]}: {what}"
        )
        text = f"{value:.2f}".removeprefix("0") if few else ""
        strength = round(float(np.sqrt(value / top)), 3)
        return Cell(_CELL * j, _CELL * i, strength, f"{said} {value:.3f}", text, kind)

    cells = [cell(i, i, own[name], words[0], "own") for name, i in place.items()]
    for first, second in pairs:
        i, j = place[first], place[second]
        cells.append(cell(j, i, below[first, second], words[1], "error"))
        cells.append(cell(i, j, above[first, second], words[2], "there"))
    labels = tuple(n if len(n) <= _MAX_LETTERS else n[: _MAX_LETTERS - 1] + "…" for n in shown)
    marks = tuple((share, f"{top * share**2:.2g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0))
    margin = max(map(len, labels)) * _LETTER + _GAP
    return HeatMap(labels, tuple(cells), margin, _CELL, marks)


def worst(errors: Sequence[float], most: int) -> list[int]:
    """Return indices of the largest errors, in their own order."""
    return [int(i) for i in np.sort(np.argsort(-np.asarray(errors), kind="stable")[:most])]


@dataclass(frozen=True)
class Tick:
    """Place of a quantile, 0 … 320, and the ends of its interval by reports alone."""

    place: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Mark:
    """A number of the axis, in words, and its place, in percent of the width."""

    place: float
    words: str


@dataclass(frozen=True)
class Histogram:
    """Outlines in a field of 320 by 110, with the ticks and marks below it.

    Arguments:
        synthetic: Path of the synthetic values.
        real: Path of the real ones, where there are some.
        marks: Round numbers of the axis.
        ticks: Synthetic quantiles of 5, 25, 50, 75 and 95 %.
        real_ticks: Real ones.
        beyond: Description of values outside the field; may be empty.
    """

    synthetic: str
    real: str | None
    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    real_ticks: tuple[Tick, ...]
    beyond: str


@dataclass(frozen=True)
class _Axis:
    """An axis from `low` to `high`, a half step beyond the outer values; perhaps of logarithms."""

    low: float
    high: float
    step: float
    log: bool

    def place(self, x: float) -> float:
        """Return the place of a number, 0 … 320."""
        low, at, high = self._on((self.low, min(max(x, self.low), self.high), self.high))
        return round(WIDTH * float((at - low) / (high - low)), 1)

    def _on(self, numbers: Sequence[float]) -> Array:
        return np.log(numbers) if self.log else np.asarray(numbers)

    @property
    def edges(self) -> Array:
        """Edges of bins that are equal but for whole steps."""
        if self.log:
            edges = np.geomspace(self.low, self.high, _BINS + 1)
        else:
            edges = np.linspace(self.low, self.high, _BINS + 1)
        if not self.step:
            return edges
        if not self.log:  # as many steps in every bin
            wide = self.step * max(1.0, np.ceil((self.high - self.low) / self.step / _BINS))
            return self.low + wide * np.arange(np.ceil((self.high - self.low) / wide - 1e-6) + 1)
        places = np.unique(np.rint((edges - self.low) / self.step))
        return self.low + self.step * places


def draw_histogram(
    schema: Schema, name: str, synthetic: Array, real: Array | None, check: NumberCheck | None
) -> Histogram | None:
    """Draw values without missing ones, the outermost left out; return None if there are none."""
    tables = [each for each in (synthetic, real) if each is not None and len(each)]
    if not tables or not len(synthetic):
        return None
    low, high = _field(tables)
    column = schema.columns.get(name)
    number = cast("NumberColumn", column) if column is not None and column.is_number else None
    log = number is not None and number.on_log_scale and low > 0
    step = 0.0 if number is None else number.value_step
    axis = _axis(tables, low, high, step, log)
    edges = axis.edges
    axis = _Axis(edges[0], edges[-1], axis.step, axis.log)
    widths = np.diff([axis.place(edge) for edge in edges])
    # Of unequal bins the area is the share.
    heights = [
        np.histogram(each, edges)[0] / len(each) / np.maximum(widths, 0.1) for each in tables
    ]
    top = max(float(each.max()) for each in heights) or 1.0
    paths = [_outline(each / top, [axis.place(edge) for edge in edges[1:]]) for each in heights]
    outside = max(float(((each < edges[0]) | (each > edges[-1])).mean()) for each in tables)
    reports = () if check is None else tuple(each.reports for each in check.quantiles)
    ticks = [Tick(axis.place(x)) for x in np.quantile(synthetic, _LEVELS, method="inverted_cdf")]
    if reports:
        ticks = [
            Tick(tick.place, axis.place(r.low), axis.place(r.high))
            for tick, r in zip(ticks, reports, strict=True)
        ]
    true = () if real is None or not len(real) else real
    levels = np.quantile(true, _LEVELS, method="inverted_cdf") if len(true) else ()
    return Histogram(
        paths[0], paths[1] if len(paths) > 1 else None, _marks(schema, name, number, axis),
        tuple(ticks), tuple(Tick(axis.place(x)) for x in levels),
        _beyond(schema, name, tables, outside),
    )  # fmt: skip


def format_number(schema: Schema, name: str, number: float) -> str:
    """Format a number of a table's column for reading; a date as a date."""
    column = schema.columns.get(name)
    if column is not None and column.is_number and not column.holds_numbers:
        written = schema.points[name].decode_points(name, np.array([[np.rint(number)]]))
        return str(written[name][0].as_py())
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        digits = 0 if abs(number) >= 1000 else max(0, 2 - int(np.floor(np.log10(abs(number) or 1))))
        text = f"{number:,.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{number:.2g}"


def _field(tables: Sequence[Array]) -> tuple[float, float]:
    """Return the least and the largest value to show."""

    def ends(cut: float) -> tuple[float, float]:
        levels = [np.quantile(each, [cut, 1 - cut], method="inverted_cdf") for each in tables]
        return min(float(each[0]) for each in levels), max(float(each[1]) for each in levels)

    wide, narrow = map(ends, _CUTS)
    inner = ends(_INNER)
    return narrow if inner[1] - inner[0] < _NARROW * (wide[1] - wide[0]) else wide


def _axis(tables: Sequence[Array], low: float, high: float, step: float, log: bool) -> _Axis:
    """Return the axis of values from `low` to `high`; integers have steps of 1."""
    if not step and all(not (each % 1).any() for each in tables):
        step = 1.0
    if high <= low:
        return _Axis(low - (step or 1.0) / 2, low + (step or 1.0) / 2, step, False)
    if log and low < step:
        low = step
    return _Axis(low - step / 2, high + step / 2, step, log)


def _marks(schema: Schema, name: str, number: NumberColumn | None, axis: _Axis) -> tuple[Mark, ...]:
    """Return round numbers of the axis: integers of integers, months or years of dates."""
    if number is not None and number.step_seconds is not None:
        found = tuple(m for m in _months(axis, number.step_seconds) if m.place <= _LAST_DATE)
        if len(found) > 1:
            return found
        places: Sequence[float] = np.linspace(axis.low + 0.5, axis.high - 0.5, 3).round().tolist()
    elif axis.log:
        subs = (1.0,) if axis.high / axis.low > 30 else (1.0, 2.0, 5.0)
        places = LogLocator(10, subs, numticks=_MAX_MARKS + 2).tick_values(axis.low, axis.high)
    else:
        whole = axis.step >= 1
        places = MaxNLocator(_MAX_MARKS, integer=whole, min_n_ticks=1).tick_values(
            axis.low, axis.high
        )
    inside = sorted({float(x) for x in places if axis.low <= x <= axis.high})
    inside = inside or [(axis.low + axis.high) / 2]
    return tuple(_mark(axis, x, format_number(schema, name, x)) for x in inside)


def _mark(axis: _Axis, x: float, words: str) -> Mark:
    return Mark(round(100 * axis.place(x) / WIDTH, 1), words)


def _months(axis: _Axis, seconds: int) -> tuple[Mark, ...]:
    """Return the first days of some months, or years, on an axis of dates."""
    epoch = dt.datetime(1970, 1, 1)
    low, high = (epoch + dt.timedelta(seconds=x * seconds) for x in (axis.low, axis.high))
    first, last = (12 * each.year + each.month - 1 for each in (low, high))
    for apart in _MONTHS:
        months = [m for m in range(first + 1, last + 1) if m % apart == 0]
        if len(months) <= _MAX_MARKS:
            break
    begins = [dt.datetime(month // 12, month % 12 + 1, 1) for month in months]
    return tuple(
        _mark(axis, (begin - epoch) / dt.timedelta(seconds=seconds),
              begin.strftime("%Y" if apart >= 12 else "%b %Y"))
        for begin in begins
    )  # fmt: skip


def _beyond(schema: Schema, name: str, tables: Sequence[Array], outside: float) -> str:
    if outside <= 0:
        return ""
    low, high = (
        format_number(schema, name, f([f(each) for each in tables])) for f in (np.min, np.max)
    )
    return f"{100 * outside:.1f} % lie beyond, from {low} to {high}"


def _outline(heights: Array, ends: Sequence[float]) -> str:
    """Return the path along the tops of bars of heights from 0 to 1, and back along the ground."""
    words = [f"M0 {HEIGHT:g}"]
    for height, end in zip(heights, ends, strict=True):
        y = HEIGHT - (HEIGHT - 4) * height
        words.append(f"V{y:.1f}H{end:.1f}")
    return "".join([*words, f"V{HEIGHT:g}Z"])
