r"""Samples of records: positions within the cells of sampled codes, and records that satisfy rules.

**Density within cells.** A model gives masses of cells. Within a cell the density is interpolated, so
that samples show no steps. Where a cell of mean density ρ and width w meets a neighbor of mean density
ρ′ and width w′, the density is a harmonic mean,

$$ e = \min\Bigl( \frac{w + w'}{w'/ρ + w/ρ'},\ 2ρ,\ 2ρ' \Bigr) . $$

Between its two ends, of densities $e_-$ and $e_+$, the density of a cell has **two linear segments**
that meet at a knot: in the middle, at the height $2ρ − (e_- + e_+)/2 ≥ 0$ that preserves the mass. If ρ
lies between $e_-$ and $e_+$, the height is clipped between them, and the knot moves to preserve the
mass: a density that decreases from cell to cell decreases within each cell, too.

On the **line** (`LineCells`) cells may have any widths, and each class of a latent-class model has its
own densities. The outer end of an outer cell has density $\max(0, 2ρ − e)$. Integer i gets the mass of
$[i, i+1)$. Cells of width 0 are points. On a **grid** (`end_densities`) the density is a product over
the axes, whose steps between cells are of second order. There the mass of a cell is the number of points
to be drawn in it plus a constant, so that few points are drawn nearly uniformly. At the edge of the
grid, and of the domain, $e = ρ$.

**Rules** are satisfied by rejection. A model draws the reported columns, and the columns that rules
define are computed. Records that break a rule are drawn again (`privot.schema.rules`). Then images are
moved at random, and identifiers are generated.

**Privacy review.** All of this is post-processing of the model: nobody's record is used.

References:
    Boneva, Kendall, Stefanov, *Spline transformations* (1971), for densities that preserve the masses
    of a histogram.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.schema.columns.column import RANGE
from privot.schema.rules import Term

if TYPE_CHECKING:
    from privot.schema.schema import Schema

Array = NDArray[np.float64]
_PSEUDO_POINTS = 4.0  # added to the number of points of every cell
_MAX_TRIES = 100  # most draws of an integer that must be none of the points
_BELOW_ONE = np.nextafter(1.0, 0.0)
# After _MIN_TRIALS draws, less than one accepted record in _MAX_TRIES_PER_RECORD is an error.
_MAX_TRIES_PER_RECORD, _MIN_TRIALS = 100, 20_000
Draw = Callable[[int], Iterator[pa.Table]]  # yields tables with a number of records in total


def end_densities(places: NDArray[np.int64], side: int, exists: NDArray[np.bool_]) -> Array:
    """Return the end densities $e_-/ρ, e_+/ρ$ (2, n, d) of the cells of n points along each axis.

    Arguments:
        places: Index of each point's cell along each axis (n, d), from 0 to side − 1.
        side: Number of cells along each axis.
        exists: Mask (side, …, side) of the cells in the domain.
    """
    dimension = places.shape[1]
    shape = (side,) * dimension
    counts = np.bincount(np.ravel_multi_index(tuple(places.T), shape), minlength=side**dimension)
    masses = np.where(exists, counts.reshape(shape) + _PSEUDO_POINTS, np.nan)
    ends = np.empty((2, *places.shape))
    for axis in range(dimension):
        padding = [(1, 1) if j == axis else (0, 0) for j in range(dimension)]
        padded = np.pad(masses, padding, mode="edge")
        # In `padded`, the neighbors below have places 0 … side − 1, those above 2 … side + 1.
        for end in (0, 1):
            neighbors = np.take(padded, np.arange(side) + 2 * end, axis=axis)
            ratio = np.where(np.isnan(neighbors), 1.0, 2 * neighbors / (neighbors + masses))
            ends[end, :, axis] = ratio[tuple(places.T)]
    return ends


def draw_within(ends: Array, rng: np.random.Generator) -> Array:
    """Draw positions (…) in [0, 1), each by a density of mean 1 with two linear segments.

    A quantile of a linear density is the root of a quadratic equation.

    Arguments:
        ends: End densities $e_-, e_+$ (2, …) of each position's cell, from 0 to 2.
        rng: Generator of the positions.

    Examples:
        >>> ends = np.array([[[0.0]], [[2.0]]]) * np.ones((2, 10_000, 1))  # the density is 2u
        >>> round(float(draw_within(ends, np.random.default_rng(0)).mean()), 2)
        0.67
    """
    below, above = ends
    height = 2 - (below + above) / 2
    monotone = (below - 1) * (above - 1) < 0
    bounded = np.clip(height, np.minimum(below, above), np.maximum(below, above))
    height = np.where(monotone, bounded, height)
    gap = np.where(monotone, below - above, 1.0)
    knot = np.where(monotone, (2 - height - above) / gap, 0.5)
    left_mass = knot * (below + height) / 2
    uniform = rng.random(below.shape)
    left = uniform < left_mass
    left_share = uniform / np.maximum(left_mass, 1e-300)
    share = np.where(left, left_share, (uniform - left_mass) / (1 - left_mass))
    start, end = np.where(left, below, height), np.where(left, height, above)
    # Quantile `share` of a linear density from `start` to `end`.
    root = np.sqrt(np.maximum(start**2 + (end**2 - start**2) * share, 0.0))
    along = share * (start + end) / np.maximum(start + root, 1e-300)
    positions = np.where(left, knot * along, knot + (1 - knot) * along)
    return np.asarray(np.clip(positions, 0.0, _BELOW_ONE))


@dataclass(frozen=True, eq=False)
class LineCells:
    """Cells of the real line: adjacent intervals [low, high), single points, and missing values.

    Examples:
        >>> cells = LineCells(np.array([0.0, 4.0, 2.0]), np.array([4.0, 9.0, 2.0]), integer=True)
        >>> drawn = cells.draw(np.arange(3).repeat(99), np.zeros(297, int), np.full((3, 1), 1 / 3),
        ...                    np.random.default_rng(0))
        >>> [np.unique(part).tolist() for part in np.split(drawn, 3)]
        [[0.0, 1.0, 3.0], [4.0, 5.0, 6.0, 7.0, 8.0], [2.0]]
    """

    low: Array  # lower end (a,) of each cell; NaN for a missing value
    high: Array  # upper end (a,) of each cell; equal to `low` for a point
    integer: bool  # whether numbers are integers; a point is excluded from the interval around it

    @cached_property
    def in_order(self) -> NDArray[np.int64]:
        """Indices of the intervals, from left to right."""
        wide = np.flatnonzero(self.high > self.low)
        return wide[np.argsort(self.low[wide], kind="stable")]

    @cached_property
    def points(self) -> Array:
        """Numbers that are cells of their own, in increasing order."""
        return np.unique(self.low[self.high == self.low])

    @cached_property
    def widths(self) -> Array:
        """Width of each interval in order: its length, or its number of integers that are not points."""
        low, high = self.low[self.in_order], self.high[self.in_order]
        if not self.integer:
            return np.asarray(high - low)
        inside = np.searchsorted(self.points, high) - np.searchsorted(self.points, low)
        return np.asarray(np.maximum(high - low - inside, 1.0))

    def ends(self, masses: Array) -> Array:
        """Return end densities $e_-/ρ, e_+/ρ$ (2, a, classes) for cell masses (a, classes).

        Symbols are those of the module.
        """
        order, widths = self.in_order, self.widths[:, None]
        ends = np.ones((2, *masses.shape))
        if len(order) < 2:
            return ends
        density = np.maximum(masses[order] / widths, 1e-300)
        below, above = density[:-1], density[1:]  # left and right of each inner edge
        edge = (widths[:-1] + widths[1:]) / (widths[1:] / below + widths[:-1] / above)
        edge = np.minimum(edge, 2 * np.minimum(below, above))
        left, right = np.empty_like(density), np.empty_like(density)
        left[1:], right[:-1] = edge / above, edge / below
        left[0], right[-1] = 2 - right[0], 2 - left[-1]  # the outer ends
        ends[:, order] = left, right
        return np.clip(ends, 0.0, 2.0)

    def draw(
        self,
        cells: NDArray[np.int64],
        classes: NDArray[np.int64],
        masses: Array,
        rng: np.random.Generator,
    ) -> Array:
        """Draw numbers (n,) within `cells` (n,), by the densities of `classes` (n,); NaN where missing.

        The masses of every cell in every class are `masses` (a, classes).
        """
        ends = self.ends(masses)
        low, width = self.low[cells], (self.high - self.low)[cells]
        numbers, pending = low.copy(), np.flatnonzero(width > 0)
        for _ in range(_MAX_TRIES):
            if not len(pending):
                break
            positions = draw_within(ends[:, cells[pending], classes[pending]], rng)
            numbers[pending] = low[pending] + positions * width[pending]
            if not self.integer:
                break
            numbers[pending] = np.floor(numbers[pending])
            pending = pending[np.isin(numbers[pending], self.points)]
        return numbers


def values_of(value: Any) -> list[Any]:
    """Return a condition's values of one column, given as one value or as an iterable, as a list."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def split_where(schema: Schema, where: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Term]]:
    """Split a condition into a part that a model can draw by, and rules for rejection.

    A model draws conditionally on codes: categories and bins. But a range, `30..40`, may cut bins, and a
    column that a rule defines is computed after drawing. Conditions on these become rules of this
    sample, which are satisfied by rejection. A missing value does not satisfy them.

    Arguments:
        schema: Schema of the model.
        where: Value, or iterable of values, by column.

    Raises:
        PrivotError: for a value that cannot be compared with its column.
    """
    rules, drawn, conditions = schema.read_rules, dict(where), {}
    for name, allowed in where.items():
        values = values_of(allowed)
        computed = name in rules.defined
        are_ranges = [_is_range(schema, name, value) for value in values]
        if not computed and not any(are_ranges):
            continue
        if computed:
            del drawn[name]
        elif not all(are_ranges):
            raise PrivotError(f"where gives column {name!r} ranges and other values: give either")
        rule = f"({' or '.join(_rule_text(name, value) for value in values)})"
        conditions[rule] = rules.condition(rule)
    return drawn, conditions


