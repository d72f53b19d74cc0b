r"""A private density by the Bernstein mechanism: a kernel estimate's values on a lattice, with noise.

A function $F_D$ on $[0, 1]^d$ that depends on records $D$ is released through its values on the lattice
$\{ν/k\}$, $ν ∈ \{0..k\}^d$, each with Laplace noise; whoever sees them forms

$$ \tilde F(y) = \sum_ν \tilde F_ν \prod_j \binom{k}{ν_j} y_j^{ν_j} (1 − y_j)^{k − ν_j} . $$

Here $F_D(y) = \frac1n \sum_i \prod_j \frac{1}{\sqrt{2π}σ} e^{−(y_j − x_{ij})²/2σ²}$, a kernel density
estimate.

**Who may differ.** One record is replaced by another (`replace_one`), with $n$ public; the curator is
trusted. Records are first moved into the public box. The published calibration takes the sup-norm
sensitivity times the number of values, $Δ = (k+1)^d (\sqrt{2π}σ)^{-d}/n$: the difference of two kernels
lies between −1 and 1 times their height, and every value could change so much. But it cannot: on a
line of spacing $1/k$ a Gaussian bump sums to at most $1 + \sqrt{2π}σk$, so two of them change the
values by at most $Δ = 2 (1 + \sqrt{2π}σk)^d (\sqrt{2π}σ)^{-d}/n$ in ℓ1. We take the smaller: the rival
gets less noise for the same ε. Values are rounded to a grid and the noise is exact there; rounding
moves each by at most half a grid step, so that $(k+1)^d$ steps are added to Δ.

**Everybody at once.** ε here is one person's. Between data sets that differ in all $n$ records the same
release has $nε$: it is not integrally private in any useful sense. In exchange, its whole density may
be shown and drawn from without limit.

**Positivity.** $\tilde F$ can be negative. The experiments of Husain et al. shift and scale it, "without
caring for privacy in doing so", and choose σ by cross-validation on the records: both look at raw
data without paying, so the ε of the noise no longer describes what comes out. Free of charge is
whatever needs the noisy values only. `clip` sets negative ones to zero and divides by the sum: what
is left is a mixture of products of Beta(ν+1, k−ν+1), whose normalizer and draws are exact. `shift`
subtracts the smallest noisy coefficient from all of them: also private, and flatter.
$k$ and $σ$ have to be chosen without the records.

References:
    Aldà, Rubinstein, *The Bernstein mechanism: function release under differential privacy* (2017),
    with the plain, not iterated, Bernstein operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from privot.errors import PrivotError
from privot.mechanisms.samplers.discrete_laplace import sample_discrete_laplace
from privot.privacy import PureDP

Array = NDArray[np.float64]
Positivity = Literal["clip", "shift"]
Calibration = Literal["lattice", "published"]

_MAX_VALUES = 1_000_000
_GRID_BITS = 20  # the noise's scale is so many powers of two above the grid


@dataclass(frozen=True, eq=False)
class BernsteinDensity:
    """A mixture of products of Beta densities on a box.

    Args:
        lower: lower corner of the public box.
        upper: upper corner.
        weights: of the components, shape (k+1, …, k+1), summing to 1.
        guarantee: what the noisy values keep.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    weights: Array
    guarantee: PureDP

    def density(self, axes: Sequence[Array]) -> Array:
        """The density on the tensor grid of `axes` (in data units), flat, last axis fastest."""
        values = self.weights
        for low, high, axis in zip(self.lower, self.upper, axes, strict=True):
            values = np.tensordot(values, self._basis((axis - low) / (high - low)), axes=(0, 1))
            values = values / (high - low)
        return values.ravel()

    def draw(self, num_draws: int, rng: np.random.Generator) -> Array:
        """Points (num_draws, d): a component, then its Beta variables."""
        cells = rng.choice(self.weights.size, num_draws, p=self.weights.ravel())
        degree = self.weights.shape[0] - 1
        places = np.stack(np.unravel_index(cells, self.weights.shape), axis=1)
        unit = rng.beta(places + 1, degree - places + 1)
        return np.asarray(self.lower) + unit * np.subtract(self.upper, self.lower)

    def _basis(self, y: Array) -> Array:
        """Beta(ν+1, k−ν+1) densities at y, shape (len(y), k+1); 0 outside of the box."""
        degree = self.weights.shape[0] - 1
        nu = np.arange(degree + 1)
        constants = gammaln(degree + 2) - gammaln(nu + 1) - gammaln(degree - nu + 1)
        inside = (y > 0) & (y < 1)
        safe = np.where(inside, y, 0.5)[:, None]
        logs = constants + nu * np.log(safe) + (degree - nu) * np.log1p(-safe)
        return np.where(inside[:, None], np.exp(logs), 0.0)


