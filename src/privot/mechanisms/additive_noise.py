r"""Additive integer noise on a public grid: $y = g · (\mathrm{round}(x/g) + k)$.

Noise added in floating point leaks its input through the low bits: not every float can be written
as $x$ + noise (Mironov 2012). Here the record is rounded to a grid $g = 2^{−j}$ first, integer noise
$k$ is added, and the sum is scaled back, exactly. Outputs are multiples of $g$ for every record.

**Sensitivity.** Rounding moves each coordinate by at most $g/2$, so two rounded records may be farther
apart than the domain's diameter Δ: by at most $d g$ in ℓ1 and $\sqrt d g$ in ℓ2, and not at all where
rounding cannot leave the domain (`domain.on_grid`).

**The grid** is public and so fine that rounding hardly changes the utility: one step is $2^{−20}$ to
$2^{−19}$ of the noise. The likelihood is the exact probability of the integers.

**Possible reports.** In the mechanism's norm (ℓ1 for Laplace noise, else ℓ2), noise and rounding
together are longer than r(d) with probability below $2^{−64}$. Let $x_0$ be the domain's point nearest
to its center. A record's distance from $x_0$ is at most D = Δ, or D = Δ/2 if the domain is symmetric. So
a report farther than D + r(d) from $x_0$ counts as impossible. Any other changes a log-likelihood ratio
by at most Δ/b under Laplace noise of scale b, and $Δ (2D + r(d))/σ^2$ under Gaussian noise, where the
ratio is linear in the report.

**Records** must be projected into their domain, in unit coordinates. Nothing is clamped here; numbers
that are not finite are refused. A refusal reveals that the record was invalid, so it must happen on the
device, before anything is sent.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError, require_finite
from privot.mechanisms.forms import FlaggedForm, NoiseForm
from privot.mechanisms.frequency_oracles import RandomizedResponse
from privot.mechanisms.mechanism import Mechanism, mechanism_kind
from privot.mechanisms.samplers import check_ratio
from privot.privacy.guarantees import PureDP
from privot.privacy.rounding import percent_at_most, round_up, sum_up
from privot.schema import Column, Domain
from privot.schema.domains import Array

_COARSEST, _FINEST = 2.0**-10, 2.0**-40  # limits of the grid
_STEPS_LOG2 = 19  # noise is 2^19 to 2^20 steps wide
_MAX_CELL = 2.0**52  # integers up to here, and their sums, are exact floats
_SLACK = 1 + 2.0**-20  # covers the rounding of images, which are stored in 32 bits
_SCALAR_LIMIT = 12  # plain Python is faster than arrays up to this many numbers


def choose_grid(noise: float) -> float:
    """Return the grid, a power of two with noise/grid in [2^19, 2^20), clipped to 2^−40 … 2^−10."""
    exponent = math.frexp(noise)[1] - 1
    return min(_COARSEST, max(_FINEST, 2.0 ** (exponent - _STEPS_LOG2)))


def rounded_sensitivity(domain: Domain | None, norm: int, grid: float) -> float:
    """Return the ℓ_norm sensitivity in unit coordinates, rounded up; PrivotError if `domain` is None."""
    if domain is None:
        raise PrivotError("domain is None: give the domain, whose diameter is the sensitivity")
    unit = domain.unit
    diameter = Fraction(unit.diameter(norm))
    if unit.on_grid:
        return round_up(diameter)
    d = unit.dimension
    steps = Fraction(d) if norm == 1 else Fraction(math.nextafter(math.sqrt(d), math.inf))
    return round_up(diameter + steps * Fraction(grid))


def stand_in(domain: Domain) -> Array:
    """Return the public point (d,), nearest to the center, that replaces a missing record."""
    return domain.unit.project(np.zeros((1, domain.dimension)))[0]


class AdditiveNoise(Mechanism):
    """Base of mechanisms that add integer noise on a grid; subclasses define the noise's law."""

    grid: float  # step g, in unit coordinates

    norm: ClassVar[int]  # norm of the sensitivity: 1 or 2
    by_distance: ClassVar[bool] = False  # whether ε is proportional to the distance of two records

    @classmethod
    def unfit(cls, column: Column) -> str:
        """See `Mechanism`: for points; windows report numbers that may be missing."""
        if column.domain is None:
            return "it is for points: use 'randomized_response'"
        if column.nullable and column.is_number:
            return "it is for numbers that are never missing: use 'window'"
        return ""

    def fits(self, column: Column) -> bool:
        return not (self.unfit(column) or column.nullable)

    @abstractmethod
    def form(self, column: Column) -> NoiseForm:
        """See `Mechanism`: a function of the distance of report and record."""

    def _check(self, name: str, noise: float, grid: float) -> None:
        """Raise PrivotError unless the parameter `name` of the noise and the grid are in range."""
        require_finite(name, noise, positive=True)
        require_finite("grid", grid, positive=True)
        if grid > 1 or math.frexp(grid)[0] != 0.5 or grid < _FINEST:
            raise PrivotError(f"grid is {grid!r}: give a power of two between 2^-40 and 1")
        check_ratio(noise / grid)

    def sensitivity(self, domain: Domain | None) -> float:
        """Return the largest distance of two rounded records in `norm`, rounded up."""
        return rounded_sensitivity(domain, self.norm, self.grid)

    @abstractmethod
    def _reach(self, dimension: int) -> float:
        """Return the length r(d), in `norm`, that noise and rounding exceed with P ≤ 2^−64."""

    def possible(self, y: Array, domain: Domain | None = None) -> NDArray[np.bool_]:
        """See `Mechanism`: the reports within D + r(d) of $x_0$ (see the module)."""
        if domain is None:
            raise PrivotError("domain is None: give the domain, on which possible reports depend")
        farthest = domain.unit.diameter(self.norm) / (2 if domain.symmetric else 1)
        reach = self._reach(np.shape(y)[-1])
        with np.errstate(all="ignore"):  # some reports may not be finite
            difference = np.asarray(y, np.float64) - stand_in(domain)
            distance = np.linalg.norm(difference, self.norm, axis=1)
        return np.asarray(distance <= (farthest + reach) * _SLACK)

    @abstractmethod
    def _draw_list(self, count: int) -> list[int]:
        """Draw `count` integers of noise as a list, which is faster for few values."""

    @abstractmethod
    def _draw(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Draw integers of noise as an array, which is faster for many values."""

    @abstractmethod
    def _log_pmf(self, noise: Array) -> Array:
        """Evaluate $\\ln P(k)$ of integer noise, elementwise."""

    @abstractmethod
    def _cells(self, noise: Array) -> tuple[Array, Array]:
        """Return the `probability_cells` of integer noise (n, d)."""

    def privatize(self, x: Array) -> Array:
        """Draw reports, of the shape of the records `x` (…, d) in unit coordinates.

        Raises:
            PrivotError: if a value is not finite, or too large to have been projected.
        """
        x = np.asarray(x, np.float64)
        if x.size <= _SCALAR_LIMIT:
            step, reports = self.grid, []
            limit = _MAX_CELL * step
            for value, noise in zip(x.ravel().tolist(), self._draw_list(x.size), strict=True):
                if not -limit <= value <= limit:
                    raise self._unprojected_error()
                reports.append((round(value / step) + noise) * step)
            return np.array(reports).reshape(x.shape)
        cells = x * (1 / self.grid)
        if not (cells.min() >= -_MAX_CELL and cells.max() <= _MAX_CELL):
            raise self._unprojected_error()
        np.rint(cells, out=cells)
        cells += self._draw(x.shape)
        cells *= self.grid
        return cells

    def probability_cells(
        self, reports: Array, x: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """See `Mechanism`: the cells of the noise, which is the report minus the rounded record."""
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
    def _unprojected_error() -> PrivotError:
        return PrivotError("x has a value that is not finite or far out: project it to the domain")


def noise_for(noise: type[Any], column: Column, epsilon: float) -> Mechanism:
    """Calibrate a class of pure noise for a column's points, with a noisy flag if they are nullable."""
    assert column.domain is not None
    if column.nullable:
        return NullableNoise.around(noise, column.domain, epsilon)
    mechanism: Mechanism = noise.calibrate(column.domain, epsilon)
    return mechanism


def mark_missing(points: Array, domain: Domain) -> Array:
    """Return records (n, d+1) of points (n, d): a row with a NaN becomes the stand-in with flag 1."""
    missing = np.isnan(points).any(axis=1, keepdims=True)
    return np.hstack([np.where(missing, stand_in(domain), points), missing])


@dataclass(frozen=True)
class NullableNoise(Mechanism, kind="nullable"):
    r"""Noisy points that may be missing; records and reports are (n, d+1), the last number a flag.

    A device that sent a point only if its record has one would reveal whether the record is missing. So
    every device sends a flag, 1 for missing and 0 for present, by randomized response of $ε_f$, and a
    point with additive noise of $ε_v$. If the record is missing, the noise is added to a **public
    stand-in** $x_0$, the domain's point nearest to the center of its unit coordinates. Flag and noise
    are drawn independently. With $m = 1$ for a missing record, else 0,

    $$ f(\text{flag}, y \mid m, x) = f(\text{flag} | m) \, f(y | x_0)^m f(y | x)^{1−m} . $$

    **Privacy loss** between two records, of which

    - two are present: $ε_v$, because flags have the same law, and noise is scaled to the diameter Δ;
    - none is present: 0;
    - one is present: $ε_f$ for the flag, and $s\,ε_v$ for the point's distance from $x_0$. In general
      $s = 1$. In domains that are symmetric about $x_0$ (boxes, balls) $s = ½$: the reflection $−x$ of a
      record is a record, and rounding to the grid, $x ↦ \tilde x$, commutes with reflection, so
      $‖\tilde x‖ = ½ ‖\tilde x − \widetilde{(−x)}‖$ is at most half of the diameter after rounding.

    Hence $ε = \max(ε_v,\; ε_f + s\,ε_v)$. If $s = ½$, `around` takes $ε_f = ε/2$ and $ε_v = ε$, so the
    point has no more noise than one that is never missing. Else it takes $ε_f = ε_v = ε/2$.

    **Privacy review.** Adjacency: any two records, missing or not. Who sees what: flag and point leave
    the device, noised, in every report. Nothing else depends on the record: the stand-in replaces a
    missing point before any noise is drawn, so all records run the same samplers, whose time depends on
    the noise only. A vector with a missing coordinate counts as missing, because others would see a
    refusal. A curator must weigh the two cases by the likelihood: the flag is not the truth, and points
    flagged as missing must not be dropped.

    Arguments:
        value: Laplace noise of the point.
        flag: Randomized response of the flag: 0 is present, 1 is missing.

    Raises:
        PrivotError: if the noise is of another kind, or the response not of two categories.

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
    def around(cls, noise: type[Any], domain: Domain, epsilon: float) -> Self:
        """Calibrate a class of pure noise, and the randomized response of the flag, at a total of ε."""
        half = epsilon / 2
        value = noise.calibrate(domain, epsilon if domain.symmetric else half)
        return cls(value, RandomizedResponse(2, half))

    @classmethod
    def unfit(cls, column: Column) -> str:
        """See `Mechanism`: users request it by the kind of its noise."""
        return "it is noise and a flag: use 'laplace'"

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Mechanism:
        """See `Mechanism`: Laplace noise, the only one whose ε is proportional to the distance."""
        return mechanism_kind("laplace").for_column(column, epsilon)

    @property
    def requested_kind(self) -> str:
        return self.value.kind

    def records(self, points: Array, domain: Domain) -> Array:
        return mark_missing(points, domain)

    def fits(self, column: Column) -> bool:
        return not self.value.unfit(column) and column.nullable

    def form(self, column: Column) -> FlaggedForm:
        assert column.domain is not None
        center = tuple(stand_in(column.domain).tolist())
        return FlaggedForm(self.value.form(column), self.flag.probabilities, center)

    def attenuation(self, frequencies: Array) -> Array:
        return self.value.attenuation(frequencies)

    def expected(self, column: Column) -> dict[str, Any]:
        """Describe the error of the point, and the probability `keep` that the flag is right."""
        point, keep = super().expected(column), self.flag.probabilities[0]
        flag = f"and whether it is missing, the truth with probability {percent_at_most(keep)}"
        return point | {"keep": keep, "in_words": f"{point['in_words']}, {flag}"}

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        """Return $\\max(ε_v, ε_f + s ε_v)$ between any two records, rounded up; no δ is needed."""
        both_present = self.value.guarantee(domain).epsilon
        assert domain is not None  # otherwise the line above raises
        to_stand_in = both_present / 2 if domain.symmetric else both_present
        return PureDP(max(both_present, sum_up([self.flag.guarantee().epsilon, to_stand_in])))

    def privatize(self, x: Array) -> Array:
        """Draw reports (…, d+1) for records (…, d+1) of `mark_missing`.

        Raises:
            PrivotError: if a number is not finite, or a flag neither 0 nor 1.
        """
        x = np.asarray(x, np.float64)
        flags = x[..., -1]
        if not np.isin(flags, (0.0, 1.0)).all():
            raise PrivotError("x has a flag that is neither 0 nor 1: give 1 if missing")
        points = self.value.privatize(x[..., :-1])
        reported = self.flag.privatize(flags.astype(np.int64))
        return np.concatenate([points, reported[..., None]], axis=-1)

    def log_likelihood(self, y: Array, x: Array) -> Array:
        """Evaluate $\\ln f(\\text{flag} | m) + \\ln f(\\text{point} | x)$; `y` and `x` broadcast."""
        y, x = np.asarray(y, np.float64), np.asarray(x, np.float64)
        points = self.value.log_likelihood(y[..., :-1], x[..., :-1])
        flags, missing = y[..., -1].astype(np.int64), x[..., -1].astype(np.int64)
        return points + self.flag.log_likelihood(flags, missing)

    def possible(self, y: Array, domain: Domain | None = None) -> NDArray[np.bool_]:
        """Return a mask (n,) of reports with a flag of 0 or 1 and a possible point."""
        return np.isin(y[:, -1], (0.0, 1.0)) & self.value.possible(y[:, :-1], domain)

    def to_grid(self, y: Array) -> Array:
        return np.hstack([self.value.to_grid(y[:, :-1]), y[:, -1:]])

    def probability_cells(
        self, reports: Array, x: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """See `Mechanism`: cells of the point's coordinates, then of the flag."""
        point_low, point_high = self.value.probability_cells(reports[:, :-1], x[:, :-1], rng)
        flags, missing = reports[:, -1:].astype(np.int32), x[:, -1].astype(np.int64)
        flag_low, flag_high = self.flag.probability_cells(flags, missing, rng)
        return np.hstack([point_low, flag_low]), np.hstack([point_high, flag_high])

    def impossible(self, reports: Array) -> NDArray[np.bool_]:
        """Return a mask (n,) of reports that are not finite, or have a flag other than 0 or 1."""
        return super().impossible(reports) | ~np.isin(reports[:, -1], (0.0, 1.0))

    @property
    def variance(self) -> float:
        """Variance of a coordinate of a point that is present."""
        return self.value.variance
