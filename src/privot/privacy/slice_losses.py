r"""Privacy-loss distributions of noisy slices: one step, discretized from above, and its composition.

`SampledPair` gives the distribution of one step's loss, `composed_epsilon` the ε of many steps.

Symbols are those of `privot.privacy.slice_sensitivity`: a step releases k random directions U and the
projections XU + V, with V of standard deviation σ. Rows of neighbors differ by z, ‖z‖ ≤ Δ. The squared
distance of their projections is $H = ‖Uᵀz‖² = ‖z‖² Σ_j Y_j$ with independent Beta variables $Y_j$ (a
single one for an orthonormal frame).

**The pair.** If everything that does not depend on the record is fixed, $(U, XU+V)$ has, for the two
neighbors, the laws $Q = (H, N(0, 1))$ and $P = (H, N(\sqrt H/σ, 1))$. A record that is drawn with
probability q has the law $R = (1−q) Q + q P$. A pair *dominates* another if its hockey-stick divergence
$H_α(A‖B) = E_B(dA/dB − α)_+$ is at least as large for every α ≥ 0. Given H, a smaller shift is
post-processing, and H grows stochastically with ‖z‖, so the pair at ‖z‖ = Δ, with a law of H rounded up,
dominates. Products of dominating pairs dominate any adaptive composition of the steps (Zhu, Dong, Wang
2022, Theorem 10).

**Padded Poisson, `zero_out`.** At *every* step, the pair is (R, Q) if the first data set contains the
record, or (Q, R) if the second does. So the two are composed separately, and the larger result holds.

**Without replacement, `replace_one`.** The outputs are $(1−q)M_0 + qM_1$ and $(1−q)M_0 + qM_1'$. In
$M_0$ record i is not drawn; in $M_1$ and $M_1'$ it is drawn, and is x or x′. For α ≥ 1 put $α' = 1 +
(α−1)/q$ and $β = α/α'$. Any two of $M_0, M_1, M_1'$ are mixtures, over the same coins, of outputs that
differ in one row (rows are in random order, and $M_0$ has another record in the row of record i). So
advanced joint convexity (Balle, Barthe, Gaboardi 2018, Theorem 2), then joint convexity, give

$$ H_α = q H_{α'}(M_1 ‖ (1−β) M_0 + β M_1')
   ≤ q (1−β) H_{α'}(M_1 ‖ M_0) + q β H_{α'}(M_1 ‖ M_1') $$

which is at most $q H_{α'}(P ‖ Q) = H_α(R ‖ Q)$, by the equality with $M_0 = M_1' = Q$ and $M_1 = P$.

For α < 1, $H_α(A‖B) = 1 − α + α H_{1/α}(B‖A)$ and the same bound for the swapped neighbors give
$H_α(Q ‖ R)$. Neither (R, Q) nor (Q, R) bounds the divergence for all α, and the larger of their
compositions need not be a bound (Lebeda, Regehr, Kamath, Steinke 2024). But

$$ f(α) = H_α(R‖Q) \;(α ≥ 1), \qquad f(α) = 1 − α + α f(1/α) \;(α < 1) $$

is convex, non-increasing, with $f(0) = 1$ and $f(α) ≥ (1−α)_+$. So it is the divergence of some pair
(Zhu, Dong, Wang 2022, Proposition 9), the *symmetrized* pair, which dominates in the two directions. Its
losses above 0 are those of (R, Q) under R, and its losses below 0 those of (Q, R) under Q. The remaining
mass is an atom at 0: the mean of $(1−q)(1 − 2 P(N(0,1) > \sqrt H/2σ))$, which is not negative.

**Discretization** (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022). Between the points $α_i = e^{ih}$
of a grid, f is replaced by straight lines, which are above it because f is convex. The masses of a cell
under the two measures then move to its ends, and keep their totals. Beyond the last point, the mass that
no finite ratio explains has an infinite loss. The excess over the exact pair is of second order in h.

**Composition.** After T steps the loss L is a sum of T independent losses of one step, and

$$ δ(ε) = P(\text{some loss is } ∞) + E\,(1 − e^{ε−L})_+ , \qquad L = L_1 + … + L_T . $$

**Tilting.** With $K(s) = \log E\,e^{sL_1}$ over the finite losses, the law of L is $e^{TK(s) − sL}$
times the law of a sum of T tilted losses, of masses $p_i e^{sL_i − K(s)}$. With the s that minimizes
Chernoff's bound $δ ≤ e^{TK(s) − sε}$, the tilted sum is centered at ε, as in a saddle point
approximation. So the rounding error of the Fourier transform that composes the steps (Koskela, Jälkö,
Honkela 2020) is relative to δ, not to 1, and tiny δ keep their digits.

**Aliasing.** The transform adds the masses of sums that differ by multiples of the window. Sums below
the window count as larger sums inside it, which only overstates δ. Sums at or above its end b contribute
at most $P(L ≥ b) ≤ e^{TK(s) − sb}$. This is added to δ, and $10^{−9}$ of Chernoff's bound for rounding
(more beyond $10^5$ steps).
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy

from privot.privacy.slice_sensitivity import Floats

_MIN_CELLS, _MAX_CELLS = 64, 2**17  # numbers of cells of the grid of one step's losses
_MAX_LOSS = 600.0  # largest finite loss of one step, whose exponential is still a float
_MAX_POINTS = 2**23  # largest number of points of the window of sums
_ROUNDING = 1e-9  # error of a transform, relative to Chernoff's bound
_SPREADS = 10  # half-width of the window of sums, in standard deviations of the tilted sum
# Largest exponents, below 709, at which the exponential overflows.
_WINDOW_EXPONENT, _WEIGHT_EXPONENT = 600.0, 650.0


@dataclass(frozen=True)
class LossDistribution:
    """Law of the privacy loss of a pair of measures, on a grid, under the first measure.

    P(loss = (first + i)·step) = masses[i], and P(loss = ∞) = infinite.
    """

    step: float
    first: int
    masses: Floats
    infinite: float

    @classmethod
    def around_zero(cls, step: float, above: Floats, below: Floats, infinite: float) -> Self:
        """Return the law with masses `above` at step, 2·step, …, `below` at −step, …, the rest at 0."""
        at_zero = max(1 - infinite - math.fsum(above) - math.fsum(below), 0.0)
        masses = np.concatenate([below[::-1], [at_zero], above])
        return cls(step, -len(below), masses, infinite)

    def losses(self) -> Floats:
        """Return the finite losses, ascending."""
        return np.asarray(self.step * (self.first + np.arange(len(self.masses))))

    def swapped(self) -> Self:
        """Return the losses of the swapped pair: −loss, weighted by e^−loss."""
        masses = self.masses * np.exp(-self.losses())
        last = self.first + len(masses) - 1
        # Mass missing from the swapped finite losses counts as an infinite loss.
        infinite = max(0.0, 1 - math.fsum(masses)) + self.infinite
        return type(self)(self.step, -last, masses[::-1], infinite)


@dataclass(frozen=True)
class SampledPair:
    """The pair (R, Q), R = (1−q)Q + qP, of a Gaussian step whose shift is public and random.

    Given the shift m = √H/σ, which has a discrete law, Q is N(0, 1) and P is N(m, 1).
    """

    shifts: Floats  # values of m
    weights: Floats  # probabilities of these values
    rate: float  # probability q that the record is drawn

    def losses(self, step: float, top_mass: float) -> LossDistribution:
        """Return the loss distribution of a pair that dominates (R, Q), for q < 1.

        Arguments:
            step: Step of the grid of losses; enlarged if it would give more than 131 072 cells.
            top_mass: Largest probability, approximately, of losses that count as infinite.
        """
        return self._losses_above(math.log1p(-self.rate), step, top_mass)

    def symmetrized_losses(self, step: float, top_mass: float) -> LossDistribution:
        """Return the losses of a pair that dominates the symmetrized one, which is (P, Q) at q = 1."""
        half = self._losses_above(0.0, step, top_mass)
        above = half.masses[1:]
        below = above * np.exp(-half.losses()[1:])
        return LossDistribution.around_zero(half.step, above, below, half.infinite)

    def _losses_above(self, lowest: float, step: float, top_mass: float) -> LossDistribution:
        """Return the losses of (R, Q) above `lowest`, with each cell's masses moved to its ends."""
        highest = self._highest_loss(top_mass)
        width = highest - lowest
        step = min(max(step, width / _MAX_CELLS), width / _MIN_CELLS)
        first, last = math.floor(lowest / step), math.ceil(highest / step)
        losses = np.asarray(step * np.arange(first, last + 1))
        # Probabilities under Q and under P that the loss is larger than each of `losses`.
        under_q, under_p = np.zeros_like(losses), np.zeros_like(losses)
        log_ratio = self._log_ratio(losses)
        for shift, weight in zip(self.shifts, self.weights, strict=True):
            x = log_ratio / shift + shift / 2
            under_q += weight * scipy.special.ndtr(-x)
            under_p += weight * scipy.special.ndtr(shift - x)
        if lowest < 0:
            under_q[0] = under_p[0] = 1.0
        under_r = (1 - self.rate) * under_q + self.rate * under_p
        # In flat tails, rounding may give negative masses. They become 0, which overstates δ.
        in_q, in_r = -np.diff(under_q), np.maximum(-np.diff(under_r), 0.0)
        # Totals r and q are unchanged if the upper end gets (r e^−lower − q)/(e^−lower − e^−upper) of r.
        ratio = np.exp(-losses)
        to_upper = (in_r * ratio[:-1] - in_q) / (-np.expm1(-step) * ratio[:-1])
        to_upper = np.clip(to_upper, 0.0, in_r)
        masses = np.zeros_like(losses)
        masses[1:] += to_upper
        masses[:-1] += in_r - to_upper
        beyond = under_q[-1] / ratio[-1]
        masses[-1] += beyond
        infinite = max(0.0, under_r[-1] - beyond)
        return LossDistribution(step, first, masses, infinite)

    def _highest_loss(self, top_mass: float) -> float:
        """Return a loss ≤ 600 that is exceeded under P with probability of about top_mass/q."""
        highest = 1.0
        while highest < _MAX_LOSS:
            x = self._log_ratio(np.array(highest)) / self.shifts + self.shifts / 2
            above = scipy.special.ndtr(self.shifts - x)
            if not self.rate * float(self.weights @ above) > top_mass:
                break
            highest *= 1.25
        return min(highest, _MAX_LOSS)

    def _log_ratio(self, loss: Floats) -> Floats:
        """Return r = mx − m²/2 with log(1−q + q e^r) = loss; −∞ if no r has so small a loss."""
        near = np.minimum(loss, 1.0)
        far = np.maximum(loss, 1.0)
        with np.errstate(divide="ignore"):
            return np.where(
                loss < 1,
                np.log1p(np.maximum(np.expm1(near) / self.rate, -1.0)),
                far - math.log(self.rate) + np.log1p(-(1 - self.rate) * np.exp(-far)),
            )


