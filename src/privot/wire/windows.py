"""Window geometry: numbering of the cells of windows and reports, by rows.

A cell x of a grid of N steps has d integer coordinates; its number has the digits x_i + r in base
N + 2r + 1. The window of a record is the ball of radius r around its cell; report cells are a set that
contains all windows (`privot.wire.draws.Window` proves it). A row is the set of cells that agree in all
but the last coordinate. A ball intersects it in an interval, so the i-th cell of a ball is found by
bisection. `privot.mechanisms.window_cells` enumerates the same cells.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import isqrt


@dataclass(frozen=True)
class Rows:
    """Cells of an area that is an interval in each row."""

    firsts: list[int]  # cell number of the first cell of each row
    starts: list[int]  # number of cells before each row; the last entry counts all cells

    @property
    def count(self) -> int:
        """Number of cells in the area."""
        return self.starts[-1]

    def cell(self, index: int) -> int:
        """Return the number of the index-th cell."""
        row = bisect_right(self.starts, index) - 1
        return self.firsts[row] + index - self.starts[row]


@lru_cache(maxsize=128)
def rows_of_ball(
    dimension: int, base: int, low: int, high: int, factor: int, center: int, square: int
) -> Rows:
    """Return the rows of the cells y with low ≤ yᵢ ≤ high and ‖factor · y − center‖² ≤ square."""
    firsts, starts = [], [0]
    for row in product(range(low, high + 1), repeat=dimension - 1):
        rest = square - sum((factor * y - center) ** 2 for y in row)
        if rest < 0:
            continue
        reach = isqrt(rest)  # the last coordinate has |factor · y − center| ≤ reach
        first = max(low, -((reach - center) // factor))
        last = min(high, (center + reach) // factor)
        if first <= last:
            firsts.append(_sum_digits([*row, first], base))
            starts.append(starts[-1] + last - first + 1)
    return Rows(firsts, starts)


def _sum_digits(digits: list[int], base: int) -> int:
    """Return the number with these digits, which may be negative, in a base."""
    number = 0
    for digit in digits:
        number = number * base + digit
    return number


@dataclass(frozen=True)
class WindowGeometry:
    """Numbers of the cells of windows and of reports.

    >>> cells = WindowGeometry(dimension=1, steps=4, radius=1, area="box", low=0)
    >>> [cells.number([2]) + cells.offset(i) for i in range(cells.window_size)], cells.num_report_cells
    ([2, 3, 4], 7)
    """

    dimension: int  # number d of coordinates
    steps: int  # number N of steps of the grid
    radius: int  # radius r of windows, in cells
    area: str  # "box" or "l2_ball"
    low: int  # smallest coordinate of a record: 0, or N/2 in the non-negative part

    @cached_property
    def base(self) -> int:
        """Number of cells of one coordinate, −r … N + r."""
        return self.steps + 2 * self.radius + 1

    @cached_property
    def number_limit(self) -> int:
        """Number base^d of cells of the box that contains all windows; cell numbers are smaller."""
        return int(self.base**self.dimension)

    @cached_property
    def _zero(self) -> int:
        """Number of the cell whose coordinates are all 0."""
        return sum(self.radius * self.base**place for place in range(self.dimension))

    def number(self, cell: list[int]) -> int:
        """Return the number of a cell, whose digits are its coordinates plus r."""
        return _sum_digits(cell, self.base) + self._zero

    def offset(self, index: int) -> int:
        """Return the difference of a window's index-th cell number from the record's."""
        return self._window_rows.cell(index)

    @cached_property
    def window_size(self) -> int:
        """Number m of cells of a window."""
        return self._window_rows.count

    @cached_property
    def num_report_cells(self) -> int:
        """Number n of report cells."""
        return self.number_limit if self.area == "box" else self._report_rows.count

    def report_cell(self, index: int) -> int:
        """Return the number of the index-th report cell."""
        return index if self.area == "box" else self._zero + self._report_rows.cell(index)

    @cached_property
    def _window_rows(self) -> Rows:
        """Rows of the differences k of a window's cells from the record's: ‖k‖ ≤ r."""
        r = self.radius
        return rows_of_ball(self.dimension, self.base, -r, r, factor=1, center=0, square=r**2)

    @cached_property
    def _report_rows(self) -> Rows:
        """Rows of the report cells y of an ℓ2 ball: ‖2y − N‖ ≤ N + 2 + 2r."""
        low, high, center = self.low - self.radius, self.steps + self.radius, self.steps
        square = (self.steps + 2 + 2 * self.radius) ** 2
        return rows_of_ball(self.dimension, self.base, low, high, 2, center, square)
