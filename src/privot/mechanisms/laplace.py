r"""The Laplace mechanism on a grid: pure ε-local privacy for numbers.

$y = g(\mathrm{round}(x/g) + k)$ with independent discrete Laplace $k_j$, $P(k) ∝ e^{−|k| g/b}$.
For any two records, with $n, n′$ their rounded integers,

$$ \frac{P(y | x)}{P(y | x′)} ≤ e^{‖n − n′‖_1 g/b} ≤ e^{Δ_1/b}, $$

with equality for $y$ beyond both: ε = Δ₁/b exactly, Δ₁ being the ℓ1 diameter of the domain plus
rounding. No relation between $x$ and $x′$ is needed.

References:
    Dwork, McSherry, Nissim, Smith, *Calibrating noise to sensitivity* (2006); Ghosh, Roughgarden,
    Sundararajan, *Universally utility-maximizing privacy mechanisms* (2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.mechanisms.additive_noise import (
    AdditiveNoise,
    choose_grid,
    noise_for,
    rounded_sensitivity,
)
from privot.mechanisms.forms import NoiseForm
from privot.mechanisms.mechanism import UNHEARD_OF, Mechanism
from privot.mechanisms.samplers.discrete_laplace import (
    draw_discrete_laplace,
    sample_discrete_laplace,
)
from privot.privacy.curves import calibrate_laplace, laplace_epsilon
from privot.privacy.guarantees import PureDP
from privot.schema import Column, Domain
from privot.schema.domains import Array


@dataclass(frozen=True)
class Laplace(AdditiveNoise, kind="laplace"):
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

    by_distance = True

    def __post_init__(self) -> None:
        self._check("scale", self.scale, self.grid)

    @classmethod
    def calibrate(cls, domain: Domain, epsilon: float) -> Self:
        """The least noise with Δ₁/b ≤ ε, rounding to the grid included, in exact arithmetic."""
        grid = choose_grid(calibrate_laplace(domain.unit.diameter(1), epsilon))
        return cls(calibrate_laplace(rounded_sensitivity(domain, 1, grid), epsilon), grid)

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Mechanism:
        """Noise, beside a flag if the column may be missing."""
        return noise_for(cls, column, epsilon)

    def form(self, column: Column) -> NoiseForm:
        """‖x − y‖₁/b."""
        return NoiseForm("manhattan", self.scale)

    def kept(self, waves: Array) -> Array:
        r"""$\prod_i (1 + b^2 ω_i^2)^{−1}$."""
        return np.asarray((1 / (1 + (self.scale * waves) ** 2)).prod(axis=1))

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        """ε = Δ₁/b between any two records of `domain`, rounded up; no δ is needed."""
        return PureDP(laplace_epsilon(self.scale, rounded_sensitivity(domain, 1, self.grid)))

    @property
    def variance(self) -> float:
        r"""$g^2 · 2q/(1−q)^2 = g^2 / (2 \sinh^2(g/2b))$ with $q = e^{−g/b}$."""
        half = self.grid / (2 * self.scale)
        return self.grid**2 / (2 * math.sinh(half) ** 2) if half < 350 else 0.0

    def program(self, column: Column) -> dict[str, Any] | None:
        """See `Mechanism`: the ratio of scale and grid is a ratio of integers."""
        if column.domain is None or column.domain.program is None or self.unfit(column):
            return None
        ratio = [f"{part:x}" for part in (self.scale / self.grid).as_integer_ratio()]
        how = {"draw": "laplace", "dimension": column.domain.dimension, "ratio": ratio}
        return how | {"grid_bits": -round(math.log2(self.grid))}

    def of_device(self, answers: NDArray[np.int64]) -> Array:
        """See `Mechanism`."""
        return np.asarray(answers * self.grid, np.float64)

    def _reach(self, dimension: int) -> tuple[int, float]:
        """‖noise‖₁ is at most a Gamma variable of d steps and scale b, and a grid step a coordinate."""
        steps = float(scipy.special.gammainccinv(dimension, UNHEARD_OF))
        return 1, self.scale * steps + 2 * dimension * self.grid

    def _draw_list(self, count: int) -> list[int]:
        return draw_discrete_laplace(count, self.scale / self.grid)

    def _draw(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        return sample_discrete_laplace(shape, self.scale / self.grid)

    def _cells(self, noise: Array) -> tuple[Array, Array]:
        return self._below(noise), self._below(noise + 1)

    def _below(self, noise: Array) -> Array:
        """$P(K < k)$, elementwise: $q^{1−k}/(1+q)$ up to 0, $1 − q^k/(1+q)$ from 1 on."""
        step = self.grid / self.scale
        tail = np.exp(-step * np.where(noise > 0, noise, 1 - noise)) / (1 + math.exp(-step))
        return np.where(noise > 0, 1 - tail, tail)

    def _log_pmf(self, noise: Array) -> Array:
        inverse_ratio = self.grid / self.scale
        return math.log(math.tanh(inverse_ratio / 2)) - np.abs(noise) * inverse_ratio