def composed_epsilon(loss: LossDistribution, steps: int, delta: float) -> float:
    """Return the ε at `delta` of `steps` steps of the loss distribution, rounded up.

    The law of the sum of tilted losses is computed in a window around the ε of Chernoff's bound. Weights
    undo the tilt, and the smallest ε at which they give δ is returned. It is infinite if the probability
    of infinite losses reaches δ, or the window has more than 8 million points.
    """
    infinite = -math.expm1(steps * math.log1p(-loss.infinite))
    target = delta - infinite
    if target <= 0:
        return math.inf
    losses = loss.losses()
    with np.errstate(divide="ignore"):
        log_masses = np.log(loss.masses)
    tilt, bound = _chernoff_bound(log_masses, losses, steps, target)
    if bound <= 0:
        return 0.0
    tilted = np.exp(log_masses + tilt * losses - _cumulant(log_masses, losses, tilt))
    mean = float(tilted @ losses)
    spread = math.sqrt(steps * float(tilted @ (losses - mean) ** 2))
    # The window ends at `bound` + `above`, beyond which weights are below e^−40. It begins at `bound` −
    # `below`: smaller sums, whose weights would overflow, are aliased into it, which overstates δ.
    distance = abs(bound - steps * mean)
    below = min(max(_SPREADS * spread, 1 / tilt) + distance, _WINDOW_EXPONENT / tilt)
    above = max(_SPREADS * spread, 40 / tilt)
    size = scipy.fft.next_fast_len(math.ceil((below + above) / loss.step) + 2, real=True)
    if size > _MAX_POINTS:
        return math.inf
    grid, probabilities = _sums_of_losses(loss, tilted, steps, bound - below, size)
    # Weights relative to Chernoff's bound at ε = `bound`, which equals the target there.
    weights = probabilities * np.exp(np.minimum(tilt * (bound - grid), _WEIGHT_EXPONENT)) * target
    rounding = _ROUNDING * max(1.0, 1e-5 * steps)
    lost = target * (math.exp(-tilt * (grid[-1] - bound)) + rounding)
    # ε must be above the losses whose weights are too small because they were capped.
    lowest_valid = int(np.searchsorted(grid, bound - _WEIGHT_EXPONENT / tilt)) + 1
    epsilon = _smallest_epsilon(grid, weights, bound, target - lost, lowest_valid)
    # A cell's totals have a rounding error of about 2⁻⁵³, which shifts the mean loss by as much.
    return max(0.0, epsilon + steps * len(tilted) * 2.0**-52)


