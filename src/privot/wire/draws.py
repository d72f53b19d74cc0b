"""Draws: a record's integers in, a report's integers out, by integers and words alone.

Each draw is the scalar form of a mechanism, whose module proves its law: randomized response and subset
selection (`privot.mechanisms.oracles`), windows (`privot.mechanisms.window_cells`), and discrete
Laplace noise, here by rejection:

$P(k) ∝ e^{−|k|/t}$ with a rational $t = a/b$. Let U be uniform below a, kept with probability
$e^{−U/a}$, and V geometric, $P(V ≥ v) = e^{−v}$; then $U + aV$ is geometric with ratio $e^{−1/a}$, and
$⌊(U + aV)/b⌋$ with ratio $e^{−b/a}$. A fair sign, and drawing again when it is −0, make it two-sided. A
coin of probability $e^{−x}$, $x ∈ [0, 1]$, is one minus the parity of the first K for which a coin of
probability $x/K$ fails. All of it takes uniform integers only.

**Privacy review.** Adjacency: any two records. What is drawn before the record is used, and how many
words it takes, is independent of it: response takes one word; a subset's others, place and word are
drawn whether the true cell is in or not; a window's two cells and word likewise; noise does not know
what it is added to. Nothing here is constant in time to the last branch: to find a value in a list, and
to add to a cell, may take a hair longer for one record than for another. That is on the person's own
device; what is sent later carries the hour alone.

References:
    Canonne, Kamath, Steinke, *The discrete Gaussian for differential privacy* (2020), for the sampler
    of integer Laplace noise; Bentley, Floyd, *A sample of brilliance* (1987), for subsets.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import isqrt

# Words: uniform 64-bit integers, and what is drawn from them exactly.
#
# A device takes one word after another from its operating system; a conformance test hands it words
# that are written down. Everything drawn is a function of them, in a fixed order: that is what two
# implementations can be compared by.


WORDS = 2**64

NextWord = Callable[[], int]


def system_word() -> int:
    """One word of the operating system's generator; safe in forks, and nothing is kept."""
    return int.from_bytes(os.urandom(8), "little")


def below(bound: int, word: NextWord) -> int:
    """A uniform integer 0 … bound−1, exactly: words beyond the last full multiple are drawn again."""
    limit = WORDS - WORDS % bound
    while (drawn := word()) >= limit:
        pass
    return drawn % bound


def response(values: int, slot: int, code: int, word: NextWord) -> int:
    """The code itself, or another: `slot` words each lead to any other."""
    other = word() // slot
    return code if other >= values - 1 else other + (other >= code)


def subset(cells: int, size: int, out: int, cell: int, word: NextWord) -> list[int]:
    """`size` of `cells` cells, in order; the true one is left out by words below `out`."""
    others = cells - 1
    chosen: set[int] = set()
    for last in range(others - size, others):
        candidate = below(last + 1, word)
        chosen.add(last if candidate in chosen else candidate)
    drawn = sorted(other + (other >= cell) for other in chosen)
    place = below(size, word)
    if word() >= out:
        drawn[place] = cell
    return sorted(drawn)


def laplace(numerator: int, denominator: int, word: NextWord) -> int:
    """Noise of law $P(k) ∝ e^{−|k| b/a}$."""
    while True:
        rest = below(numerator, word)
        if not _exp_coin(rest, numerator, word):
            continue
        whole = 0
        while _exp_coin(1, 1, word):
            whole += 1
        magnitude = (rest + numerator * whole) // denominator
        negative = word() & 1
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def _exp_coin(x: int, y: int, word: NextWord) -> bool:
    """True with probability $e^{−x/y}$, for x ≤ y."""
    step = 1
    while below(y * step, word) < x:
        step += 1
    return step % 2 == 1


def choose(total: int, chosen: int, word: NextWord) -> list[int]:
    """A uniform subset, in order: those whose words are smallest; nothing is drawn where all are."""
    if chosen == total:
        return list(range(total))
    words = [word() for _ in range(total)]
    return sorted(sorted(range(total), key=lambda index: words[index])[:chosen])


def weighted(weights: list[int], word: NextWord) -> int:
    """An index, in proportion to the weights: the one whose share of all holds a uniform number."""
    ends = list(accumulate(weights))
    return bisect_right(ends, below(ends[-1], word))


