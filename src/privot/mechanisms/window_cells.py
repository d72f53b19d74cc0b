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
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.mechanisms.samplers.entropy import WORDS, random_words, words_outside
from privot.mechanisms.samplers.rounding import Integers
from privot.schema.domains import Array

# How wide a window is, and on what grid: one public rule of ε and the number of coordinates.
#
# **One coordinate.** Of a uniform record, a window that is a share τ of all reports tells, edges
# aside,
#
# $$ I(τ) = \frac{ε τ e^ε}{1 + τ(e^ε − 1)} − \ln(1 + τ(e^ε − 1)), \qquad
# τ^* = \frac{ε e^ε − e^ε + 1}{(e^ε − 1)^2} \text{ being the best,} $$
#
# which is the square wave's width. Beyond ε = 5 it stays what it is there: narrower windows tell no
# more of where people are than their number can.
#
# **A disk, a ball.** W₂ of what is learned weighs a frequency k by $|k|^{−2}$, which information does
# not. Of public synthetic clusters and filaments, not of any data (`python -m studies
# reports.windows`), the radius that is best for W₂, in unit coordinates, is about $0.9 / ε$ in the
# plane and $1.6 / ε$ in space, over ε from 1 to 8 and 10⁴ to 2·10⁶ people; a third less or more costs
# up to 12 %. A window a coordinate at ε/d each has 1.3 to 1.6 times the error, at any width, and a
# mixture of radii is no better than one.
#
# References:
#     Li, Wang, Lopuhaä-Zwakenberg, Škorić, Li, *Estimating numerical distributions under local
#     differential privacy* (2020).


Shape = Literal["ball", "product"]
Area = Literal["box", "l1_ball", "l2_ball", "curve"]

_HALF_CELLS = 8  # of a window, where the finest grid allows it
# Coarsest and finest number of steps of the grid, by dimension.
_STEPS = {1: (2**10, 2**14), 2: (2**8, 2**9), 3: (2**6, 2**7)}
_WIDEST = 2.0
_NARROWEST = 5.0  # ε, of one coordinate
_RADIUS_TIMES_EPSILON = {2: 0.9, 3: 1.6}


# How a window's report is drawn: from anywhere, or from the window, in integers only.
#
# With m cells in a window of K, and $L = ⌊2^{64} K / (e^ε m + K − m)⌋ + 1$, a 64-bit word below L
# sends the report to one of all K cells, uniformly, any other to one of the window, uniformly. So a
# cell has the probability $b = L / (2^{64} K)$ outside and $a = b + (1 − L/2^{64}) / m$ inside, and
#
# $$ \frac ab = 1 + \frac{2^{64} − L}{L} \frac Km ≤ 1 + \Big( \frac{e^ε m + K − m}{K} − 1 \Big) \frac Km
#    = e^ε. $$
#
# **Missing values** have a window of m cells of their own, so that K includes them; all of them are
# written as one symbol, which is cell number `symbol`.
#
# **Privacy review.** A cell of all, an offset of the window of 0, and the word are drawn for every
# record, before the record is looked at: draws, rejections and their time know nothing of it.


@dataclass(frozen=True)
class WindowPlan:
    """A window of `radius` cells, on a grid of `steps` cells a unit domain's width."""

    shape: Shape
    steps: int
    radius: int


def window_plan(dimension: int, epsilon: float) -> WindowPlan:
    """The window for reports of ε, by the rule of the module.

    >>> window_plan(1, 1.0)
    WindowPlan(shape='ball', steps=1024, radius=262)
    >>> window_plan(2, 4.0)
    WindowPlan(shape='ball', steps=256, radius=29)
    """
    if dimension == 1:
        return on_grid("ball", dimension, most_telling_radius(min(epsilon, _NARROWEST)))
    return on_grid("ball", dimension, min(_WIDEST, _RADIUS_TIMES_EPSILON[dimension] / epsilon))


def on_grid(shape: Shape, dimension: int, radius: float) -> WindowPlan:
    """The plan of a radius in unit coordinates: the coarsest grid that is fine enough for it."""
    steps, finest = _STEPS[dimension]
    while steps < finest and radius * steps < 2 * _HALF_CELLS:
        steps *= 2
    return WindowPlan(shape, steps, round(radius * steps / 2))


def most_telling_radius(epsilon: float) -> float:
    """The radius of greatest information of one coordinate, in unit coordinates."""
    share = best_share(epsilon)
    return share / (1 - share)


def best_share(epsilon: float) -> float:
    """τ*, which is ½ − ε/6 + … for small ε.

    >>> round(best_share(1.0), 3)
    0.339
    """
    if epsilon < 2.0**-12:  # where digits cancel
        return 0.5 - epsilon / 6
    power = math.expm1(epsilon)
    return ((epsilon - 1) * (power + 1) + 1) / power**2


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


# The law of one window in numbers: what it tells, how far it scatters, and where an audit looks.
#
# With a and b the probabilities of a cell inside and outside, and m cells in a window, a report of a
# record x has the mean $a \sum_{W(x)} y + b \sum_{y ∉ W(x)} y = b \sum y + (a − b) m x$, affine in x.


