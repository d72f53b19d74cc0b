"""Releases that are fitted together: a campaign that moved to another randomizer, and its earlier ones.

Bins, categories, ε, the mechanism or the number of columns may change, and a column may come in; each
report keeps the likelihood of the randomizer that drew it. What is learned is in terms of the newest
schema.

**Who was promised what.** Each person has the guarantee of the randomizer that they reported by; all of
them have the weakest. Whoever reported by two of them has spent both, and nobody can tell that from
here: a campaign that moves asks new people, or says that the sum is spent.

**What is assumed**: that people of all releases are drawn alike. A population that changes between two
campaigns is learned as their mixture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple, Self, cast

import numpy as np
import pyarrow as pa

from privot.core.errors import PrivotError
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import shared_ids
from privot.schema.columns.alphabet import Alphabet, Bins, Codes
from privot.schema.columns.column import CodedColumn
from privot.schema.columns.vector import LineCells
from privot.schema.domains import Array

# Atoms of a column: the coarsest partition of its values that refines every alphabet of a report.
#
# Several releases may code a column differently, and one release may ask it in several alphabets. Two
# values of one atom have the same code in each of them, so no report tells them apart; two atoms
# differ in some. Of a column with one alphabet, atoms are its codes.
#
# Numbers and dates of an atom are an interval, or a point: what all its codes have in common.


class Coding(NamedTuple):
    """An alphabet in which a column is reported.

    Arguments:
        codes: Of the atoms (a,).
        size: Number of codes.
    """

    codes: Codes
    size: int


class Asked(NamedTuple):
    """How a release asks a column.

    Arguments:
        column: As its schema declares it.
        jointly: Whether with others, in all its codings; else in its own alphabet.
    """

    column: CodedColumn
    jointly: bool

    @property
    def alphabets(self) -> tuple[Alphabet, ...]:
        """Those that reports are in."""
        return self.column.codings if self.jointly else (self.column.alphabet,)

    def encode(self, name: str, table: pa.Table) -> Codes:
        """Raw values as codes (alphabets, n)."""
        if self.jointly:
            return self.column.encode_codings(name, table)
        return self.column.encode_codes(name, table)[None]


@dataclass(frozen=True, eq=False)
class Atoms:
    """Of one column.

    Arguments:
        asked: By release, every alphabet that it asks the column in; none of one that does not.
        codes: What the newest schema calls them (a,).
        cells: Of numbers and dates, where atoms are on the line.
    """

    asked: tuple[tuple[Coding, ...], ...]
    codes: Codes
    cells: LineCells | None = None

    @classmethod
    def of(cls, name: str, asked: Sequence[Asked | None]) -> Self:
        """Of a column, as each release asks it; the newest is the last."""
        held = [each for each in asked if each is not None]
        newest = held[-1].column
        alphabets = [alphabet for each in held for alphabet in each.alphabets]
        if len(alphabets) == 1:
            codes = np.arange(newest.alphabet.size)[None]
        else:
            values = newest.common_values(name, [each.column for each in held[:-1]])
            told = [each.encode(name, pa.table(values)) for each in held]
            own = newest.encode_codes(name, pa.table(values))[None]
            codes = np.unique(np.concatenate([own, *told[::-1]]), axis=1)
            ends = np.cumsum([1, *(len(part) for part in told[::-1])])
            codes = np.concatenate([*np.split(codes, ends[:-1])[:0:-1], codes[:1]])
        found = iter(codes)
        by_release = tuple(
            ()
            if each is None
            else tuple(Coding(next(found), alphabet.size) for alphabet in each.alphabets)
            for each in asked
        )
        cells = None
        if newest.is_number:
            alphabets += [newest.alphabet] * (len(codes) - len(alphabets))
            cells = _cells(cast("list[Bins]", alphabets), codes)
        return cls(by_release, codes[-1], cells)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.codes)


def _cells(alphabets: Sequence[Bins], codes: Codes) -> LineCells:
    """What codes (alphabets, atoms) have in common, within the bounds of the last alphabet.

    Values beyond the bounds are in an outer bin, so these have no end; atoms that lie beyond the last
    one's bounds are where it puts their values, at a bound.
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
    """Both ends of every code; a spike's are equal, a missing value has none."""
    edges = np.array(bins.edges)
    edges[[0, -1]] = -np.inf, np.inf
    points = [*bins.spikes, *[np.nan] * bins.nullable]
    return np.append(edges[:-1], points), np.append(edges[1:], points)


@dataclass(frozen=True, eq=False)
class Releases:
    """Some releases, of which the newest is the last.

    Arguments:
        parts: One or more; every column of an earlier one is one of the newest, of the same kind.
    """

    parts: tuple[Release, ...]

    def __post_init__(self) -> None:
        newest = self.newest.schema
        for number, part in enumerate(self.parts[:-1], start=1):
            if part.schema.unit != newest.unit:
                raise PrivotError(
                    f"release {number} has one record per {part.schema.unit}, the last one per "
                    f"{newest.unit}: fit them apart"
                )
            for name, column in part.schema.columns.items():
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

    @classmethod
    def of(cls, given: Release | Sequence[Release]) -> Self:
        """One release, or several; refused is whatever is none."""
        parts = (
            (given,)
            if isinstance(given, Release) or not isinstance(given, (list, tuple))
            else given
        )
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
        """The one whose schema the model has."""
        return self.parts[-1]

    @property
    def randomizers(self) -> tuple[Randomizer, ...]:
        """Of each, the newest last."""
        return tuple(part.randomizer for part in self.parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def all_coded(self) -> bool:
        """Whether every column is reported as a code, so that counts of reports say all there is."""
        return all(
            mechanism.form(each.schema.columns[name]).learns_codes
            for each in self.randomizers
            for name, mechanism in each.mechanisms.items()
        ) and all(each.candidates is None for each in self.randomizers)

    def only(self, estimator: str) -> Release:
        """The release, where there is one; an estimator that serves no more refuses others."""
        if len(self.parts) > 1:
            raise PrivotError(
                f"estimator {estimator!r} learns from one release, {len(self.parts)} are given: tables "
                "of codes and single columns of few coordinates are fitted together"
            )
        return self.newest

    def promises(self) -> dict[str, Any]:
        """Of several, what each one's people were promised, and how many reported; nothing of one."""
        told = [{"guarantee": str(part.guarantee), "reports": len(part)} for part in self.parts]
        return {"promises": told} if len(told) > 1 else {}

    @cached_property
    def atoms(self) -> dict[str, Atoms]:
        """Of each coded column of the newest, what some report tells apart."""
        return {
            name: Atoms.of(name, [how_asked(part, name) for part in self.parts])
            for name in self.newest.schema.coded
        }


def _require_distinct(parts: Sequence[Release]) -> None:
    """Refuse releases that share reports, by their ids: whoever counts twice has reported twice.

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


def how_asked(part: Release, name: str) -> Asked | None:
    """How a release asks a column; None where it does not."""
    column = part.schema.coded.get(name)
    return None if column is None else Asked(column, part.randomizer.joint is not None)
