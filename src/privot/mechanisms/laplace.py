r"""The Laplace mechanism on a grid: pure ε-local privacy for points, by an exact sampler.

A report is $y = g(n + k)$ with $n = \mathrm{round}(x/g)$ and independent discrete Laplace noise of law
$P(k) ∝ e^{−|k| g/b}$ in each coordinate. For any two records x and x′,

$$ \frac{P(y | x)}{P(y | x′)} ≤ e^{‖n − n′‖_1 g/b} ≤ e^{Δ_1/b}, $$

with Δ₁ the domain's ℓ1 diameter after rounding. The first bound is reached, by reports beyond x as seen
from x′, so ε = Δ₁/b is the least ε if two rounded records have the distance Δ₁.

**The sampler** draws $P(k) ∝ e^{−|k|/t}$, $t = b/g$. For a real uniform $|U|$, $G = ⌊−t \ln |U|⌋$ is
geometric: $P(G ≥ k) = P(|U| ≤ e^{−k/t}) = e^{−k/t}$. The noise is $G$ with the sign of $U$, so that
$P(±k) ∝ ½ (1 − e^{−1/t}) e^{−k/t}$ for $k > 0$; it holds for $k = 0$ too, because −0 is drawn again.
$G$ is the integer nearest to $h = −t \ln |U| − ½$. `privot.mechanisms.samplers` finds it for a real $U$
of infinitely many bits, so the guarantee is pure.

**Floating-point error.** For $|U| ≥ 2^{−19}$, $t \ln |U|$ in float64 at the cell's middle differs
from the exact value anywhere in the cell by at most $t$ times the sum of $2^{−45}$ (bits not drawn),
$2^{−52}$ (the middle's two roundings), $4 · 2^{−49}$ (4 ulp of a logarithm below 16, checked at import)
and $2^{−49}$ (the product). This is below $t · 2^{−44}$, while $t · 2^{−39}$ is allowed. Subtracting ½
is exact for numbers from ¼ on, and the nearest integer of smaller ones is 0 in any case.

References:
    Dwork, McSherry, Nissim, Smith, *Calibrating noise to sensitivity* (2006); Ghosh, Roughgarden,
    Sundararajan, *Universally utility-maximizing privacy mechanisms* (2012); Mironov, *On significance
    of the least significant bits for differential privacy* (2012).
"""

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.mechanisms import additive_noise, samplers
from privot.mechanisms.forms import NoiseForm
from privot.mechanisms.mechanism import NEGLIGIBLE, Mechanism
from privot.privacy.curves import calibrate_laplace, laplace_epsilon
from privot.privacy.guarantees import PureDP
from privot.schema import Column, Domain
from privot.schema.domains import Array

_UNIFORM_MIN = 2.0**-19  # below it, the error of a float logarithm is not bounded in this module
_NEGATIVE_ZERO = np.iinfo(np.int64).min  # bits of the float −0.0


def enclose(prefixes: list[int], bits: int, ratio: Decimal, context: Context) -> list[Decimal]:
    """Bound h, as `samplers.Enclose`; ∞ for prefix 0."""
    edge = prefixes[0] + (context.rounding == ROUND_FLOOR)  # h decreases in |U|
    value = context.multiply(ratio, samplers.negative_log(edge, bits, context))
    return [context.subtract(value, Decimal("0.5"))]


def _draw(count: int, ratio: float) -> samplers.Floats:
    """Draw `count` integers, as floats, and leave out those that are −0."""
    words = samplers.random_words(count).view(np.int64).reshape(1, count)
    value = samplers.cell_middles(words)
    np.abs(value, out=value)
    value[value < _UNIFORM_MIN] = np.nan
    np.log(value, out=value)
    value *= -ratio
    value -= 0.5
    noise = samplers.round_exactly(words, value, ratio, enclose)[0]
    valid = noise.view(np.int64) != _NEGATIVE_ZERO
    return noise if valid.all() else noise[valid]


def sample_discrete_laplace(size: samplers.Size, ratio: float) -> samplers.Integers:
    r"""Draw independent integers of law $P(k) ∝ e^{−|k|/\text{ratio}}$, exactly; int64 of shape `size`.

    Draws are fast up to a ratio of $2^{26}$; beyond, more and more take the exact path.

    Raises:
        PrivotError: if the ratio is not in $(0, 2^{40}]$.
    """
    return samplers.fill_array(size, ratio, _draw)


