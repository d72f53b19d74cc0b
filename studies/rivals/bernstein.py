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
whatever needs the noisy values only:

- `polynomial` sets $\tilde F$ itself to zero where it is negative, after the polynomial has averaged the
  noise of neighboring values away, and mixes in a public share of the uniform density;
- `clip` sets negative *values* to zero and divides by the sum: a mixture of products of
  Beta(ν+1, k−ν+1), on a floor of what positive noise is left where there are no records;
- `shift` subtracts the smallest noisy value from all of them: flatter still.

$k$ and $σ$ have to be chosen without the records.

**Cost.** Of a record's kernel only the nodes within 9 σ count, and of a point's basis functions only
those within 12 standard deviations of the binomial, computed from their logarithms: what is left out is
below 10⁻¹⁶ of the largest. A line takes degrees of ten thousand, a plane of a thousand.

References:
    Aldà, Rubinstein, *The Bernstein mechanism: function release under differential privacy* (2017),
    with the plain, not iterated, Bernstein operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import gammaln

from privot.core.errors import PrivotError
from privot.mechanisms.laplace import sample_discrete_laplace
from privot.privacy import PureDP

Array = NDArray[np.float64]
Positivity = Literal["polynomial", "clip", "shift"]
Calibration = Literal["lattice", "published"]

FLOOR = 1e-3  # public share of the uniform density that `polynomial` mixes in
_MAX_VALUES = 1_000_000
_GRID_BITS = 20  # the noise's scale is so many powers of two above the grid
_KERNEL_REACH, _BASIS_REACH, _POISSON_REACH = 9.0, 12.0, 60
_AT_ONCE = 2**19  # kernel values in memory


