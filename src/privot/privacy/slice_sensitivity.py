r"""Sensitivity Δ of noisy slices, and the law of the projected squared distance H: moments and tails.

Records are clipped to ‖x‖ ≤ R, a public radius. **Δ** is the largest distance between the rows of two
neighboring runs in the same slot, for

- `replace_one`, with the full batch or fixed-size sampling without replacement: the rows are x and x′,
  so Δ = 2R. For records without negative entries ⟨x, x′⟩ ≥ 0, so Δ = √2 R;
- `zero_out` with *padded* Poisson sampling or the full batch: the rows are x and a blank, so Δ = R;
- `zero_out` with fixed-size sampling: if the record is not drawn, another record x_j has its slot. So
  the rows are two of x, 0 and x_j, and Δ is 2R (√2 R);
- `replace_one` with Poisson sampling: refused, because the formulas compare a row with a blank only.

Rows that differ by $z$, $‖z‖ ≤ Δ$, differ by $Uᵀz$ after projection on the k directions U. The law of
**H** $= ‖Uᵀz‖²$ depends on $‖z‖$ only, because rotations do not change the law of U, which consists of

- k independent uniform directions: $H = ‖z‖² Σ_j Y_j$ with $Y_j ∼ \mathrm{Beta}(½, (d−1)/2)$ i.i.d., so
  $\log E\,e^{cH} = k \log {}_1F_1(½; d/2; c‖z‖²)$;
- or a uniform orthonormal k-frame, $k ≤ d$: $H = ‖z‖² Y$ with $Y ∼ \mathrm{Beta}(k/2, (d−k)/2)$, so
  $H ≤ ‖z‖²$.

The variables Y are called *shares*. H grows with $‖z‖$ (stochastically), so $‖z‖ = Δ$ is the worst case.

**Grid.** If projections are rounded to multiples of g before the noise, each of the k coordinates of two
rows moves by at most g/2, and their difference by g. So H becomes at most $(\sqrt H + \sqrt k g)²$,
which is at most $(1+t) H + (1 + 1/t) k g²$ for every $t > 0$, and the least bound of several t is used.
On a fine grid, where all t are small, the logarithm of the moment in t is replaced by a chord, which is
an upper bound because this logarithm is convex (Hölder), with a relative error of order t².

**Kummer's function** is the moment-generating function of one share: for $Y ∼ \mathrm{Beta}(a, b−a)$,

$$ E\,e^{xY} = {}_1F_1(a; b; x) = \sum_n \frac{(a)_n}{(b)_n} \frac{x^n}{n!} , \qquad x ≥ 0 . $$

Its *logarithm* is computed, for $d$ up to $10^6$ and $x$ of any size, to the same relative accuracy for
results from $10^{-9}$ to $10^9$, by

- the series, whose terms are positive, if 240 terms leave out less than $10^{-30}$ ($x ≤ 40$; or
  $a ≤ 1$ and $x ≤ b/2$, where the ratio of terms is at most ½);
- else the integral over $y = 1/(1+e^{−s})$, $s ∈ ℝ$, of
  $e^{φ(s)}$, $φ = xy + a \log y + (b−a) \log(1−y)$, by the trapezoidal rule. φ has one maximum, at the
  positive root of $−x y² + (x − b) y + a = 0$. The nodes cover the interval where φ is within 42 of it.
  The integrand is analytic in a strip around the real axis and decreases exponentially, so the rule
  converges exponentially in the number of nodes (Trefethen, Weideman 2014).

A bound on the rounding error is added, and $\log {}_1F_1 ≤ x$ (as $Y ≤ 1$) bounds the result.

**The discrete law** (`length_law`) is that of a variable which is stochastically larger than H. This
only overstates the loss, because two Gaussians at distance $\sqrt H$ are easier to distinguish the
larger H is. So every rounding is upwards.

- $Y_j$ is rounded up to a multiple of a step, and up to 32 of them are added by one Fourier transform.
- Larger sums are made by doubling: a convolution, then rounding up to a coarser step. Each doubling
  multiplies the mean by about $1 + 10^{−5}$, all together by about $1 + 10^{−4}$.
- The transforms' rounding error, relative to 1, is added to P(H > h). Chernoff's bound with the exact
  moment-generating function is used where it is lower, so far tails are accurate.
- The single Beta variable of an orthonormal frame needs no sum.

The result is rounded up to some hundreds of values, whose distances near the mean are a twentieth of a
standard deviation, and at most a hundredth of the mean.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError, require_choice, require_finite

Floats = NDArray[np.float64]

_TERMS = 240  # number of terms of the series
_NODES = 512  # number of nodes of the trapezoidal rule
_DROP = 42.0  # difference of φ and its maximum beyond which e^φ is below rounding
_REACHES: Floats = np.ldexp(1e-9, np.arange(40))  # distances from the peak that are tried first
_FINE = 1e-3  # largest t for which a chord is used
_LOG_TAIL = -20 * math.log(10)  # log of the mass of sums of shares that is left out
_DIRECT_SUMMANDS, _DIRECT_CELLS = 32, 2**20  # most shares added by one transform, and its cells
_SUM_CELLS = 2**18  # number of cells of a doubled sum
# Bounds on errors relative to the summed terms: ten times the errors measured against 60 digits.
_SERIES_ERROR, _INTEGRAL_ERROR = 1e-13, 1e-13


def log_kummer(a: float, b: float, x: Floats) -> Floats:
    """Return log ₁F₁(a; b; x) for 0 < a ≤ b and each x ≥ 0, rounded up.

    >>> bool(abs(log_kummer(0.5, 0.5, np.array([3.0]))[0] - 3.0) < 1e-12)
    True
    """
    x = np.asarray(x, dtype=np.float64)
    if a == b:
        return x
    by_series = (x <= 40) | ((a <= 1) & (x <= b / 2))
    result = np.empty_like(x)
    result[by_series] = _series(a, b, x[by_series])
    result[~by_series] = _integral(a, b, x[~by_series])
    return np.minimum(result, x)


def _series(a: float, b: float, x: Floats) -> Floats:
    """Return log(1 + Σ_{n≥1} terms), where even a tiny sum keeps its digits."""
    n = np.arange(_TERMS, dtype=np.float64)
    ratios = (a + n) / ((b + n) * (n + 1))
    terms = np.cumprod(np.multiply.outer(x, ratios), axis=-1)
    return np.asarray(np.log1p(terms.sum(axis=-1)) * (1 + _SERIES_ERROR))


def _integral(a: float, b: float, x: Floats) -> Floats:
    """Return log(integral of e^φ / B(a, b−a)) by the trapezoidal rule around the peak; w is 1 − y."""
    # y and w at the peak, each from the root formula that does not cancel.
    linear = x - b  # coefficient of y
    root = np.hypot(linear, 2 * np.sqrt(a * x))
    positive = linear > 0
    y = np.where(
        positive, (linear + root) / (2 * x), 2 * a / np.where(positive, root, root - linear)
    )
    w = 2 * (b - a) / (x + b + root)
    log_w = np.where(y < 0.5, np.log1p(-np.minimum(y, 0.5)), np.log(w))
    parts = x * y, a * np.log(y), (b - a) * log_w, _log_beta(a, b - a)
    top = parts[0] + parts[1] + parts[2]
    peak = _Peak(a, b, y[:, None], w[:, None], (x * y * w)[:, None])
    left, right = peak.reach(-1.0), peak.reach(1.0)
    step = (left + right) / _NODES
    heights = np.exp(-peak.drop(step * np.arange(_NODES + 1) - left))
    value = top + np.log(heights.sum(axis=1) * step[:, 0]) - parts[3]
    error = _INTEGRAL_ERROR * (1 + sum(np.abs(part) for part in parts))
    return np.asarray(value + error)


@dataclass(frozen=True)
class _Peak:
    """The exponent φ relative to its maximum, for n arguments x of Kummer's function."""

    a: float
    b: float
    y: Floats  # y (n, 1) at the maximum
    w: Floats  # 1 − y (n, 1)
    xyw: Floats  # x y w (n, 1)

    def drop(self, t: Floats) -> Floats:
        """Return φ(s) − φ(s + t) = b log D − a t − x y w (e^t − 1)/D (n, m), with s at the maximum.

        The shift by t changes y to y e^t/D, where D = w + y e^t = 1 + y (e^t − 1).
        """
        growth = np.expm1(t)
        change = self.y * growth
        d, log_d = 1 + change, np.log1p(np.maximum(change, -0.5))
        low = change <= -0.5
        if low.any():  # there 1 + change would cancel
            far_below = self.w + self.y * np.exp(t)
            d, log_d = np.where(low, far_below, d), np.where(low, np.log(far_below), log_d)
        return np.asarray(self.b * log_d - self.a * t - self.xyw * growth / d)

    def reach(self, sign: float) -> Floats:
        """Return the distance (n, 1) to the left (−1) or right (1) at which φ has dropped by 42."""
        inside = self.drop(sign * _REACHES) < _DROP
        outer = _REACHES[np.where(inside.all(axis=1), -1, inside.argmin(axis=1))][:, None]
        while (inside := self.drop(sign * outer) < _DROP).any():
            outer = np.where(inside, 2 * outer, outer)
        inner = outer / 2
        for _ in range(12):  # bisection to 2⁻¹² of the distance, because the drop need not be exact
            half = (inner + outer) / 2
            inside = self.drop(sign * half) < _DROP
            inner, outer = np.where(inside, half, inner), np.where(inside, outer, half)
        return outer