def sensitivity(
    num_records: int,
    dim: int,
    degree: int,
    bandwidth: float,
    calibration: Calibration = "lattice",
) -> float:
    """Δ₁ of the kernel estimate's values on the lattice when one record is replaced.

    `"published"` is the number of values times the kernel's height; `"lattice"` never more.

    Examples:
        >>> round(sensitivity(1, 1, 100, 0.05, "published") / sensitivity(1, 1, 100, 0.05), 2)
        3.73
    """
    width = math.sqrt(2 * math.pi) * bandwidth
    values = float((degree + 1) ** dim)
    if calibration == "lattice":
        values = min(values, 2 * (1 + width * degree) ** dim)
    return values / (width**dim * num_records)


def fit_bernstein(
    records: Array,
    lower: Sequence[float],
    upper: Sequence[float],
    epsilon: float,
    *,
    degree: int,
    bandwidth: float,
    calibration: Calibration = "lattice",
    positivity: Positivity = "clip",
) -> BernsteinDensity:
    """The kernel density estimate of the records, released once with ε.

    Args:
        records: (n, d); n is public.
        lower: lower corner of a public box.
        upper: upper corner; records outside of the box are moved to its border.
        epsilon: of one person's record.
        degree: k, the same for every axis.
        bandwidth: σ as a share of the box's sides.
        calibration: of the noise, see `sensitivity`.
        positivity: how negative noisy values are mended, from themselves alone.

    Raises:
        PrivotError: if an argument is out of range or the lattice too large.
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise PrivotError(f"epsilon is {epsilon}: it has to be positive and finite")
    if not bandwidth > 0:
        raise PrivotError(f"bandwidth is {bandwidth}: a positive share of the box's sides")
    if records.ndim != 2 or not len(records) or records.shape[1] != len(lower):
        raise PrivotError(
            f"records have shape {records.shape}: give at least one, with {len(lower)} numbers each"
        )
    dim = len(lower)
    num_values = (degree + 1) ** dim
    if not (degree >= 1 and num_values <= _MAX_VALUES):
        raise PrivotError(f"degree is {degree}: at least 1, and at most {_MAX_VALUES} values")
    unit = (records - np.asarray(lower)) / np.subtract(upper, lower)
    values = _kernel_estimate(np.clip(unit, 0.0, 1.0), degree, bandwidth)
    delta_1 = sensitivity(len(records), dim, degree, bandwidth, calibration)
    grid = 2.0 ** (math.floor(math.log2(delta_1 / epsilon)) - _GRID_BITS)
    ratio = (delta_1 / grid + num_values) / epsilon
    noise = sample_discrete_laplace(values.shape, ratio)
    noisy = np.asarray((np.rint(values / grid) + noise) * grid, np.float64)
    return BernsteinDensity(
        tuple(lower), tuple(upper), _positive(noisy, positivity), PureDP(epsilon, "replace_one")
    )


def _kernel_estimate(unit: Array, degree: int, bandwidth: float) -> Array:
    """Values on the lattice, shape (k+1, …, k+1)."""
    nodes = np.arange(degree + 1) / degree
    scaled = (nodes[None, None, :] - unit[:, :, None]) / bandwidth
    kernels = np.exp(-(scaled**2) / 2) / (math.sqrt(2 * math.pi) * bandwidth)
    values = kernels[:, 0]
    for axis in range(1, unit.shape[1] - 1):
        values = (values[:, :, None] * kernels[:, None, axis]).reshape(len(unit), -1)
    if unit.shape[1] == 1:
        return values.mean(axis=0)
    total = values.T @ kernels[:, -1] / len(unit)
    return total.reshape((degree + 1,) * unit.shape[1])


def _positive(noisy: Array, positivity: Positivity) -> Array:
    """Weights of a mixture, from the noisy values alone."""
    kept = np.maximum(noisy, 0.0) if positivity == "clip" else noisy - noisy.min()
    total = kept.sum()
    # All mass lost: the uniform density, which is the mixture with equal weights.
    return kept / total if total > 0 else np.full(noisy.shape, 1 / noisy.size)
