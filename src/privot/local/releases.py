"""Releases that are fitted together, from a campaign that changed its randomizer.

Bins, categories, ε, mechanisms and the number of reported columns may change, and columns may be added.
Each report has the likelihood of the randomizer that drew it. The model has the newest schema.

**Guarantees.** Each person has the guarantee of the randomizer with which they reported; the weakest of
these holds for everybody. A person who reported with two randomizers has spent both budgets, which
cannot be detected here: a campaign must survey new people after the change, or state the sum.

**Assumption**: the people of all releases are samples of one population. If it changes between the
releases, the model is a mixture of both populations.

**Atoms** of a column are the coarsest partition of its values that refines every alphabet in which it is
reported. Releases may code a column differently, and one release may report it in several alphabets. Two
values in the same atom have the same code in every alphabet, so no report distinguishes them. If a
column has one alphabet, its atoms are the codes. An atom of a number or date is an interval or a point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self, cast

import numpy as np
import pyarrow as pa

from privot.core.errors import PrivotError
from privot.randomizer import Counts, Randomizer, Release, count
from privot.randomizer.reports.counts import grid_form, require_disjoint
from privot.schema import Schema
from privot.schema.columns.alphabet import Alphabet, Bins, Codes
from privot.schema.columns.column import CodedColumn
from privot.schema.columns.vector import LineCells
from privot.schema.domains import Array

Reports = Release | Counts


class Coding(NamedTuple):
    """Codes of a column's atoms in one alphabet."""

    codes: Codes  # codes of the atoms (a,)
    size: int  # number of codes


class ReportedColumn(NamedTuple):
    """Column as one release reports it."""

    column: CodedColumn  # as the release's schema declares it
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
        """Codes (alphabets, a) of the atoms of these alphabets alone."""
        return self.column.atoms[1] if self.jointly else np.arange(self.column.alphabet.size)[None]

    def codings(self, codes: Codes) -> tuple[Coding, ...]:
        """Return the coding in each alphabet of atoms with these codes (alphabets, a)."""
        sizes = [alphabet.size for alphabet in self.alphabets]
        return tuple(map(Coding, codes, sizes))


@dataclass(frozen=True, eq=False)
class Atoms:
    """Atoms of one column."""

    codings: tuple[tuple[Coding, ...], ...]  # those of each release; empty if it has no such column
    codes: Codes  # code of each atom in the newest schema (a,)
    cells: LineCells | None = None  # intervals and points of the atoms of a number or date

    @classmethod
    def of(cls, name: str, by_release: Sequence[ReportedColumn | None]) -> Self:
        """Find the atoms of a column, given how each release reports it; the newest is the last."""
        reported = [each for each in by_release if each is not None]
        newest = reported[-1].column
        newest_codes, codes_by_release = _distinct_codes(name, reported)
        cells = None
        if newest.is_number:
            alphabets = [alphabet for each in reported for alphabet in each.alphabets]
            bins = cast("list[Bins]", [*alphabets, newest.alphabet])
            cells = _intersect(bins, np.concatenate([*codes_by_release, newest_codes[None]]))
        remaining = iter(codes_by_release)  # of the releases that report the column
        codings = (() if each is None else each.codings(next(remaining)) for each in by_release)
        return cls(tuple(codings), newest_codes, cells)

    @property
    def size(self) -> int:
        """Number of atoms."""
        return len(self.codes)


def _distinct_codes(name: str, reported: Sequence[ReportedColumn]) -> tuple[Codes, list[Codes]]:
    """Find the codes of the atoms in the newest alphabet (a,), and in each release (alphabets, a)."""
    if len(reported) == 1:
        codes = reported[0].atoms
        return codes[0], [codes]  # the first alphabet is the schema's
    newest = reported[-1].column
    values = pa.table(newest.common_values(name, [each.column for each in reported[:-1]]))
    # Atoms are the distinct columns of codes, sorted by the newest codes, then by the newest release's.
    newest_first = [each.encode(name, values) for each in reported[::-1]]
    codes = np.concatenate([newest.encode_codes(name, values)[None], *newest_first])
    starts = np.cumsum([1, *map(len, newest_first[:-1])])
    (newest_codes,), *newest_first = np.split(np.unique(codes, axis=1), starts)
    return newest_codes, newest_first[::-1]


def _intersect(alphabets: Sequence[Bins], codes: Codes) -> LineCells:
    """Intersect the intervals of codes (alphabets, atoms), clipped to the bounds of the last alphabet.

    Outer bins are unbounded, because they contain the values beyond the bounds. Atoms beyond the bounds
    of the last alphabet become points at a bound, to which it projects their values.
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
    """Return the low and high ends (codes,) of all codes; equal for spikes, NaN for missing values."""
    edges = np.array(bins.edges)
    edges[[0, -1]] = -np.inf, np.inf
    points = [*bins.spikes, *[np.nan] * bins.nullable]
    return np.append(edges[:-1], points), np.append(edges[1:], points)


@dataclass(frozen=True, eq=False)
class Releases:
    """One or more releases, or counts of releases, that are fitted together, the newest last."""

    # Every column of an earlier one is in the newest, of the same kind.
    parts: tuple[Reports, ...]

    def __post_init__(self) -> None:
        for number, part in enumerate(self.parts[:-1], start=1):
            _require_comparable(number, part.schema, self.schema)

    @classmethod
    def of(cls, given: Reports | Sequence[Reports]) -> Self:
        """Validate one release or a list of releases, or their counts.

        Raises:
            PrivotError: if something else is given, or releases cannot be combined.
        """
        parts = given if isinstance(given, list | tuple) else (given,)
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
        """The last release, whose schema the model has."""
        return self.parts[-1]

    @cached_property
    def counts(self) -> tuple[Counts, ...]:
        """Counts of the releases, all that maps and tables are fitted to.

        Raises:
            PrivotError: if reports cannot be counted, or releases share some.
        """
        counts = tuple(part if isinstance(part, Counts) else count(part) for part in self.parts)
        if len(counts) > 1:
            require_disjoint(counts)
        return counts

    @property
    def schema(self) -> Schema:
        """Schema of the newest release."""
        return self.newest.randomizer.schema

    @property
    def randomizers(self) -> tuple[Randomizer, ...]:
        """Randomizers of the releases, the newest last."""
        return tuple(part.randomizer for part in self.parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def all_coded(self) -> bool:
        """True if every column is reported as a code, so that counts of reports are sufficient."""
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
        """Return the only release; raise an error if there are several, for the named estimator."""
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
        return self.newest

    @cached_property
    def atoms(self) -> dict[str, Atoms]:
        """Atoms of each coded column of the newest release."""
        return {
            name: Atoms.of(name, [_reported_column(each, name) for each in self.randomizers])
            for name in self.schema.coded
        }


def _require_comparable(number: int, schema: Schema, newest: Schema) -> None:
    """Raise an error if the records or columns of an earlier release are not those of the newest."""
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
