"""Alphabets: the finite list of values that a column of a table is reported in.

A joint report names *cells*, so every column of a table needs finitely many codes $0 … K−1$:

- categories are their own codes, with an optional last resort for what is not listed (`other`);
- numbers and dates fall into **public bins** $[e_i, e_{i+1})$, the last one closed. A value that many
  people share exactly ("40 hours") wants a code of its own, a *spike*: beside a bin's edge it would
  otherwise be smeared over the bin;
- a column that may be missing has one more code, the last.

Bins are declared or follow from the bounds; they are never computed from data. A joint report may ask
numbers in other bins besides (`privot.schema.columns.number`). Within a bin a report
says nothing, so a decoded number is uniform over its bin: over the real numbers of the interval, or
over its integers other than the spikes.

Whoever turns values into codes (`encode`) does so on the device: an alphabet sees raw values, and
keeps nothing of them.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import MOST_CODES, PrivotError
from privot.schema.domains import Array

_ROUNDINGS = 4 * sys.float_info.epsilon
_ALL_DIGITS, _FEWER = 17, 3
_SHARE = 1 / 200


def short_edges(edges: Sequence[float]) -> list[str]:
    """Texts of increasing edges, two at least.

    An edge between bins is written with the fewest digits that are

    - off by what sums round away at most, if these are three digits fewer than another number of its
      size would need: what a person declared comes back as it was written, and `0.6900000000000001` is
      the 0.69 that it was computed for;
    - else off by at most 1/200 of the narrower bin: of $10^{4/3} = 21.54434690031884$ between bins of
      some ten, 21.5 is what one wants to read.

    The bounds are written in full. Either way the texts increase as the edges do. They are labels
    alone: values are coded by the edges.

    >>> short_edges([0.1, 0.6900000000000001, 1.28, 1.87])
    ['0.1', '0.69', '1.28', '1.87']
    >>> short_edges([10.0, 21.54434690031884, 46.41588833612777, 1000.0])
    ['10', '21.5', '46.4', '1000']
    """
    rounded = _ROUNDINGS * max(abs(edges[0]), abs(edges[-1]))
    texts = []
    for below, edge, above in zip(edges, edges[1:], edges[2:], strict=False):
        loose = _SHARE * min(edge - below, above - edge)
        text, digits = _shortest(edge, min(rounded, loose))
        if digits > math.log10(max(abs(edge), rounded) / rounded) - _FEWER:
            text, _ = _shortest(edge, loose)
        texts.append(text)
    return [exact_text(edges[0]), *texts, exact_text(edges[-1])]


def exact_text(number: float) -> str:
    """All digits that a number has, and no more."""
    return _shortest(number, 0.0)[0]


def _shortest(number: float, error: float) -> tuple[str, int]:
    """The fewest digits that are off by at most `error`, and their number; of what may be 0, none."""
    if abs(number) <= error:
        return "0", -_FEWER
    for digits in range(1, _ALL_DIGITS + 1):
        text = f"{number:.{digits}g}"
        if abs(float(text) - number) <= error:
            break
    return f"{float(text):.{max(digits, 15)}g}", digits


Codes = NDArray[np.int64]
Scale = Literal["linear", "log"]

MISSING = "(missing)"
DEFAULT_BINS = 10
# An integer column whose bounds hold no more values than this is reported as it is.
_EVERY_INTEGER = 16


class Alphabet(ABC):
    """A name for every code, the last being that of a missing value where the column is nullable."""

    nullable: bool
    spikes: tuple[float, ...] = ()

    @property
    def centers(self) -> Array | None:
        """The mean decoded number of every code; None of categories, which are no numbers."""
        return None

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """A name for every code."""

    @property
    def size(self) -> int:
        """Number of codes K."""
        return len(self.labels)

    @property
    def missing(self) -> int | None:
        """The code of a missing value."""
        return self.size - 1 if self.nullable else None


@dataclass(frozen=True)
class Categories(Alphabet):
    """Named values, and a code for a missing one where the column is nullable.

    Arguments:
        names: The listed values.
        other: The one among them that stands for everything not listed.
        nullable: Whether a value may be missing.

    Examples:
        >>> Categories(("red", "blue"), nullable=True).size
        3
    """

    names: tuple[str, ...]
    other: str | None = None
    nullable: bool = False

    def __post_init__(self) -> None:
        if self.nullable and MISSING in self.names:
            raise PrivotError(
                f"categories have {MISSING!r}, which is what a missing value is called: rename it"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The names, and one for the missing value."""
        return self.names + (MISSING,) * self.nullable


