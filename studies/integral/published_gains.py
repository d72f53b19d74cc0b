r"""What boosting as the paper has it is proven to gain: of KL in rounds, and of the mass of a mode.

**All bounds here are derived anew**: the text at hand has lost its formulas, so that constants may
differ from the printed ones. They speak of boosting whose normalizer is not known,
$|\sum_t θ_t c_t| ≤ ε/4$. A round has a classifier $|c| ≤ β = \log 2$ and a coefficient $θ > 0$, and
changes the density $q$ of a law $Q$ to $q' ∝ q\,e^{θc}$. Its **edges** measure how well $c$
distinguishes the data's law $P$ from $Q$,

$$ γ_P = E_P c / β , \qquad γ_Q = −E_Q c / β , \qquad \text{each in } [−1, 1] . $$

**The best bound by edges** (`gain`). For all θ and all edges,

$$ \mathrm{KL}(P‖Q) − \mathrm{KL}(P‖Q') = θ E_P c − \log E_Q e^{θc}
   ≥ θβγ_P − \log(\cosh θβ − γ_Q \sinh θβ) , $$

since $e^{θc}$ is convex in $c$, and so at most its chord $\cosh θβ + (c/β) \sinh θβ$. Equality holds if
$c$ takes only the values ±β, so no better bound depends only on the edges. All rounds together gain at
least the sum (`total_gain`). Edges are relative to $\log 2$, not to the largest $|c|$ of a classifier.

**Limit of the gain** (`gain_limit`, equation 10). If $\log q/q_0 ≤ U$ everywhere, then the gain $Δ = E_P
\log q/q_0$ of every method is at most U: $U = ε/2$ for the paper's boosting, and $(1 − b_s)\,ε$ for a
known normalizer, with $b_s$ the share of the floor.

**A round in the paper** (`published_gain`, equations 8 and 9). For $θ ≤ 1$ the gain is at least $θΛ$,

$$ Λ = \begin{cases} βγ_P + Γ(γ_Q) & γ_Q ≥ 1/3 \quad \text{(high boosting regime)} \\
   β(γ_P + γ_Q − θβ/2) & \text{otherwise} \end{cases} \qquad Γ(z) = \log \frac{4}{5 − 3z} . $$

The first is the chord at θ = 1 and Jensen's inequality, $E_Q e^{θc} ≤ (E_Q e^c)^θ$; the second is
Hoeffding's. Neither is above `gain`: they hold for the classifier that attains
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
    guarantees* (2018/2020), Definition 1, Theorems 4 to 6. Hoeffding, *Probability inequalities for
    sums of bounded random variables* (1963).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from privot.core.errors import PrivotError
from privot.integral.density import TiltedDensity
from privot.integral.learners import BOUND
from privot.privacy.rounding import require_epsilon

HIGH_REGIME = 1 / 3  # of γ_Q


@dataclass(frozen=True, repr=False)
class Edges:
    """Edges γ_P and γ_Q of a round's classifier, in [−1, 1], or refused; **not private**."""

    gamma_p: float
    gamma_q: float

    def __post_init__(self) -> None:
        for name in ("gamma_p", "gamma_q"):
            if not -1 <= getattr(self, name) <= 1:
                raise PrivotError(f"{name} is not in [-1, 1]: divide the mean of c by log 2")


def paper_coefficients(
    epsilon: float, rounds: int, kind: Literal["exact", "published"] = "exact"
) -> tuple[float, ...]:
    """Return θ_1 … θ_T of boosting without a normalizer: as published, or scaled to spend all of ε.

    Examples:
        >>> round(sum(paper_coefficients(10.0, 3)) * 4 * BOUND, 12)
        10.0
        >>> round(sum(paper_coefficients(10.0, 3, "published")) * 4 * BOUND, 2)
        5.2
    """
    published = [(epsilon / (epsilon + 4 * BOUND)) ** t for t in range(1, rounds + 1)]
    if kind == "published":
        return tuple(published)
    return tuple(theta * (epsilon / (4 * BOUND)) / sum(published) for theta in published)


def gain(theta: float, edges: Edges) -> float:
    """Return a lower bound, in nats, on the decrease of KL(P‖·) in a round with coefficient θ in (0, ∞).

    Examples:
        >>> round(gain(1.0, Edges(0.5, 0.5)) / math.log(2), 3)
        0.693
    """
    if not 0 < theta < math.inf:
        raise PrivotError(f"theta {theta} is not in (0, inf), where the bound holds: change it")
    # cosh x − γ_Q sinh x as a mean of e^x and e^−x, with x = θβ.
    x, weight = theta * BOUND, (1 - edges.gamma_q) / 2
    return x * edges.gamma_p - math.log(weight * math.exp(x) + (1 - weight) * math.exp(-x))


def total_gain(thetas: Sequence[float], edges: Sequence[Edges]) -> float:
    """Return a lower bound, in nats, on the gain of all rounds together: the sum of `gain`."""
    return sum(gain(theta, edge) for theta, edge in zip(thetas, edges, strict=True))


def gain_limit(density: TiltedDensity) -> float:
    """Return the public limit U ≥ log q/q₀ of any gain, in nats (equation 10)."""
    return density.high - density.log_normalizer_limits[0]


def is_high(edges: Edges) -> bool:
    """Return True in the high boosting regime."""
    return edges.gamma_q >= HIGH_REGIME


def published_gain(theta: float, edges: Edges) -> float:
    """Return θΛ of equation 9: never above `gain`.

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
