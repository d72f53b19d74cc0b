"""Releases that are fitted together: a campaign that moved to another randomizer, and its earlier ones.

Bins, categories, ε, the mechanism or the number of columns may change, and columns may be added; each
report has the likelihood of the randomizer that drew it. The model is in terms of the newest schema.

**Guarantees.** Each person has the guarantee of the randomizer that they reported by; all of them have
the weakest. Whoever reported by two of them has spent both, which cannot be detected here: a campaign
that moves samples new people, or states that the sum is spent.

**Assumption**: people of all releases are drawn from one population. A population that changes between
two campaigns is learned as a mixture of both.

**Atoms** of a column are the coarsest partition of its values that refines every alphabet in which it is
reported. Several releases may code a column differently, and one release may report it in several
alphabets. Two values of one atom have the same code in each of them, so no report distinguishes them;
two atoms differ in some. Atoms of a column with one alphabet are its codes. An atom of a number or date
is an interval or a point: the intersection of its codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, Self, cast

import numpy as np
import pyarrow as pa

from privot.core.errors import PrivotError
from privot.local.grid.channels import serves_grid
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import shared_ids
from privot.schema import Schema
from privot.schema.columns.alphabet import Alphabet, Bins, Codes
from privot.schema.columns.column import CodedColumn
from privot.schema.columns.vector import LineCells
from privot.schema.domains import Array


class Coding(NamedTuple):
    """An alphabet in which a column is reported."""

    codes: Codes  # codes of the atoms (a,)
    size: int  # number of codes


class ReportedColumn(NamedTuple):
    """A column as one release reports it."""

    column: CodedColumn  # as the release's schema declares it
    jointly: bool  # reported with others, in all its codings; otherwise in its own alphabet

    @property
    def alphabets(self) -> tuple[Alphabet, ...]:
        """Alphabets of its reports."""
        return self.column.codings if self.jointly else (self.column.alphabet,)

    def encode(self, name: str, table: pa.Table) -> Codes:
        """Encode raw values as codes (alphabets, n)."""
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
        codings: By release, every alphabet in which it reports the column; none if it does not.
        codes: Codes in the newest schema (a,).
        cells: Intervals and points of numbers and dates.
    """

    codings: tuple[tuple[Coding, ...], ...]
    codes: Codes
    cells: LineCells | None = None

    @classmethod
    def of(cls, name: str, by_release: Sequence[ReportedColumn | None]) -> Self:
        """Find the atoms of a column as each release reports it; the newest is the last."""
        reported = [each for each in by_release if each is not None]
        newest = reported[-1].column
        alphabets = [alphabet for each in reported for alphabet in each.alphabets]
        if len(reported) == 1:
            codes = reported[0].atoms
            codes = np.concatenate([codes, codes[:1]])  # its own alphabet is the first
        else:
            values = newest.common_values(name, [each.column for each in reported[:-1]])
            parts = [each.encode(name, pa.table(values)) for each in reported[::-1]]
            own = newest.encode_codes(name, pa.table(values))[None]
            codes = np.unique(np.concatenate([own, *parts]), axis=1)
            ends = np.cumsum([1, *map(len, parts)])
            codes = np.concatenate([*np.split(codes, ends[:-1])[:0:-1], codes[:1]])
        cells = None
        if newest.is_number:
            alphabets += [newest.alphabet] * (len(codes) - len(alphabets))
            cells = _cells(cast("list[Bins]", alphabets), codes)
        found = iter(codes)
        codings = tuple(
            ()
            if each is None
            else tuple(Coding(next(found), alphabet.size) for alphabet in each.alphabets)
            for each in by_release
        )
        return cls(codings, codes[-1], cells)

    @property
    def size(self) -> int:
        """Number of atoms."""
        return len(self.codes)


def _cells(alphabets: Sequence[Bins], codes: Codes) -> LineCells:
    """Intersect the cells of codes (alphabets, atoms), within the bounds of the last alphabet.

    Values beyond the bounds are in an outer bin, so these are unbounded; atoms beyond the last
    alphabet's bounds are at a bound, where it projects their values.
    """
    low, high = np.full(codes.shape[1], -np.inf), np.full(codes.shape[1], np.inf)
    for bins, own in zip(alphabets, codes, strict=True):
        below, above = _ends(bins)
        low, high = np.maximum(low, below[own]), np.minimum(high, above[own])
    newest = alphabets[-1]
    first, last = newest.edges[0], newest.edges[-1]
    single = low == high
    low, high = np.clip(low, first, last), np.clip(high, first, last)
    if newest.integer:
        low = np.minimum(low, last - 1)
        high = np.where(single, low, np.maximum(high, low + 1))
    return LineCells(low, high, newest.integer)


def _ends(bins: Bins) -> tuple[Array, Array]:
    """Return both ends of every code; a spike's are equal, a missing value's are NaN."""
    edges = np.array(bins.edges)
    edges[[0, -1]] = -np.inf, np.inf
    points = [*bins.spikes, *[np.nan] * bins.nullable]
    return np.append(edges[:-1], points), np.append(edges[1:], points)


@dataclass(frozen=True, eq=False)
class Releases:
    """Releases that are fitted together, the newest last.

    Arguments:
        parts: One or more; every column of an earlier one is in the newest, of the same kind.
    """

    parts: tuple[Release, ...]

    def __post_init__(self) -> None:
        for number, part in enumerate(self.parts[:-1], start=1):
            _require_comparable(number, part.schema, self.newest.schema)

    @classmethod
    def of(cls, given: Release | Sequence[Release]) -> Self:
        """Validate one release, or several."""
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
        """Say whether every column is reported as a code, so that counts of reports are sufficient."""
        return all(
            mechanism.form(each.schema.columns[name]).learns_codes
            for each in self.randomizers
            for name, mechanism in each.mechanisms.items()
        ) and all(each.candidates is None for each in self.randomizers)

    @property
    def best_estimator(self) -> str:
        """Estimator for these reports, as `FitSettings` names it."""
        if self.newest.randomizer.candidates is not None:
            return "gaussian_classes"
        if len(self.newest.schema.columns) == 1 and all(map(serves_grid, self.randomizers)):
            return "grid"
        return "latent_classes" if self.all_coded else "generator"

    def only(self, estimator: str) -> Release:
        """Return the only release, or refuse several, for an estimator that takes one."""
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
    """Refuse releases that share reports, by their ids: they would count twice.

    Ids are 128 random bits (`privot.randomizer.reports.rows`), public beside each report: two agree
    if, and but for a chance below n²/2^129 only if, one report is in both.
    """
    known = [part.rows.id_words() for part in parts] if len(parts) > 1 else []
    for (first, earlier), (second, later) in combinations(enumerate(known, start=1), 2):
        if shared := shared_ids(earlier, later):
            raise PrivotError(
                f"releases {first} and {second} ({parts[first - 1].rows.source}, "
                f"{parts[second - 1].rows.source}) share {shared:,} reports, by their ids: give each "
                "report once, or collect them into one release by `privot collect`"
            )


def reported_column(randomizer: Randomizer, name: str) -> ReportedColumn | None:
    """Return a column as a randomizer reports it; None if it does not."""
    column = randomizer.schema.coded.get(name)
    return None if column is None else ReportedColumn(column, randomizer.joint is not None)