@dataclass(frozen=True)
class WindowGeometry:
    """The cells that windows reach, counted by rows: all but the last coordinate are fixed in one.

    Arguments:
        dimension: d.
        steps: N.
        radius: r.
        area: `"box"` or `"l2_ball"`.
        low: The least coordinate of a record: 0, or N/2 in the non-negative part.
    """

    dimension: int
    steps: int
    radius: int
    area: str
    low: int

    @property
    def base(self) -> int:
        """Cells of one coordinate, −r … N + r."""
        return self.steps + 2 * self.radius + 1

    @property
    def numbers(self) -> int:
        """How many numbers cells may have."""
        return int(self.base**self.dimension)

    def number(self, cell: list[int]) -> int:
        """The number of a cell: its coordinates, moved by r, are digits."""
        number = 0
        for coordinate in cell:
            number = number * self.base + coordinate + self.radius
        return number

    def offset(self, index: int) -> int:
        """What the index-th cell of a window adds to a record's number."""
        rows, starts = _window_rows(self)
        row = bisect_right(starts, index) - 1
        return rows[row] + index - starts[row]

    @property
    def window(self) -> int:
        """Number m of cells of a window."""
        return _window_rows(self)[1][-1]

    @property
    def count(self) -> int:
        """Number K of cells of reports."""
        return self.numbers if self.area == "box" else _reached_rows(self)[1][-1]

    def reached(self, index: int) -> int:
        """The number of the index-th cell of reports."""
        if self.area == "box":
            return index
        rows, starts = _reached_rows(self)
        row = bisect_right(starts, index) - 1
        return rows[row] + index - starts[row]


Rows = tuple[list[int], list[int]]


@lru_cache(maxsize=64)
def _window_rows(cells: WindowGeometry) -> Rows:
    """What the first cell of each row of a window adds, and how many cells come before; and all."""
    firsts, starts = [], [0]
    for row in _grid(cells.dimension - 1, -cells.radius, cells.radius):
        rest = cells.radius**2 - sum(k * k for k in row)
        if rest >= 0:
            reach = isqrt(rest)
            firsts.append(sum_digits([*row, -reach], cells.base))
            starts.append(starts[-1] + 2 * reach + 1)
    return firsts, starts


@lru_cache(maxsize=64)
def _reached_rows(cells: WindowGeometry) -> Rows:
    """The number of the first cell of reports in each row, and how many come before; and all."""
    firsts, starts = [], [0]
    n, r = cells.steps, cells.radius
    least, most = cells.low - r, n + r
    for row in _grid(cells.dimension - 1, least, most):
        rest = (n + 2 + 2 * r) ** 2 - sum((2 * k - n) ** 2 for k in row)
        if rest < 0:
            continue
        reach = isqrt(rest)  # |2k − n| ≤ reach
        low, high = max(least, (n - reach + 1) // 2), min(most, (n + reach) // 2)
        if low <= high:
            firsts.append(cells.number([*row, low]))
            starts.append(starts[-1] + high - low + 1)
    return firsts, starts


def sum_digits(digits: list[int], base: int) -> int:
    """The number that these digits make, which may be negative."""
    number = 0
    for digit in digits:
        number = number * base + digit
    return number


def _grid(dimension: int, low: int, high: int) -> list[list[int]]:
    points: list[list[int]] = [[]]
    for _ in range(dimension):
        points = [[*point, k] for point in points for k in range(low, high + 1)]
    return points


def window(
    cells: WindowGeometry, nullable: bool, anywhere: int, cell: list[int] | None, word: NextWord
) -> int:
    """The number of a reported cell: of the window of `cell`, or of any; None is a missing value.

    Words below `anywhere` send the report to any cell; `cells.numbers` stands for a missing one.
    """
    near = cells.window
    total = cells.count + (near if nullable else 0)
    drawn = below(near * total, word)
    inside = word() >= anywhere
    if not inside:
        far = drawn % total
        return cells.reached(far) if far < cells.count else cells.numbers
    if cell is None:
        return cells.numbers
    return cells.number(cell) + cells.offset(drawn % near)
