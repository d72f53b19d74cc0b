r"""The law of the projected squared length as finitely many atoms, none below the truth.

The privacy-loss distribution needs the law of $H/Δ² = Σ_j Y_j$ itself, not only its moments. A pair of
Gaussians at distance $\sqrt{H}$ is easier to tell apart the larger H is, so a variable that is
stochastically larger only overstates the loss: every rounding here is upwards.

- $Y_j$ is rounded up to a multiple of a step; up to 32 of them are added by one Fourier transform.
- Sums of m are doubled: convolve, then round up to a coarser step. At each doubling the mean grows by
  about $10^{−5}$ of itself, in all by some $10^{−4}$.
- The transforms' rounding, relative to 1, is added to P(H > h); where Chernoff's bound with the exact
  moment-generating function is lower, that is taken instead. So far tails keep their digits.
- An orthonormal frame's single Beta variable needs none of this.

`atoms` then rounds up to some hundreds of values, near the mean a twentieth of a standard deviation
and at most a hundredth of the mean apart.
"""

import math
from functools import lru_cache

import numpy as np
import scipy

from privot.privacy.slicing.sensitivity import Floats, ProjectedLength, log_kummer

_LOG_TAIL = -20 * math.log(10)
_DIRECT, _DIRECT_CELLS, _CELLS = 32, 2**20, 2**18


def atoms(length: ProjectedLength) -> tuple[Floats, Floats]:
    """Return values of H and their probabilities: a law that is stochastically above that of H."""
    shares = _edges(length)
    above = _survival(length, shares)
    above[-1] = 0.0  # no share exceeds 1
    weights = -np.diff(np.minimum.accumulate(above), prepend=1.0)
    kept = weights > 0
    scaled = length.sensitivity * np.sqrt(shares[kept]) * (1 + 1e-12) + length.rounding
    return np.asarray(scaled**2), np.asarray(weights[kept])


def _edges(length: ProjectedLength) -> Floats:
    """Return the values of H/Δ² that are kept, ascending up to its maximum."""
    (a, b), copies = length.beta, length.copies
    mean = copies * a / b
    spread = math.sqrt(copies * a * (b - a) / (b + 1)) / b
    if spread == 0:
        return np.array([float(copies)])
    fine = min(spread / 20, mean / 100)
    distances = (
        np.arange(-12 * spread, -4 * spread, spread / 2),
        np.arange(-4 * spread, 4 * spread, fine),
        np.arange(4 * spread, 8 * spread, max(fine, spread / 8)),
        spread * np.geomspace(8.0, 256.0, 80),
    )
    edges = mean + np.concatenate(distances)
    return np.append(edges[(edges > 0) & (edges < copies)], float(copies))


def _survival(length: ProjectedLength, shares: Floats) -> Floats:
    """Return P(H/Δ² > h) for each h, rounded up."""
    (a, b), copies = length.beta, length.copies
    if a == b:
        return np.zeros_like(shares)
    if copies == 1:
        return np.asarray(scipy.special.betaincc(a, b - a, shares) * (1 + 1e-12))
    step, law = _sum_law(length.dim, copies)
    beyond = np.append(np.cumsum(law[::-1])[::-1], 0.0)
    counted = beyond[np.searchsorted(step * np.arange(len(law)), shares, side="right")]
    tilts = b * np.geomspace(1e-4, 1e4, 600)
    exponents = copies * log_kummer(a, b, tilts) - np.multiply.outer(shares, tilts)
    chernoff = np.exp(np.minimum(exponents.min(axis=1), 0.0))
    return np.minimum(counted + 1e-15 * (10 + copies), chernoff)


def _rounded_beta(b: float, step: float, cells: int) -> Floats:
    """Return the law of Beta(½, b−½) rounded up to step·(0 … cells), scaled to total 1."""
    values = np.minimum(step * np.arange(cells + 1), 1.0)
    return _positive(np.diff(scipy.special.betainc(0.5, b - 0.5, values), prepend=0.0))


@lru_cache(maxsize=8)
def _sum_law(dim: int, count: int) -> tuple[float, Floats]:
    """Return (step, P(Σ of `count` Y_j, rounded up, is i·step) for i = 0, 1, …)."""
    b = dim / 2
    if count <= _DIRECT:
        step = _highest(dim, count) / _DIRECT_CELLS
        size = scipy.fft.next_fast_len(_DIRECT_CELLS + count + 1, real=True)
        share = min(_highest(dim, 1), _highest(dim, count))
        one = _rounded_beta(b, step, math.ceil(share / step))
        return step, _positive(scipy.fft.irfft(scipy.fft.rfft(one, size) ** count, size))
    step, half = _sum_law(dim, count // 2)
    size = scipy.fft.next_fast_len(2 * len(half), real=True)
    both = _positive(scipy.fft.irfft(scipy.fft.rfft(half, size) ** 2, size))
    if count % 2:
        # One more share, rounded up to this step; it is far narrower than the sum.
        one = _rounded_beta(b, step, math.ceil(_highest(dim, 1) / step))
        size = scipy.fft.next_fast_len(len(both) + len(one), real=True)
        both = _positive(
            scipy.fft.irfft(scipy.fft.rfft(both, size) * scipy.fft.rfft(one, size), size)
        )
    top = _highest(dim, count)
    factor = max(1, math.ceil(top / (_CELLS * step)))
    coarse = -(-np.arange(len(both)) // factor)
    law = np.asarray(np.bincount(coarse, both), dtype=np.float64)
    return step * factor, _positive(law[: math.ceil(1.01 * top / (step * factor)) + 1])


def _positive(law: Floats) -> Floats:
    """Rounding leaves ±1e-18 where the truth is less."""
    law = np.maximum(law, 0.0)
    return np.asarray(law / law.sum())


@lru_cache(maxsize=64)
def _highest(dim: int, count: int) -> float:
    """Return h with P(Σ of `count` Y_j > h) ≤ 1e-20, at most `count` (Chernoff)."""

    def bound(log_scale: float) -> float:
        scale = math.exp(log_scale)
        moment = float(log_kummer(0.5, dim / 2, np.array([scale]))[0])
        return (count * moment - _LOG_TAIL) / scale

    best = scipy.optimize.minimize_scalar(
        bound, bounds=(math.log(dim) - 12, math.log(dim) + 12), method="bounded"
    )
    # Every scale gives a valid bound, so the search need not be exact.
    return min(float(count), float(best.fun))
