"""Window geometry: numbering of the cells of windows and reports, by rows.

A row is the set of cells that agree in all but the last coordinate. A ball intersects it in an interval,
so the i-th cell is found by bisection. `privot.mechanisms.window_cells` enumerates the same cells.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import isqrt

Rows = tuple[
    list[int], list[int]
]  # number of each row's first cell; cells before each row, and of all


@dataclass(frozen=True)
class WindowGeometry:
    """Numbers of the cells of windows and of reports.

    Arguments:
        dimension: Number d of coordinates.
        steps: Number N of steps of the grid.
        radius: Radius r of windows, in cells.
        area: `"box"` or `"l2_ball"`.
        low: Smallest coordinate of a record: 0, or N/2 in the non-negative part.

    Examples:
        >>> cells = WindowGeometry(dimension=1, steps=4, radius=1, area="box", low=0)
        >>> [cells.number([2]) + cells.offset(i) for i in range(cells.window)], cells.count
        ([2, 3, 4], 7)
    """

    dimension: int
    steps: int
    radius: int
    area: str
    low: int

    @cached_property
    def base(self) -> int:
        """Number of cells of one coordinate, −r … N + r."""
        return self.steps + 2 * self.radius + 1

    @cached_property
    def numbers(self) -> int:
        """Number base^d of cells of the box; cell numbers are smaller."""
        return int(self.base**self.dimension)

    @cached_property
    def _zero(self) -> int:
        return sum(self.radius * self.base**place for place in range(self.dimension))

    def number(self, cell: list[int]) -> int:
        """Return the number of a cell, whose digits are its coordinates plus r."""
        return _sum_digits(cell, self.base) + self._zero

    def offset(self, index: int) -> int:
        """Return the difference of a window's index-th cell number from the record's."""
        return _cell(self._window_rows, index)

    @cached_property
    def window(self) -> int:
        """Number m of cells of a window."""
        return self._window_rows[1][-1]

    @cached_property
    def count(self) -> int:
        """Number n of report cells."""
        return self.numbers if self.area == "box" else self._report_rows[1][-1]

    def reached(self, index: int) -> int:
        """Return the number of the index-th report cell."""
        return index if self.area == "box" else self._zero + _cell(self._report_rows, index)

    @cached_property
    def _window_rows(self) -> Rows:
        r = self.radius
        return _rows(self.dimension, self.base, (-r, r), (1, 0, r**2))

    @cached_property
    def _report_rows(self) -> Rows:
        n, r = self.steps, self.radius
        return _rows(self.dimension, self.base, (self.low - r, n + r), (2, n, (n + 2 + 2 * r) ** 2))


def _cell(rows: Rows, index: int) -> int:
    firsts, starts = rows
    row = bisect_right(starts, index) - 1
    return firsts[row] + index - starts[row]


@lru_cache(maxsize=128)
def _rows(dimension: int, base: int, ends: tuple[int, int], ball: tuple[int, int, int]) -> Rows:
    """Return the rows of the cells y with low ≤ yᵢ ≤ high and ‖times · y − center‖² ≤ square.

    `ends` are (low, high), `ball` is (times, center, square).
    """
    (low, high), (times, center, square) = ends, ball
    firsts, starts = [], [0]
    for row in product(range(low, high + 1), repeat=dimension - 1):
        rest = square - sum((times * k - center) ** 2 for k in row)
        if rest < 0:
            continue
        reach = isqrt(rest)  # |times · y − center| ≤ reach
        first, last = max(low, -((reach - center) // times)), min(high, (center + reach) // times)
        if first <= last:
            firsts.append(_sum_digits([*row, first], base))
            starts.append(starts[-1] + last - first + 1)
    return firsts, starts


def _sum_digits(digits: list[int], base: int) -> int:
    """Return the number with these digits, which may be negative, in a base."""
    number = 0
    for digit in digits:
        number = number * base + digit
    return number
