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
from privot.mechanisms.samplers.rounding import check_ratio
from privot.privacy.guarantees import PureDP
from privot.privacy.rounding import percent_at_most, require_finite, round_up, sum_up
from privot.schema import Column, Domain
from privot.schema.domains import Array

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


# A point that may be missing: a flag by randomized response, and always a noised point.
#
# A device that sent a point only where it has one would tell whether it has one. So every device
# sends both: a flag, which says "missing" or "present" under randomized response of $ε_f$, and a
# point with additive noise of $ε_v$. Where the record is missing, the noise is added to a **public
# stand-in** $x_0$, the domain's point nearest to the center of its chart; flag and noise are drawn
# independently. With $m$ the record's own missingness,
#
# $$ f(\text{flag}, y \mid m, x) = f(\text{flag} | m) \, f(y | x_0)^m f(y | x)^{1−m} . $$
#
# **How ε is split.** Any two records are one of
#
# - both present: flags have the same law, the loss is $ε_v$, noise being scaled to the diameter Δ;
# - both missing: no loss;
# - one missing: $ε_f$ for the flag, and for the point what lies between $x_0$ and the farthest $x$:
#   $s\,ε_v$, where $s = 1$ always holds, and $s = ½$ for domains that are symmetric about $x_0$
#   (boxes, balls): the reflection $−x$ of a record is a record, rounding to the grid commutes with
#   it, so $‖\tilde x‖ = ½ ‖\tilde x − \widetilde{(−x)}‖$ is at most half of what two rounded records
#   may differ by.
#
# Hence $ε = \max(ε_v,\; ε_f + s\,ε_v)$. `calibrate` takes $ε_f = ε/2$ and $ε_v = ε$ where $s = ½$, so
# a point of such a domain has no more noise for being nullable; elsewhere $ε_f = ε_v = ε/2$.
#
# **Privacy review.** Adjacency: any two records, missing or not. Who sees what: the flag and the
# point leave the device, both noised, in every report. Besides the noised values nothing depends on
# the record: the stand-in is put in before any noise is drawn, so both cases take the same path and
# the same samplers, whose time tells noise only. A half missing vector counts as missing: there is
# nothing to refuse, and a refusal would be seen. What a curator must not do is read the flag as the
# truth, or drop points whose flag says "missing": the flag is noise too, and the likelihood weighs
# both cases.


class _Noise(Protocol):
    """Noise whose loss is the distance of two rounded records over its scale."""

    @classmethod
    def calibrate(cls, domain: Domain, epsilon: float) -> AdditiveNoise:
        """The least that is ε-private on a domain."""


def noise_for(noise: type[_Noise], column: Column, epsilon: float) -> Mechanism:
    """Noise for a column's points, beside a flag where they may be missing."""
    assert column.domain is not None
    if column.nullable:
        return NullableNoise.around(noise, column.domain, epsilon)
    return noise.calibrate(column.domain, epsilon)


def mark_missing(points: Array, domain: Domain) -> Array:
    """Records as the mechanism takes them: unit coordinates and 1 where missing, (n, d+1).

    A row with a NaN is missing: it becomes the stand-in.
    """
    missing = np.isnan(points).any(axis=1, keepdims=True)
    return np.hstack([np.where(missing, stand_in(domain), points), missing])


