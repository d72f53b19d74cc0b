"""Alphabets: the finitely many codes by which a column of a table is reported.

A joint report names *cells*, so every column of a table needs finitely many codes $0 … K−1$:

- each category has a code, and an optional category (`other`) stands for all unlisted values;
- numbers and dates fall into **public bins** $[e_i, e_{i+1})$, the last one closed. A value that many
  people share exactly ("40 hours") should have a code of its own, a *spike*; otherwise a decoded sample
  spreads it over its bin;
- a column that may be missing has one more code, the last.

Bins are declared or follow from the bounds (`privot.schema.columns.binning`); they are never computed
from data. A report does not distinguish the values of a bin, so a decoded number is uniform over its
bin: over an interval, or over its integers except spikes.

Values are encoded (`encode`) on the device; an alphabet stores no raw value.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.schema.domains import Array

Codes = NDArray[np.int64]

MISSING = "(missing)"


class Alphabet(ABC):
    """Base of alphabets: codes with labels; the last code of a nullable column is the missing value."""

    nullable: bool
    spikes: tuple[float, ...] = ()

    @property
    def centers(self) -> Array | None:
        """Mean decoded number (K,) of every code; None for categories."""
        return None

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """Labels (K,) of all codes."""

    @property
    def size(self) -> int:
        """Number of codes K."""
        return len(self.labels)

    @property
    def missing(self) -> int | None:
        """Code of a missing value; None if the column is not nullable."""
        return self.size - 1 if self.nullable else None


@dataclass(frozen=True)
class Categories(Alphabet):
    """Alphabet of named values, with a code for a missing value if the column is nullable.

    Arguments:
        names: Listed values.
        other: The listed value that stands for all unlisted ones; None if there is none.
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
        """The names, and a label for the missing value."""
        return self.names + (MISSING,) * self.nullable


@dataclass(frozen=True)
class Bins(Alphabet):
    """Alphabet of bins, spikes, and a code for a missing number if the column is nullable.

    Arguments:
        edges: Increasing numbers e_0 < … < e_n. The outer two are the bounds; for integers, the last
            is one more than the largest value.
        spikes: Increasing values that each have their own code.
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
        """Largest number within the bounds."""
        return self.edges[-1] - 1 if self.integer else self.edges[-1]

    @property
    def num_bins(self) -> int:
        """Number of bins, whose codes precede those of the spikes and of the missing value."""
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        """Number of codes K."""
        return self.num_bins + len(self.spikes) + self.nullable

    @cached_property
    def _integers(self) -> NDArray[np.int64]:
        """Number of integers of each bin that are not spikes."""
        num_spikes = np.histogram(np.asarray(self.spikes), bins=self.edges)[0]
        return np.asarray(np.diff(self.edges) - num_spikes).astype(np.int64)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels (K,) of all codes."""
        if self.integer:
            return self.labels_by(exact_text)
        bins = [f"[{low}, {high})" for low, high in pairwise(short_edges(self.edges))]
        bins[-1] = bins[-1][:-1] + "]"
        return (*bins, *map(exact_text, self.spikes)) + (MISSING,) * self.nullable

    def labels_by(self, text: Callable[[float], str]) -> tuple[str, ...]:
        """Return labels (K,) of bins of integers, by `text` of the first and last integer of a bin."""
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
        """Mean decoded number (K,) of every code; NaN for the missing value."""
        middle = (np.asarray(self.edges[:-1]) + np.asarray(self.edges[1:]) - self.integer) / 2
        return np.concatenate([middle, self.spikes, [np.nan] * self.nullable])

    def encode(self, numbers: Array) -> Codes:
        """Return the codes (n,) of numbers (n,), clipped to the bounds; NaN is missing.

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
        """Return numbers (n,), uniform over the bins of codes (n,); NaN if missing."""
        uniform = rng.random(len(codes))
        binned = np.minimum(codes, self.num_bins - 1)
        edges = np.asarray(self.edges)
        if self.integer:
            numbers = edges[binned] + np.floor(uniform * self._integers[binned])
            for spike in self.spikes:
                # So far `numbers` count the integers that are no spikes: step over each spike in turn.
                numbers += (edges[binned] <= spike) & (spike <= numbers)
        else:
            numbers = edges[binned] + uniform * (edges[binned + 1] - edges[binned])
        values = np.concatenate([np.zeros(self.num_bins), self.spikes, [np.nan] * self.nullable])
        return np.where(codes < self.num_bins, numbers, values[codes])


_SUM_ERROR = 4 * sys.float_info.epsilon  # relative rounding error of a sum
_ALL_DIGITS, _SAVED_DIGITS = 17, 3
_LABEL_ERROR = 1 / 200  # of the width of the narrower bin


def short_edges(edges: Sequence[float]) -> list[str]:
    """Return short texts for two or more increasing edges.

    An edge between bins is written with the fewest digits that are

    - within the rounding error of a sum, if these are at least three digits fewer than its exact text
      has: an edge computed as `0.6900000000000001` is written as 0.69, as it was declared;
    - else within 1/200 of the narrower bin: $10^{4/3} = 21.54434690031884$ is written as 21.5.

    The bounds are written in full. The texts increase as the edges do. They are labels: edges code the
    values.

    >>> short_edges([0.1, 0.6900000000000001, 1.28, 1.87])
    ['0.1', '0.69', '1.28', '1.87']
    >>> short_edges([10.0, 21.54434690031884, 46.41588833612777, 1000.0])
    ['10', '21.5', '46.4', '1000']
    """
    rounding = _SUM_ERROR * max(abs(edges[0]), abs(edges[-1]))
    texts = []
    for below, edge, above in zip(edges, edges[1:], edges[2:], strict=False):
        tolerance = _LABEL_ERROR * min(edge - below, above - edge)
        text, digits = _shortest(edge, min(rounding, tolerance))
        exact_digits = math.log10(max(abs(edge), rounding) / rounding)
        if digits > exact_digits - _SAVED_DIGITS:
            text, _ = _shortest(edge, tolerance)
        texts.append(text)
    return [exact_text(edges[0]), *texts, exact_text(edges[-1])]


def exact_text(number: float) -> str:
    """Return the shortest text that is read back as exactly this number."""
    return _shortest(number, 0.0)[0]


def _shortest(number: float, error: float) -> tuple[str, int]:
    """Return (text, digits) of the number within `error` of `number` that has the fewest digits."""
    if abs(number) <= error:
        return "0", 1
    for digits in range(1, _ALL_DIGITS + 1):
        rounded = float(f"{number:.{digits}g}")
        if abs(rounded - number) <= error:
            break
    return f"{rounded:.{max(digits, 15)}g}", digits  # 15 digits, lest 1200 be written as 1.2e+03