@dataclass(frozen=True)
class Laplace(additive_noise.AdditiveNoise, kind="laplace"):
    """Discrete Laplace noise of scale b on a grid, both in unit coordinates.

    Examples:
        >>> from privot.schema.domains import Box
        >>> mechanism = Laplace.calibrate(Box((0.0,), (100.0,)), epsilon=4.0)
        >>> mechanism.scale  # the unit interval [−1, 1] has diameter 2
        0.5
        >>> print(mechanism.guarantee(Box((0.0,), (100.0,))))
        ε = 4 (pure), local, per person
    """

    scale: float
    grid: float

    norm, by_distance = 1, True  # ε is the ℓ1 distance of two records over b

    @property
    def ratio(self) -> float:
        """Scale t = b/g, in steps of the grid."""
        return self.scale / self.grid

    def __post_init__(self) -> None:
        self._check("scale", self.scale, self.grid)

    @classmethod
    def calibrate(cls, domain: Domain, epsilon: float) -> Self:
        """Return the noise of least b with Δ₁/b ≤ ε, with the grid's rounding, by exact arithmetic."""
        grid = additive_noise.choose_grid(calibrate_laplace(domain.unit.diameter(1), epsilon))
        return cls(
            calibrate_laplace(additive_noise.rounded_sensitivity(domain, 1, grid), epsilon), grid
        )

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Mechanism:
        return additive_noise.noise_for(cls, column, epsilon)

    def form(self, column: Column) -> NoiseForm:
        return NoiseForm("manhattan", self.scale)

    def attenuation(self, frequencies: Array) -> Array:
        r"""See `Mechanism`: $\prod_i (1 + b^2 ω_i^2)^{−1}$."""
        return np.asarray((1 / (1 + (self.scale * frequencies) ** 2)).prod(axis=1))

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        """Return ε = Δ₁/b between any two records of `domain`, rounded up; no δ is needed."""
        return PureDP(laplace_epsilon(self.scale, self.sensitivity(domain)))

    @property
    def variance(self) -> float:
        r"""Variance $g^2 · 2q/(1−q)^2 = g^2 / (2 \sinh^2(g/2b))$ with $q = e^{−g/b}$."""
        half = 0.5 / self.ratio
        # For half ≥ 350 the variance is below 1e-300, and the square would soon overflow.
        return self.grid**2 / (2 * math.sinh(half) ** 2) if half < 350 else 0.0

    def program(self, column: Column) -> dict[str, Any] | None:
        """See `Mechanism`: scale/grid as a ratio of integers, and the grid; for boxes and ℓ2 balls."""
        if column.domain is None or column.domain.program is None or self.unfit(column):
            return None
        return {
            "draw": "laplace",
            "dimension": column.domain.dimension,
            "ratio": [f"{part:x}" for part in self.ratio.as_integer_ratio()],
            "grid_bits": -round(math.log2(self.grid)),
        }

    def of_device(self, answers: NDArray[np.int64]) -> Array:
        return np.asarray(answers * self.grid, np.float64)

    def _reach(self, dimension: int) -> float:
        """See `AdditiveNoise`: ‖noise‖₁ is at most a Gamma(d, b) variable plus 2d steps."""
        quantile = float(scipy.special.gammainccinv(dimension, NEGLIGIBLE))
        return self.scale * quantile + 2 * dimension * self.grid

    def _draw_list(self, count: int) -> list[int]:
        return samplers.take_buffered(count, sample_discrete_laplace, self.ratio)

    def _draw(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        return sample_discrete_laplace(shape, self.ratio)

    def _cells(self, noise: Array) -> tuple[Array, Array]:
        return self._probability_below(noise), self._probability_below(noise + 1)

    def _probability_below(self, noise: Array) -> Array:
        """Return P(noise < k): $q^{1−k}/(1+q)$ for k ≤ 0, else $1 − q^k/(1+q)$, with $q = e^{−g/b}$."""
        rate = 1 / self.ratio
        tail = np.exp(-rate * np.where(noise > 0, noise, 1 - noise)) / (1 + math.exp(-rate))
        return np.where(noise > 0, 1 - tail, tail)

    def _log_pmf(self, noise: Array) -> Array:
        rate = 1 / self.ratio
        return math.log(math.tanh(rate / 2)) - np.abs(noise) * rate
