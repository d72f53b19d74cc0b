r"""Composing privacy losses by a tilted Fourier transform.

After T steps the loss is a sum of T independent ones, and

$$ δ(ε) = P(\text{some loss is } ∞) + E\,(1 − e^{ε−L})_+ , \qquad L = L_1 + … + L_T . $$

**Tilting.** With $K(s) = \log E\,e^{sL_1}$ over the finite losses, the law of L is $e^{TK(s) − sL}$
times that of a sum of T tilted losses, of masses $p_i e^{sL_i − K(s)}$. With the s that minimizes
Chernoff's bound $δ ≤ e^{TK(s) − sε}$ the tilted sum is centered at ε, so that the transform's rounding
error is relative to δ itself, not to 1: tiny δ keep their digits (Koskela, Jälkö, Honkela 2020 compose
by Fourier transforms; tilting is the saddle point's).

**Aliasing.** The transform adds up losses that differ by multiples of the window. Sums below the window
turn up inside it, which only overstates δ. Sums at or above its end h might be lost; they contribute at
most $E[1; L ≥ h] ≤ e^{TK(s) − sh}$, which is added. So is $10^{−9}$ of Chernoff's bound (more beyond
$10^5$ steps), for rounding.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import fft, optimize, special

from privot.privacy.slicing.loss_distribution import LossDistribution

Array = NDArray[np.float64]

_MOST_POINTS = 2**23
_ROUNDING = 1e-9


def composed_epsilon(loss: LossDistribution, steps: int, delta: float) -> float:
    """Return ε with δ(ε) ≤ δ after `steps` steps of the loss distribution, rounded up.

    It is infinite if infinite losses alone spend δ, or the window has more than 8 million points.
    """
    infinite = -math.expm1(steps * math.log1p(-loss.infinite))
    target = delta - infinite
    if target <= 0:
        return math.inf
    losses = loss.losses()
    with np.errstate(divide="ignore"):
        log_masses = np.log(loss.masses)

    def cumulant(tilt: float) -> float:
        return float(special.logsumexp(log_masses + tilt * losses))

    def chernoff(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        return (steps * cumulant(tilt) - math.log(target)) / tilt

    best = optimize.minimize_scalar(
        chernoff, bounds=(-14.0, 14.0), method="bounded", options={"xatol": 1e-3}
    )
    tilt, highest = math.exp(best.x), float(best.fun)
    if highest <= 0:
        return 0.0
    cumulant_at = cumulant(tilt)
    tilted = np.exp(log_masses + tilt * losses - cumulant_at)
    mean = float(tilted @ losses)
    spread = math.sqrt(steps * float(tilted @ (losses - mean) ** 2))
    # What lies further below would overflow; cutting it off only overstates δ.
    below = min(max(10 * spread, 1 / tilt) + abs(highest - steps * mean), 600 / tilt)
    above = max(10 * spread, 40 / tilt)
    size = fft.next_fast_len(math.ceil((below + above) / loss.step) + 2, real=True)
    if size > _MOST_POINTS:
        return math.inf
    lowest = math.floor((highest - below) / loss.step)
    folded = np.bincount((loss.first + np.arange(len(tilted))) % size, tilted, minlength=size)
    sums = fft.irfft(fft.rfft(folded) ** steps, size)
    index = lowest + np.arange(size)
    sums = np.maximum(sums[index % size], 0.0)
    grid = loss.step * index
    # Weights relative to Chernoff's bound at `highest`, which equals the target there.
    weights = sums * np.exp(np.minimum(tilt * (highest - grid), 650.0)) * target
    rounding = _ROUNDING * max(1.0, 1e-5 * steps)
    lost = target * (math.exp(-tilt * (grid[-1] - highest)) + rounding)
    # No ε is taken from where weights were cut off.
    lowest_valid = int(np.searchsorted(grid, highest - 650.0 / tilt)) + 1
    epsilon = _smallest_epsilon(grid, weights, highest, target - lost, lowest_valid)
    # A cell's two totals are right to 2⁻⁵³ or so, which moves the mean loss by as much.
    return max(0.0, epsilon + steps * len(tilted) * 2.0**-52)


def _smallest_epsilon(
    grid: Array, weights: Array, highest: float, wanted: float, lowest_valid: int
) -> float:
    """The ε at which $\\sum_L w_L (1 − e^{ε−L})_+$ falls to `wanted`, or `highest` if none does.

    δ at a grid point is $\\sum_{L above} w − e^ε \\sum_{L above} w e^{−L}$, with $e^{−L}$ relative to
    `highest`; between two points the sums are constant.
    """
    total = np.cumsum(weights[::-1])[::-1]
    # Capped far from `highest`, where less to subtract only overstates δ.
    decay = np.exp(np.minimum(highest - grid, 600.0))
    decayed = np.cumsum((weights * decay)[::-1])[::-1]
    at = total - np.exp(np.minimum(grid - highest, 600.0)) * decayed
    start = max(int(np.searchsorted(-at, -wanted)), lowest_valid)
    if start >= len(grid):
        return highest
    excess = (total[start] - wanted) / decayed[start] if decayed[start] > 0 else 0.0
    epsilon = highest + math.log(excess) if excess > 0 else grid[start - 1]
    return float(min(max(epsilon, grid[start - 1]), grid[start]))
