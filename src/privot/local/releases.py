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
from itertools import combinations
from typing import NamedTuple, Self, cast

import numpy as np
import pyarrow as pa

from privot.core.errors import PrivotError
from privot.local.grid_channels import serves_grid
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import shared_ids
from privot.schema import Schema
from privot.schema.columns.alphabet import Alphabet, Bins, Codes
from privot.schema.columns.column import CodedColumn
from privot.schema.columns.vector import LineCells
from privot.schema.domains import Array


class Coding(NamedTuple):
    """Codes of a column's atoms in one alphabet."""

    codes: Codes  # codes of the atoms (a,)
    size: int  # number of codes


class ReportedColumn(NamedTuple):
    """Column as one release reports it."""

    column: CodedColumn  # as the release's schema declares it
    jointly: bool  # True in a joint report, which uses all codings; otherwise one alphabet is used

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


@dataclass(frozen=True, eq=False)
class Atoms:
    """Atoms of one column.

    Arguments:
        codings: For each release, the codings in which it reports the column; empty if it does not.
        codes: Code of each atom in the newest schema (a,).
        cells: Intervals and points of the atoms of a number or date.
    """

    codings: tuple[tuple[Coding, ...], ...]
    codes: Codes
    cells: LineCells | None = None

    @classmethod
    def of(cls, name: str, by_release: Sequence[ReportedColumn | None]) -> Self:
        """Find the atoms of a column, given how each release reports it; the newest is the last."""
        reported = [each for each in by_release if each is not None]
        newest = reported[-1].column
        alphabets = [alphabet for each in reported for alphabet in each.alphabets]
        if len(reported) == 1:
            codes = reported[0].atoms
            codes = np.concatenate([codes, codes[:1]])  # its own alphabet is the first
        else:
            # Atoms are the distinct columns of codes, sorted by the newest release's codes first.
            values = newest.common_values(name, [each.column for each in reported[:-1]])
            parts = [each.encode(name, pa.table(values)) for each in reported[::-1]]
            newest_codes = newest.encode_codes(name, pa.table(values))[None]
            codes = np.unique(np.concatenate([newest_codes, *parts]), axis=1)
            # The rows go back to the order of the releases, the codes of the newest schema last.
            ends = np.cumsum([1, *map(len, parts)])
            codes = np.concatenate([*np.split(codes, ends[:-1])[:0:-1], codes[:1]])
        cells = None
        if newest.is_number:
            alphabets += [newest.alphabet] * (len(codes) - len(alphabets))
            cells = _cells(cast("list[Bins]", alphabets), codes)
        codings, row = list[tuple[Coding, ...]](), 0
        for each in by_release:
            sizes = [] if each is None else [alphabet.size for alphabet in each.alphabets]
            codings.append(tuple(Coding(codes[row + i], size) for i, size in enumerate(sizes)))
            row += len(sizes)
        return cls(tuple(codings), codes[-1], cells)

    @property
    def size(self) -> int:
        """Number of atoms."""
        return len(self.codes)


def _cells(alphabets: Sequence[Bins], codes: Codes) -> LineCells:
    """Intersect the intervals of codes (alphabets, atoms), clipped to the bounds of the last alphabet.

    Outer bins are unbounded, because they contain the values beyond the bounds. Atoms beyond the bounds
    of the last alphabet become points at a bound, to which it projects their values.
    """
    low, high = np.full(codes.shape[1], -np.inf), np.full(codes.shape[1], np.inf)
    for bins, bin_codes in zip(alphabets, codes, strict=True):
        below, above = _ends(bins)
        low, high = np.maximum(low, below[bin_codes]), np.minimum(high, above[bin_codes])
    newest = alphabets[-1]
    first, last = newest.edges[0], newest.edges[-1]
    single = low == high
    low, high = np.clip(low, first, last), np.clip(high, first, last)
    if newest.integer:
        low = np.minimum(low, last - 1)
        high = np.where(single, low, np.maximum(high, low + 1))
    return LineCells(low, high, newest.integer)


def _ends(bins: Bins) -> tuple[Array, Array]:
    """Return the low and high ends (codes,) of all codes; equal for spikes, NaN for missing values."""
    edges = np.array(bins.edges)
    edges[[0, -1]] = -np.inf, np.inf
    points = [*bins.spikes, *[np.nan] * bins.nullable]
    return np.append(edges[:-1], points), np.append(edges[1:], points)


