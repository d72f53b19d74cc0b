r"""The square wave mechanism: reports near the record are e^ε times likelier, and all are bounded.

In unit coordinates $x ∈ [−1, 1]$, on a grid of $N = 2^{10}$ steps: the record is rounded to $j ∈ 0 …
N$ and the report $i ∈ −B … N+B$ has

$$ P(i | j) ∝ e^ε \text{ if } |i − j| ≤ B, \text{ else } 1 . $$

Every window of $2B+1$ cells lies inside the $T = N+2B+1$ cells, so the normalizer is the same for all
records and the likelihood ratio of any two is $e^ε$, its inverse, or 1. The half-width that maximizes
the information of a uniform record is, in units of the interval's length,

$$ b = \frac{ε e^ε − e^ε + 1}{2 e^ε (e^ε − 1 − ε)} . $$

**In integers only.** With $L = ⌊2^{64} N / (e^ε (2B+1) + N)⌋ + 1$, a word below $L$ sends the report to
one of the $N$ cells outside the window, uniformly, any other to one of those inside: the ratio
$(2^{64}−L)/L · N/(2B+1)$ is at most $e^ε$. All draws are made for every record: time tells nothing.

The likelihood is flat in $x$ inside the window, so it gives a point no gradient: fit a distribution
over bins. Each coordinate spends ε of its own.

References:
    Li, Wang, Lopuhaä-Zwakenberg, Škorić, Li, *Estimating numerical distributions under local
    differential privacy* (2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.mechanisms.forms import TableForm
from privot.mechanisms.mechanism import Mechanism
from privot.mechanisms.samplers.entropy import (
    EXACT,
    WORDS,
    random_words,
    uniforms_below,
    words_outside,
)
from privot.privacy.guarantees.guarantee import PureDP
from privot.privacy.rounding import multiply_up, require_finite
from privot.schema import Array, Column, Domain

STEPS = 2**10
GRID = 2 / STEPS


@dataclass(frozen=True)
class SquareWave(Mechanism, kind="square_wave"):
    """Bounded reports of numbers in [−1, 1], at ε a coordinate.

    Examples:
        >>> mechanism = SquareWave(epsilon=1.0)
        >>> round(mechanism.half_width, 3)  # in unit coordinates, whose interval has length 2
        0.512
    """

    epsilon: float

    noise_word = "an estimate"

    def __post_init__(self) -> None:
        require_finite("epsilon", self.epsilon, positive=True)
        if not 2.0**-10 <= self.epsilon <= 40:
            raise PrivotError(f"epsilon is {self.epsilon!r}: give a number from 2^-10 to 40")

    @classmethod
    def unfit(cls, column: Column) -> str:
        """It reports places on an interval; a spike is a share of people at one place."""
        bins = column.alphabet
        binned = bins is not None and bins.centers is not None and not bins.spikes
        if column.domain is not None and binned and not column.nullable:
            return ""
        return "it is for numbers and dates without spikes that are never missing: use 'laplace'"

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Self:
        """The same for all columns."""
        return cls(epsilon)

    def form(self, column: Column) -> TableForm:
        """All its reports, by the bins of the column."""

        def likelihood(y: Array, x: Array) -> Array:
            return np.exp(self.log_likelihood(y, x))

        half = self._half_cells
        reports = np.arange(-half, STEPS + half + 1.0) * GRID - 1.0
        return TableForm.over_bins(likelihood, reports, GRID, column)

    def information(self, column: Column) -> float:
        r"""About one of the STEPS + 1 grid points: $\log T − H(Y | V)$ less what the edges lose."""
        half, (inside, outside) = self._half_cells, self.probabilities
        reports = np.arange(-half, STEPS + half + 1)
        near = np.minimum(reports + half, STEPS) - np.maximum(reports - half, 0) + 1
        marginal = outside + (inside - outside) * near / (STEPS + 1)
        cells = 2 * half + 1
        conditional = -cells * inside * math.log2(inside) - STEPS * outside * math.log2(outside)
        return -float((marginal * np.log2(marginal)).sum()) - conditional

    @cached_property
    def _half_cells(self) -> int:
        # No operator: it would round as the caller's own context says.
        power = EXACT.exp(Decimal(self.epsilon))
        epsilon = Decimal(self.epsilon)
        above = EXACT.add(EXACT.multiply(EXACT.subtract(epsilon, 1), power), 1)
        beyond = EXACT.subtract(EXACT.subtract(power, 1), epsilon)
        below = EXACT.multiply(EXACT.multiply(2, power), beyond)
        return round(float(EXACT.divide(above, below)) * STEPS)

    @property
    def half_width(self) -> float:
        """Half of the window's width, in unit coordinates."""
        return self._half_cells * GRID

    @cached_property
    def words(self) -> tuple[int, int]:
        """How many of the 2^64 words put the report inside the window, and outside."""
        outside = words_outside(self.epsilon, 2 * self._half_cells + 1, STEPS, STEPS)
        return WORDS - outside, outside

    @property
    def probabilities(self) -> tuple[float, float]:
        """P(report) for one cell inside the window, and for one outside."""
        inside, outside = self.words
        return inside / WORDS / (2 * self._half_cells + 1), outside / WORDS / STEPS

    def privatize(self, x: Array) -> Array:
        """Reports in [−1−b, 1+b], multiples of the grid; any shape, last axis d.

        Raises:
            PrivotError: if a value lies outside [−1, 1] or is not a number.
        """
        x = np.asarray(x, np.float64)
        if x.size and not np.abs(x).max() <= 1:
            raise PrivotError("x has a value outside [-1, 1]: project it to the domain")
        cells, half = self._cells(x).ravel(), self._half_cells
        near = cells - half + uniforms_below(2 * half + 1, cells.size)
        far = uniforms_below(STEPS, cells.size) - half
        far += np.where(far >= cells - half, 2 * half + 1, 0)
        inside = random_words(cells.size) >= np.uint64(self.words[1])
        return (np.where(inside, near, far) * GRID - 1.0).reshape(x.shape)

    def probability_cells(
        self, reports: Array, x: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """The cells of the report's law from left to right."""
        inside, outside = self.probabilities
        half, record, report = self._half_cells, self._cells(x), self._cells(reports)

        def below(cell: NDArray[np.int64]) -> Array:
            near = np.clip(cell - (record - half), 0, 2 * half + 1)
            return near * inside + (cell + half - near) * outside

        return below(report), below(report + 1)

    def impossible(self, reports: Array) -> NDArray[np.bool_]:
        """Those beyond [−1−b, 1+b]."""
        return super().impossible(reports) | ~(np.abs(reports) <= 1 + self.half_width).all(axis=1)

    def to_grid(self, y: Array) -> Array:
        """The cells nearest to `y`."""
        return np.rint((y + 1.0) / GRID) * GRID - 1.0

    @staticmethod
    def _cells(x: Array) -> NDArray[np.int64]:
        return np.rint((x + 1.0) / GRID).astype(np.int64)

    def log_likelihood(self, y: Array, x: Array) -> Array:
        """$\\ln P(y | x)$, summed over the last axis; `y` and `x` broadcast."""
        distance = np.abs(self._cells(np.asarray(y)) - self._cells(np.asarray(x)))
        inside, outside = np.log(self.probabilities)
        return np.where(distance <= self._half_cells, inside, outside).sum(axis=-1)

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        """ε times the number of coordinates of `domain` (1 without one)."""
        return PureDP(multiply_up(self.epsilon, domain.dimension if domain else 1))

    @property
    def bias(self) -> float:
        """0: the report's mean is affine in the rounded record, so it can be made unbiased."""
        return 0.0

    @cached_property
    def variance(self) -> float:
        """Largest variance, over all records, of the affine unbiased estimate of a coordinate."""
        inside, outside = self.probabilities
        half = self._half_cells
        reports = np.arange(-half, STEPS + half + 1.0) - STEPS / 2
        record = np.array([0.0, STEPS / 2])  # the variance is quadratic in the distance to 0
        near = (inside - outside) * (2 * half + 1)  # also the slope of the mean
        window = half * (half + 1) / 3
        second = outside * (reports**2).sum() + near * (record**2 + window)
        return float(((second - (near * record) ** 2) / near**2).max()) * GRID**2