def _is_range(schema: Schema, name: str, value: object) -> bool:
    """Return whether a condition's value of a column is a range of numbers or dates."""
    column = schema.declared.get(name)
    numbers = column is not None and column.in_rules in ("number", "date")
    return numbers and isinstance(value, str) and RANGE in value


def _rule_text(name: str, value: object) -> str:
    """Return the rule that a column has a value or is within a range; None stands for missing."""
    if value is None:
        return f"`{name}` = missing"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, str) and RANGE in value:
        low, _, high = value.partition(RANGE)
        comparison = f"{low} <= `{name}` <= {high}"
    elif isinstance(value, str) and text not in ("true", "false") and not text[:1].isdigit():
        comparison = f'`{name}` = "{text}"'
    else:
        comparison = f"`{name}` = {text}"
    # A comparison with a missing value is not false, so a rule of it alone would hold.
    return f"`{name}` != missing and {comparison}"


def completed(
    schema: Schema,
    draw: Draw,
    num_rows: int,
    rng: np.random.Generator,
    conditions: Mapping[str, Term] | None = None,
) -> Iterator[pa.Table]:
    """Yield records that satisfy the schema's rules, with all its columns in order.

    Arguments:
        schema: Schema with the rules, identifiers and image movements.
        draw: Function that draws a number of records of the reported columns, in pieces; an empty
            piece for 0.
        num_rows: Number of records.
        rng: Generator of identifiers and image movements.
        conditions: Additional conditions, by their text.

    Raises:
        PrivotError: if hardly any record satisfies the rules, or a pattern has too few identifiers.
    """
    identifiers = schema.identifiers.items()
    generators = {name: column.generator(num_rows, rng) for name, column in identifiers}
    rules = schema.read_rules
    rules = replace(rules, conditions={**rules.conditions, **(conditions or {})})
    accepted = tried = 0
    broken: Counter[str] = Counter()
    while True:  # also for 0 records, which are one empty piece
        for drawn in draw(_num_to_draw(num_rows - accepted, accepted, tried)):
            table, breaking = rules.complete(drawn)
            holds = np.ones(table.num_rows, np.bool_)
            for rule, rows in breaking.items():
                holds &= ~rows
                broken[rule] += int(rows.sum())
            tried += table.num_rows
            table = table if holds.all() else table.filter(pa.array(holds))
            table = table.slice(0, num_rows - accepted)
            accepted += table.num_rows
            for name, column in schema.images.items():
                table = column.augmented(name, table, rng)
            for name, generate in generators.items():
                table = table.append_column(name, generate(table.num_rows))
            for name, declared in schema.declared.items():
                table = declared.in_format(name, table)
            yield table.select(list(schema.sampled_columns))
        if accepted >= num_rows:
            return
        if tried >= _MIN_TRIALS and accepted * _MAX_TRIES_PER_RECORD < tried:
            rule, number = broken.most_common(1)[0]
            raise PrivotError(
                f"rule {rule!r} is broken by {number:,} of {tried:,} records drawn, and only "
                f"{accepted:,} keep all: correct the rules, or define the column by a rule, so that it "
                "is computed"
            )


def _num_to_draw(wanted: int, accepted: int, tried: int) -> int:
    """Return how many records to draw so that about `wanted` satisfy the rules, by the rate so far."""
    if not tried or not wanted:
        return wanted
    rate = (accepted + 1) / (tried + 1)
    # A tenth more, so that one more draw is usually enough; bounded while the rate is uncertain.
    return min(math.ceil(1.1 * wanted / rate) + 10, max(_MIN_TRIALS, 4 * wanted))
