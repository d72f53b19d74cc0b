r"""The cells of a window, and all cells that some window reaches: finite public sets, in integers.

Coordinates are counted in cells of a public grid: a record's are $j ∈ 0 … N$, at −1 + 2j/N in unit
coordinates. A **window** is what lies within r cells of a record, in ℓ2. What some window reaches is
covered by

- box: $−r ≤ y_i ≤ N + r$;
- ℓ2 ball: besides, $‖2y − N‖_2 ≤ N + 2 + 2r$: rounding moves a point by $\sqrt d / 2 < 1$ cell;
- ℓ1 ball: besides, $‖2y − N‖_1 ≤ N + d + ⌈2r\sqrt d⌉$;
- the non-negative part of a ball: besides, $y_i ≥ N/2 − r$.

Records are held to the same with r = 0, so the triangle inequality puts every window inside, exactly.
A cell has one number: its coordinates, first one first, are digits of a base that no window leaves, so
that the number of record + offset is the sum of theirs, and numbers are in the order of coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.mechanisms.samplers.exact_rounding import Integers
from privot.mechanisms.windows.plan import Area
from privot.schema import Array

Mask = NDArray[np.bool_]

_MOST_CELLS = 2**26


def window_offsets(dimension: int, radius: int) -> Integers:
    """All integer points (m, d) with ‖k‖₂ ≤ r, in the order of their coordinates."""
    axis = np.arange(-radius, radius + 1)
    grid = np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1)
    points = grid.reshape(-1, dimension)
    return np.asarray(points[(points**2).sum(axis=1) <= radius**2])


@dataclass(frozen=True)
class WindowCells:
    """The cells of records, windows and reports.

    Arguments:
        dimension: d.
        steps: N.
        radius: r.
        area: Where records lie; the numbers −1 … 1 stand for places on a curve.
        non_negative: Whether only in the part of it that is.
    """

    dimension: int
    steps: int
    radius: int
    area: Area
    non_negative: bool

    def __post_init__(self) -> None:
        limits = {"dimension": (1, 3), "steps": (2, 2**16), "radius": (0, 2**18)}
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise PrivotError(
                    f"{name} is {value!r}: give a whole number from {least} to {most}"
                )
        if self.steps & (self.steps - 1):
            raise PrivotError(f"steps is {self.steps}: give a power of two")
        if self.area not in get_args(Area):
            raise PrivotError(f"area is {self.area!r}: give one of {get_args(Area)}")
        if self.numbers > _MOST_CELLS:
            raise PrivotError(f"steps is {self.steps}, which are too many cells: give fewer")

    @property
    def base(self) -> int:
        """Cells of one coordinate, −r … N + r."""
        return self.steps + 2 * self.radius + 1

    @property
    def numbers(self) -> int:
        """How many numbers cells may have: 0 … base^d − 1."""
        return self.base**self.dimension

    def units(self, cells: Integers) -> Array:
        """Unit coordinates of cells."""
        return np.asarray(cells * (2 / self.steps) - 1.0)

    def of_units(self, x: Array) -> Integers:
        """The cells nearest to unit coordinates."""
        return np.rint((x + 1.0) * (self.steps / 2)).astype(np.int64)

    def number(self, cells: Integers) -> Integers:
        """Numbers (…) of cells (…, d)."""
        number = cells[..., 0] + self.radius
        for i in range(1, self.dimension):
            number = number * self.base + (cells[..., i] + self.radius)
        return np.asarray(number)

    def cells(self, numbers: Integers) -> Integers:
        """Cells (…, d) of numbers (…)."""
        digits = np.empty((*np.shape(numbers), self.dimension), np.int64)
        rest = numbers
        for i in range(self.dimension - 1, 0, -1):
            higher = rest // self.base
            digits[..., i] = rest - higher * self.base
            rest = higher
        digits[..., 0] = rest
        digits -= self.radius
        return digits

    @cached_property
    def window(self) -> Integers:
        """What to add to a record's number, in increasing order (m,)."""
        return self.number(self.offsets) - self.number(np.zeros(self.dimension, np.int64))

    @cached_property
    def offsets(self) -> Integers:
        """Cells (m, d) of the window of 0, in the order of their coordinates."""
        return window_offsets(self.dimension, self.radius)

    @cached_property
    def reached(self) -> Integers | None:
        """Numbers of all cells of reports, in increasing order; None where all numbers are."""
        if self.area in ("box", "curve"):
            return None
        numbers = np.arange(self.numbers)
        return numbers[self.may_report(self.cells(numbers))]

    @cached_property
    def count(self) -> int:
        """K, the number of cells of reports."""
        return self.numbers if self.reached is None else len(self.reached)

    def rank(self, numbers: Integers) -> Integers:
        """How many cells of reports have a smaller number."""
        if self.reached is None:
            return np.clip(numbers, 0, self.numbers)
        return np.searchsorted(self.reached, numbers)

    def may_record(self, cells: Integers) -> Mask:
        """Which cells (…, d) a record can be in."""
        return self._within(cells, 0)

    def may_report(self, cells: Integers) -> Mask:
        """Which cells (…, d) some window reaches."""
        return self._within(cells, self.radius)

    def _within(self, cells: Integers, radius: int) -> Mask:
        low = (self.steps // 2 if self.non_negative else 0) - radius
        within, length = np.ones(cells.shape[:-1], bool), np.zeros(cells.shape[:-1], np.int64)
        for i in range(self.dimension):  # the last axis is too short to be summed over
            cell = cells[..., i]
            within &= (cell >= low) & (cell <= self.steps + radius)
            doubled = 2 * cell - self.steps
            length += np.abs(doubled) if self.area == "l1_ball" else doubled * doubled
        if self.area == "l2_ball":
            within &= length <= (self.steps + 2 + 2 * radius) ** 2
        if self.area == "l1_ball":
            across = math.isqrt(4 * radius**2 * self.dimension) + 1 if radius else 0
            within &= length <= self.steps + self.dimension + across
        return within
