"""Atoms of a column: the coarsest partition of its values that refines every alphabet of a report.

Several releases may code a column differently, and one release may ask it in several alphabets. Two
values of one atom have the same code in each of them, so no report tells them apart; two atoms differ
in some. Of a column with one alphabet, atoms are its codes.

Numbers and dates of an atom are an interval, or a point: what all its codes have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

import numpy as np
import pyarrow as pa

from privot.schema import Array, CodedColumn
from privot.schema.columns.alphabet import Alphabet, Bins, Codes
from privot.schema.columns.within_cells import LineCells


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
