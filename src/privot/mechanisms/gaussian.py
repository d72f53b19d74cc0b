r"""The Gaussian mechanism on a grid: (ε, δ)-local privacy for vectors.

$y = g(\mathrm{round}(x/g) + k)$, $k = ⌊tZ + ½⌋$, $t = σ/g$, $Z$ standard Gaussian. With $n =
\mathrm{round}(x/g)$ the integer $n + k = ⌊n + tZ + ½⌋$: a rounding of the continuous Gaussian
mechanism applied to $n$. Post-processing costs nothing, so its exact curve holds,

$$ δ(ε) = Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ), $$

with Δ the ℓ2 diameter of the domain plus rounding. The probability of an integer is a difference
of Φ at half-integers over $t$.

References:
    Balle, Wang, *Improving the Gaussian mechanism for differential privacy* (2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.mechanisms.additive_noise import AdditiveNoise, choose_grid, rounded_sensitivity
from privot.mechanisms.forms import NoiseForm
from privot.mechanisms.mechanism import UNHEARD_OF, Mechanism
from privot.mechanisms.samplers.rounding import draw_rounded_gaussian, sample_rounded_gaussian
from privot.privacy.curves import calibrate_gaussian, gaussian_epsilon
from privot.privacy.guarantees import ApproximateDP
from privot.privacy.rounding import divide_up, multiply_up
from privot.schema import Column, Domain
from privot.schema.domains import Array

_FINE_RATIO = 2.0**9


@dataclass(frozen=True)
class Gaussian(AdditiveNoise, kind="gaussian"):
    """Rounded Gaussian noise of standard deviation σ on a grid, both in unit coordinates.

    Examples:
        >>> from privot.schema.domains import L2Ball
        >>> domain = L2Ball(3, radius=20.0)
        >>> mechanism = Gaussian.calibrate(domain, epsilon=1.0, delta=1e-6)
        >>> round(mechanism.stddev, 3)  # 4.22468 for diameter 1; the unit ball has 2
        8.449
        >>> mechanism.guarantee(domain, delta=1e-6).epsilon <= 1.0
        True
    """

    stddev: float
    grid: float

    pure = among_auto = False
    shares_delta = True

    def __post_init__(self) -> None:
        self._check("stddev", self.stddev, self.grid)

    @classmethod
    def calibrate(cls, domain: Domain, epsilon: float, delta: float) -> Self:
        """The least σ that is (ε, δ)-private on `domain`, rounding included, on the safe side."""
        stddev = calibrate_gaussian(domain.unit.diameter(2), epsilon, delta)
        grid = choose_grid(stddev)
        # The noise is proportional to the sensitivity: rounding only scales it.
        growth = divide_up(rounded_sensitivity(domain, 2, grid), domain.unit.diameter(2))
        mechanism = cls(multiply_up(stddev, growth), grid)
        while mechanism.guarantee(domain, delta).epsilon > epsilon:
            mechanism = cls(mechanism.stddev * (1 + 2.0**-40), grid)
        return mechanism

    @classmethod
    def of_multiplier(cls, domain: Domain, multiplier: float) -> Self:
        """Noise of `multiplier` times the sensitivity, rounding to the grid included."""
        grid = choose_grid(multiplier * domain.unit.diameter(2))
        stddev = multiplier * rounded_sensitivity(domain, 2, grid)
        # A few roundings up to here, each below 2^−52; whoever shares a budget checks ε again.
        return cls(stddev * (1 + 2.0**-48), grid)

    @classmethod
    def unfit(cls, column: Column) -> str:
        """Its loss is no distance, so no flag can be beside it."""
        if not (reason := super().unfit(column)) and column.nullable:
            return "which may be missing: use 'laplace'"
        return reason

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Mechanism:
        """Refused: `calibrate` and `of_multiplier` know the δ."""
        raise PrivotError(
            "delta 0 cannot be had with mechanism 'gaussian': give delta > 0, or use 'laplace'"
        )

    def form(self, column: Column) -> NoiseForm:
        """‖x − y‖₂²/(2σ²)."""
        return NoiseForm("squared_euclidean", self.stddev)

    def kept(self, waves: Array) -> Array:
        """$e^{−σ^2 ‖ω‖^2 / 2}$."""
        return np.asarray(np.exp(-((self.stddev * waves) ** 2).sum(axis=1) / 2))

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> ApproximateDP:
        """(ε, δ) between any two records of `domain`: the exact curve at `delta`, rounded up.

        Raises:
            PrivotError: if delta is not in (0, 1): Gaussian noise promises nothing at δ = 0.
        """
        if not 0 < delta < 1:
            raise PrivotError(f"delta is {delta!r}: Gaussian noise needs 0 < delta < 1")
        sensitivity = rounded_sensitivity(domain, 2, self.grid)
        return ApproximateDP(gaussian_epsilon(self.stddev, sensitivity, delta), delta)

    @property
    def variance(self) -> float:
        r"""$g^2 (t^2 + 1/12 + Σ_m (−1)^m e^{−2π^2 m^2 t^2} (4 t^2 + 1/(π m)^2))$, by Poisson's sum."""
        t = self.stddev / self.grid
        waves = sum(
            (-1) ** m * math.exp(-2 * (math.pi * m * t) ** 2) * (4 * t**2 + 1 / (math.pi * m) ** 2)
            for m in range(1, 2 + math.ceil(2 / min(t, 2)))
        )
        return self.grid**2 * (t**2 + 1 / 12 + waves)

    def _reach(self, dimension: int) -> tuple[int, float]:
        """‖noise‖₂ is at most a χ variable of d degrees times σ, and half a step a coordinate."""
        half_square = float(scipy.special.gammainccinv(dimension / 2, UNHEARD_OF))
        return 2, self.stddev * math.sqrt(2 * half_square) + math.sqrt(dimension) * self.grid

    def _draw_list(self, count: int) -> list[int]:
        return draw_rounded_gaussian(count, self.stddev / self.grid)

    def _draw(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        return sample_rounded_gaussian(shape, self.stddev / self.grid)

    def gaussian_mu(self, domain: Domain) -> float:
        """Δ/σ, rounded up."""
        return divide_up(rounded_sensitivity(domain, 2, self.grid), self.stddev)

    def _cells(self, noise: Array) -> tuple[Array, Array]:
        step = self.grid / self.stddev
        return scipy.special.ndtr((noise - 0.5) * step), scipy.special.ndtr((noise + 0.5) * step)

    def _log_pmf(self, noise: Array) -> Array:
        ratio = self.stddev / self.grid
        step = 1 / ratio
        center = np.abs(noise) * step
        if ratio < _FINE_RATIO:
            # The tail's own side of 0 keeps both terms far from 1.
            near, far = (
                scipy.special.log_ndtr(step / 2 - center),
                scipy.special.log_ndtr(-step / 2 - center),
            )
            return near + np.log(-np.expm1(far - near))
        # ∫ φ(z+s) ds over |s| ≤ h/2 = φ(z) h · sinh(zh/2)/(zh/2) · (1 − h²/24 + O(h⁴ z²)):
        # the difference of Φ without its cancellation.
        tilt = center * step / 2
        log_sinhc = np.where(
            tilt < 1e-2,
            tilt**2 / 6 - tilt**4 / 180,
            tilt + np.log(-np.expm1(-2 * np.maximum(tilt, 1e-2)) / (2 * np.maximum(tilt, 1e-2))),
        )
        log_density = -(center**2) / 2 - 0.5 * math.log(2 * math.pi) + math.log(step)
        return log_density + log_sinhc - step**2 / 24
