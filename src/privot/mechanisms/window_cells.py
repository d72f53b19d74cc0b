r"""Cells of the window mechanism on an integer grid: geometry, width, draws and likelihood.

The cell of a record has integer coordinates j = 0 … N, at −1 + 2j/N in unit coordinates. The **window**
of a record is the set of cells within ℓ2 distance r of its cell. **Report cells** are a finite set that
contains every window. They are the cells y that satisfy, for a

- box: $−r ≤ y_i ≤ N + r$;
- ℓ2 ball: also $‖2y − N‖_2 ≤ N + 2 + 2r$: rounding moves a point by $\sqrt d / 2 < 1$ cell;
- ℓ1 ball: also $‖2y − N‖_1 ≤ N + d + ⌈2r\sqrt d⌉$;
- the non-negative part of a ball: also $y_i ≥ N/2 − r$.

Record cells satisfy the same conditions with r = 0, so by the triangle inequality every window consists
of report cells. The **number** of a cell has the digits $y_i + r$, the first one the highest, in the
base N + 2r + 1. So the cell record + offset has the sum of the record's number and a number of the
offset, and numbers have the lexicographic order of the coordinates.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError, hold_count, require_choice
from privot.mechanisms.samplers import WORDS, Integers, random_words, uniforms_below, words_outside
from privot.schema.domains import Array

Mask = NDArray[np.bool_]
Area = Literal["box", "l1_ball", "l2_ball", "curve"]

_MAX_CELLS = 2**26  # bounds the memory, and the product m K of draws by 2^52
_MIN_RADIUS_CELLS = 8  # if the finest grid allows it
# Coarsest and finest number of steps of the grid, by dimension.
_STEPS = {1: (2**10, 2**14), 2: (2**8, 2**9), 3: (2**6, 2**7)}
_MAX_RADIUS = 2.0  # the side of the unit box
_MAX_RULE_EPSILON = 5.0  # the window of one coordinate does not shrink beyond this ε
_RADIUS_TIMES_EPSILON = {2: 0.9, 3: 1.6}


class WindowPlan(NamedTuple):
    """A grid of `steps` cells across the unit domain, and a window of `radius` cells."""

    steps: int
    radius: int


def window_plan(dimension: int, epsilon: float) -> WindowPlan:
    r"""Choose the grid and the window of reports with `dimension` coordinates, 1 to 3, at ε.

    **One coordinate.** For a uniform record, and neglecting edges, a window that is a share τ of all
    report cells has the mutual information

    $$ I(τ) = \frac{ε τ e^ε}{1 + τ(e^ε − 1)} − \ln(1 + τ(e^ε − 1)), \qquad
    τ^* = \frac{ε e^ε − e^ε + 1}{(e^ε − 1)^2} \text{ being the best,} $$

    which is the square wave's width (Li et al. 2020; see `window`). For ε > 5 the width is that of
    ε = 5, since then the number of reports limits the accuracy, not the width.

    **Disks and balls.** The Wasserstein distance W₂ weighs a frequency k by $|k|^{−2}$, which mutual
    information does not. On public synthetic clusters and filaments (`python -m studies
    reports.windows`), the radius of least W₂, in unit coordinates, is about $0.9 / ε$ in two and
    $1.6 / ε$ in three dimensions, for ε from 1 to 8 and 10⁴ to 2·10⁶ reports. Below ε = 1, $0.9 /
    \sqrt ε$ errs 4 to 6 % less in two (a draw of each of twelve populations). A radius that is a third
    smaller or larger increases W₂ by up to 12 %. A product of windows, at ε/d each, has 1.3 to 1.6 times
    the error. A mixture of radii is no better.

    >>> window_plan(1, 1.0)
    WindowPlan(steps=1024, radius=262)
    >>> window_plan(2, 4.0)
    WindowPlan(steps=256, radius=29)
    """
    if dimension == 1:
        # A window of radius ρ is the share 2ρ/(2 + 2ρ) of all report cells.
        share = best_window_share(min(epsilon, _MAX_RULE_EPSILON))
        return coarsest_plan(dimension, share / (1 - share))
    shrinks = math.sqrt(epsilon) if dimension == 2 and epsilon < 1 else epsilon
    return coarsest_plan(dimension, min(_MAX_RADIUS, _RADIUS_TIMES_EPSILON[dimension] / shrinks))


def coarsest_plan(dimension: int, radius: float) -> WindowPlan:
    """Return the plan with the coarsest grid that suits a window's radius in unit coordinates."""
    steps, finest = _STEPS[dimension]
    while steps < finest and radius * steps < 2 * _MIN_RADIUS_CELLS:
        steps *= 2
    return WindowPlan(steps, round(radius * steps / 2))


