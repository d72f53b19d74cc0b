r"""Additive integer noise on a public grid: $y = g · (\mathrm{round}(x/g) + k)$.

Noise added in floating point leaks its input through the low bits: not every float can be written
as $x$ + noise (Mironov 2012). Here the record is rounded to a grid $g = 2^{−j}$ first, integer noise
$k$ is added, and the sum is scaled back, exactly. Whatever the record, every multiple of $g$ can
come out, and nothing else.

**Sensitivity.** Rounding moves each coordinate by at most $g/2$, so two records may end up farther
apart than the domain's diameter Δ: at most $Δ_1 + d g$ in ℓ1, $Δ_2 + \sqrt d g$ in ℓ2, and Δ itself
where rounding cannot leave the domain (`domain.on_grid`).

**The grid is public and fine**: noise is $2^{19}$ to $2^{20}$ steps wide, so that rounding changes
neither utility nor, visibly, the density; the likelihood is that of the integers.

**Possible reports.** In the mechanism's own norm (ℓ1 for Laplace noise, else ℓ2), the noise of all
coordinates is longer than r(d) with probability below $2^{−64}$. From the domain's point $x_0$ nearest
to its center, no record is farther than D = Δ, or Δ/2 if the domain is symmetric; so a report farther
than D + r(d) from $x_0$ counts as impossible. Any other changes a log-likelihood ratio by at most Δ/b
under Laplace noise, and by at most $Δ (2D + r(d))/σ^2$ under Gaussian noise, where it is linear in the
report.

**Records** must be projected into their domain, in unit coordinates. Nothing is clamped here; numbers
that are not finite are refused (a refusal shows that the record was invalid: it must happen on the
device, before anything is sent).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.mechanisms.forms import FlaggedForm, NoiseForm
from privot.mechanisms.frequency_oracles import RandomizedResponse
from privot.mechanisms.mechanism import Mechanism, mechanism_kind
from privot.mechanisms.samplers import check_ratio
from privot.privacy.guarantees import PureDP
from privot.privacy.rounding import percent_at_most, require_finite, round_up, sum_up
from privot.schema import Column, Domain
from privot.schema.domains import Array

_COARSEST, _FINEST = 2.0**-10, 2.0**-40
_STEPS_LOG2 = 19
_MAX_CELL = 2.0**52  # integers up to here, and their sums, are exact floats
_SLACK = 1 + 2.0**-20  # images are stored in 32 bits
_SCALAR_LIMIT = 12  # up to here, plain Python is faster than arrays


def choose_grid(noise: float) -> float:
    """Return the power of two with noise/grid in [2^19, 2^20), but within 2^−40 … 2^−10.

    >>> choose_grid(1.0) == 2.0**-19
    True
    """
    exponent = math.frexp(noise)[1] - 1
    return min(_COARSEST, max(_FINEST, 2.0 ** (max(exponent, -100) - _STEPS_LOG2)))


def rounded_sensitivity(domain: Domain | None, norm: int, grid: float) -> float:
    """Return the largest ℓ_norm distance of two rounded records in unit coordinates, rounded up."""
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
    """Return the domain's point (d,) nearest to its center, in unit coordinates: public."""
    return domain.unit.project(np.zeros((1, domain.dimension)))[0]


