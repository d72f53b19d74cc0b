"""Releases that are fitted together, from a campaign that changed its randomizer.

Bins, categories, ε, mechanisms and the number of reported columns may change, and columns may be added.
A report has the likelihood given by the randomizer that drew it. The model has the newest schema.

**Guarantees.** Each person has the guarantee of the randomizer that they reported with; the weakest
guarantee holds for everybody. A person who reported with two randomizers has spent both budgets, which
cannot be detected here: a campaign must survey new people after the change, or state the sum.

**Assumption**: the people of all releases are samples of one population. If the population changes
between releases, the model is a mixture of the populations.

**Atoms.** A column may be reported in several alphabets, by one release or by releases that code it
differently. Its atoms are the coarsest partition of its values that refines all these alphabets. Values
in one atom have the same code in every alphabet, so no report distinguishes them. If a column has one
alphabet, its atoms are the codes. An atom of a number or date is an interval or a point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.randomizer import Counts, Randomizer, Release, count
from privot.randomizer.reports.counts import grid_form, require_disjoint
from privot.randomizer.reports.shuffled import shuffled_promise
from privot.schema import Schema
from privot.schema.columns.alphabet import Alphabet, Bins, Codes
from privot.schema.columns.column import CodedColumn
from privot.schema.domains import Array
from privot.schema.sampling import draw_within

Reports = Release | Counts
_MAX_TRIES = 100  # most draws of an integer that must be none of the points


class Coding(NamedTuple):
    """Codes of a column's atoms in one alphabet."""

    codes: Codes  # codes of the atoms (a,)
    size: int  # size of the alphabet


class ReportedColumn(NamedTuple):
    """Column as one release reports it."""

    column: CodedColumn  # the column as the release's schema declares it
    jointly: bool  # True in joint reports, which use all codings; others use the column's alphabet

    @property
    def alphabets(self) -> tuple[Alphabet, ...]:
        """Alphabets in which the column is reported."""
        return self.column.codings if self.jointly else (self.column.alphabet,)

    def encode(self, name: str, table: pa.Table) -> Codes:
        """Encode the raw values of a table as codes (alphabets, n)."""
        if self.jointly:
            return self.column.encode_codings(name, table)
        return self.column.encode_codes(name, table)[None]

    @property
    def atoms(self) -> Codes:
        """Codes (alphabets, a) of the atoms, if no other release reports the column."""
        return self.column.atoms[1] if self.jointly else np.arange(self.column.alphabet.size)[None]

    def codings(self, codes: Codes) -> tuple[Coding, ...]:
        """Return the coding in each alphabet, given the atoms' codes (alphabets, a)."""
        return tuple(map(Coding, codes, [alphabet.size for alphabet in self.alphabets]))


@dataclass(frozen=True, eq=False)
class LineCells:
    """Cells of the real line: adjacent intervals [low, high), single points, and missing values.

    Arguments:
        low: Lower end (a,) of each cell; NaN for a missing value.
        high: Upper end (a,) of each cell; equal to `low` for a point.
        integer: Whether numbers are integers; a point is excluded from the interval around it.

    Examples:
        >>> cells = LineCells(np.array([0.0, 4.0, 2.0]), np.array([4.0, 9.0, 2.0]), integer=True)
        >>> drawn = cells.draw(np.arange(3).repeat(99), np.zeros(297, int), np.full((3, 1), 1 / 3),
        ...                    np.random.default_rng(0))
        >>> [np.unique(part).tolist() for part in np.split(drawn, 3)]
        [[0.0, 1.0, 3.0], [4.0, 5.0, 6.0, 7.0, 8.0], [2.0]]
    """

    low: Array
    high: Array
    integer: bool

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

        Symbols are those of `privot.schema.sampling`.
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


@dataclass(frozen=True, eq=False)
class Atoms:
    """Atoms of one column."""

    codings: tuple[tuple[Coding, ...], ...]  # by release; empty if a release lacks the column
    codes: Codes  # code of each atom in the newest schema (a,)
    cells: LineCells | None = None  # intervals and points of the atoms of a number or date

    @classmethod
    def of(cls, name: str, by_release: Sequence[ReportedColumn | None]) -> Self:
        """Find the atoms of a column, given how each release reports it, newest last."""
        reported = [column for column in by_release if column is not None]
        newest = reported[-1].column
        newest_codes, codes_by_release = _distinct_codes(name, reported)
        cells = None
        if newest.is_number:
            alphabets = [alphabet for column in reported for alphabet in column.alphabets]
            bins = cast("list[Bins]", [*alphabets, newest.alphabet])
            cells = _intersect(bins, np.concatenate([*codes_by_release, newest_codes[None]]))
        remaining = iter(codes_by_release)
        codings = [column.codings(next(remaining)) if column else () for column in by_release]
        return cls(tuple(codings), newest_codes, cells)


def _distinct_codes(name: str, reported: Sequence[ReportedColumn]) -> tuple[Codes, list[Codes]]:
    """Find the codes of the atoms in the newest alphabet (a,), and in each release (alphabets, a)."""
    if len(reported) == 1:
        codes = reported[0].atoms
        return codes[0], [codes]  # the first alphabet is the schema's
    *earlier, newest = [release.column for release in reported]
    values = pa.table(newest.common_values(name, earlier))
    # Atoms are the distinct columns of the codes in all alphabets (rows), sorted by the newest schema's.
    newest_first = [release.encode(name, values) for release in reported[::-1]]
    codes = np.concatenate([newest.encode_codes(name, values)[None], *newest_first])
    starts = np.cumsum([1, *map(len, newest_first[:-1])])
    (newest_codes,), *newest_first = np.split(np.unique(codes, axis=1), starts)
    return newest_codes, newest_first[::-1]