@dataclass(frozen=True)
class Bins(Alphabet):
    """Bins between `edges`, spikes, and a code for a missing number where the column is nullable.

    Arguments:
        edges: Increasing numbers e_0 < … < e_n. The outer two are the bounds; of integers, the last
            is one more than the largest.
        spikes: Values with a code of their own, increasing.
        integer: Whether the numbers, and hence the edges and spikes, are integers.
        nullable: Whether a number may be missing.

    Examples:
        >>> hours = Bins((1.0, 21.0, 41.0, 100.0), spikes=(40.0,), integer=True)
        >>> hours.labels
        ('1 to 20', '21 to 39', '41 to 99', '40')
        >>> hours.encode(np.array([20.0, 40.0, 41.0, 250.0])).tolist()
        [0, 3, 2, 2]
    """

    edges: tuple[float, ...]
    spikes: tuple[float, ...] = ()
    integer: bool = False
    nullable: bool = False

    def __post_init__(self) -> None:
        if len(self.edges) < 2 or (np.diff(self.edges) <= 0).any():
            raise PrivotError(f"bins {list(self.edges)} do not increase: give edges in order")
        outside = [s for s in self.spikes if not self.edges[0] <= s <= self._largest]
        if outside or sorted(set(self.spikes)) != list(self.spikes):
            raise PrivotError(
                f"spikes {list(self.spikes)} must increase and lie within the bounds: "
                "correct them, or the bounds"
            )
        if self.integer:
            odd = [value for value in (*self.edges, *self.spikes) if value != round(value)]
            if odd:
                raise PrivotError(f"bins or spikes {odd} of an integer column: give integers")
            empty = np.flatnonzero(self._integers <= 0)
            if empty.size:
                low, high = self.edges[empty[0]], self.edges[empty[0] + 1] - 1
                raise PrivotError(
                    f"bins leave no integer from {low:g} to {high:g} beside the spikes: "
                    "give a wider bin, or leave the spike out"
                )

    @property
    def _largest(self) -> float:
        return self.edges[-1] - 1 if self.integer else self.edges[-1]

    @property
    def num_bins(self) -> int:
        """Number of bins; codes from here on are spikes, then the missing value."""
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        """Number of codes K."""
        return self.num_bins + len(self.spikes) + self.nullable

    @cached_property
    def _integers(self) -> NDArray[np.int64]:
        """Number of integers of each bin that are not spikes."""
        taken = np.histogram(np.asarray(self.spikes), bins=self.edges)[0]
        return np.asarray(np.diff(self.edges) - taken).astype(np.int64)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A name for every code."""
        if self.integer:
            return self.labels_by(exact_text)
        bins = [f"[{low}, {high})" for low, high in pairwise(short_edges(self.edges))]
        bins[-1] = bins[-1][:-1] + "]"
        return (*bins, *map(exact_text, self.spikes)) + (MISSING,) * self.nullable

    def labels_by(self, text: Callable[[float], str]) -> tuple[str, ...]:
        """A name for every code of integers, by their names: the first and the last of a bin."""
        bins = []
        for low, high in pairwise(self.edges):
            first, last = low, high - 1
            while first in self.spikes:
                first += 1
            while last in self.spikes:
                last -= 1
            bins.append(text(first) if first == last else f"{text(first)} to {text(last)}")
        return (*bins, *map(text, self.spikes)) + (MISSING,) * self.nullable

    @cached_property
    def centers(self) -> Array:
        """The mean decoded number of every code; NaN for a missing one."""
        middle = (np.asarray(self.edges[:-1]) + np.asarray(self.edges[1:]) - self.integer) / 2
        return np.concatenate([middle, self.spikes, [np.nan] * self.nullable])

    def encode(self, numbers: Array) -> Codes:
        """Codes of numbers, NaN meaning missing; what lies beyond the bounds is in an outer bin.

        Raises:
            PrivotError: for a missing number of a column that is not nullable.
        """
        absent = np.isnan(numbers)
        if absent.any() and not self.nullable:
            raise PrivotError("a number is missing in a column that is not nullable")
        inside = np.clip(np.where(absent, self.edges[0], numbers), self.edges[0], self._largest)
        if self.integer:
            inside = np.rint(inside)
        codes = np.searchsorted(self.edges, inside, side="right") - 1
        codes = np.minimum(codes, self.num_bins - 1)
        for i, spike in enumerate(self.spikes):
            codes[inside == spike] = self.num_bins + i
        codes[absent] = self.size - 1
        return codes.astype(np.int64)

    def decode(self, codes: Codes, rng: np.random.Generator) -> Array:
        """A number for each code, uniform over its bin; NaN where missing."""
        uniform = rng.random(len(codes))
        binned = np.minimum(codes, self.num_bins - 1)
        edges = np.asarray(self.edges)
        if self.integer:
            numbers = edges[binned] + np.floor(uniform * self._integers[binned])
            for spike in self.spikes:
                # Ranks count the integers of the bin without its spikes, which are in order.
                numbers += (edges[binned] <= spike) & (spike <= numbers)
        else:
            numbers = edges[binned] + uniform * (edges[binned + 1] - edges[binned])
        values = np.concatenate([np.zeros(self.num_bins), self.spikes, [np.nan] * self.nullable])
        return np.where(codes < self.num_bins, numbers, values[codes])


def choose_edges(
    low: float,
    high: float,
    integer: bool,
    bins: int | None,
    scale: Scale = "linear",
    shift: float = 0.0,
) -> tuple[float, ...]:
    """Edges of equal bins over the bounds; of integers, each holds as many as another, or one more.

    On a log scale bins are equal in ln(x + shift); of integers, as nearly as each holds one at least.
    Without a number of bins, integers of few values get a bin each, anything else ten.

    Examples:
        >>> choose_edges(0, 3, True, None)
        (0.0, 1.0, 2.0, 3.0, 4.0)
        >>> choose_edges(0, 1, False, 4)
        (0.0, 0.25, 0.5, 0.75, 1.0)
        >>> choose_edges(1, 999, True, 6, "log")
        (1.0, 3.0, 10.0, 32.0, 100.0, 316.0, 1000.0)

    Raises:
        PrivotError: for a number of bins that the bounds do not hold.
    """
    values = int(high) - int(low) + 1
    if bins is None:
        bins = values if integer and values <= _EVERY_INTEGER else DEFAULT_BINS
    most = min(values, MOST_CODES) if integer else MOST_CODES
    if not 1 <= bins <= most:
        raise PrivotError(
            f"bins {bins} do not fit between {low:g} and {high:g}: give a number from 1 to {most}"
        )
    if scale == "log":
        return _log_edges(low, high, integer, bins, shift)
    if integer:
        return tuple(float(int(low) + i * values // bins) for i in range(bins + 1))
    return tuple(float(edge) for edge in np.linspace(low, high, bins + 1))


def _log_edges(
    low: float, high: float, integer: bool, bins: int, shift: float
) -> tuple[float, ...]:
    """Edges of bins that are equal in ln(x + shift); of integers, no two of them the same."""
    edges = np.geomspace(low + shift, high + integer + shift, bins + 1) - shift
    edges[[0, -1]] = low, high + integer  # which roots and powers may miss by a rounding
    if integer:
        place = np.arange(bins + 1)
        rounded = np.maximum.accumulate(np.rint(edges) - place) + place
        edges = np.minimum(rounded, high + 1 - place[::-1])
    return tuple(float(edge) for edge in edges)