@dataclass(frozen=True, eq=False)
class Releases:
    """Releases that are fitted together, the newest last.

    Arguments:
        parts: One or more releases; every column of an earlier one is in the newest, of the same kind.
    """

    parts: tuple[Release, ...]

    def __post_init__(self) -> None:
        for number, part in enumerate(self.parts[:-1], start=1):
            _require_comparable(number, part.schema, self.newest.schema)

    @classmethod
    def of(cls, given: Release | Sequence[Release]) -> Self:
        """Validate one release or a list of releases.

        Raises:
            PrivotError: if something else is given, or releases share reports or cannot be combined.
        """
        parts = given if isinstance(given, list | tuple) else (given,)
        for part in parts or [None]:
            if not isinstance(part, Release):
                raise PrivotError(
                    f"release is a {type(part).__name__}: privatize records on the device first, by "
                    "`privot privatize TABLE -r randomizer.json` or Randomizer.privatize, and give what "
                    "Release.load reads"
                )
        _require_distinct(parts)
        return cls(tuple(parts))

    @property
    def newest(self) -> Release:
        """The last release, whose schema the model has."""
        return self.parts[-1]

    @property
    def schema(self) -> Schema:
        """Schema of the newest release."""
        return self.parts[-1].randomizer.schema

    @property
    def randomizers(self) -> tuple[Randomizer, ...]:
        """Randomizers of the releases, the newest last."""
        return tuple(part.randomizer for part in self.parts)

    def __len__(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    @property
    def all_coded(self) -> bool:
        """True if every column is reported as a code, so that counts of reports are sufficient."""
        return all(
            mechanism.form(each.schema.columns[name]).learns_codes
            for each in self.randomizers
            for name, mechanism in each.mechanisms.items()
        ) and all(each.candidates is None for each in self.randomizers)

    @property
    def best_estimator(self) -> str:
        """Name of the estimator that `"auto"` chooses for these reports."""
        if self.newest.randomizer.candidates is not None:
            return "gaussian_classes"
        if len(self.newest.schema.columns) == 1 and all(map(serves_grid, self.randomizers)):
            return "grid"
        return "latent_classes" if self.all_coded else "generator"

    def only(self, estimator: str) -> Release:
        """Return the only release; raise an error if there are several, for the named estimator."""
        if len(self.parts) > 1:
            raise PrivotError(
                f"estimator {estimator!r} learns from one release, {len(self.parts)} are given: tables "
                "of codes and single columns of few coordinates are fitted together"
            )
        return self.newest

    @cached_property
    def atoms(self) -> dict[str, Atoms]:
        """Atoms of each coded column of the newest release."""
        return {
            name: Atoms.of(name, [reported_column(each, name) for each in self.randomizers])
            for name in self.schema.coded
        }


def _require_comparable(number: int, schema: Schema, newest: Schema) -> None:
    """Refuse an earlier release with other records, or columns, than the newest one's."""
    if schema.unit != newest.unit:
        raise PrivotError(
            f"release {number} has one record per {schema.unit}, the last one per "
            f"{newest.unit}: fit them apart"
        )
    for name, column in schema.columns.items():
        now = newest.columns.get(name)
        if now is None:
            raise PrivotError(
                f"column {name!r} of release {number} is not in the last one: give the newest "
                "release last, or fit them apart"
            )
        if (column.kind, column.nullable) != (now.kind, now.nullable):
            raise PrivotError(
                f"column {name!r} is another kind in release {number}, or may be missing in one "
                "of them only: fit them apart"
            )


def _require_distinct(parts: Sequence[Release]) -> None:
    """Raise an error if releases share reports, which would count twice.

    Reports are compared by their public ids of 128 random bits (`privot.randomizer.reports.rows`), which
    agree by chance with probability below n²/2^129.
    """
    ids = [part.rows.id_words() for part in parts] if len(parts) > 1 else []
    for (first, earlier), (second, later) in combinations(enumerate(ids, start=1), 2):
        shared = shared_ids(earlier, later)
        if shared:
            raise PrivotError(
                f"releases {first} and {second} ({parts[first - 1].rows.source}, "
                f"{parts[second - 1].rows.source}) share {shared:,} reports, by their ids: give each "
                "report once, or collect them into one release by `privot collect`"
            )


def reported_column(randomizer: Randomizer, name: str) -> ReportedColumn | None:
    """Return a column as a randomizer reports it; None if the randomizer does not report it."""
    column = randomizer.schema.coded.get(name)
    return None if column is None else ReportedColumn(column, randomizer.joint is not None)
