r"""The privacy-loss distribution of one step of slicing, discretized from above.

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
row (rows being in random order, where record i would stand there stands another record in $M_0$). So
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
measure goes to its two ends, both totals kept; beyond the last point what no finite ratio explains is
an infinite loss. The excess over the exact pair is of second order in h.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from privot.privacy.slicing.kummer import Array

_MOST_CELLS, _HIGHEST_LOSS = 2**17, 600.0


@dataclass(frozen=True)
class LossDistribution:
    """P(loss = (first + i)·step) = masses[i] and P(loss = ∞) = infinite, under the first measure."""

    step: float
    first: int
    masses: Array
    infinite: float

    def losses(self) -> Array:
        """Return the finite losses, ascending."""
        return np.asarray(self.step * (self.first + np.arange(len(self.masses))))

    def swapped(self) -> "LossDistribution":
        """Return the losses of the swapped pair: −loss, weighted by e^−loss."""
        masses = self.masses * np.exp(-self.losses())
        last = self.first + len(masses) - 1
        # What was given up before the swap may be infinite after it, too.
        infinite = max(0.0, 1 - math.fsum(masses)) + self.infinite
        return LossDistribution(self.step, -last, masses[::-1], infinite)


def one_sided(
    shifts: Array, weights: Array, rate: float, step: float, top_mass: float
) -> LossDistribution:
    """Return the losses of (R, Q), R = (1−q)Q + qP with q < 1, from above.

    `shifts` are √H/σ, each with its weight. About `top_mass` at most is left to infinite losses; a
    step that would make more than 131 072 cells is made coarser.
    """
    return _cells(shifts, weights, rate, step, top_mass, math.log1p(-rate))


def symmetrized(
    shifts: Array, weights: Array, rate: float, step: float, top_mass: float
) -> LossDistribution:
    """Return the losses of the symmetrized pair from above; at q = 1 they are those of (P, Q)."""
    half = _cells(shifts, weights, rate, step, top_mass, 0.0)
    above = half.masses[1:]
    below = (above * np.exp(-half.losses()[1:]))[::-1]
    at_zero = 1 - half.infinite - math.fsum(above) - math.fsum(below)
    masses = np.concatenate([below, [max(at_zero, 0.0)], above])
    return LossDistribution(half.step, -len(below), masses, half.infinite)


def _highest_loss(shifts: Array, weights: Array, rate: float, top_mass: float) -> float:
    """Return a loss that (R, Q) exceeds under P with probability of about top_mass/q, or 600."""
    high = 1.0
    while high < _HIGHEST_LOSS and (
        rate * float(weights @ special.ndtr(shifts - _threshold(np.array(high), rate, shifts)))
        > top_mass
    ):
        high *= 1.25
    return min(high, _HIGHEST_LOSS)


def _threshold(loss: Array, rate: float, shift: Array | float) -> Array:
    """Return x at which log(1−q + q e^(mx − m²/2)) = loss; −∞ where it is always above."""
    near = np.minimum(loss, 1.0)
    far = np.maximum(loss, 1.0)
    with np.errstate(divide="ignore"):
        log_ratio = np.where(
            loss < 1,
            np.log1p(np.maximum(np.expm1(near) / rate, -1.0)),
            far - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-far)),
        )
    return np.asarray(log_ratio / shift + shift / 2)


def _cells(
    shifts: Array, weights: Array, rate: float, step: float, top_mass: float, lowest: float
) -> LossDistribution:
    """Return the losses of (R, Q) above `lowest`, each cell's masses shared between its ends."""
    highest = _highest_loss(shifts, weights, rate, top_mass)
    step = min(max(step, (highest - lowest) / _MOST_CELLS), (highest - lowest) / 64)
    first, last = math.floor(lowest / step), math.ceil(highest / step)
    losses = np.asarray(step * np.arange(first, last + 1))
    # Probabilities of a larger loss, under Q and under P.
    under_q, under_p = np.zeros_like(losses), np.zeros_like(losses)
    for shift, weight in zip(shifts, weights, strict=True):
        x = _threshold(losses, rate, shift)
        under_q += weight * special.ndtr(-x)
        under_p += weight * special.ndtr(shift - x)
    if lowest < 0:
        under_q[0] = under_p[0] = 1.0
    above = (1 - rate) * under_q + rate * under_p
    in_q, in_r = -np.diff(under_q), -np.diff(above)
    # To keep both totals, the upper end gets (r e^−lower − q)/(e^−lower − e^−upper) of the mass r.
    ratio = np.exp(-losses)
    to_upper = (in_r * ratio[:-1] - in_q) / (-np.expm1(-step) * ratio[:-1])
    to_upper = np.clip(to_upper, 0.0, in_r)
    masses = np.zeros_like(losses)
    masses[1:] += to_upper
    masses[:-1] += in_r - to_upper
    beyond = under_q[-1] / ratio[-1]
    masses[-1] += beyond
    infinite = max(0.0, above[-1] - beyond)
    return LossDistribution(step, first, masses, infinite)
