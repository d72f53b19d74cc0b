r"""The Gaussian mechanism on a grid: (ε, δ)-local privacy for vectors, by an exact sampler.

A report is $y = g(n + k)$ with $n = \mathrm{round}(x/g)$, $k = ⌊tZ + ½⌋$, $t = σ/g$, and $Z$ standard
Gaussian. Since $n + k = ⌊n + tZ + ½⌋$, it is a rounding of the continuous Gaussian mechanism applied to
$n$. Post-processing costs no privacy, so the exact curve δ(ε) of that mechanism holds
(`privot.privacy.curves`), with Δ the ℓ2 diameter of the domain after rounding. The probability of k is
$Φ((k+½)/t) − Φ((k−½)/t)$.

**The sampler** is Marsaglia's polar method: for real $U, V$ uniform on $(−1, 1)$, given that $S =
U^2 + V^2 < 1$, the two numbers $U f, V f$ with $f = \sqrt{−2 \ln S / S}$ are independent standard
Gaussians. The magnitudes $t |U| f, t |V| f$, and ∞ where $S ≥ 1$, are rounded exactly by
`privot.mechanisms.samplers`. Acceptance and both roundings come from the same real $U$ and $V$, so the
two integers are independent. (The discrete Gaussian would need other bounds.)

**Floating-point error.** Let $η = 2^{−53}$. For $S ≥ 2^{−20}$, float64 gives $S$ to the relative
error $6η + 2^{−52.5} < 2^{−50}$ ($U$ and $V$ to $2η$ each and $2^{−64}$ for bits not drawn, a
rounding for each square and the sum). With $R = \sqrt{−2 \ln S}$, the error of $Z = U f$ is at most
$2^{−50}/R$ (from $\ln S$) plus $14 η R$ (4 from $S$ in the quotient; 4 ulp of the logarithm,
checked at import, halved by the root: 4; quotient, root and two products: 3.5; and $U$: 2), plus
$2^{−64} f$. For $2^{−20} ≤ S ≤ 1 − 2^{−20}$, $2^{−9.5} ≤ R < 5.3$ and $f ≤ 2^{12.4}$, so this is
below $2^{−40.4}$, while $2^{−39}$ is allowed. Outside these limits no float is used, except that draws
with $S > 1 + 2^{−40}$ are rejected: there $S ≥ 1$ for all following bits.

References:
    Marsaglia, Bray, *A convenient method for generating normal variables* (1964).
"""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.mechanisms import samplers
from privot.mechanisms.additive_noise import AdditiveNoise, choose_grid, rounded_sensitivity
from privot.mechanisms.forms import NoiseForm
from privot.mechanisms.mechanism import NEGLIGIBLE, Mechanism
from privot.privacy.curves import calibrate_gaussian, gaussian_epsilon
from privot.privacy.guarantees import ApproximateDP
from privot.privacy.rounding import divide_up, multiply_up
from privot.schema import Column, Domain
from privot.schema.domains import Array

_FINE_RATIO = 2.0**9  # from here on the relative error of an expansion in 1/t is of order t^−4
# Limits of S: where floats are used, and above which a pair is rejected (see the module).
_SQUARE_MIN, _SQUARE_MAX, _SQUARE_REJECT = 2.0**-20, 1.0 - 2.0**-20, 1.0 + 2.0**-40


def enclose(prefixes: list[int], bits: int, ratio: Decimal, context: Context) -> list[Decimal]:
    """Bound t|U|f and t|V|f, as `samplers.Enclose`; ∞ if S ≥ 1."""
    low, high = prefixes, [prefix + 1 for prefix in prefixes]
    # The factor f decreases in S: the largest S gives its lower bound, the least S its upper bound.
    edges, opposite = (high, low) if context.rounding == ROUND_CEILING else (low, high)
    if sum(edge**2 for edge in edges) >= 4**bits:
        return [Decimal("Infinity")] * 2
    square = sum(edge**2 for edge in opposite)
    twice = context.multiply(Decimal(2), samplers.negative_log(square, 2 * bits, context))
    root = context.sqrt(context.divide(twice, samplers.dyadic(square, 2 * bits)))  # to nearest
    factor = context.multiply(ratio, samplers.outward(root, context))
    return [context.multiply(factor, samplers.dyadic(edge, bits)) for edge in edges]