def _sums_of_losses(
    loss: LossDistribution, masses: Floats, steps: int, lowest: float, size: int
) -> tuple[Floats, Floats]:
    """Return the sums of `steps` losses in a window, and their probabilities given one loss's masses.

    The window has `size` grid points from `lowest` on, into which all other points are aliased.
    """
    folded = np.bincount((loss.first + np.arange(len(masses))) % size, masses, minlength=size)
    probabilities = scipy.fft.irfft(scipy.fft.rfft(folded) ** steps, size)
    index = math.floor(lowest / loss.step) + np.arange(size)
    return np.asarray(loss.step * index), np.maximum(probabilities[index % size], 0.0)


def _cumulant(log_masses: Floats, losses: Floats, tilt: float) -> float:
    """Return the logarithm K(tilt) of the moment-generating function of one step's losses."""
    return float(scipy.special.logsumexp(log_masses + tilt * losses))


def _chernoff_bound(
    log_masses: Floats, losses: Floats, steps: int, target: float
) -> tuple[float, float]:
    """Return the best tilt s, and the upper bound of ε at δ = `target` by Chernoff's bound with it."""

    def bound(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        return (steps * _cumulant(log_masses, losses, tilt) - math.log(target)) / tilt

    limits, options = (-14.0, 14.0), {"xatol": 1e-3}
    best = scipy.optimize.minimize_scalar(bound, bounds=limits, method="bounded", options=options)
    tilt, epsilon = math.exp(best.x), float(best.fun)
    # If the largest losses alone spend δ, the best tilt is infinite (here near its limit, e^14), and
    # lower sums lose all digits. At 30/ε, a sum of 0 is scaled by e^−30 relative to ε, above 2^−53.
    if best.x > 12 and epsilon > 0:
        tilt = 30 / epsilon
        epsilon = bound(math.log(tilt))
    return tilt, epsilon


def _smallest_epsilon(
    grid: Floats, weights: Floats, bound: float, target: float, lowest_valid: int
) -> float:
    """Return the ε at which $\\sum_L w_L (1 − e^{ε−L})_+$ falls to `target`, or `bound` if none does.

    δ at a grid point ε is $\\sum_{L > ε} w_L − e^ε \\sum_{L > ε} w_L e^{−L}$, with $e^{−L}$ relative to
    `bound`; between two grid points both sums are constant.
    """
    total = np.cumsum(weights[::-1])[::-1]
    # Exponents are capped far from `bound`, which makes the subtracted term smaller, and overstates δ.
    decay = np.exp(np.minimum(bound - grid, _WINDOW_EXPONENT))
    decayed = np.cumsum((weights * decay)[::-1])[::-1]
    deltas = total - np.exp(np.minimum(grid - bound, _WINDOW_EXPONENT)) * decayed
    start = max(int(np.searchsorted(-deltas, -target)), lowest_valid)
    if start >= len(grid):
        return bound
    excess = (total[start] - target) / decayed[start] if decayed[start] > 0 else 0.0
    epsilon = bound + math.log(excess) if excess > 0 else grid[start - 1]
    return float(min(max(epsilon, grid[start - 1]), grid[start]))