class AdditiveNoise(Mechanism):
    """Integer noise on the grid `grid`, a field of its subclasses, which add the noise's law."""

    grid: float

    by_distance: ClassVar[bool] = False  # ε is the distance of two rounded records over the scale

    @classmethod
    def unfit(cls, column: Column) -> str:
        """Refuse categories, which have no domain, and missing numbers, which windows report."""
        if column.domain is None:
            return "it is for points: use 'randomized_response'"
        if column.nullable and column.is_number:
            return "it is for numbers that are never missing: use 'window'"
        return ""

    def fits(self, column: Column) -> bool:
        """Return True if the column's values are points that are never missing."""
        return not (self.unfit(column) or column.nullable)

    @abstractmethod
    def form(self, column: Column) -> NoiseForm:
        """Return the likelihood of a report by its distance."""

    def _check(self, name: str, noise: float, grid: float) -> None:
        require_finite(name, noise, positive=True)
        require_finite("grid", grid, positive=True)
        if grid > 1 or math.frexp(grid)[0] != 0.5 or grid < _FINEST:
            raise PrivotError(f"grid is {grid!r}: give a power of two between 2^-40 and 1")
        check_ratio(noise / grid)

    @abstractmethod
    def _reach(self, dimension: int) -> tuple[int, float]:
        """Return a norm, and a length that noise and rounding exceed with probability 2^−64."""

    def possible(self, y: Array, domain: Domain | None = None) -> NDArray[np.bool_]:
        """Find finite reports within the domain's radius and the noise's reach of its center."""
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
        """Draw integer noise for few values."""

    @abstractmethod
    def _draw(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Draw integer noise for many values."""

    @abstractmethod
    def _log_pmf(self, noise: Array) -> Array:
        """Evaluate $\\ln P(k)$ of integer noise, elementwise."""

    @abstractmethod
    def _cells(self, noise: Array) -> tuple[Array, Array]:
        """Return the `probability_cells` of integer noise (n, d)."""

    @cached_property
    def _limit(self) -> float:
        return _MAX_CELL * self.grid

    def privatize(self, x: Array) -> Array:
        """Draw reports $g(\\mathrm{round}(x/g) + k)$ in unit coordinates; any shape, last axis d.

        Raises:
            PrivotError: if a value is not finite, or too large to have been projected.
        """
        x = np.asarray(x, np.float64)
        if x.size <= _SCALAR_LIMIT:
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
        """Return the cells of the noise, the integers added to the rounded records."""
        return self._cells(np.rint(reports / self.grid) - np.rint(x / self.grid))

    def to_grid(self, y: Array) -> Array:
        """Return the multiples of the grid nearest to `y`."""
        return np.rint(np.asarray(y, np.float64) / self.grid) * self.grid

    def log_likelihood(self, y: Array, x: Array) -> Array:
        """Evaluate $\\ln P(y | x)$ of the integers, summed over the last axis; −∞ off the grid.

        `y` and `x` broadcast: (n, 1, d) against (m, d) gives (n, m).
        """
        cells = np.asarray(y, np.float64) / self.grid
        noise = cells - np.rint(np.asarray(x, np.float64) / self.grid)
        on_grid = np.rint(cells) == cells
        return np.where(on_grid, self._log_pmf(noise), -np.inf).sum(axis=-1)

    @staticmethod
    def _refusal() -> PrivotError:
        return PrivotError("x has a value that is not finite or far out: project it to the domain")


class _Noise(Protocol):
    """Noise whose loss is the distance of two rounded records over its scale."""

    @classmethod
    def calibrate(cls, domain: Domain, epsilon: float) -> AdditiveNoise:
        """Return the least noise that is ε-private on a domain."""


def noise_for(noise: type[_Noise], column: Column, epsilon: float) -> Mechanism:
    """Calibrate noise for a column's points, beside a flag where they may be missing."""
    assert column.domain is not None
    if column.nullable:
        return NullableNoise.around(noise, column.domain, epsilon)
    return noise.calibrate(column.domain, epsilon)


def mark_missing(points: Array, domain: Domain) -> Array:
    """Return records (n, d+1): points, and the stand-in and a 1 in place of rows with a NaN."""
    missing = np.isnan(points).any(axis=1, keepdims=True)
    return np.hstack([np.where(missing, stand_in(domain), points), missing])


@dataclass(frozen=True)
class NullableNoise(Mechanism, kind="nullable"):
    r"""A flag and a noisy point; records and reports are (n, d+1), the last number the flag.

    A device that sent a point only where it has one would reveal whether it has one. So every device
    sends both: a flag, "missing" or "present", under randomized response of $ε_f$, and a point with
    additive noise of $ε_v$. Where the record is missing, the noise is added to a **public stand-in**
    $x_0$, the domain's point nearest to the center of its chart; flag and noise are drawn independently.
    With $m$ the record's missingness,

    $$ f(\text{flag}, y \mid m, x) = f(\text{flag} | m) \, f(y | x_0)^m f(y | x)^{1−m} . $$

    **How ε is split.** Any two records are one of

    - both present: flags have the same law, the loss is $ε_v$, noise being scaled to the diameter Δ;
    - both missing: no loss;
    - one missing: $ε_f$ for the flag, and $s\,ε_v$ for the distance of the point from $x_0$, where
      $s = 1$ always holds, and $s = ½$ for domains that are symmetric about $x_0$ (boxes, balls): the
      reflection $−x$ of a record is a record, and rounding to the grid commutes with it, so
      $‖\tilde x‖ = ½ ‖\tilde x − \widetilde{(−x)}‖$ is at most half of the largest distance of two
      rounded records.

    Hence $ε = \max(ε_v,\; ε_f + s\,ε_v)$. `calibrate` takes $ε_f = ε/2$ and $ε_v = ε$ where $s = ½$, so
    a point of such a domain has no more noise for being nullable; elsewhere $ε_f = ε_v = ε/2$.

    **Privacy review.** Adjacency: any two records, missing or not. Who sees what: the flag and the
    point leave the device, both noised, in every report. Besides the noised values nothing depends on
    the record: the stand-in is put in before any noise is drawn, so both cases take the same path and
    the same samplers, whose time depends on the noise only. A vector with a missing coordinate counts
    as missing: a refusal would be seen. A curator must weigh both cases by the likelihood, and neither
    read the flag as the truth nor drop points whose flag says "missing".

    Arguments:
        value: Noise of the point.
        flag: Randomized response of the flag: 0 is present, 1 is missing.

    Examples:
        >>> from privot.mechanisms import Laplace
        >>> from privot.schema import Box
        >>> place = Box((0.0, 0.0), (9.0, 9.0))
        >>> mechanism = NullableNoise.around(Laplace, place, epsilon=2.0)
        >>> mechanism.flag.epsilon, mechanism.value.guarantee(place).epsilon
        (1.0, 2.0)
        >>> print(mechanism.guarantee(place))
        ε = 2 (pure), local, per person
    """

    value: AdditiveNoise
    flag: RandomizedResponse

    flagged, by_kind, among_auto = True, False, False

    def __post_init__(self) -> None:
        if not isinstance(self.value, AdditiveNoise) or not self.value.by_distance:
            raise PrivotError(
                f"value is {type(self.value).__name__}: a point that may be missing needs laplace noise"
            )
        if type(self.flag) is not RandomizedResponse or self.flag.num_categories != 2:
            raise PrivotError(
                f"flag is {self.flag!r:.80}: give randomized response of two categories"
            )

    @classmethod
    def around(cls, noise: type[_Noise], domain: Domain, epsilon: float) -> Self:
        """Split ε between point and flag."""
        half = epsilon / 2
        value = noise.calibrate(domain, epsilon if domain.symmetric else half)
        return cls(value, RandomizedResponse(2, half))

    @classmethod
    def unfit(cls, column: Column) -> str:
        """Refuse: it is requested by the kind of its noise."""
        return "it is noise and a flag: use 'laplace'"

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Mechanism:
        """Return the mechanism of Laplace noise."""
        return mechanism_kind("laplace").for_column(column, epsilon)

    @property
    def requested_kind(self) -> str:
        """Kind of the noise."""
        return self.value.kind

    def records(self, points: Array, domain: Domain) -> Array:
        """Return points and flags."""
        return mark_missing(points, domain)

    def fits(self, column: Column) -> bool:
        """Return True if values are points that may be missing."""
        return not self.value.unfit(column) and column.nullable

    def form(self, column: Column) -> FlaggedForm:
        """Return the likelihood of point and flag."""
        assert column.domain is not None
        start = tuple(stand_in(column.domain).tolist())
        return FlaggedForm(self.value.form(column), self.flag.probabilities, start)

    def attenuation(self, waves: Array) -> Array:
        """Return the attenuation by the point's noise."""
        return self.value.attenuation(waves)

    def expected(self, column: Column) -> dict[str, Any]:
        """Describe the error of the point, and how often the flag is right."""
        point, keep = super().expected(column), self.flag.probabilities[0]
        flag = f"and whether it is missing, the truth with probability {percent_at_most(keep)}"
        return point | {"keep": keep, "in_words": f"{point['in_words']}, {flag}"}

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        """Return $\\max(ε_v, ε_f + s ε_v)$ between any two records, rounded up; no δ is needed."""
        present = self.value.guarantee(domain).epsilon
        assert domain is not None  # or the noise has refused
        reach = present / 2 if domain.symmetric else present
        return PureDP(max(present, sum_up([self.flag.guarantee().epsilon, reach])))

    def privatize(self, x: Array) -> Array:
        """Draw reports for records (n, d+1) of `mark_missing`.

        Raises:
            PrivotError: if a number is not finite, or a flag neither 0 nor 1.
        """
        x = np.asarray(x, np.float64)
        flags = x[..., -1]
        if not np.isin(flags, (0.0, 1.0)).all():
            raise PrivotError("x has a flag that is neither 0 nor 1: mark what is missing")
        points = self.value.privatize(x[..., :-1])
        reported = self.flag.privatize(flags.astype(np.int64))
        return np.concatenate([points, reported[..., None]], axis=-1)

    def log_likelihood(self, y: Array, x: Array) -> Array:
        """Evaluate $\\ln f(\\text{flag} | m) + \\ln f(\\text{point} | x)$; `y` and `x` broadcast."""
        y, x = np.asarray(y, np.float64), np.asarray(x, np.float64)
        points = self.value.log_likelihood(y[..., :-1], x[..., :-1])
        flags, missing = (end[..., -1].astype(np.int64) for end in (y, x))
        return points + self.flag.log_likelihood(flags, missing)

    def possible(self, y: Array, domain: Domain | None = None) -> NDArray[np.bool_]:
        """Find reports of a flag that is 0 or 1 and a possible point."""
        return np.isin(y[:, -1], (0.0, 1.0)) & self.value.possible(y[:, :-1], domain)

    def to_grid(self, y: Array) -> Array:
        """Return reports with their points on the grid."""
        return np.hstack([self.value.to_grid(y[:, :-1]), y[:, -1:]])

    def probability_cells(
        self, reports: Array, x: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return the cells of the point, and of the flag."""
        points = self.value.probability_cells(reports[:, :-1], x[:, :-1], rng)
        flags = self.flag.probability_cells(
            reports[:, -1:].astype(np.int32), x[:, -1].astype(np.int64), rng
        )
        low, high = (np.hstack(ends) for ends in zip(points, flags, strict=True))
        return low, high

    def impossible(self, reports: Array) -> NDArray[np.bool_]:
        """Find reports that are not finite, or whose flag is neither 0 nor 1."""
        return super().impossible(reports) | ~np.isin(reports[:, -1], (0.0, 1.0))

    @property
    def variance(self) -> float:
        """Variance of a coordinate that is present."""
        return self.value.variance
