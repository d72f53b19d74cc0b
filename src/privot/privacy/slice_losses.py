r"""Privacy-loss distributions of noisy slices: one step, discretized from above, and its composition.

Symbols are those of `privot.privacy.slice_sensitivity`: a step releases k random directions U and the
projections XU + V, V of standard deviation σ. Rows of neighbors differ by z, ‖z‖ ≤ Δ. The squared
distance of their projections is $H = ‖Uᵀz‖² = ‖z‖² Σ_j Y_j$, $Y_j$ independent Beta variables (a
single one for an orthonormal frame).

**The pair.** $(U, XU+V)$ under two neighbors is, once everything independent of the record is fixed,
$(H, N(0, 1))$ against $(H, N(\sqrt H/σ, 1))$: write Q and P for the two, $R = (1−q) Q + q P$ for a
record that is drawn with probability q. Shrinking the shift is post-processing given H, and H grows
stochastically with ‖z‖, so ‖z‖ = Δ and a law of H rounded up dominate, at every α ≥ 0, in the
hockey-stick divergence $H_α(A‖B) = E_B(dA/dB − α)_+$. If pairs dominate the steps at every α ≥ 0, their
products dominate any adaptive composition (Zhu, Dong, Wang 2022, Theorem 10).

**Padded Poisson, `zero_out`.** The pair is (R, Q) if the first data set holds the record, (Q, R) if the
second does, at *every* step, so each is composed by itself and the larger result holds.

**Without replacement, `replace_one`.** The outputs are $(1−q)M_0 + qM_1$ and $(1−q)M_0 + qM_1'$, with
$M_0$: record i is not drawn; $M_1, M_1'$: it is, worth x or x′. For α ≥ 1 put $α' = 1 + (α−1)/q$ and
$β = α/α'$. Any two of $M_0, M_1, M_1'$ are mixtures, over the same coins, of outputs that differ in one
row (rows are in random order, and $M_0$ has another record in the row of record i). So
advanced joint convexity (Balle, Barthe, Gaboardi 2018, Theorem 2), then joint convexity, give

$$ H_α = q H_{α'}(M_1 ‖ (1−β) M_0 + β M_1')
   ≤ q (1−β) H_{α'}(M_1 ‖ M_0) + q β H_{α'}(M_1 ‖ M_1') $$

and that is at most $q H_{α'}(P ‖ Q) = H_α(R ‖ Q)$, the same convexity with $M_0 = M_1' = Q$, $M_1 = P$.

For α < 1, $H_α(A‖B) = 1 − α + α H_{1/α}(B‖A)$ and the same bound for the swapped neighbors give
$H_α(Q ‖ R)$. Neither (R, Q) nor (Q, R) bounds both sides, and the larger of their compositions
need not bound anything (Lebeda, Regehr, Kamath, Steinke 2024). But

$$ f(α) = H_α(R‖Q) \;(α ≥ 1), \qquad f(α) = 1 − α + α f(1/α) \;(α < 1) $$

is convex, non-increasing, with $f(0) = 1$ and $f(α) ≥ (1−α)_+$: it is the divergence of some pair (Zhu,
Dong, Wang 2022, Proposition 9), the *symmetrized* one, which dominates in both directions. Its losses
above 0 are those of (R, Q) under R, those below 0 those of (Q, R) under Q, what is left is an atom at 0
(its mass $(1−q)(1 − 2 P(N(0,1) > \sqrt H/2σ))$, averaged, is not negative: f has a convex kink at 1).

**Discretization** (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022). f at the grid $α_i = e^{ih}$ is
joined by straight lines, which lie above a convex f. In terms of masses: a cell's mass under either
measure goes to its two ends, both totals preserved; beyond the last point what no finite ratio explains
is an infinite loss. The excess over the exact pair is of second order in h.

**Composition.** After T steps the loss is a sum of T independent ones, and

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
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from privot.privacy.slice_sensitivity import Floats, ProjectedLength, log_kummer

_LOG_TAIL = -20 * math.log(10)  # log of the mass of sums of shares that is left out
_DIRECT_SUMMANDS, _DIRECT_CELLS = 32, 2**20  # most shares added by one transform, and its cells
_SUM_CELLS = 2**18  # cells of a doubled sum
_MAX_CELLS, _MAX_LOSS = 2**17, 600.0  # of one step's losses
_MAX_POINTS = 2**23  # of a composition's window
_ROUNDING = 1e-9  # of a transform, relative to Chernoff's bound


def length_law(length: ProjectedLength) -> tuple[Floats, Floats]:
    r"""Return values of H and their probabilities: a discrete law stochastically above that of H.

    The privacy-loss distribution needs the law of $H/Δ² = Σ_j Y_j$ itself, not only its moments. A pair
    of Gaussians at distance $\sqrt{H}$ is easier to tell apart the larger H is, so a variable that is
    stochastically larger only overstates the loss: every rounding here is upwards.

    - $Y_j$ is rounded up to a multiple of a step; up to 32 of them are added by one Fourier transform.
    - Sums of m are doubled: convolve, then round up to a coarser step. At each doubling the mean grows
      by about $10^{−5}$ of itself, in all by some $10^{−4}$.
    - The transforms' rounding error, relative to 1, is added to P(H > h); where Chernoff's bound with
      the exact moment-generating function is lower, it is used instead, so far tails are accurate.
    - An orthonormal frame's single Beta variable needs none of this.

    The result is rounded up to some hundreds of values, near the mean a twentieth of a standard
    deviation and at most a hundredth of the mean apart.
    """
    shares = _grid_of_shares(length)
    above = _tail_probabilities(length, shares)
    above[-1] = 0.0  # no share exceeds 1
    weights = -np.diff(np.minimum.accumulate(above), prepend=1.0)
    positive = weights > 0
    scaled = length.sensitivity * np.sqrt(shares[positive]) * (1 + 1e-12) + length.rounding
    return np.asarray(scaled**2), np.asarray(weights[positive])


def _grid_of_shares(length: ProjectedLength) -> Floats:
    """Return the values of H/Δ² of the discretized law, ascending up to the maximum."""
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


def _tail_probabilities(length: ProjectedLength, shares: Floats) -> Floats:
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
    return _normalized(np.diff(scipy.special.betainc(0.5, b - 0.5, values), prepend=0.0))


@lru_cache(maxsize=8)
def _sum_law(dim: int, count: int) -> tuple[float, Floats]:
    """Return (step, P(Σ of `count` Y_j, rounded up, is i·step) for i = 0, 1, …)."""
    b = dim / 2
    if count <= _DIRECT_SUMMANDS:
        step = _sum_quantile(dim, count) / _DIRECT_CELLS
        size = scipy.fft.next_fast_len(_DIRECT_CELLS + count + 1, real=True)
        share = min(_sum_quantile(dim, 1), _sum_quantile(dim, count))
        one = _rounded_beta(b, step, math.ceil(share / step))
        return step, _normalized(scipy.fft.irfft(scipy.fft.rfft(one, size) ** count, size))
    step, half = _sum_law(dim, count // 2)
    size = scipy.fft.next_fast_len(2 * len(half), real=True)
    both = _normalized(scipy.fft.irfft(scipy.fft.rfft(half, size) ** 2, size))
    if count % 2:
        # One more share, rounded up to this step; it is far narrower than the sum.
        one = _rounded_beta(b, step, math.ceil(_sum_quantile(dim, 1) / step))
        size = scipy.fft.next_fast_len(len(both) + len(one), real=True)
        product = scipy.fft.rfft(both, size) * scipy.fft.rfft(one, size)
        both = _normalized(scipy.fft.irfft(product, size))
    top = _sum_quantile(dim, count)
    factor = max(1, math.ceil(top / (_SUM_CELLS * step)))
    coarse = -(-np.arange(len(both)) // factor)
    law = np.asarray(np.bincount(coarse, both), dtype=np.float64)
    return step * factor, _normalized(law[: math.ceil(1.01 * top / (step * factor)) + 1])


def _normalized(law: Floats) -> Floats:
    """Replace a transform's negative rounding errors by 0, and scale to total 1."""
    law = np.maximum(law, 0.0)
    return np.asarray(law / law.sum())