def _intersect(alphabets: Sequence[Bins], codes: Codes) -> LineCells:
    """Intersect the intervals of atoms' codes (alphabets, a), clipped to the last alphabet's bounds.

    Outer bins are unbounded, because they contain the values beyond the bounds. An atom beyond the
    bounds of the last alphabet becomes a point at a bound.
    """
    low, high = np.full(codes.shape[1], -np.inf), np.full(codes.shape[1], np.inf)
    for bins, bin_codes in zip(alphabets, codes, strict=True):
        lows, highs = _ends_of_codes(bins)
        low, high = np.maximum(low, lows[bin_codes]), np.minimum(high, highs[bin_codes])
    newest = alphabets[-1]
    first, last = newest.edges[0], newest.edges[-1]
    is_point = low == high
    low, high = np.clip(low, first, last), np.clip(high, first, last)
    if newest.integer:
        low = np.minimum(low, last - 1)
        high = np.where(is_point, low, np.maximum(high, low + 1))
    return LineCells(low, high, newest.integer)


def _ends_of_codes(bins: Bins) -> tuple[Array, Array]:
    """Return the low and high ends (codes,) of codes; equal for spikes, NaN for a missing value."""
    edges = np.array(bins.edges)
    edges[[0, -1]] = -np.inf, np.inf
    points = [*bins.spikes, *[np.nan] * bins.nullable]
    return np.append(edges[:-1], points), np.append(edges[1:], points)


@dataclass(frozen=True, eq=False)
class Releases:
    """One or more releases, or their counts; the newest is last, and has the columns of all others."""

    parts: tuple[Reports, ...]

    def __post_init__(self) -> None:
        for number, part in enumerate(self.parts[:-1], start=1):
            _require_comparable(number, part.schema, self.schema)

    @classmethod
    def of(cls, reports: Reports | Sequence[Reports]) -> Self:
        """Validate a release, its counts, or a list of these.

        Raises:
            PrivotError: for another object, or releases that cannot be combined.
        """
        parts = reports if isinstance(reports, list | tuple) else (reports,)
        for part in parts or [None]:
            if not isinstance(part, Reports):
                raise PrivotError(
                    f"release is a {type(part).__name__}: privatize records on the device first, by "
                    "`privot privatize TABLE -r randomizer.json` or Randomizer.privatize, and give what "
                    "Release.load reads, or its counts"
                )
        return cls(tuple(parts))

    @property
    def newest(self) -> Reports:
        """Newest release, whose schema the model has."""
        return self.parts[-1]

    @cached_property
    def counts(self) -> tuple[Counts, ...]:
        """Counts of the releases, which are sufficient statistics of maps and tables.

        Raises:
            PrivotError: if reports cannot be counted, or two releases share reports.
        """
        counts = tuple(part if isinstance(part, Counts) else count(part) for part in self.parts)
        require_disjoint(counts)
        return counts

    @property
    def schema(self) -> Schema:
        """Schema of the newest release."""
        return self.newest.randomizer.schema

    @property
    def randomizers(self) -> tuple[Randomizer, ...]:
        """Randomizers of the releases, newest last."""
        return tuple(part.randomizer for part in self.parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def all_coded(self) -> bool:
        """True if every column is reported as a code."""
        return all(randomizer.all_coded for randomizer in self.randomizers)

    @property
    def best_estimator(self) -> str:
        """Name of the estimator that `"auto"` chooses for these reports."""
        if self.newest.randomizer.candidates is not None:
            return "gaussian_classes"
        if len(self.schema.columns) == 1 and None not in map(grid_form, self.randomizers):
            return "grid"
        return "latent_classes" if self.all_coded else "generator"

    def only(self, estimator: str) -> Release:
        """Return the only release, whose single reports an estimator needs; refuse any other input."""
        if len(self.parts) > 1:
            raise PrivotError(
                f"estimator {estimator!r} learns from one release, {len(self.parts)} are given: tables "
                "of codes and single columns of few coordinates are fitted together"
            )
        if isinstance(self.newest, Counts):
            raise PrivotError(
                f"estimator {estimator!r} learns from single reports, and counts hold none: give the "
                "release, or estimator 'auto'"
            )
        if shuffled_promise(self.schema) is not None:
            self.newest.require_possible()  # ε is of distinct reports that were mixed together
        return self.newest

    @cached_property
    def atoms(self) -> dict[str, Atoms]:
        """Atoms of each coded column of the newest release."""
        return {
            name: Atoms.of(name, [_reported_column(made_by, name) for made_by in self.randomizers])
            for name in self.schema.coded
        }


def _require_comparable(number: int, schema: Schema, newest: Schema) -> None:
    """Raise an error if the newest schema lacks the unit or a column of an earlier release."""
    if schema.unit != newest.unit:
        raise PrivotError(
            f"release {number} has one record per {schema.unit}, the last one per "
            f"{newest.unit}: fit them apart"
        )
    for name, column in schema.columns.items():
        newest_column = newest.columns.get(name)
        if newest_column is None:
            raise PrivotError(
                f"column {name!r} of release {number} is not in the last one: give the newest "
                "release last, or fit them apart"
            )
        if (column.kind, column.nullable) != (newest_column.kind, newest_column.nullable):
            raise PrivotError(
                f"column {name!r} is another kind in release {number}, or may be missing in one "
                "of them only: fit them apart"
            )


def _reported_column(randomizer: Randomizer, name: str) -> ReportedColumn | None:
    """Return a column as a randomizer reports it; None if the randomizer does not report it."""
    column = randomizer.schema.coded.get(name)
    return None if column is None else ReportedColumn(column, randomizer.joint is not None)
