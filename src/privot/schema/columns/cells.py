r"""Cells of a place: how a vector of few coordinates is one code, beside the other columns of a table.

The box around the unit domain, $[−1, 1]^d$, is cut into $b^d$ equal cells, of which those that meet the
domain are numbered in C order; a vector that may be missing has one more code, the last. Bins are
declared or follow from d; they are never computed from data. Within a cell a report says nothing, so
decoded vectors are drawn by a density that goes on smoothly from cell to cell, as many in each as there
were, in what of it lies in the domain (`privot.schema.columns.within_cells`).

Whoever turns vectors into codes does so on the device: cells see raw values, and keep nothing of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privot.errors import MOST_CODES, PrivotError
from privot.schema.columns.alphabet import MISSING, Alphabet, Codes
from privot.schema.columns.within_cells import draw_ends, draw_within
from privot.schema.domains.domain import Array, Domain, from_unit

# Bins along each axis, by the dimension: some 200 cells.
DEFAULT_BINS = {2: 16, 3: 6}
_TRIES = 64
_ROUNDING = 1e-9
# Cells are shrunk by so much of their side, and points outside those that are left, towards 0 by more:
# a cell that only touches the domain has no code.
_SLIVER, _PULL = 1e-6, 1e-5


@dataclass(frozen=True)
class Cells(Alphabet):
    """Cells of a domain of two or three coordinates.

    Arguments:
        domain: Of the vectors, in the column's own units.
        bins: Number of bins along each axis; by default 16 in the plane, 6 in space.
        nullable: Whether a vector may be missing.

    Examples:
        >>> from privot.schema import Box
        >>> cells = Cells(Box((0.0, 0.0), (1.0, 3.0)), bins=2)
        >>> cells.labels
        ('[0, 0.5] x [0, 1.5]', '[0, 0.5] x [1.5, 3]', '[0.5, 1] x [0, 1.5]', '[0.5, 1] x [1.5, 3]')
        >>> cells.encode(np.array([[-1.0, 1.0], [0.2, 0.2]])).tolist()
        [1, 3]
    """

    domain: Domain
    bins: int | None = None
    nullable: bool = False

    def __post_init__(self) -> None:
        d = self.domain.dimension
        most = math.floor(MOST_CODES ** (1 / d) + _ROUNDING)
        if self.bins is not None and not 2 <= self.bins <= most:
            raise PrivotError(
                f"bins {self.bins} cannot be, along each of {d} coordinates: give a whole number "
                f"from 2 to {most}"
            )

    @property
    def side(self) -> int:
        """Number of bins along each axis."""
        return self.bins or DEFAULT_BINS[self.domain.dimension]

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Bins (K, d) of every cell that meets the domain."""
        d, unit = self.domain.dimension, self.domain.unit
        places = np.indices((self.side,) * d).reshape(d, -1).T
        # A cell meets a box, a ball about 0, or its positive part, if its point nearest to 0 does.
        nearest = self._nearest(self._corners(places))
        reach = np.abs(unit.project(nearest) - nearest).max(axis=1)
        return np.asarray(places[reach <= _ROUNDING])

    def _nearest(self, low: Array) -> Array:
        """The points of cells from `low` on that are nearest to 0."""
        width = 2 / self.side
        return np.clip(0.0, low + _SLIVER * width, low + (1 - _SLIVER) * width)

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """The code of every place, in C order; −1 outside the domain."""
        numbers = np.full(self.side**self.domain.dimension, -1)
        numbers[self._flat(self._places)] = np.arange(len(self._places))
        return numbers

    def _flat(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(places @ self.side ** np.arange(places.shape[1])[::-1])

    def _corners(self, places: NDArray[np.int64]) -> Array:
        return np.asarray(places * (2 / self.side) - 1, np.float64)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The corners of every cell."""
        low = self._corners(self._places)
        ends = np.stack([from_unit(self.domain, low), from_unit(self.domain, low + 2 / self.side)])
        cells = [
            " x ".join(f"[{a:.6g}, {b:.6g}]" for a, b in pair.T) for pair in ends.swapaxes(0, 1)
        ]
        return tuple(cells) + (MISSING,) * self.nullable

    @property
    def codes(self) -> list[int] | None:
        """The code of every place in C order, −1 where there is none; None if they are all in order."""
        numbers = self._numbers.tolist()
        return None if numbers == list(range(len(numbers))) else numbers

    @property
    def size(self) -> int:
        """Number of codes K."""
        return len(self._places) + self.nullable

    def encode(self, units: Array) -> Codes:
        """Codes of points (n, d) of the domain in unit coordinates; rows of NaN are missing.

        Raises:
            PrivotError: for a missing vector of a column that is not nullable.
        """
        absent = np.asarray(np.isnan(units).any(axis=1))
        if absent.any() and not self.nullable:
            raise PrivotError("a vector is missing in a column that is not nullable")
        inside = np.where(absent[:, None], 0.0, units)
        codes = self._code(inside)
        touching = np.flatnonzero(codes < 0)
        codes[touching] = self._code(inside[touching] * (1 - _PULL))
        return np.where(absent, self.size - 1, codes)

    def _code(self, units: Array) -> Codes:
        places = np.floor((units + 1) * (self.side / 2)).astype(np.int64)
        return self._numbers[self._flat(places.clip(0, self.side - 1))]

    def decode(self, codes: Codes, rng: np.random.Generator) -> Array:
        """A point (n, d) in unit coordinates within the cell of each code; NaN where missing."""
        absent = np.asarray(codes >= len(self._places))
        places = self._places[np.where(absent, 0, codes)]
        exists = (self._numbers >= 0).reshape((self.side,) * self.domain.dimension)
        ends = draw_ends(places[~absent], self.side, exists)
        unit, low, points = self.domain.unit, self._corners(places), self._corners(places)
        left = np.flatnonzero(~absent)
        number = np.cumsum(~absent) - 1  # of those that are not absent
        for _ in range(_TRIES):
            points[left] = low[left] + draw_within(ends[:, number[left]], rng) * (2 / self.side)
            moved = np.abs(unit.project(points[left]) - points[left]).max(axis=1, initial=0.0)
            left = left[moved > _ROUNDING]
        points[left] = self._nearest(low[left])  # of cells that hardly meet the domain
        points = unit.project(points)
        points[absent] = np.nan
        return points