@lru_cache(maxsize=64)
def _sum_quantile(dim: int, count: int) -> float:
    """Return a value h with P(Σ of `count` Y_j > h) ≤ 1e-20, at most `count` (Chernoff)."""

    def bound(log_scale: float) -> float:
        scale = math.exp(log_scale)
        moment = float(log_kummer(0.5, dim / 2, np.array([scale]))[0])
        return (count * moment - _LOG_TAIL) / scale

    best = scipy.optimize.minimize_scalar(
        bound, bounds=(math.log(dim) - 12, math.log(dim) + 12), method="bounded"
    )
    # Every scale gives a valid bound, so the search need not be exact.
    return min(float(count), float(best.fun))


@dataclass(frozen=True)
class LossDistribution:
    """P(loss = (first + i)·step) = masses[i] and P(loss = ∞) = infinite, under the first measure."""

    step: float
    first: int
    masses: Floats
    infinite: float

    def losses(self) -> Floats:
        """Return the finite losses, ascending."""
        return np.asarray(self.step * (self.first + np.arange(len(self.masses))))

    def swapped(self) -> "LossDistribution":
        """Return the losses of the swapped pair: −loss, weighted by e^−loss."""
        masses = self.masses * np.exp(-self.losses())
        last = self.first + len(masses) - 1
        # Mass missing from the swapped finite losses counts as an infinite loss.
        infinite = max(0.0, 1 - math.fsum(masses)) + self.infinite
        return LossDistribution(self.step, -last, masses[::-1], infinite)