def _log_beta(a: float, c: float) -> float:
    """Return log B(a, c), by Stirling's series for large c, where SciPy's function loses four digits."""
    a, c = min(a, c), max(a, c)
    if c < 32:
        return float(scipy.special.betaln(a, c))
    ratio = -(c - 0.5) * math.log1p(a / c) - a * math.log(c + a) + a
    return float(scipy.special.gammaln(a)) + ratio + _stirling(c) - _stirling(c + a)


def _stirling(c: float) -> float:
    """Return log Γ(c) − (c−½) log c + c − ½ log 2π for c ≥ 32, within 1e-17."""
    inverse = 1 / (c * c)
    return (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / c


Sampling = Literal["without_replacement", "padded_poisson", "none"]
CentralNeighboring = Literal["replace_one", "zero_out"]


def record_sensitivity(
    radius: float, neighboring: str, sampling: str, non_negative: bool = False
) -> float:
    """Return Δ, the largest ℓ2 distance of rows of neighboring runs (see the module).

    >>> record_sensitivity(0.5, "replace_one", "without_replacement")
    1.0
    >>> record_sensitivity(1.0, "zero_out", "padded_poisson")
    1.0

    Raises:
        PrivotError: if the radius is not positive, or a name or the combination of names is unknown.
    """
    require_finite("radius", radius, positive=True)
    require_choice("sampling", sampling, get_args(Sampling))
    if neighboring not in get_args(CentralNeighboring):
        raise PrivotError(
            f"neighboring is {neighboring!r}: a trusted curator's slices are accounted for "
            "'replace_one' or 'zero_out'"
        )
    if neighboring == "zero_out" and sampling != "without_replacement":
        return radius
    if sampling == "padded_poisson":
        raise PrivotError(
            "neighboring is 'replace_one' with sampling 'padded_poisson': no formula here covers it; "
            "use neighboring 'zero_out', or sampling 'without_replacement'"
        )
    if non_negative:
        return math.nextafter(math.sqrt(2) * radius, math.inf)
    return 2 * radius


@dataclass(frozen=True)
class ProjectedLength:
    """The random variable H = ‖Uᵀz‖² at ‖z‖ = Δ, or (√H + √k·g)² if projections are rounded."""

    dim: int  # number d of coordinates of a record
    num_projections: int  # number k of directions
    sensitivity: float  # largest distance Δ of rows
    orthonormal: bool = False  # whether directions are an orthonormal frame
    grid: float = 0.0  # step g to whose multiples projections are rounded; 0 for no rounding

    def __post_init__(self) -> None:
        require_finite("sensitivity", self.sensitivity, positive=True)
        require_finite("grid", self.grid)
        if self.orthonormal and self.num_projections > self.dim:
            raise PrivotError(
                f"num_projections is {self.num_projections}: at most dim = {self.dim} directions "
                "can be orthonormal; take fewer, or orthonormal=False"
            )

    @property
    def beta(self) -> tuple[float, float]:
        """Parameters (a, b) of one share of H/Δ², whose law is Beta(a, b−a)."""
        return (self.num_projections if self.orthonormal else 1) / 2, self.dim / 2

    @property
    def copies(self) -> int:
        """Number of independent shares whose sum is H/Δ²."""
        return 1 if self.orthonormal else self.num_projections

    @property
    def rounding(self) -> float:
        """Largest increase √k·g of √H by rounding."""
        return math.sqrt(self.num_projections) * self.grid

    def log_moment(self, scale: Floats) -> Floats:
        """Return log E exp(c H) for each c ≥ 0, rounded up.

        >>> length = ProjectedLength(dim=1, num_projections=4, sensitivity=1.0)
        >>> length.log_moment(np.array([0.5]))  # one dimension: H = k surely
        array([2.])
        """
        x = np.asarray(scale, dtype=np.float64) * self.sensitivity**2
        if self.rounding == 0:
            return self.copies * log_kummer(*self.beta, x)
        # Every t gives a valid bound. These t are near the best for a typical H.
        typical = self.sensitivity * math.sqrt(self.copies * self.beta[0] / self.beta[1])
        widths = self.rounding / typical * np.geomspace(0.25, 4.0, 9)
        widest = widths[-1]
        if widest < _FINE:
            at_zero, at_widest = log_kummer(*self.beta, x), log_kummer(*self.beta, (1 + widest) * x)
            by_width = [at_zero + t / widest * (at_widest - at_zero) for t in widths]
        else:
            by_width = [log_kummer(*self.beta, (1 + t) * x) for t in widths]
        bounds = [
            self.copies * of_share + (1 + 1 / t) * scale * self.rounding**2
            for t, of_share in zip(widths, by_width, strict=True)
        ]
        return np.asarray(np.min(bounds, axis=0))


class DiscreteLaw(NamedTuple):
    """Values of a random variable, ascending, and their probabilities."""

    values: Floats
    weights: Floats


def length_law(length: ProjectedLength) -> DiscreteLaw:
    """Return the discrete law of a variable that is stochastically larger than H (see the module)."""
    sums = _grid_of_sums(length)
    above = _tail_probabilities(length, sums)
    above[-1] = 0.0  # no sum exceeds the largest
    weights = -np.diff(np.minimum.accumulate(above), prepend=1.0)
    positive = weights > 0
    scaled = length.sensitivity * np.sqrt(sums[positive]) * (1 + 1e-12) + length.rounding
    return DiscreteLaw(np.asarray(scaled**2), np.asarray(weights[positive]))


def _grid_of_sums(length: ProjectedLength) -> Floats:
    """Return the values of H/Δ² in the discrete law, ascending; the last is the largest possible."""
    (a, b), copies = length.beta, length.copies
    mean = copies * a / b
    spread = math.sqrt(copies * a * (b - a) / (b + 1)) / b
    if spread == 0:
        return np.array([float(copies)])
    fine = min(spread / 20, mean / 100)
    # Distances from the mean: a fine grid within four standard deviations, coarser grids beyond.
    distances = (
        np.arange(-12 * spread, -4 * spread, spread / 2),
        np.arange(-4 * spread, 4 * spread, fine),
        np.arange(4 * spread, 8 * spread, max(fine, spread / 8)),
        spread * np.geomspace(8.0, 256.0, 80),
    )
    edges = mean + np.concatenate(distances)
    return np.append(edges[(edges > 0) & (edges < copies)], float(copies))


def _tail_probabilities(length: ProjectedLength, sums: Floats) -> Floats:
    """Return P(H/Δ² > h) for each h of `sums`, rounded up."""
    (a, b), copies = length.beta, length.copies
    if a == b:
        return np.zeros_like(sums)
    if copies == 1:
        return np.asarray(scipy.special.betaincc(a, b - a, sums) * (1 + 1e-12))
    step, law = _sum_law(length.dim, copies)
    beyond = np.append(np.cumsum(law[::-1])[::-1], 0.0)
    by_transform = beyond[np.searchsorted(step * np.arange(len(law)), sums, side="right")]
    tilts = b * np.geomspace(1e-4, 1e4, 600)
    exponents = copies * log_kummer(a, b, tilts) - np.multiply.outer(sums, tilts)
    chernoff = np.exp(np.minimum(exponents.min(axis=1), 0.0))
    return np.minimum(by_transform + 1e-15 * (10 + copies), chernoff)


def _rounded_beta(b: float, step: float, cells: int) -> Floats:
    """Return the law of Beta(½, b−½), rounded up to multiples 0 … `cells` of the step, of total 1."""
    values = np.minimum(step * np.arange(cells + 1), 1.0)
    return _normalized(np.diff(scipy.special.betainc(0.5, b - 0.5, values), prepend=0.0))


@lru_cache(maxsize=8)
def _sum_law(dim: int, count: int) -> tuple[float, Floats]:
    """Return a step, and the probabilities that a sum of `count` Y_j, rounded up, is 0, 1, … steps."""
    b = dim / 2
    if count <= _DIRECT_SUMMANDS:
        step = _sum_quantile(dim, count) / _DIRECT_CELLS
        size = scipy.fft.next_fast_len(_DIRECT_CELLS + count + 1, real=True)
        largest_share = min(_sum_quantile(dim, 1), _sum_quantile(dim, count))
        share = _rounded_beta(b, step, math.ceil(largest_share / step))
        return step, _normalized(scipy.fft.irfft(scipy.fft.rfft(share, size) ** count, size))
    step, half = _sum_law(dim, count // 2)
    total = _convolved(half, half)
    if count % 2:
        # Add one more share, rounded up to this step, which is coarse for a share, but not for the sum.
        total = _convolved(total, _rounded_beta(b, step, math.ceil(_sum_quantile(dim, 1) / step)))
    top = _sum_quantile(dim, count)
    factor = max(1, math.ceil(top / (_SUM_CELLS * step)))
    coarse = -(-np.arange(len(total)) // factor)  # rounded up
    law = np.asarray(np.bincount(coarse, total), dtype=np.float64)
    return step * factor, _normalized(law[: math.ceil(1.01 * top / (step * factor)) + 1])


def _convolved(first: Floats, second: Floats) -> Floats:
    """Return the law of the sum of two independent variables on one grid."""
    size = scipy.fft.next_fast_len(len(first) + len(second), real=True)
    product = scipy.fft.rfft(first, size) * scipy.fft.rfft(second, size)
    return _normalized(scipy.fft.irfft(product, size))


def _normalized(law: Floats) -> Floats:
    """Replace a transform's negative rounding errors by 0, and scale to total 1."""
    law = np.maximum(law, 0.0)
    return np.asarray(law / law.sum())


@lru_cache(maxsize=64)
def _sum_quantile(dim: int, count: int) -> float:
    """Return a value h ≤ `count` that a sum of `count` Y_j exceeds with P ≤ 1e-20 (Chernoff)."""

    def bound(log_scale: float) -> float:
        scale = math.exp(log_scale)
        moment = float(log_kummer(0.5, dim / 2, np.array([scale]))[0])
        return (count * moment - _LOG_TAIL) / scale

    limits = math.log(dim) - 12, math.log(dim) + 12
    best = scipy.optimize.minimize_scalar(bound, bounds=limits, method="bounded")
    # Every scale gives a valid bound, so the minimum need not be exact.
    return min(float(count), float(best.fun))
