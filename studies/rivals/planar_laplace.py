r"""The planar Laplace mechanism on a grid: locations, hidden the better the closer they are.

A rival of windows. `mechanism_kinds` does not list it, so that nothing chooses it.

$y = g(\mathrm{round}(x/g) + k)$, $k ∈ ℤ^2$ with $P(k) = e^{−‖k‖_2/t}/Z(t)$, $t = b/g$. The lattice
is infinite, so $Z$ is the same for every record, and by the triangle inequality, with $n, n′$ the
rounded integers of any two records,

$$ \frac{P(y | x)}{P(y | x′)} ≤ e^{‖n − n′‖_2 / t} ≤ e^{(‖x − x′‖_2 + \sqrt 2 g)/b} : $$

geo-indistinguishability with 1/b per unit coordinate, and ε-local privacy with ε = Δ₂/b, Δ₂ being the
ℓ2 diameter of the domain plus rounding. Per coordinate the continuous law has variance $3b^2$; the
Laplace mechanism, which spends Δ₁ = √2 Δ₂ on a square, has $4b^2$, and squares for contours.

**The normalizer.** The Fourier transform of $e^{−‖v‖/t}$ is $2πt^2 (1 + (2πt)^2 ‖ξ‖^2)^{−3/2}$, so by
Poisson's summation, a binomial series, and $\sum_{ξ≠0} ‖ξ‖^{−2s} = 4 ζ(s) β(s)$ over the lattice,

$$ Z(t) = 2πt^2 \Big( 1 + \sum_{j≥0} c_j t^{−3−2j} \Big), \qquad
c_j = \binom{−3/2}{j} \frac{4\, ζ(j + \tfrac32)\, β(j + \tfrac32)}{(2π)^{3+2j}}, $$

for $t > 1/2π$; below t = 4 the lattice is summed. The variance is that of $Z$'s second derivative in
$1/t$.

Distance must mean the same in both coordinates: the domain's chart has one scale (a ball, a square, a
polyline; not a rectangle).

**The sampler.** Two independent integers of `sample_discrete_laplace`, of ratio $s ≥
\sqrt 2\, t$, propose $k$ with $P ∝ e^{−‖k‖_1/s}$. Since $‖k‖_1 ≤ \sqrt 2 ‖k‖_2$,

$$ a(k) = ‖k‖_2/t − ‖k‖_1/s ≥ 0, $$

so $e^{−a}$ is a probability, and keeping $k$ when $−\ln U ≥ a(k)$, $U$ a real uniform, leaves
$P(k) ∝ e^{−‖k‖_1/s − a(k)} = e^{−‖k‖_2/t}$. That $s$ is a float, not below $\sqrt 2\, t$ in exact
arithmetic, changes how often a proposal is kept (π/4 of them for large t), never the result.

Floats do no harm: one word gives the first 63 bits $r$ of $U ∈ [r, r+1) 2^{−63}$. For $r ≥ 2^{44}$
the float $−\ln U$ is within $2^{−43}$, as in
`privot.mechanisms.laplace`. While $‖k‖_2/t ≤ 2^7$, so that $‖k‖_1/s ≤ 2^7$ as
well, $a$ takes a dozen roundings of relative size $2^{−53}$ (integers to floats, squares, sum, root,
quotients, difference) of numbers below $2^7$: it is within $2^{−42}$. The comparison is kept only if
both sides differ by more than $2^{−40}$; for $r < 2^{44}$, $U ≤ 2^{−19}$ and $−\ln U$ may only be taken
for larger than what $2^{−19}$ gives. Otherwise more bits of $U$ are drawn and intervals of correctly
rounded logarithms, roots and quotients decide: with probability 1 after finitely many.

**Who sees what.** The time of a draw depends on the noise (proposals not kept) and on the public
ratio, never on a record.

**Distances of what?** Of raw places, anywhere: a place outside the domain is projected onto it first.
For $‖x − x'‖$ to be that of raw places, projecting may not lengthen distances: so it is for the nearest
point of a convex set, and not on a curve, where places next to each other on either side of a bend go to
far parts of it. There geo-indistinguishability is refused; ε-local privacy by the diameter holds. What
the ball's projections end inside of it (2^−40 each of two), and the roundings of the chart (2^−53), are
in `epsilon_rounding`.

References:
    Andrés, Bordenabe, Chatzikokolakis, Palamidessi, *Geo-indistinguishability: differential privacy
    for location-based systems* (2013); von Neumann, *Various techniques used in connection with random
    digits* (1951), for rejection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Self

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.core.errors import PrivotError, require_finite
from privot.local.networks.cost import NOISE_CHANNELS, PointChannel
from privot.mechanisms.additive_noise import (
    AdditiveNoise,
    choose_grid,
    noise_for,
    rounded_sensitivity,
)
from privot.mechanisms.forms import NoiseForm
from privot.mechanisms.laplace import sample_discrete_laplace
from privot.mechanisms.mechanism import NEGLIGIBLE, Mechanism
from privot.mechanisms.samplers import (
    LOG_ERROR_OK,
    Integers,
    check_ratio,
    directed_contexts,
    negative_log,
    random_bits,
    random_word,
    random_words,
    take_buffered,
)
from privot.privacy.curves import calibrate_laplace, laplace_epsilon
from privot.privacy.guarantees import GeoIndistinguishability, PureDP
from privot.privacy.rounding import round_up
from privot.schema import Column, Domain
from privot.schema.domains import Array
from privot.transport import squared_euclidean

_SUMMED_BELOW = 4.0  # from here on five terms of the series reach 1e-16
_SERIES = (
    0.036418520096128478,
    -0.00077970753701836920,
    2.1452143742888985e-5,
    -6.0072362999455244e-7,
    1.6711439288956558e-8,
)
_AUDITED_ABOVE = 2.0**9
_CHART_ERROR = Fraction(2) ** -38  # of unit coordinates: projections and roundings; see the module
_SMALL = 6  # up to here, one point at a time is faster than arrays
_BLOCK = 2**14
_PREFIX_BITS = 63
_PREFIX_MIN = 2**44
_UNIT = 2.0**-_PREFIX_BITS
_MARGIN = 2.0**-40 if LOG_ERROR_OK else math.inf
_FAR = 2.0**7


@dataclass(frozen=True)
class PlanarLaplace(AdditiveNoise):
    """Discrete planar Laplace noise of scale b on a grid, both in unit coordinates.

    Examples:
        >>> from privot.schema.domains import L2Ball
        >>> city = L2Ball(2, radius=10.0)  # in kilometers
        >>> mechanism = PlanarLaplace.calibrate_geo(city, epsilon_per_unit=0.5)
        >>> print(mechanism.geo_guarantee(city, "kilometer"))
        ε = 0.5 per kilometer plus 1.7e-06 (geo-indistinguishability), local, per person
        >>> print(mechanism.guarantee(city))  # 10.000002, between the two farthest places
        ε = 10.01 (pure), local, per person
    """

    kind: ClassVar[str] = "planar_laplace"

    scale: float
    grid: float

    norm, by_distance, among_auto = 2, True, False

    def __post_init__(self) -> None:
        self._check("scale", self.scale, self.grid)
        proposal_ratio(self.scale / self.grid)

    @classmethod
    def calibrate(cls, domain: Domain, epsilon: float) -> Self:
        """The least noise with Δ₂/b ≤ ε, rounding to the grid included, in exact arithmetic.

        Raises:
            PrivotError: if epsilon is not finite and positive, or the domain is no plane of one
                scale.
        """
        _one_scale(domain)
        grid = choose_grid(calibrate_laplace(domain.unit.diameter(2), epsilon))
        return cls(calibrate_laplace(rounded_sensitivity(domain, 2, grid), epsilon), grid)

    @classmethod
    def calibrate_geo(cls, domain: Domain, epsilon_per_unit: float) -> Self:
        """The least noise with `epsilon_per_unit` of the domain's own unit of distance.

        What rounding to the grid adds, at any distance, is in `geo_guarantee`.

        Raises:
            PrivotError: as `calibrate`, and for a curve.
        """
        require_finite("epsilon_per_unit", epsilon_per_unit, positive=True)
        _keeps_distances(domain)
        scale = round_up(1 / (Fraction(epsilon_per_unit) * _one_scale(domain)))
        return cls(scale, choose_grid(scale))

    @classmethod
    def unfit(cls, column: Column) -> str:
        """Of a plane, as one column."""
        if super().unfit(column) or len(column.table_columns("")) != 2:
            return "it is for vectors of two coordinates: use 'laplace'"
        return ""

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Mechanism:
        """Noise, beside a flag if the column may be missing."""
        return noise_for(cls, column, epsilon)

    def form(self, column: Column) -> NoiseForm:
        """‖x − y‖₂/b."""
        return NoiseForm("euclidean", self.scale)  # type: ignore[arg-type]  # of a channel of its own

    def attenuation(self, frequencies: Array) -> Array:
        """$(1 + b^2 ‖ω‖^2)^{−3/2}$."""
        return np.asarray((1 + ((self.scale * frequencies) ** 2).sum(axis=1)) ** -1.5)

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        """ε = Δ₂/b between any two records of `domain`, rounded up; no δ is needed."""
        return PureDP(laplace_epsilon(self.scale, rounded_sensitivity(domain, 2, self.grid)))

    def geo_guarantee(
        self, domain: Domain, distance_unit: str = "unit of distance"
    ) -> GeoIndistinguishability:
        """ε = 1/b a unit of distance between records of `domain`, and what rounding adds.

        Raises:
            PrivotError: if the domain is no plane of one scale, or a curve.
        """
        _keeps_distances(domain)
        scale = Fraction(self.scale)
        rounding = Fraction(math.nextafter(math.sqrt(2.0), 2.0)) * (
            Fraction(self.grid) + _CHART_ERROR
        )
        return GeoIndistinguishability(
            round_up(1 / (scale * _one_scale(domain))),
            distance_unit=distance_unit,
            epsilon_rounding=round_up(rounding / scale),
        )

    def privatize(self, x: Array) -> Array:
        """Reports $g(\\mathrm{round}(x/g) + k)$ in unit coordinates, shape (n, 2).

        Raises:
            PrivotError: if `x` has other than two coordinates, or a value is not finite, or too
                large to have been projected.
        """
        x = np.asarray(x, np.float64)
        if x.shape[-1:] != (2,):
            raise PrivotError(f"x has shape {x.shape}: give two coordinates a place, shape (n, 2)")
        return super().privatize(x)

    def log_likelihood(self, y: Array, x: Array) -> Array:
        """$\\ln P(y | x)$ of the lattice points; −∞ where y is off the grid; `y`, `x` broadcast."""
        cells = np.asarray(y, np.float64) / self.grid
        noise = cells - np.rint(np.asarray(x, np.float64) / self.grid)
        on_grid = (np.rint(cells) == cells).all(axis=-1)
        return np.where(on_grid, self._log_pmf(noise), -np.inf)

    def _log_pmf(self, noise: Array) -> Array:
        """$−\\ln Z − ‖k‖_2/t$, one number for the two coordinates of the last axis."""
        distance = np.hypot(noise[..., 0], noise[..., 1])
        return -self._log_normalizer - distance * (self.grid / self.scale)

    def _cells(self, noise: Array) -> tuple[Array, Array]:
        r"""Radius and angle: a ring and a sector around each lattice point, of area 1.

        In total variation the lattice and the continuous law differ by less than $1/t$, and bins of
        many steps see the mean of that, about $t^{−2}$.
        """
        ratio = self.scale / self.grid
        if ratio < _AUDITED_ABOVE:
            raise PrivotError(
                f"noise of scale {self.scale} on a grid of {self.grid} is too coarse for an audit of "
                "planar_laplace: calibrate it again, which takes a finer grid"
            )
        radius = np.hypot(noise[..., 0], noise[..., 1])
        at_zero = radius == 0
        inner = np.where(at_zero, 0.0, radius - 0.5) / ratio
        outer = np.where(at_zero, 1 / math.sqrt(math.pi), radius + 0.5) / ratio
        turn = np.arctan2(noise[..., 1], noise[..., 0]) / (2 * math.pi) + 0.5
        half = np.where(at_zero, 0.5, 1 / (4 * math.pi * np.maximum(radius, 1.0)))
        low = np.stack([scipy.special.gammainc(2, inner), turn - half], axis=-1)
        return low, np.stack([scipy.special.gammainc(2, outer), turn + half], axis=-1)

    @cached_property
    def _log_normalizer(self) -> float:
        t = self.scale / self.grid
        if t < _SUMMED_BELOW:
            return math.log(_lattice_sum(t)[0])
        series = sum(c * t ** (-3.0 - 2 * j) for j, c in enumerate(_SERIES))
        return math.log(2 * math.pi) + 2 * math.log(t) + math.log1p(series)

    @cached_property
    def variance(self) -> float:
        """$g^2 E‖k‖^2/2$, of one coordinate; $3b^2$ but for the grid."""
        t = self.scale / self.grid
        if t < _SUMMED_BELOW:
            total, second = _lattice_sum(t)
            return self.grid**2 * second / total / 2
        terms = list(enumerate(_SERIES))
        total = 1 + sum(c * t ** (-3.0 - 2 * j) for j, c in terms)
        second = 6 + sum((1 + 2 * j) * 2 * j * c * t ** (-3.0 - 2 * j) for j, c in terms)
        return self.scale**2 * second / total / 2

    def _reach(self, dimension: int) -> float:
        """‖noise‖₂ is a Gamma variable of 2 steps, up to $e^{\\sqrt2/t}$ for each point's square."""
        unheard_of = NEGLIGIBLE * math.exp(-math.sqrt(2) * self.grid / self.scale)
        return self.scale * float(scipy.special.gammainccinv(2, unheard_of)) + 2 * self.grid

    def _draw_list(self, count: int) -> list[int]:
        return draw_planar_laplace(count // 2, self.scale / self.grid)

    def _draw(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        points = sample_planar_laplace(math.prod(shape) // 2, self.scale / self.grid)
        return points.reshape(shape)


def _lattice_sum(ratio: float) -> tuple[float, float]:
    """$Σ e^{−‖k‖/t}$ and $Σ ‖k‖^2 e^{−‖k‖/t}$, up to ‖k‖ = 45t and beyond: 1e-19 is left out."""
    axis = np.arange(-math.ceil(45 * ratio) - 2, math.ceil(45 * ratio) + 3)
    distance = np.hypot(axis[:, None], axis)
    weight = np.exp(-distance / ratio)
    return float(weight.sum()), float((distance**2 * weight).sum())


def _keeps_distances(domain: Domain) -> None:
    if domain.area == "curve":
        raise PrivotError(
            f"domain {type(domain).__name__} is not convex: places next to each other may be projected "
            "far apart, so no promise by distance holds; declare a radius or a square, or use calibrate"
        )


def _one_scale(domain: Domain) -> Fraction:
    """Length of a unit coordinate, the same in both, exactly."""
    scale = domain.scale
    if scale.shape != (2,) or scale[0] != scale[1]:
        raise PrivotError(
            f"domain has scale {scale.tolist()}: give a plane where distance is the same in both "
            "coordinates, such as a radius or a square that contains the places"
        )
    return Fraction(float(scale[0]))


@lru_cache(maxsize=256)
def proposal_ratio(ratio: float) -> float:
    """A float s ≥ √2·ratio, next to it."""
    proposal = math.sqrt(2.0) * check_ratio(ratio)
    while Fraction(proposal) ** 2 < 2 * Fraction(ratio) ** 2:
        proposal = math.nextafter(proposal, math.inf)
    return check_ratio(proposal)


def exact_keep(prefix: int, x: int, y: int, ratio: float) -> bool:
    r"""Whether $−\ln U ≥ a(x, y)$, for a uniform $U$ whose first 63 bits are `prefix`."""
    scale, proposal = Decimal(ratio), Decimal(proposal_ratio(ratio))
    square, manhattan, bits = Decimal(x * x + y * y), Decimal(abs(x) + abs(y)), _PREFIX_BITS
    while True:
        prefix, bits = prefix << 64 | random_bits(64), bits + 64
        if prefix == 0:
            continue
        down, up = directed_contexts(bits)
        root = down.sqrt(square)  # rounded to nearest, whatever the context says
        low_root, high_root = max(Decimal(0), down.next_minus(root)), up.next_plus(root)
        least = down.subtract(down.divide(low_root, scale), up.divide(manhattan, proposal))
        most = up.subtract(up.divide(high_root, scale), down.divide(manhattan, proposal))
        if negative_log(prefix + 1, bits, down) >= most:
            return True
        if negative_log(prefix, bits, up) < least:
            return False


def draw_planar_laplace(count: int, ratio: float) -> list[int]:
    """As `sample_planar_laplace`, for few points: x₁, y₁, x₂, y₂ and so on."""
    return [coordinate for _ in range(count) for coordinate in _draw_one(ratio)]


def _draw_one(ratio: float) -> list[int]:
    proposal = proposal_ratio(ratio)
    while True:
        point = take_buffered(2, sample_discrete_laplace, proposal)
        x, y = point
        prefix = random_word() >> 1
        distance = math.sqrt(float(x) * x + float(y) * y) / ratio
        excess = distance - (abs(x) + abs(y)) / proposal
        slack = -math.log(max(prefix, _PREFIX_MIN) * _UNIT) - excess
        if distance > _FAR or slack <= _MARGIN:
            if distance <= _FAR and slack < -_MARGIN and prefix >= _PREFIX_MIN:
                continue
            if not exact_keep(prefix, x, y, ratio):
                continue
        return point


def _keep(points: Integers, ratio: float) -> NDArray[np.bool_]:
    """Which of the proposals (n, 2) to keep."""
    prefix = (random_words(len(points)) >> np.uint64(1)).view(np.int64)
    x, y = np.abs(points.T.astype(np.float64))
    slack = np.maximum(prefix, _PREFIX_MIN) * _UNIT
    np.log(slack, out=slack)
    distance = np.sqrt(x * x + y * y) / ratio
    slack += distance
    slack -= (x + y) / proposal_ratio(ratio)
    np.negative(slack, out=slack)
    keep = slack > _MARGIN
    open_cases = ~keep & ((slack >= -_MARGIN) | (prefix < _PREFIX_MIN)) | (distance > _FAR)
    for i in np.flatnonzero(open_cases):
        keep[i] = exact_keep(int(prefix[i]), int(points[i, 0]), int(points[i, 1]), ratio)
    return keep


def sample_planar_laplace(count: int, ratio: float) -> Integers:
    r"""Independent points of law $P(k) ∝ e^{−‖k‖_2/\text{ratio}}$, exactly; int64, shape (count, 2).

    Raises:
        PrivotError: for a ratio outside $(0, 2^{39}]$ or so.

    Examples:
        >>> sample_planar_laplace(5, ratio=100.0).shape
        (5, 2)
    """
    proposal = proposal_ratio(ratio)
    if count <= _SMALL:
        return np.array(draw_planar_laplace(count, ratio), np.int64).reshape(count, 2)
    out = np.empty((count, 2), np.int64)
    filled = 0
    while filled < count:
        wanted = min(_BLOCK, int(1.3 * (count - filled)) + 16)
        points = sample_discrete_laplace((wanted, 2), proposal)
        # In the order of drawing: the count wanted decides nothing about the points.
        kept = points[_keep(points, ratio)][: count - filled]
        out[filled : filled + len(kept)] = kept
        filled += len(kept)
    return out


class PlanarLaplaceChannel(PointChannel):
    """Channel of planar Laplace noise, with cost ‖x − y‖₂/b."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`."""
        # The norm is smoothed below 1e-4 b, because its gradient at 0 is not defined.
        gap = squared_euclidean(output / self.scale, reports / self.scale)
        return torch.sqrt(gap + 1e-8)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`."""
        # The radius has density r e^{−r/b}/b², that of a sum of two exponential variables.
        uniform = torch.rand(len(output), 3, generator=rng).to(output.device)
        radius = -torch.log1p(-uniform[:, :2]).sum(dim=1, keepdim=True)
        angle = 2 * torch.pi * uniform[:, 2:]
        return output + self.scale * radius * torch.cat([angle.cos(), angle.sin()], dim=1)


NOISE_CHANNELS["euclidean"] = PlanarLaplaceChannel