@dataclass(frozen=True)
class NullableNoise(Mechanism, kind="nullable"):
    """A flag and a noisy point; records and reports are (n, d+1), the last number the flag.

    Arguments:
        value: Noise of the point.
        flag: Response about missingness: 0 is present, 1 is missing.

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
        """The split that the module's docstring gives."""
        half = epsilon / 2
        value = noise.calibrate(domain, epsilon if domain.symmetric else half)
        return cls(value, RandomizedResponse(2, half))

    @classmethod
    def unfit(cls, column: Column) -> str:
        """Made by its noise's kind, never by its own."""
        return "it is noise and a flag: use 'laplace'"

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Mechanism:
        """That of Laplace noise."""
        return mechanism_kind("laplace").for_column(column, epsilon)

    @property
    def asked_as(self) -> str:
        """That of the noise."""
        return self.value.kind

    def records(self, points: Array, domain: Domain) -> Array:
        """Points and flags."""
        return mark_missing(points, domain)

    def fits(self, column: Column) -> bool:
        """Whether the column's values are points that may be missing, of which no code can tell."""
        return not self.value.unfit(column) and column.nullable

    def form(self, column: Column) -> FlaggedForm:
        """The noise's, and the flag's."""
        assert column.domain is not None
        start = tuple(stand_in(column.domain).tolist())
        return FlaggedForm(self.value.form(column), self.flag.probabilities, start)

    def kept(self, waves: Array) -> Array:
        """By the noise of the point."""
        return self.value.kept(waves)

    def expected(self, column: Column) -> dict[str, Any]:
        """That of the point, and how often the flag is right."""
        told, keep = super().expected(column), self.flag.probabilities[0]
        flag = f"and whether it is missing, the truth with probability {percent_at_most(keep)}"
        return told | {"keep": keep, "in_words": f"{told['in_words']}, {flag}"}

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        """$\\max(ε_v, ε_f + s ε_v)$ between any two records, rounded up; no δ is needed."""
        present = self.value.guarantee(domain).epsilon
        assert domain is not None  # or the noise has refused
        reach = present / 2 if domain.symmetric else present
        return PureDP(max(present, sum_up([self.flag.guarantee().epsilon, reach])))

    def privatize(self, x: Array) -> Array:
        """Reports for records (n, d+1) of `mark_missing`.

        Raises:
            PrivotError: if a number is not finite, or a flag neither 0 nor 1.
        """
        x = np.asarray(x, np.float64)
        flags = x[..., -1]
        if not np.isin(flags, (0.0, 1.0)).all():
            raise PrivotError("x has a flag that is neither 0 nor 1: mark what is missing")
        points = self.value.privatize(x[..., :-1])
        told = self.flag.privatize(flags.astype(np.int64))
        return np.concatenate([points, told[..., None]], axis=-1)

    def log_likelihood(self, y: Array, x: Array) -> Array:
        """$\\ln f(\\text{flag} | m) + \\ln f(\\text{point} | x)$; `y` and `x` broadcast."""
        y, x = np.asarray(y, np.float64), np.asarray(x, np.float64)
        points = self.value.log_likelihood(y[..., :-1], x[..., :-1])
        return points + self.flag.log_likelihood(
            y[..., -1].astype(np.int64), x[..., -1].astype(np.int64)
        )

    def possible(self, y: Array, domain: Domain | None = None) -> NDArray[np.bool_]:
        """A flag that is 0 or 1, and a point that the noise can have made."""
        return np.isin(y[:, -1], (0.0, 1.0)) & self.value.possible(y[:, :-1], domain)

    def to_grid(self, y: Array) -> Array:
        """Reports with their points back on the grid that they were drawn on."""
        return np.hstack([self.value.to_grid(y[:, :-1]), y[:, -1:]])

    def probability_cells(
        self, reports: Array, x: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Those of the point, and of the flag."""
        points = self.value.probability_cells(reports[:, :-1], x[:, :-1], rng)
        flags = self.flag.probability_cells(
            reports[:, -1:].astype(np.int32), x[:, -1].astype(np.int64), rng
        )
        low, high = (np.hstack(ends) for ends in zip(points, flags, strict=True))
        return low, high

    def impossible(self, reports: Array) -> NDArray[np.bool_]:
        """Those that are not finite, or whose flag is neither 0 nor 1."""
        return super().impossible(reports) | ~np.isin(reports[:, -1], (0.0, 1.0))

    @property
    def bias(self) -> float:
        """Of a coordinate that is present."""
        return self.value.bias

    @property
    def variance(self) -> float:
        """Of a coordinate that is present."""
        return self.value.variance