@dataclass(frozen=True)
class WindowLaw:
    """Cells, and the probability of one `inside` a window and of one `outside`."""

    cells: WindowCells
    inside: float
    outside: float

    def kept(self, waves: Array) -> Array:
        r"""$(a − b) \sum_{k ∈ W(0)} e^{i⟨ω, k⟩}$ of waves (k, d), by the integral over the ball.

        It is $(a − b) m$ times $Γ(\tfrac d2 + 1) (2/z)^{d/2} J_{d/2}(z)$, z = ‖ω‖ r.
        """
        half, window = self.cells.dimension / 2, len(self.cells.window)
        radius = (window * math.gamma(half + 1)) ** (0.5 / half) / math.sqrt(math.pi)  # of as many
        reach = radius * 2 / self.cells.steps
        z = np.maximum(np.sqrt((waves**2).sum(axis=1)) * reach, 1e-6)
        ball = math.gamma(half + 1) * (2 / z) ** half * scipy.special.jv(half, z)
        return np.asarray((self.inside - self.outside) * window * ball)

    def variance(self) -> float:
        """Largest variance, over all records, of a coordinate's affine unbiased estimate."""
        cells = self.cells
        excess = self.inside - self.outside
        gain = excess * len(cells.window)  # the slope of the mean
        numbers = np.arange(cells.numbers) if cells.reached is None else cells.reached
        first = numbers // cells.base ** (cells.dimension - 1) - cells.radius - cells.steps / 2
        # It is convex in the record, so largest at an end.
        record = np.array([0.0 if cells.non_negative else -1.0, 1.0]) * cells.steps / 2
        mean = self.outside * first.sum() + gain * record
        second = self.outside * (first**2).sum() + gain * record**2
        second += excess * (cells.offsets[:, 0] ** 2).sum()
        return float(((second - mean**2) / gain**2).max()) * (2 / cells.steps) ** 2

    def probability_cells(
        self, reports: Integers, records: Integers, present: Mask
    ) -> tuple[Array, Array]:
        """Ends (…, d) of the part of (0, 1) of each coordinate, given those before it.

        Numbers of cells are in the order of coordinates, so the cells that begin alike have numbers
        that follow each other, and counting takes two searches.

        Arguments:
            reports: Cells (…, d).
            records: Cells (…, d).
            present: Whether the record is (…), and has a window.
        """
        cells = self.cells
        report, record = cells.number(reports), cells.number(records)
        excess = (self.inside - self.outside) * present

        def mass(low: Integers, high: Integers) -> Array:
            near = np.searchsorted(cells.window, high - record)
            near -= np.searchsorted(cells.window, low - record)
            return self.outside * (cells.rank(high) - cells.rank(low)) + excess * near

        lows, highs = [], []
        for width in cells.base ** np.arange(cells.dimension, 0, -1):
            start, each = report // width * width, width // cells.base
            own = report // each * each
            whole = mass(start, start + width)
            lows.append(mass(start, own) / whole)
            highs.append(mass(start, own + each) / whole)
        return np.stack(lows, axis=-1), np.stack(highs, axis=-1)


@dataclass(frozen=True)
class WindowMixture:
    """Reports of cells, at ε.

    Arguments:
        cells: Of records and reports.
        epsilon: ε.
        nullable: Whether records may be missing.
    """

    cells: WindowCells
    epsilon: float
    nullable: bool

    @property
    def symbol(self) -> int:
        """The number that stands for all cells of the missing value."""
        return self.cells.numbers

    @cached_property
    def total(self) -> int:
        """K, cells of the missing value included."""
        return self.cells.count + self.nullable * len(self.cells.window)

    @cached_property
    def words(self) -> tuple[int, int]:
        """How many of the 2^64 words send a report into the window, and anywhere."""
        near = len(self.cells.window)
        anywhere = words_outside(self.epsilon, near, self.total - near, self.total)
        return WORDS - anywhere, anywhere

    @cached_property
    def probabilities(self) -> tuple[float, float]:
        """P(report) for one cell inside the window, and for one outside."""
        near, anywhere = self.words
        outside = anywhere / WORDS / self.total
        return outside + near / WORDS / len(self.cells.window), outside

    @property
    def program(self) -> dict[str, Any]:
        """The integers of the draw, for devices."""
        anywhere = {"nullable": self.nullable, "anywhere": f"{self.words[1]:x}"}
        return {"draw": "window"} | asdict(self.cells) | anywhere

    def report(self, records: Integers, missing: Mask | None) -> Integers:
        """Numbers (n,) of reports, of those of records (n,), some of which may be `missing`."""
        near, far = self.draw(len(records))
        inside = random_words(len(records)) >= np.uint64(self.words[1])
        near += records
        if missing is not None:
            near = np.where(missing, self.symbol, near)
        return np.where(inside, near, far)

    def points(self, numbers: Integers) -> Array:
        """Unit coordinates (n, d) of cells of these numbers, and flags if some may be missing."""
        if not self.nullable:
            return self.cells.units(self.cells.cells(numbers))
        missing = numbers == self.symbol
        points = self.cells.units(self.cells.cells(np.where(missing, 0, numbers)))
        points[missing] = 0.0
        return np.hstack([points, missing[:, None]])

    def draw(self, count: int) -> tuple[Integers, Integers]:
        """What to add to a record's number, and the number of any cell.

        Either is uniform, and they share a word: no report is made of both. Words beyond the last full
        multiple of m K are drawn again.
        """
        near, total = len(self.cells.window), self.total
        words = random_words(count)
        limit = WORDS - WORDS % (near * total)
        if limit < WORDS:
            while (again := np.flatnonzero(words >= np.uint64(limit))).size:
                words[again] = random_words(again.size)
        near_index, far = (
            (words - words // np.uint64(bound) * np.uint64(bound)).view(np.int64)
            for bound in (near, total)
        )
        return self.cells.window.take(near_index), self._numbers(far)

    def _numbers(self, far: Integers) -> Integers:
        """Of the cells that these are the places of, in order; those of the missing value are last."""
        if self._listed is not None:
            return self._listed.take(far, mode="clip")
        return np.minimum(far, self.symbol) if self.nullable else far

    @cached_property
    def _listed(self) -> Integers | None:
        reached = self.cells.reached
        return None if reached is None else np.append(reached, self.symbol)