@dataclass(frozen=True, eq=False)
class BernsteinDensity:
    """A sum of products of Beta densities on a box, set to 0 where it is negative.

    Args:
        lower: lower corner of the public box.
        upper: upper corner.
        weights: of the products, shape (k+1, …, k+1), summing to 1; some may be negative.
        guarantee: what the noisy values keep.
        floor: share of the uniform density; 0 where no weight is negative.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    weights: Array
    guarantee: PureDP
    floor: float = 0.0

    def density(self, axes: Sequence[Array]) -> Array:
        """The density on the tensor grid of `axes` (in data units), flat, last axis fastest.

        Where a weight is negative, its normalizer is the midpoint rule's: `axes` must then be the
        centers of equal cells of the box.
        """
        values = self.polynomial(axes)
        volume = math.prod(np.subtract(self.upper, self.lower))
        if self.floor:
            values = np.maximum(values, 0.0)
            total = values.mean() * volume
            share = (1 - self.floor) / total if total > 0 else 0.0
            values = share * values + (1 - share * total) / volume
        return values

    def polynomial(self, axes: Sequence[Array]) -> Array:
        """The sum as it is, negative or not, like `density`."""
        values = self.weights
        for low, high, axis in zip(self.lower, self.upper, axes, strict=True):
            found = basis((axis - low) / (high - low), len(values) - 1)
            values = np.moveaxis(_times(found, values) / (high - low), 0, -1)
        return values.ravel()

    def draw(self, num_draws: int, rng: np.random.Generator) -> Array:
        """Points (num_draws, d): a product of positive weight, then its Beta variables.

        Where there are negative weights, a point is kept with the probability sum / (sum of what is
        positive), which is exact.
        """
        degree, positive = self.weights.shape[0] - 1, np.maximum(self.weights, 0.0).ravel()
        kept = rng.random((rng.binomial(num_draws, self.floor), len(self.lower)))
        while len(kept) < num_draws:
            cells = rng.choice(positive.size, num_draws, p=positive / positive.sum())
            places = np.stack(np.unravel_index(cells, self.weights.shape), axis=1)
            unit = rng.beta(places + 1, degree - places + 1)
            if self.floor:
                unit = unit[rng.random(num_draws) < self._kept_share(unit)]
            kept = np.concatenate([kept, unit])
        kept = kept[:num_draws]
        return np.asarray(self.lower) + rng.permutation(kept) * np.subtract(self.upper, self.lower)

    def _kept_share(self, unit: Array) -> Array:
        """The sum at points (n, d) of the unit cube over that of the positive weights alone."""
        both = np.stack([self.weights, np.maximum(self.weights, 0.0)])
        values = np.broadcast_to(both[:, None], (2, len(unit), *self.weights.shape))
        for axis in range(unit.shape[1]):
            found = basis(unit[:, axis], self.weights.shape[0] - 1).toarray()
            values = np.einsum("sn...k,nk->sn...", np.moveaxis(values, 2, -1), found)
        return np.asarray(values[0] / values[1])


def basis(y: Array, degree: int) -> csr_array:
    """Beta(ν+1, k−ν+1) densities at y, sparse (len(y), k+1); none outside of the unit interval."""
    return _basis(np.ascontiguousarray(y, np.float64).tobytes(), degree)


@lru_cache(maxsize=4)
def _basis(points: bytes, degree: int) -> csr_array:
    y = np.frombuffer(points)
    reach = math.ceil(_BASIS_REACH * math.sqrt(degree) / 2) + _POISSON_REACH
    first = np.clip(np.rint(y * degree).astype(np.int64) - reach, 0, max(0, degree - 2 * reach))
    nu = first[:, None] + np.arange(min(2 * reach, degree) + 1)
    constants = gammaln(degree + 2) - gammaln(nu + 1) - gammaln(degree - nu + 1)
    inside = (y > 0) & (y < 1)
    safe = np.where(inside, y, 0.5)[:, None]
    logs = constants + nu * np.log(safe) + (degree - nu) * np.log1p(-safe)
    values = np.where(inside[:, None], np.exp(logs), 0.0)
    starts = np.arange(len(y) + 1) * nu.shape[1]
    return csr_array((values.ravel(), nu.ravel(), starts), shape=(len(y), degree + 1))


def _times(found: csr_array, values: Array) -> Array:
    """A basis times the first axis of an array."""
    flat = values.reshape(len(values), -1)
    return np.asarray(found @ flat).reshape(-1, *values.shape[1:])


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
    values = kernel_values(records, lower, upper, degree, bandwidth)
    delta_1 = sensitivity(len(records), len(lower), degree, bandwidth, calibration)
    noisy = add_noise(values, delta_1, epsilon)
    return density_of(noisy, lower, upper, epsilon, positivity)


def kernel_values(
    records: Array, lower: Sequence[float], upper: Sequence[float], degree: int, bandwidth: float
) -> Array:
    """The kernel estimate on the lattice, shape (k+1, …, k+1): **raw**; see `fit_bernstein`."""
    if not bandwidth > 0:
        raise PrivotError(f"bandwidth is {bandwidth}: a positive share of the box's sides")
    if records.ndim != 2 or not len(records) or records.shape[1] != len(lower):
        raise PrivotError(
            f"records have shape {records.shape}: give at least one, with {len(lower)} numbers each"
        )
    if not (degree >= 1 and (degree + 1) ** len(lower) <= _MAX_VALUES):
        raise PrivotError(f"degree is {degree}: at least 1, and at most {_MAX_VALUES} values")
    unit = np.clip((records - np.asarray(lower)) / np.subtract(upper, lower), 0.0, 1.0)
    of_unit = _on_line if unit.shape[1] == 1 else _on_lattice
    return of_unit(unit, degree, bandwidth) / len(unit)


def _on_line(unit: Array, degree: int, bandwidth: float) -> Array:
    """The sum of all kernels at the nodes of a line, each only where it is seen."""
    reach = min(math.ceil(_KERNEL_REACH * bandwidth * degree) + 1, degree)
    last = max(0, degree - 2 * reach)
    offsets = np.arange(min(2 * reach, degree) + 1)
    total = np.zeros(degree + 1)
    for part in np.array_split(unit[:, 0], math.ceil(unit.size * offsets.size / _AT_ONCE)):
        first = np.clip(np.rint(part * degree).astype(np.int64) - reach, 0, last)
        nodes = first[:, None] + offsets
        values = _kernel(nodes / degree - part[:, None], bandwidth)
        total += np.bincount(nodes.ravel(), values.ravel(), degree + 1)
    return total


def _on_lattice(unit: Array, degree: int, bandwidth: float) -> Array:
    """The sum of all products of kernels on a lattice of two or more axes."""
    kernels = _kernel(np.arange(degree + 1) / degree - unit[:, :, None], bandwidth)
    values = kernels[:, 0]
    for axis in range(1, unit.shape[1] - 1):
        values = (values[:, :, None] * kernels[:, None, axis]).reshape(len(unit), -1)
    return (values.T @ kernels[:, -1]).reshape((degree + 1,) * unit.shape[1])


def _kernel(x: Array, bandwidth: float) -> Array:
    return np.exp(-((x / bandwidth) ** 2) / 2) / (math.sqrt(2 * math.pi) * bandwidth)


def add_noise(values: Array, delta_1: float, epsilon: float) -> Array:
    """Values on a grid, with discrete Laplace noise of ε for the sensitivity `delta_1`."""
    grid = 2.0 ** (math.floor(math.log2(delta_1 / epsilon)) - _GRID_BITS)
    ratio = (delta_1 / grid + values.size) / epsilon
    noise = sample_discrete_laplace(values.shape, ratio)
    return np.asarray((np.rint(values / grid) + noise) * grid, np.float64)


def density_of(
    noisy: Array,
    lower: Sequence[float],
    upper: Sequence[float],
    epsilon: float,
    positivity: Positivity,
) -> BernsteinDensity:
    """What noisy values say, from themselves alone."""
    kept = noisy - noisy.min() if positivity == "shift" else noisy
    kept = np.maximum(kept, 0.0) if positivity == "clip" else kept
    total = kept.sum()
    # All mass lost: the uniform density, which is the sum with equal weights.
    weights = kept / total if total > 0 else np.full(noisy.shape, 1 / noisy.size)
    floor = FLOOR if positivity == "polynomial" else 0.0
    guarantee = PureDP(epsilon, "replace_one")
    return BernsteinDensity(tuple(lower), tuple(upper), weights, guarantee, floor)