@dataclass(frozen=True)
class SampledPair:
    """The pair (R, Q), R = (1−q)Q + qP, of a Gaussian step whose shift is public and random.

    Q is N(0, 1) and P is N(m, 1), where m = √H/σ has a discrete law; both measures include m.

    Arguments:
        shifts: Values of m.
        weights: Their probabilities.
        rate: Probability q that the record is drawn.
    """

    shifts: Floats
    weights: Floats
    rate: float

    def losses(self, step: float, top_mass: float) -> LossDistribution:
        """Return an upper bound of the losses of (R, Q), for q < 1.

        Infinite losses have a mass of about `top_mass` at most; the step is enlarged if it would give
        more than 131 072 cells.
        """
        return self._losses_above(math.log1p(-self.rate), step, top_mass)

    def symmetrized_losses(self, step: float, top_mass: float) -> LossDistribution:
        """Return an upper bound of the losses of the symmetrized pair; at q = 1 that is (P, Q)."""
        half = self._losses_above(0.0, step, top_mass)
        above = half.masses[1:]
        below = (above * np.exp(-half.losses()[1:]))[::-1]
        at_zero = 1 - half.infinite - math.fsum(above) - math.fsum(below)
        masses = np.concatenate([below, [max(at_zero, 0.0)], above])
        return LossDistribution(half.step, -len(below), masses, half.infinite)

    def _losses_above(self, lowest: float, step: float, top_mass: float) -> LossDistribution:
        """Return the losses of (R, Q) above `lowest`, each cell's masses shared between its ends."""
        highest = self._highest_loss(top_mass)
        step = min(max(step, (highest - lowest) / _MAX_CELLS), (highest - lowest) / 64)
        first, last = math.floor(lowest / step), math.ceil(highest / step)
        losses = np.asarray(step * np.arange(first, last + 1))
        # Probabilities of a larger loss, under Q and under P.
        under_q, under_p = np.zeros_like(losses), np.zeros_like(losses)
        log_ratio = self._log_ratio(losses)
        for shift, weight in zip(self.shifts, self.weights, strict=True):
            x = log_ratio / shift + shift / 2
            under_q += weight * scipy.special.ndtr(-x)
            under_p += weight * scipy.special.ndtr(shift - x)
        if lowest < 0:
            under_q[0] = under_p[0] = 1.0
        under_r = (1 - self.rate) * under_q + self.rate * under_p
        # In flat tails rounding may give negative masses: they become 0, and more mass overstates δ.
        in_q, in_r = -np.diff(under_q), np.maximum(-np.diff(under_r), 0.0)
        # To keep both totals, the upper end gets (r e^−lower − q)/(e^−lower − e^−upper) of the mass r.
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
        """Return a loss that is exceeded under P with probability of about top_mass/q; at most 600."""
        high = 1.0
        while high < _MAX_LOSS:
            x = self._log_ratio(np.array(high)) / self.shifts + self.shifts / 2
            above = scipy.special.ndtr(self.shifts - x)
            if not self.rate * float(self.weights @ above) > top_mass:
                break
            high *= 1.25
        return min(high, _MAX_LOSS)

    def _log_ratio(self, loss: Floats) -> Floats:
        """Return r = mx − m²/2 with log(1−q + q e^r) = loss; −∞ if the left side is always larger."""
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

    It is infinite if infinite losses alone exceed δ, or the window has more than 8 million points.
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
    # The window of sums. Weights further below would overflow; cutting them off only overstates δ.
    below = min(max(10 * spread, 1 / tilt) + abs(bound - steps * mean), 600 / tilt)
    above = max(10 * spread, 40 / tilt)
    size = scipy.fft.next_fast_len(math.ceil((below + above) / loss.step) + 2, real=True)
    if size > _MAX_POINTS:
        return math.inf
    folded = np.bincount((loss.first + np.arange(len(tilted))) % size, tilted, minlength=size)
    sums = scipy.fft.irfft(scipy.fft.rfft(folded) ** steps, size)
    index = math.floor((bound - below) / loss.step) + np.arange(size)
    sums = np.maximum(sums[index % size], 0.0)
    grid = loss.step * index
    # Weights relative to Chernoff's bound at ε = `bound`, which equals the target there.
    weights = sums * np.exp(np.minimum(tilt * (bound - grid), 650.0)) * target
    rounding = _ROUNDING * max(1.0, 1e-5 * steps)
    lost = target * (math.exp(-tilt * (grid[-1] - bound)) + rounding)
    # ε must be above the losses whose weights were cut off.
    lowest_valid = int(np.searchsorted(grid, bound - 650.0 / tilt)) + 1
    epsilon = _smallest_epsilon(grid, weights, bound, target - lost, lowest_valid)
    # The rounding error of a cell's totals, about 2⁻⁵³, shifts the mean loss by as much.
    return max(0.0, epsilon + steps * len(tilted) * 2.0**-52)