def best_window_share(epsilon: float) -> float:
    """Return the share τ* of `window_plan`; it is ½ − ε/6 + … for small ε."""
    if epsilon < 2.0**-12:  # the formula would cancel
        return 0.5 - epsilon / 6
    power = math.expm1(epsilon)
    return ((epsilon - 1) * (power + 1) + 1) / power**2


def window_offsets(dimension: int, radius: int) -> Integers:
    """Return all integer points (m, d) with ‖k‖₂ ≤ r, in lexicographic order."""
    axes = np.meshgrid(*[np.arange(-radius, radius + 1)] * dimension, indexing="ij", sparse=True)
    return np.argwhere(sum(axis**2 for axis in axes) <= radius**2) - radius


@dataclass(frozen=True)
class WindowCells:
    """Cells of records, windows and reports, and their numbers.

    Arguments:
        dimension: Number d of coordinates.
        steps: Number N of steps of the grid.
        radius: Radius r of windows, in cells.
        area: Set of the records; a record on a curve is one number from −1 to 1.
        non_negative: Whether records have no negative coordinate.
    """

    dimension: int
    steps: int
    radius: int
    area: Area
    non_negative: bool

    def __post_init__(self) -> None:
        hold_count(self, "dimension", 3)
        hold_count(self, "steps", 2**16, "a power of two", least=2)
        hold_count(self, "radius", 2**18, least=0)
        if self.steps & (self.steps - 1):
            raise PrivotError(f"steps is {self.steps}: give a power of two")
        require_choice("area", self.area, get_args(Area))
        if self.number_limit > _MAX_CELLS:
            raise PrivotError(f"steps is {self.steps}, which are too many cells: give fewer")

    @property
    def base(self) -> int:
        """Number of cells of one coordinate, −r … N + r."""
        return self.steps + 2 * self.radius + 1

    @property
    def number_limit(self) -> int:
        """Limit base^d of cell numbers, which are smaller."""
        return self.base**self.dimension

    def units(self, cells: Integers) -> Array:
        """Return the unit coordinates of cells."""
        return np.asarray(cells * (2 / self.steps) - 1.0)

    def nearest(self, x: Array) -> Integers:
        """Return the cells nearest to unit coordinates."""
        return np.rint((x + 1.0) * (self.steps / 2)).astype(np.int64)

    def number(self, cells: Integers) -> Integers:
        """Return the numbers (…) of cells (…, d)."""
        number = cells[..., 0] + self.radius
        for i in range(1, self.dimension):
            number = number * self.base + (cells[..., i] + self.radius)
        return np.asarray(number)

    def cells(self, numbers: Integers) -> Integers:
        """Return the cells (…, d) of numbers (…)."""
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
    def number_offsets(self) -> Integers:
        """Numbers (m,) of a window's cells minus the record's number, increasing."""
        return self.number(self.offsets) - self.number(np.zeros(self.dimension, np.int64))

    @cached_property
    def offsets(self) -> Integers:
        """Cells (m, d) of the window of cell 0, in lexicographic order."""
        return window_offsets(self.dimension, self.radius)

    @property
    def window_size(self) -> int:
        """Number m of cells of a window."""
        return len(self.offsets)

    @property
    def is_box(self) -> bool:
        """Whether all cells are report cells, as in a box and on a curve."""
        return self.area in ("box", "curve")

    @cached_property
    def report_numbers(self) -> Integers | None:
        """Numbers (K,) of the report cells, increasing; None if all cells are report cells."""
        if self.is_box:
            return None
        axis = np.arange(self.base) - self.radius
        axes = np.meshgrid(*[axis] * self.dimension, indexing="ij", sparse=True)
        return np.flatnonzero(self._within(axes, self.radius))

    @cached_property
    def num_report_cells(self) -> int:
        """Number of report cells."""
        return self.number_limit if self.report_numbers is None else len(self.report_numbers)

    def rank(self, numbers: Integers) -> Integers:
        """Return how many report cells have a smaller number, for each of `numbers`."""
        if self.report_numbers is None:
            return np.clip(numbers, 0, self.number_limit)
        return np.searchsorted(self.report_numbers, numbers)

    def is_record_cell(self, cells: Integers) -> Mask:
        """Return a mask (…) of the cells (…, d) that are record cells."""
        return self._within(np.moveaxis(cells, -1, 0), 0)

    def is_report_cell(self, cells: Integers) -> Mask:
        """Return a mask (…) of the cells (…, d) that are report cells."""
        return self._within(np.moveaxis(cells, -1, 0), self.radius)

    def _within(self, coordinates: Iterable[Integers], radius: int) -> Mask:
        """Return a mask of the cells that satisfy the module's conditions for a window radius.

        `coordinates` are d arrays of shapes that broadcast, one for each coordinate.
        """
        low = (self.steps // 2 if self.non_negative else 0) - radius
        within: Mask = np.array(True)
        length = np.array(0)
        for cell in coordinates:
            within = within & (cell >= low) & (cell <= self.steps + radius)
            doubled = 2 * cell - self.steps
            length = length + (np.abs(doubled) if self.area == "l1_ball" else doubled * doubled)
        if self.area == "l2_ball":
            within = within & (length <= (self.steps + 2 + 2 * radius) ** 2)
        if self.area == "l1_ball":
            across = math.isqrt(4 * radius**2 * self.dimension) + 1 if radius else 0
            within = within & (length <= self.steps + self.dimension + across)
        return within


@dataclass(frozen=True)
class WindowMixture:
    r"""The window mechanism as a mixture: a uniform cell of the window, or a uniform report cell.

    A window contains m of K report cells. With $L = ⌊2^{64} K / (e^ε m + K − m)⌋ + 1$, the report is a
    uniform cell of all K if a 64-bit word is below L, else a uniform cell of the window. So a cell has
    the probability $b = L / (2^{64} K)$ outside, $a = b + (1 − L/2^{64}) / m$ inside, and

    $$ \frac ab = 1 + \frac{2^{64} − L}{L} \frac Km
       ≤ 1 + \Big( \frac{e^ε m + K − m}{K} − 1 \Big) \frac Km = e^ε. $$

    The mean report of a record x, $a \sum_{W(x)} y + b \sum_{y ∉ W(x)} y = b \sum y + (a − b) m x$, is
    affine in x.

    **Privacy review.** A report cell, a window offset and the word are drawn for every record, before
    the record is read. So draws, rejections and their time do not depend on the record.

    Arguments:
        cells: Record cells and report cells.
        epsilon: ε.
        nullable: Whether records may be missing.
    """

    cells: WindowCells
    epsilon: float
    nullable: bool

    @property
    def symbol(self) -> int:
        """Common number of the m additional cells of a missing value (see `window`)."""
        return self.cells.number_limit

    @cached_property
    def total(self) -> int:
        """Number K of report cells, including those of a missing value."""
        return self.cells.num_report_cells + self.nullable * self.cells.window_size

    @cached_property
    def words(self) -> tuple[int, int]:
        """Numbers $2^{64} − L$ of words that give a cell of the window, and L that give any cell."""
        size = self.cells.window_size
        anywhere = words_outside(self.epsilon, size, self.total - size, self.total)
        return WORDS - anywhere, anywhere

    @cached_property
    def probabilities(self) -> tuple[float, float]:
        """Probabilities a and b of one cell inside the window, and of one outside."""
        near, anywhere = self.words
        outside = anywhere / WORDS / self.total
        return outside + near / WORDS / self.cells.window_size, outside

    @property
    def program(self) -> dict[str, Any]:
        """Program of the draw, for devices."""
        law = {"nullable": self.nullable, "anywhere": f"{self.words[1]:x}"}
        return {"draw": "window"} | asdict(self.cells) | law

    def report(self, records: Integers, missing: Mask | None) -> Integers:
        """Draw report numbers (n,) for record numbers (n,); `missing` (n,) marks missing records."""
        offsets, anywhere = self.draw(len(records))
        inside = random_words(len(records)) >= np.uint64(self.words[1])
        near = records + offsets
        if missing is not None:
            near = np.where(missing, self.symbol, near)
        return np.where(inside, near, anywhere)

    def points(self, numbers: Integers) -> Array:
        """Return the unit coordinates (n, d), or (n, d+1) with a flag, of cell numbers (n,)."""
        if not self.nullable:
            return self.cells.units(self.cells.cells(numbers))
        missing = numbers == self.symbol
        points = self.cells.units(self.cells.cells(np.where(missing, 0, numbers)))
        points[missing] = 0.0
        return np.hstack([points, missing[:, None]])

    def draw(self, count: int) -> tuple[Integers, Integers]:
        """Draw uniform window offsets (n,), and numbers (n,) of uniform report cells."""
        window_size = self.cells.window_size
        # One uniform integer gives an offset and a cell, because a report uses only one of these.
        uniform = uniforms_below(window_size * self.total, count)
        index = uniform % self.total
        # The last indices are the cells of a missing value, which all have the number `symbol`.
        if self._answer_numbers is not None:
            index = self._answer_numbers.take(index, mode="clip")
        elif self.nullable:
            index = np.minimum(index, self.symbol)
        return self.cells.number_offsets.take(uniform % window_size), index

    @cached_property
    def _answer_numbers(self) -> Integers | None:
        """Numbers (K + 1,) of the report cells, then `symbol`; None if all cells are report cells."""
        numbers = self.cells.report_numbers
        return None if numbers is None else np.append(numbers, self.symbol)

    def attenuation(self, frequencies: Array) -> Array:
        r"""Return $(a − b) \sum_{y ∈ W(0)} e^{i⟨ω, y⟩}$ (k,) for frequencies ω (k, d).

        The sum is approximated by the integral over a ball of volume m and radius r, which is m times
        $Γ(\tfrac d2 + 1) (2/z)^{d/2} J_{d/2}(z)$ with z = ‖ω‖ r.
        """
        half, size = self.cells.dimension / 2, self.cells.window_size
        inside, outside = self.probabilities
        radius = (size * math.gamma(half + 1)) ** (0.5 / half) / math.sqrt(math.pi)  # in cells
        length = np.sqrt((frequencies**2).sum(axis=1))
        z = np.maximum(length * (radius * 2 / self.cells.steps), 1e-6)  # the limit at 0 is 1
        ball = math.gamma(half + 1) * (2 / z) ** half * scipy.special.jv(half, z)
        return np.asarray((inside - outside) * size * ball)

    def variance(self) -> float:
        r"""Return the largest variance, over all records, of a coordinate's affine unbiased estimate.

        The estimate is $(y_1 − b \sum k_1) / s$, with s = (a − b) m the slope of the mean report, a sum
        over all report cells k, and coordinates relative to the middle of the grid.
        """
        cells, (inside, outside) = self.cells, self.probabilities
        excess = inside - outside
        slope = excess * cells.window_size
        numbers = cells.report_numbers
        if numbers is None:
            numbers = np.arange(cells.number_limit)
        first = numbers // cells.base ** (cells.dimension - 1) - cells.radius - cells.steps / 2
        # The variance is convex in the record, so it is largest at an end.
        record = np.array([0.0 if cells.non_negative else -1.0, 1.0]) * cells.steps / 2
        mean = outside * first.sum() + slope * record
        mean_square = outside * (first**2).sum() + slope * record**2
        mean_square += excess * (cells.offsets[:, 0] ** 2).sum()
        return float(((mean_square - mean**2) / slope**2).max()) * (2 / cells.steps) ** 2

    def probability_cells(
        self, reports: Integers, records: Integers, present: Mask
    ) -> tuple[Array, Array]:
        """Return the ends (…, d) of the `Mechanism.probability_cells` of each coordinate.

        Cells that agree in their first coordinates form a *block*. Their numbers are consecutive, so
        two searches count the report cells, and the window's cells, of a block.

        Arguments:
            reports: Cells (…, d) of reports.
            records: Cells (…, d) of records.
            present: Whether each record (…) is not missing.
        """
        cells, (inside, outside) = self.cells, self.probabilities
        report, record = cells.number(reports), cells.number(records)
        excess = (inside - outside) * present

        def mass(low: Integers, high: Integers) -> Array:
            """Return the probability of the cells with numbers from `low` to `high` − 1."""
            near = np.searchsorted(cells.number_offsets, high - record)
            near -= np.searchsorted(cells.number_offsets, low - record)
            return outside * (cells.rank(high) - cells.rank(low)) + excess * near

        lows, highs = [], []
        for block in cells.base ** np.arange(cells.dimension, 0, -1):
            part = block // cells.base  # size of a block that agrees in one more coordinate
            block_start, part_start = report // block * block, report // part * part
            whole = mass(block_start, block_start + block)
            lows.append(mass(block_start, part_start) / whole)
            highs.append(mass(block_start, part_start + part) / whole)
        return np.stack(lows, axis=-1), np.stack(highs, axis=-1)
