r"""Additive integer noise on a public grid: $y = g · (\mathrm{round}(x/g) + k)$.

Noise added in floating point leaks its input through the low bits: not every float can be written
as $x$ + noise (Mironov 2012). Here the record is rounded to a grid $g = 2^{−j}$ first, integer noise
$k$ is added, and the sum is scaled back, exactly. Whatever the record, every multiple of $g$ can
come out, and nothing else.

**Rounding counts.** It moves each coordinate by at most $g/2$, so two records may end up farther
apart than the domain's diameter Δ: at most $Δ_1 + d g$ in ℓ1, $Δ_2 + \sqrt d g$ in ℓ2, and Δ itself
where rounding cannot leave the domain (`domain.on_grid`).

**The grid is public and fine**: noise is $2^{19}$ to $2^{20}$ steps wide, so rounding changes
neither utility nor, visibly, the density; the likelihood is that of the integers all the same.

**How far out a report can be.** Noise is unbounded, but not in practice: in the mechanism's own norm
(ℓ1 of Laplace noise, else ℓ2), the noise of all coordinates is longer than r(d) with probability below
$2^{−64}$. From the domain's point $x_0$ nearest to its center, no record is farther than D = Δ, or Δ/2
if the domain is symmetric; so a report farther than D + r(d) from $x_0$ is nobody's. What is left moves
a log-likelihood ratio by at most Δ/b of Laplace noise, as always, and by at most $Δ (2D + r(d))/σ^2$ of
Gaussian noise, which is linear in the report.

**What a record must be**: projected into its domain, in unit coordinates. Nothing is clamped here;
numbers that are not finite are refused (a refusal shows that the record was invalid: it must happen
on the device, before anything is sent).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.mechanisms.forms import NoiseForm
from privot.mechanisms.mechanism import Mechanism
from privot.mechanisms.samplers.exact_rounding import check_ratio
from privot.privacy.rounding import require_finite, round_up
from privot.schema import Array, Column, Domain

_COARSEST, _FINEST = 2.0**-10, 2.0**-40
_STEPS_LOG2 = 19
_MAX_CELL = 2.0**52  # integers up to here, and their sums, are exact floats
_SLACK = 1 + 2.0**-20  # images are stored in 32 bits
_SMALL = 12  # up to here, plain Python is faster than arrays


def choose_grid(noise: float) -> float:
    """The power of two with noise/grid in [2^19, 2^20), kept within 2^−40 … 2^−10.

    >>> choose_grid(1.0) == 2.0**-19
    True
    """
    exponent = math.frexp(noise)[1] - 1
    return min(_COARSEST, max(_FINEST, 2.0 ** (max(exponent, -100) - _STEPS_LOG2)))


def rounded_sensitivity(domain: Domain | None, norm: int, grid: float) -> float:
    """Largest ℓ_norm distance of two rounded records in unit coordinates, rounded up."""
    if domain is None:
        raise PrivotError("domain is None: additive noise hides what its domain's diameter bounds")
    unit = domain.unit
    diameter = Fraction(unit.diameter(norm))
    if unit.on_grid:
        return round_up(diameter)
    d = unit.dimension
    steps = Fraction(d) if norm == 1 else Fraction(math.nextafter(math.sqrt(d), math.inf))
    return round_up(diameter + steps * Fraction(grid))


def stand_in(domain: Domain) -> Array:
    """The domain's point (d,) nearest to its center, in unit coordinates: public."""
    return domain.unit.project(np.zeros((1, domain.dimension)))[0]


