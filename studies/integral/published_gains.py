r"""Bounds of the paper on what boosting gains: of KL in rounds, and of the mass of a mode.

Terms are those of `privot.integral.tilts`, whose bound by a round's edges is never below these: a
classifier $|c| ≤ β = \log 2$, its coefficient θ, its edges $γ_P, γ_Q$, and $U$, beyond which no model
gains.

**A round** (`published_gain`, equations 8 and 9). For $θ ≤ 1$ the gain is at least $θΛ$,

$$ Λ = \begin{cases} βγ_P + Γ(γ_Q) & γ_Q ≥ 1/3 \quad \text{(high boosting regime)} \\
   β(γ_P + γ_Q − θβ/2) & \text{otherwise} \end{cases} \qquad Γ(z) = \log \frac{4}{5 − 3z} . $$

The first is the chord at θ = 1 and Jensen's inequality, $E_Q e^{θc} ≤ (E_Q e^c)^θ$; the second is
Hoeffding's. Neither is above `privot.integral.tilts.gain`: they hold for the classifier that attains
it. Two conditions matter. **θ ≤ 1**: beyond, Jensen's inequality turns round, and the first is false;
the coefficients that spend ε in full pass 1 from ε near 6 on with three rounds, where that bound still
holds. **Edges are relative to log 2**, not to the largest $|c|$ that a classifier happens to have: with
$c = −c^*$ under $Q$ and relative to $c^*$, $γ_Q$ is 1, and the first would promise $θ \log 2$ where
$θ c^*$ is gained.

**All rounds** (`least_gain`, equation 11). In the high boosting regime throughout, with
coefficients of at most 1 and edges never below $γ_P, γ_Q$,

$$ Δ = \mathrm{KL}(P‖Q_0) − \mathrm{KL}(P‖Q_T) ≥ 2β \sum_t θ_t \, g , \qquad
   g = \tfrac12 \bigl(γ_P + Γ(γ_Q)/β\bigr) : $$

$\frac{ε}{2} (1 − θ_T)\, g$ for the published coefficients, $\frac{ε}{2}\, g$ for those that spend
all of ε. $Γ(γ_Q)/β$ is below $γ_Q$ short of 1; with $γ_Q$ itself it would be false for a classifier
of ±β.

**Modes** (`least_mass`, `fat_enough`, equations 12 and 13). For a set $B$ let
$K_0 = ∫_B p \log(p/q_0)$. By the log-sum inequality, and since outside of $B$ at most $U$ is gained,

$$ Q(B) ≥ P(B) \exp\Bigl(−\frac{K_0 − Δ + U (1 − P(B))}{P(B)}\Bigr) . $$

With $e^{−x} ≥ 1 − x$, $U = ε/2$ and equation 11, $Q(B) ≥ (1 − α) P(B)$ whenever

$$ P(B) ≥ \frac{ε − 4β \sum_t θ_t \, g + 2 K_0}{ε + 2α} . $$

References:
    Husain, Balle, Cranko, Nock, *Local/integral privacy for density estimation with approximation
    guarantees* (2018/2020), Theorems 4 to 6. The text at hand has lost its formulas: they are derived
    anew here, and constants may differ from the printed ones. Hoeffding, *Probability inequalities for
    sums of bounded random variables* (1963).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from privot.core.errors import PrivotError
from privot.integral.tilts import BOUND, Edges
from privot.privacy.rounding import require_epsilon

HIGH_REGIME = 1 / 3  # of γ_Q


def is_high(edges: Edges) -> bool:
    """Return True in the high boosting regime."""
    return edges.gamma_q >= HIGH_REGIME


def published_gain(theta: float, edges: Edges) -> float:
    """Return θΛ of equation 9: never above `privot.integral.tilts.gain`.

    Raises:
        PrivotError: if θ is not in (0, 1], where it holds.
    """
    if not 0 < theta <= 1:
        raise PrivotError(f"theta {theta} is not in (0, 1]: where the bound holds")
    if is_high(edges):
        return theta * (BOUND * edges.gamma_p + math.log(4 / (5 - 3 * edges.gamma_q)))
    return theta * BOUND * (edges.gamma_p + edges.gamma_q - theta * BOUND / 2)


def least_gain(thetas: Sequence[float], edges: Edges) -> float:
    """Return equation 11: the least gain of rounds with these coefficients and no lower edges. Nats.

    Raises:
        PrivotError: if this is not the high boosting regime, or a coefficient is not in (0, 1].
    """
    if not is_high(edges):
        raise PrivotError(
            "edges are not those of the high boosting regime, gamma_q of at least 1/3: "
            "add up the gain of each round"
        )
    return sum(published_gain(theta, edges) for theta in thetas)


def least_mass(mass: float, reference_divergence: float, gained: float, limit: float) -> float:
    """Return a lower bound of Q(B), for a set of the truth's mass P(B) = `mass`.

    Arguments:
        mass: P(B), in (0, 1].
        reference_divergence: ∫_B p log(p/q₀), nats.
        gained: Δ, or a lower bound of it.
        limit: U, see `gain_limit`.

    Raises:
        PrivotError: if the mass is not in (0, 1], or more is gained than the limit.
    """
    if not 0 < mass <= 1:
        raise PrivotError(f"mass {mass} is not in (0, 1]: give the truth's probability of the set")
    if gained > limit * (1 + 1e-12):
        raise PrivotError("gained is more than the limit: they are not of one density")
    return mass * math.exp(-(reference_divergence - gained + limit * (1 - mass)) / mass)


def fat_enough(
    epsilon: float,
    thetas: Sequence[float],
    edges: Edges,
    reference_divergence: float,
    lost: float,
) -> float:
    """Return equation 13: the mass P(B) from which Q(B) ≥ (1 − `lost`) P(B) is sure; above 1: no set.

    Arguments:
        epsilon: ε of a draw of the boosted density.
        thetas: Its coefficients.
        edges: Lower bounds of all rounds' edges.
        reference_divergence: ∫_B p log(p/q₀), nats.
        lost: α.

    Raises:
        PrivotError: as `least_gain`, or if `lost` is not in [0, 1].
    """
    require_epsilon(epsilon)
    if not 0 <= lost <= 1:
        raise PrivotError(f"lost {lost} is not in [0, 1]: give the share of the mass that may be")
    missing = epsilon - 2 * least_gain(thetas, edges)
    return (missing + 2 * reference_divergence) / (epsilon + 2 * lost)