def _draw(count: int, ratio: float) -> samplers.Floats:
    """Draw about `count` integers, as floats."""
    pairs = 5 * count // 8 + 8  # π/4, about 4 of 5, are accepted
    words = samplers.random_words(2 * pairs).view(np.int64).reshape(2, -1)
    value = samplers.cell_middles(words)
    square = np.square(value[0])
    square += np.square(value[1])
    near = np.flatnonzero(square <= _SQUARE_REJECT)
    words, value, square = words.take(near, 1), value.take(near, 1), square[near]
    square[(square < _SQUARE_MIN) | (square > _SQUARE_MAX)] = np.nan
    value *= np.sqrt(np.log(square) * -2.0 / square) * ratio
    np.abs(value, out=value)
    noise = samplers.round_exactly(words, value, ratio, enclose)
    accepted = np.isfinite(noise[0])  # ∞ where S ≥ 1
    return (noise if accepted.all() else noise[:, accepted]).ravel()


def sample_rounded_gaussian(size: samplers.Size, ratio: float) -> samplers.Integers:
    r"""Draw independent integers $⌊\text{ratio}·Z + ½⌋$, $Z ∼ N(0,1)$, exactly; int64 of shape `size`.

    Draws are fast up to a ratio of $2^{26}$; beyond, more and more take the exact path.

    Raises:
        PrivotError: if the ratio is not in $(0, 2^{40}]$.
    """
    return samplers.fill_array(size, ratio, _draw)


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

    stddev: float  # σ > 0, at most 2^40 steps of the grid
    grid: float  # step g, a power of two from 2^−40 to 1; other values are refused

    pure = among_auto = False  # see `Mechanism`
    shares_delta, norm = True, 2

    @property
    def ratio(self) -> float:
        """Standard deviation t = σ/g, in steps of the grid."""
        return self.stddev / self.grid

    def __post_init__(self) -> None:
        self._check("stddev", self.stddev, self.grid)

    @classmethod
    def calibrate(cls, domain: Domain, epsilon: float, delta: float) -> Self:
        """Return the noise of least σ that is (ε, δ)-private on `domain` after rounding; 0 ≤ ε ≤ 1e6."""
        stddev = calibrate_gaussian(domain.unit.diameter(2), epsilon, delta)
        grid = choose_grid(stddev)
        # The stddev is proportional to the sensitivity, which rounding to the grid enlarges.
        growth = divide_up(rounded_sensitivity(domain, 2, grid), domain.unit.diameter(2))
        mechanism = cls(multiply_up(stddev, growth), grid)
        while mechanism.guarantee(domain, delta).epsilon > epsilon:  # by a few rounding errors
            mechanism = cls(mechanism.stddev * (1 + 2.0**-40), grid)
        return mechanism

    @classmethod
    def of_multiplier(cls, domain: Domain, multiplier: float) -> Self:
        """Return noise with σ = `multiplier` times the sensitivity, with the grid's rounding."""
        grid = choose_grid(multiplier * domain.unit.diameter(2))
        stddev = multiplier * rounded_sensitivity(domain, 2, grid)
        # Covers a few rounding errors, each below 2^−52; callers that share a budget check ε again.
        return cls(stddev * (1 + 2.0**-48), grid)

    @classmethod
    def unfit(cls, column: Column) -> str:
        """See `Mechanism`: not for missing values, because `NullableNoise` needs a pure ε."""
        reason = super().unfit(column)
        if not reason and column.nullable:
            return "which may be missing: use 'laplace'"
        return reason

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Mechanism:
        """Raise PrivotError: a δ is needed (use `calibrate` or `of_multiplier`)."""
        raise PrivotError(
            "delta 0 cannot be had with mechanism 'gaussian': give delta > 0, or use 'laplace'"
        )

    def form(self, column: Column) -> NoiseForm:
        return NoiseForm("squared_euclidean", self.stddev)

    def attenuation(self, frequencies: Array) -> Array:
        """See `Mechanism`: $e^{−σ^2 ‖ω‖^2 / 2}$."""
        return np.asarray(np.exp(-((self.stddev * frequencies) ** 2).sum(axis=1) / 2))

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> ApproximateDP:
        """Return (ε, δ) between any two records of `domain`, with ε(δ) of the exact curve, rounded up.

        Raises:
            PrivotError: if delta is not in (0, 1): Gaussian noise has no pure ε.
        """
        if not 0 < delta < 1:
            raise PrivotError(f"delta is {delta!r}: Gaussian noise needs 0 < delta < 1")
        return ApproximateDP(gaussian_epsilon(self.stddev, self.sensitivity(domain), delta), delta)

    @property
    def variance(self) -> float:
        r"""Variance $g^2 (t^2 + 1/12 + Σ_{m≥1} (−1)^m e^{−2π^2 m^2 t^2} (4 t^2 + 1/(π m)^2))$."""
        # By the Fourier series of the rounding error e = Σ_m (−1)^m sin(2πmX)/(πm) of X = tZ, the terms
        # of the sum are those of 2E[Xe] and E[e²].
        t = self.ratio
        series = sum(
            (-1) ** m * math.exp(-2 * (math.pi * m * t) ** 2) * (4 * t**2 + 1 / (math.pi * m) ** 2)
            for m in range(1, 2 + math.ceil(2 / min(t, 2)))  # for m t ≥ 2, terms are below e^−70
        )
        return self.grid**2 * (t**2 + 1 / 12 + series)

    def _reach(self, dimension: int) -> float:
        """See `AdditiveNoise`: ‖noise‖₂ is at most σ times a χ variable, plus √d steps."""
        half_square = float(scipy.special.gammainccinv(dimension / 2, NEGLIGIBLE))
        return self.stddev * math.sqrt(2 * half_square) + math.sqrt(dimension) * self.grid

    def _draw_list(self, count: int) -> list[int]:
        return samplers.take_buffered(count, sample_rounded_gaussian, self.ratio)

    def _draw(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        return sample_rounded_gaussian(shape, self.ratio)

    def gaussian_mu(self, domain: Domain) -> float:
        return divide_up(self.sensitivity(domain), self.stddev)

    def _cells(self, noise: Array) -> tuple[Array, Array]:
        step = 1 / self.ratio
        return scipy.special.ndtr((noise - 0.5) * step), scipy.special.ndtr((noise + 0.5) * step)

    def _log_pmf(self, noise: Array) -> Array:
        step = 1 / self.ratio
        center = np.abs(noise) * step
        if self.ratio < _FINE_RATIO:
            # On the negative side both distribution functions are far from 1.
            near = scipy.special.log_ndtr(step / 2 - center)
            far = scipy.special.log_ndtr(-step / 2 - center)
            return near + np.log(-np.expm1(far - near))
        # The difference of Φ without cancellation, with z = center and h = step:
        # ∫ φ(z+s) ds over |s| ≤ h/2 = φ(z) h · sinh(zh/2)/(zh/2) · (1 − h²/24 + O(h⁴ z²)).
        tilt = center * step / 2
        large = np.maximum(tilt, 1e-2)
        log_sinhc = np.where(
            tilt < 1e-2,  # the next term of the series is below 4e-16
            tilt**2 / 6 - tilt**4 / 180,
            tilt + np.log(-np.expm1(-2 * large) / (2 * large)),
        )
        log_density = -(center**2) / 2 - 0.5 * math.log(2 * math.pi) + math.log(step)
        return log_density + log_sinhc - step**2 / 24
