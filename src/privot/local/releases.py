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

from privot.core.errors import PrivotError
from privot.local.words import without_words
from privot.randomizer import Counts, Randomizer, Release, count
from privot.randomizer.reports.counts import grid_form, require_disjoint
from privot.schema import Schema
from privot.schema.columns.alphabet import Alphabet, Bins, Codes
from privot.schema.columns.column import CodedColumn
from privot.schema.domains import Array
from privot.schema.sampling import LineCells

Reports = Release | Counts


class Coding(NamedTuple):
    """Codes of a column's atoms in one alphabet."""

    codes: Codes  # codes of the atoms (a,)
    alphabet: Alphabet


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
        return tuple(map(Coding, codes, self.alphabets))


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


@dataclass(frozen=True, eq=False)
class Places:
    """Categories of a column in a model: its atoms, then mass points (`local.classes.marginals`)."""

    codes: Codes  # the schema's code of each place (a,)
    cells: LineCells | None = None  # intervals and points of the places of numbers and dates

    def numbers(self, atoms: Atoms, name: str) -> Codes:
        """Return the number of the atom that contains each place (a,).

        Raises:
            PrivotError: if `atoms`, those of column `name` in a wave, are of other alphabets.
        """
        count = len(atoms.codes)
        if not np.array_equal(self.codes[:count], atoms.codes):
            raise PrivotError(
                f"column {name!r} is reported in other alphabets in this wave: give waves of "
                "randomizers that differ in nothing but epsilon, or fit them apart"
            )
        if self.cells is None or atoms.cells is None:
            return np.arange(count)
        points = self.cells.low[count:, None]
        around = (atoms.cells.low <= points) & (points < atoms.cells.high)
        return np.concatenate([np.arange(count), around.argmax(axis=1)])


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
        parts = [
            without_words(part if isinstance(part, Counts) else count(part))
            if part.randomizer.schema.words
            else part
            for part in parts
        ]
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
        if self.schema.shuffled_promise:
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