class AdditiveNoise(Mechanism):
    """Integer noise on the grid `grid`; subclasses, dataclasses with that field, add its law."""

    grid: float

    by_distance: ClassVar[bool] = False  # ε is the distance of two rounded records over the scale

    @classmethod
    def unfit(cls, column: Column) -> str:
        """Categories have no domain; and windows say that a number is missing in the same report."""
        if column.domain is None:
            return "it is for points: use 'randomized_response'"
        if column.nullable and column.is_number:
            return "it is for numbers that are never missing: use 'window'"
        return ""

    def fits(self, column: Column) -> bool:
        """Whether the column's values are points that are never missing."""
        return not (self.unfit(column) or column.nullable)

    @abstractmethod
    def form(self, column: Column) -> NoiseForm:
        """How likely a report is at a distance."""

    def _check(self, name: str, noise: float, grid: float) -> None:
        require_finite(name, noise, positive=True)
        require_finite("grid", grid, positive=True)
        if grid > 1 or math.frexp(grid)[0] != 0.5 or grid < _FINEST:
            raise PrivotError(f"grid is {grid!r}: give a power of two between 2^-40 and 1")
        check_ratio(noise / grid)

    @abstractmethod
    def _reach(self, dimension: int) -> tuple[int, float]:
        """A norm, and what the noise of d coordinates, rounding included, exceeds once in 2^64."""

    def possible(self, y: Array, domain: Domain | None = None) -> NDArray[np.bool_]:
        """Finite, and within the domain's diameter and the noise's reach of the domain's center."""
        norm, reach = self._reach(np.shape(y)[-1])
        if domain is None:
            raise PrivotError("domain is None: how far noise carries depends on where records are")
        unit = domain.unit
        farthest = unit.diameter(norm) / (2 if domain.symmetric else 1)
        with np.errstate(all="ignore"):  # of reports that are not finite
            away = np.asarray(y, np.float64) - stand_in(domain)
            far = np.abs(away).sum(axis=1) if norm == 1 else np.sqrt((away**2).sum(axis=1))
        return np.asarray(far <= (farthest + reach) * _SLACK)

    @abstractmethod
    def _draw_list(self, count: int) -> list[int]:
        """Integer noise for few values."""

    @abstractmethod
    def _draw(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Integer noise for many values."""

    @abstractmethod
    def _log_pmf(self, noise: Array) -> Array:
        """$\\ln P(k)$ of integer noise, elementwise."""

    @abstractmethod
    def _cells(self, noise: Array) -> tuple[Array, Array]:
        """The cells of integer noise (n, d): see `probability_cells`."""

    @property
    def bias(self) -> float:
        """0: the noise is symmetric (rounding the record moves it by at most grid/2)."""
        return 0.0

    @cached_property
    def _limit(self) -> float:
        return _MAX_CELL * self.grid

    def privatize(self, x: Array) -> Array:
        """Reports $g(\\mathrm{round}(x/g) + k)$ in unit coordinates; any shape, last axis d.

        Raises:
            PrivotError: if a value is not finite, or too large to have been projected.
        """
        x = np.asarray(x, np.float64)
        if x.size <= _SMALL:
            step, limit, sums = self.grid, self._limit, []
            noise = iter(self._draw_list(x.size))
            for value in x.ravel().tolist():
                if not -limit <= value <= limit:
                    raise self._refusal()
                sums.append((round(value / step) + next(noise)) * step)
            return np.array(sums).reshape(x.shape)
        cells = x * (1 / self.grid)
        if not (cells.min() >= -_MAX_CELL and cells.max() <= _MAX_CELL):
            raise self._refusal()
        np.rint(cells, out=cells)
        cells += self._draw(x.shape)
        cells *= self.grid
        return cells

    def probability_cells(
        self, reports: Array, x: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """The cells of the integers that were added to the rounded records."""
        return self._cells(np.rint(reports / self.grid) - np.rint(x / self.grid))

    def to_grid(self, y: Array) -> Array:
        """The multiples of the grid nearest to `y`."""
        return np.rint(np.asarray(y, np.float64) / self.grid) * self.grid

    def log_likelihood(self, y: Array, x: Array) -> Array:
        """$\\ln P(y | x)$ of the integers, summed over the last axis; −∞ where y is off the grid.

        `y` and `x` broadcast: (n, 1, d) against (m, d) gives (n, m).
        """
        cells = np.asarray(y, np.float64) / self.grid
        noise = cells - np.rint(np.asarray(x, np.float64) / self.grid)
        on_grid = np.rint(cells) == cells
        return np.where(on_grid, self._log_pmf(noise), -np.inf).sum(axis=-1)

    @staticmethod
    def _refusal() -> PrivotError:
        return PrivotError("x has a value that is not finite or far out: project it to the domain")