def _cumulant(log_masses: Floats, losses: Floats, tilt: float) -> float:
    """Return K(tilt) of one step."""
    return float(scipy.special.logsumexp(log_masses + tilt * losses))


def _chernoff_bound(
    log_masses: Floats, losses: Floats, steps: int, target: float
) -> tuple[float, float]:
    """Return the best tilt s, and the upper bound of ε at δ = `target` by Chernoff's bound with it."""

    def bound(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        return (steps * _cumulant(log_masses, losses, tilt) - math.log(target)) / tilt

    best = scipy.optimize.minimize_scalar(
        bound, bounds=(-14.0, 14.0), method="bounded", options={"xatol": 1e-3}
    )
    tilt, epsilon = math.exp(best.x), float(best.fun)
    # Where the largest losses alone spend δ, the best tilt is infinite, and lower sums lose all digits.
    if best.x > 12 and epsilon > 0:
        tilt = 30 / epsilon
        epsilon = bound(math.log(tilt))
    return tilt, epsilon


def _smallest_epsilon(
    grid: Floats, weights: Floats, bound: float, wanted: float, lowest_valid: int
) -> float:
    """Return the ε at which $\\sum_L w_L (1 − e^{ε−L})_+$ falls to `wanted`, or `bound` if none does.

    δ at a grid point ε is $\\sum_{L > ε} w_L − e^ε \\sum_{L > ε} w_L e^{−L}$, with $e^{−L}$ relative to
    `bound`; between two grid points both sums are constant.
    """
    total = np.cumsum(weights[::-1])[::-1]
    # Exponents are capped far from `bound`: a smaller term to subtract only overstates δ.
    decay = np.exp(np.minimum(bound - grid, 600.0))
    decayed = np.cumsum((weights * decay)[::-1])[::-1]
    at = total - np.exp(np.minimum(grid - bound, 600.0)) * decayed
    start = max(int(np.searchsorted(-at, -wanted)), lowest_valid)
    if start >= len(grid):
        return bound
    excess = (total[start] - wanted) / decayed[start] if decayed[start] > 0 else 0.0
    epsilon = bound + math.log(excess) if excess > 0 else grid[start - 1]
    return float(min(max(epsilon, grid[start - 1]), grid[start]))
