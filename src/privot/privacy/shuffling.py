"""Privacy amplification by shuffling: the central (ε, δ) of anonymous ε₀-locally private reports.

**Assumption.** n people each send one report through the same mechanism, ε₀-DP locally (pure),
a trusted shuffler removes the senders, and the curator sees only the multiset. Neighbors:
`replace_one`. There is no guarantee against an adversary who sees reports before the shuffler, nor if
reports carry an identifier, a time or an address, nor if fewer than n people are honest.

**Whole reports.** ε₀ is the loss of everything that one person sends in one piece. The ε of a single
column is not amplified: the other columns of a report, such as a noised image, can identify its sender.

**The bound.** Let R₀, R₁ be the laws of person 1's report under two records, and ω ≤ R_x for every
record x, with R₀, R₁ ∈ [ω, e^ε₀ ω]. Everyone else's report is drawn from ω with probability γ = ∫ω and
otherwise from a law that the adversary may know. Averaging over which report is person 1's (privacy
blanket: Balle, Bell, Gascón, Nissim 2019, Lemma 5.3), the hockey-stick divergence at e^ε is

    δ(ε) ≤ (1/n) E[Z₁ + … + Z_n]₊,   Z = (R₀ − e^ε R₁)/ω at a draw from ω, and 0 with 1 − γ.

The right side grows in the convex order of Z. (R₀/ω, R₁/ω) lies in the square [1, e^ε₀]², and
moving its mass to the corners, means preserved, only raises it. Masses a, a, c, d at
(e^ε₀, 1), (1, e^ε₀), (e^ε₀, e^ε₀), (1, 1) obey (e^ε₀+1)a + e^ε₀c + d = 1, so Z is a mixture of
three laws with mean 1 − e^ε. The law of c (−(e^ε−1)e^ε₀ with probability e^−ε₀, else 0) and the
law of d (a constant) are below that of a in the convex order. The worst case is

    Z = e^ε₀ − e^ε  or  1 − e^(ε+ε₀), each with probability 1/(e^ε₀+1), else 0:

the pair of Feldman, McMillan, Talwar (2023), C ~ Bin(n−1, 2/(e^ε₀+1)) clones of which half say 0, and
person 1's binary randomized response among them. Swapping R₀ and R₁ swaps the corners, so both orders of
the pair have this same δ.

**Two-level mechanisms.** In many mechanisms, a record either *supports* a report, which is then e^ε₀
times likelier than otherwise, or not: R_x ∈ {ω, e^ε₀ ω} (windows, randomized response, subsets,
candidates). Let a be the mass of ω on reports that record 0 supports and record 1 does not, c that of
reports that both support, d of those that neither does: (e^ε₀+1)a + e^ε₀c + d = 1 again, but now a, c
and d are known for each mechanism (`ReportLaw`), and Z has the atoms

    e^ε₀ − e^ε and 1 − e^(ε+ε₀) (a each),  −(e^ε−1)e^ε₀ (c),  −(e^ε−1) (d),  0 (the rest).

The worst case above is c = d = 0. By the same argument, a larger a, with smaller c and d by the identity
of the masses, is larger in the convex order. So the bound for the pair of records with the largest
a + c/(1 + e^−ε₀), and c = 0, holds for all pairs. If a public coin, independent of the record, chooses
the form of the report, the laws of the forms are averaged.

**Evaluation.** N₀ and N₁ count the reports at the first and the second atom. Given M = N₀ + N₁, of law
Bin(n, 2a), N₁ has the law Bin(M, ½), and a sum over it a closed form: Σ_{j≥k} (j − M/2) pmf(j) = (k/2)
pmf(k). The terms left out of the sum over M have probability at most 2e^−L (Bernstein), and at most
4e^−L of δ, which is added: their part of E N₀/n is a times the probability that 1 + Bin(n − 1, 2a) is
left out, and (e^ε₀ − e^ε)a < 1. δ is convex in the numbers of reports that both or neither support, so
chords between a few nodes bound it.

**Several batches** with a report of the same person, each shuffled by itself with fresh coins: the
bound, δ at e^−ε by 1 − e^−ε + e^−ε δ(ε), is the divergence of a pair of laws in both orders, which
dominates a batch given all that was published before. So its products dominate the composition, however
the records depend on earlier releases (Zhu, Dong, Wang 2022, Theorem 10). The smallest batch counts for
all: by Jensen's inequality with E[mean of n | mean of n+1] = mean of n+1, the mean of more draws is
smaller in the convex order, so δ(ε) falls with n at every ε.

**Calibration.** The right side grows with ε₀ too, as [1, e^ε₀]² does, so the largest ε₀ for a
given ε and δ is found by bracketing. The returned ε₀ was itself evaluated, so its guarantee holds.

**Lower bounds.** Ternary randomized response, with the third category for everybody else, has
exactly δ(ε) = (1/n) E[(e^ε₀−e^ε)N₀ + (1−e^(ε+ε₀))N₁ − (e^ε−1)e^−ε₀ N₂]₊ with multinomial counts
(1, 1, e^ε₀)/(e^ε₀+2); binary randomized response has a shifted binomial. No bound for all
ε₀-DP mechanisms can be below either.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import MOST_PEOPLE, MOST_STEPS, PrivotError, require_count
from privot.privacy.rounding import bracket, multiply_up, require_delta, require_finite
from privot.privacy.slice_losses import LossDistribution, composed_epsilon

Array = NDArray[np.float64]

_LOSSES = 400  # points on either side of 0 of the grid of losses of a composition
_INFINITE_SHARE = 0.01  # share of δ for losses beyond that grid, which count as infinite
_LOG_LEFT_OUT = 60.0  # a sum over a central window leaves out probability of at most 2e^−60
# Special functions here are within 1e-9, and the one cancellation loses a factor ≤ 1e3.
_NUMERICAL_ERROR = 1e-6
_TOLERANCE = 1e-7  # relative, of an ε or ε₀ found by bracketing
_ROUNDING = 1e-13  # error of a difference of probabilities
# Inner nodes of a binomial count, in its standard deviations from the mean, and the largest ratio of the
# spread of the count's cost to that of the other terms for which these nodes suffice.
_NODE_RULES = (
    (0.02, np.array([-9.0, 0, 9])), (0.2, np.array([-9.0, -3, 0, 3, 9])), (math.inf, np.arange(-9, 9.5)),
)  # fmt: skip
EPSILON0_MAX = 40.0


class CostlyDraw(NamedTuple):
    """A kind of draw that counts for neither N₀ nor N₁ (`_expected_excess`), and its cost."""

    probability: float  # given that a draw counts for neither
    cost: float


class Node(NamedTuple):
    """One point of a discrete law, for each of m numbers of draws."""

    probability: Array  # (m,)
    value: Array  # (m,)


@dataclass(frozen=True)
class ReportLaw:
    """Overlap of the laws of one report under two records, for the worst pair of records.

    Masses are those of ω, the largest measure below the laws of all records: a law is in [ω, e^ε₀ ω].

    Arguments:
        epsilon0: ε₀ of the report (pure, local).
        one: Mass a of ω on reports that the first record supports and the second does not.
        both: Mass c of ω on reports that both records support.
        third: Part of a on reports that a third record does not support, for lower bounds; None if it
            is unknown.

    >>> window = ReportLaw.of_sets(1.0, supported=100, total=1000)
    >>> round(window.one, 4), round(ReportLaw.worst(1.0).one, 4)
    (0.0853, 0.2689)
    """

    epsilon0: float
    one: float
    both: float = 0.0
    third: float | None = None

    def __post_init__(self) -> None:
        require_finite("epsilon0", self.epsilon0)
        if self.epsilon0 > EPSILON0_MAX:
            raise PrivotError(
                f"epsilon0 is {self.epsilon0!r}: above 40 shuffling amplifies nothing; use epsilon0 "
                "itself"
            )
        if not (0 <= self.one <= 1 and 0 <= self.both <= 1 and self.neither >= 0):
            raise PrivotError(
                f"masses one={self.one}, both={self.both} are those of no mechanism: give its own"
            )

    @property
    def neither(self) -> float:
        """Mass d of ω on reports that neither record supports; 0 if below the rounding error."""
        odds = math.exp(self.epsilon0)
        rest = 1 - (odds + 1) * self.one - odds * self.both
        return rest if abs(rest) > 1e-12 else 0.0

    @classmethod
    def worst(cls, epsilon0: float) -> Self:
        """Return the worst law of all ε₀-DP mechanisms."""
        return cls(epsilon0, 1 / (math.exp(min(epsilon0, EPSILON0_MAX + 1)) + 1))

    @classmethod
    def of_subsets(cls, epsilon0: float, size: int, total: int) -> Self:
        """Return the law of reports that are sets of `size` of `total` codes."""
        odds, pairs = math.exp(epsilon0), total * (total - 1)
        weight = total / (size * odds + total - size)  # ω of all sets
        one, both = weight * size * (total - size) / pairs, weight * size * (size - 1) / pairs
        if total == 2:
            return cls(epsilon0, one, both)
        all_three = both * (size - 2) / (total - 2)
        return cls(epsilon0, one, both, one - (both - all_three))

    @classmethod
    def of_sets(cls, epsilon0: float, supported: float, total: float) -> Self:
        """Return the law if each record supports `supported` = m of `total` = K possible reports.

        The supports of two records may be disjoint, unless 2m > K: then they overlap by s = 2m − K,
        and a is bounded by (m − s/(e^ε₀ + 1))/(m e^ε₀ + K − m).
        """
        odds = math.exp(epsilon0)
        overlap = max(0.0, 2 * supported - total)
        one = (supported - overlap / (odds + 1)) / (supported * odds + total - supported)
        return cls(epsilon0, one, third=one if 3 * supported <= total else None)

    @classmethod
    def mixed(cls, laws: Sequence[tuple[float, Self]]) -> Self:
        """Return the mixture of (share, law): a public coin, independent of the record, chooses the law.

        If the ε₀ differ, each law is first bounded by one of the largest ε₀ without c.
        """
        highest = max(law.epsilon0 for _, law in laws)
        if all(law.epsilon0 == highest for _, law in laws):
            one = sum(share * law.one for share, law in laws)
            both = sum(share * law.both for share, law in laws)
            thirds = [share * law.third for share, law in laws if law.third is not None]
            return cls(highest, one, both, sum(thirds) if len(thirds) == len(laws) else None)
        # Mass at (e^ε₀, 1) is moved to (1, 1) and (e^highest, 1), mean preserved.
        up = math.expm1(highest)
        shares = (w * law._one_without_both * math.expm1(law.epsilon0) / up for w, law in laws)
        return cls(highest, sum(shares))

    @property
    def _one_without_both(self) -> float:
        """Mass a of a law with c = 0 that is above this law in the convex order."""
        return self.one + self.both / (1 + math.exp(-self.epsilon0))


@dataclass(frozen=True)
class ShuffleBound:
    """Central ε of shuffled ε₀-DP reports at a given δ; neighbors: `replace_one`.

    `epsilon` is proven; no proof for mechanisms of the same `ReportLaw` can be below `epsilon_lower`;
    `epsilon_closed_form` is the formula of Feldman, McMillan, Talwar (2023), Theorem 3.2.
    """

    epsilon: float
    epsilon_lower: float
    epsilon_closed_form: float


def shuffled_epsilon(report: float | ReportLaw, num_people: int, delta: float) -> ShuffleBound:
    """Return the central guarantee at δ of `num_people` shuffled whole reports, each ε₀-DP (pure).

    Arguments:
        report: ε₀ of any mechanism, or the `ReportLaw` of a mechanism, which gives a tighter bound.
        num_people: Number of shuffled reports.
        delta: δ of the central guarantee.

    >>> bound = shuffled_epsilon(5.0, num_people=400_000, delta=1e-6)
    >>> round(bound.epsilon, 3), round(bound.epsilon_closed_form, 3)
    (0.098, 0.352)

    Raises:
        PrivotError: if epsilon0 is negative, num_people < 1, or δ not in (0, 1).
    """
    require_delta(delta, positive=True)
    law = report if isinstance(report, ReportLaw) else ReportLaw.worst(report)
    num_people = _require_people(num_people)
    closed_form = shuffled_epsilon_closed_form(law.epsilon0, num_people, delta)
    _, proven = _narrow(
        lambda e: shuffled_delta(law, num_people, e, delta), 0.0, closed_form, delta
    )
    broken, _ = _narrow(lambda e: _delta_attained(law, num_people, e), 0.0, proven, delta)
    return ShuffleBound(proven, min(broken, proven), closed_form)


def composed_shuffled_epsilon(
    report: float | ReportLaw, num_people: int, delta: float, batches: int
) -> float:
    """Return ε at δ of several batches of the same people, each batch shuffled by itself.

    Privacy losses of batches add up; a Fourier transform gives the distribution of their sum
    (`privot.privacy.slice_losses`). A batch may depend on earlier releases. The result is never above
    the sum, which spends an equal share of δ on each batch.

    Arguments:
        report: ε₀, or the law of a mechanism's reports, as for `shuffled_epsilon`.
        num_people: Least number of reports in a batch.
        delta: δ of all batches together.
        batches: Number of batches in which one person reports.

    >>> one = shuffled_epsilon(3.0, 100_000, 1e-6).epsilon
    >>> four = composed_shuffled_epsilon(3.0, 100_000, 1e-6, batches=4)
    >>> bool(2 * one < four < 2.5 * one)
    True
    """
    batches = require_count("batches", batches, MOST_STEPS)
    law = report if isinstance(report, ReportLaw) else ReportLaw.worst(report)
    if batches == 1:
        return shuffled_epsilon(law, num_people, delta).epsilon
    negligible = delta * _INFINITE_SHARE / batches
    highest = shuffled_epsilon(law, num_people, negligible).epsilon
    if highest == 0:
        return 0.0
    loss = _batch_loss(law, num_people, highest, negligible)
    share = shuffled_epsilon(law, num_people, delta / batches).epsilon
    return min(composed_epsilon(loss, batches, delta), multiply_up(share, batches))


def _batch_loss(
    law: ReportLaw, num_people: int, highest: float, resolution: float
) -> LossDistribution:
    """Return an upper bound of the privacy losses of one batch, on a grid up to ±`highest`.

    δ is a convex function of e^ε, so chords between its values at grid points lie above it. They are
    the δ of a pair of laws whose losses are on the grid (Doroshenko et al. 2022).
    """
    step = highest / _LOSSES
    losses = step * np.arange(_LOSSES + 1)
    deltas = np.array([shuffled_delta(law, num_people, each, resolution) for each in losses])
    odds = np.exp(losses)
    # The slope of a chord is minus the second law's probability of all losses above the chord.
    slopes = np.append(np.diff(deltas) / np.diff(odds), 0.0)
    slopes = np.minimum.accumulate(slopes[::-1])[::-1]  # rounding must not make δ non-convex
    above = np.diff(slopes) * odds[1:]
    return LossDistribution.around_zero(step, above, above / odds[1:], float(deltas[-1]))


def calibrate_shuffling(epsilon: float, num_people: int, delta: float) -> float:
    """Return the largest local ε₀ (pure) such that shuffled reports are (ε, δ)-private, rounded down.

    >>> epsilon0 = calibrate_shuffling(epsilon=0.1, num_people=400_000, delta=1e-6)
    >>> round(epsilon0, 3), shuffled_epsilon(epsilon0, 400_000, 1e-6).epsilon <= 0.1
    (5.04, True)

    The result is between ε (shuffling never harms) and 40 (above, shuffling amplifies nothing).

    Raises:
        PrivotError: if epsilon is not in [0, 40], num_people < 1, or δ not in (0, 1).
    """
    require_finite("epsilon", epsilon)
    require_delta(delta, positive=True)
    num_people = _require_people(num_people)
    if epsilon > EPSILON0_MAX:
        raise PrivotError(
            f"epsilon is {epsilon!r}: above 40 shuffling amplifies nothing; give every report epsilon"
        )
    # Slightly smaller, so that `shuffled_epsilon` of the result, which rounds up, is at most epsilon.
    target = epsilon * (1 - 2 * _TOLERANCE)
    _, epsilon0 = _narrow(
        lambda e0: shuffled_delta(e0, num_people, target, delta), EPSILON0_MAX, target, delta
    )
    return max(epsilon, epsilon0)


def _require_people(num_people: int) -> int:
    return require_count("people", num_people, MOST_PEOPLE, "more than ever lived")


def shuffled_epsilon_closed_form(epsilon0: float, num_people: int, delta: float) -> float:
    """Return log(1 + (e^ε₀−1)(4√(2 log(4/δ))/√((e^ε₀+1)n) + 4/n)), or ε₀ where this is not proven.

    Source: Feldman, McMillan, Talwar (2023), Theorem 3.2, for e^ε₀ + 1 ≤ n/(8 log(2/δ)).
    """
    if math.exp(epsilon0) + 1 > num_people / (8 * math.log(2 / delta)):
        return epsilon0
    spread = 4 * math.sqrt(2 * math.log(4 / delta) / ((math.exp(epsilon0) + 1) * num_people))
    amplified = math.log1p(math.expm1(epsilon0) * (spread + 4 / num_people))
    return min(epsilon0, amplified * (1 + 1e-14))


def shuffled_delta(
    report: float | ReportLaw, num_people: int, epsilon: float, resolution: float = 1e-12
) -> float:
    """Return an upper bound on δ(ε); truncation adds up to 1e-9 of `resolution` to it.

    >>> shuffled_delta(1.0, num_people=1, epsilon=1.0) < 1e-20
    True
    """
    if num_people < 1 or not epsilon >= 0:
        raise PrivotError(
            f"epsilon {epsilon}, num_people {num_people}: give epsilon ≥ 0 and at least one person"
        )
    law = report if isinstance(report, ReportLaw) else ReportLaw.worst(report)
    if epsilon >= law.epsilon0:
        return 0.0
    # Truncation adds 4e^−L, which is to be at most 1e-9 of the resolution.
    log_left_out = math.log(4e9) - math.log(resolution)
    excess, uncounted = math.expm1(epsilon), max(1 - 2 * law.one, 1e-300)  # not for N₀ nor N₁
    costly = [
        CostlyDraw(law.both / uncounted, excess * math.exp(law.epsilon0)),
        CostlyDraw(law.neither / uncounted, excess),
    ]
    total = _expected_excess(law.epsilon0, epsilon, num_people, law.one, costly, log_left_out)
    if resolution < 1e3 * _ROUNDING:
        # Rounding errors of costly draws hide so small a δ; the worst law has no such draws.
        worst = ReportLaw.worst(law.epsilon0).one
        of_worst = _expected_excess(law.epsilon0, epsilon, num_people, worst, [], log_left_out)
        total = min(total, of_worst)
    return total * (1 + _NUMERICAL_ERROR) + 4 * math.exp(-log_left_out)


def _delta_attained(law: ReportLaw, num_people: int, epsilon: float) -> float:
    """Return a δ that some shuffled mechanism of this law attains at ε, rounded down.

    The other people hold one of the two records or a third one, under this law or ternary randomized
    response. A report of the third record has probability p (`third`) to be supported by the first
    record alone, and p by the second alone, with the terms Z of the module's docstring; all other
    reports share one value of Z, which follows from E Z = 1 − e^ε.
    """
    if epsilon >= law.epsilon0:
        return 0.0
    odds, excess = math.exp(law.epsilon0), math.expm1(epsilon)
    delta = _binary_delta(law, num_people, epsilon)
    if not law.neither and not law.both:  # the worst law, above ternary randomized response
        law = ReportLaw(law.epsilon0, 1 / (odds + 2), third=1 / (odds + 2))
    if law.third is not None and law.third > 0:
        cost = excess * (1 - law.third * (odds + 1)) / (1 - 2 * law.third)
        costly = [CostlyDraw(1.0, cost)]
        ternary = _expected_excess(
            law.epsilon0, epsilon, num_people, law.third, costly, _LOG_LEFT_OUT
        )
        delta = max(delta, ternary)
    return delta * (1 - _NUMERICAL_ERROR)


def _expected_excess(
    epsilon0: float,
    epsilon: float,
    num_people: int,
    clone: float,
    costly: Sequence[CostlyDraw],
    log_left_out: float,
) -> float:
    """Return (1/n) E[(e^ε₀−e^ε)N₀ − (e^(ε+ε₀)−1)N₁ − Σ_c cost_c N_c]₊ over the central N₀ + N₁.

    Counts are multinomial with n draws: N₀ and N₁ have probability `clone` each, and N_c counts the
    `costly` draws of kind c. N₀ + N₁ outside the central window, which is left out, has probability at
    most 2e^−`log_left_out`.
    """
    gain = math.exp(epsilon) * math.expm1(epsilon0 - epsilon)
    loss = math.expm1(epsilon + epsilon0)
    clones = _central_window(num_people, min(2 * clone, 1.0), log_left_out)
    weights = _binomial_pmf(clones, num_people, min(2 * clone, 1.0))
    total, typical = 0.0, loss * math.sqrt(num_people * clone)
    for share, cost in _total_cost_nodes(num_people - clones, costly, typical):
        # With M = N₀ + N₁ the bracket is (gain + loss)(room − N₁): positive for N₁ = 0 … ⌊room⌋.
        # N₁, not N₀, is counted because gain/loss may be 1e-16 (ε₀ = 36), and M − room rounds to M.
        room = (gain * clones - cost) / (gain + loss)
        if (share <= 2 * _ROUNDING).all():  # E[room − N₁]₊ ≤ max(room, 0) suffices as a bound
            total += float(np.sum(weights * share * np.maximum(room, 0.0)))
            continue
        inside = room >= 0
        positive = _mean_positive_part(clones[inside], room[inside])
        total += float(np.sum((weights * share)[inside] * positive))
    return total * (gain + loss) / num_people


def _mean_positive_part(clones: Array, room: Array) -> Array:
    """Return E[room − N₁]₊ of N₁ ~ Bin(clones, ½), elementwise."""
    last = np.floor(room)
    at_next = np.where(last < clones, _binomial_pmf(np.minimum(last + 1, clones), clones, 0.5), 0.0)
    head = np.where(  # P(N₁ ≤ last)
        last < clones, scipy.special.betainc(np.maximum(clones - last, 1), last + 1, 0.5), 1.0
    )
    excess = (room - clones / 2) * head + (last + 1) / 2 * at_next
    # The sum cancels where only N₁ = 0 contributes; there the mean is one term.
    excess = np.where(last == 0, room * np.exp2(-clones), excess)
    return np.maximum(excess, 0.0)


def _total_cost_nodes(draws: Array, costly: Sequence[CostlyDraw], typical: float) -> list[Node]:
    """Return nodes of Σ_c cost_c N_c among `draws` (m,), which descend by 1; δ is convex in the sum.

    Multinomial counts are negatively associated (Joag-Dev, Proschan 1983), so independent binomial
    counts have a sum that is larger in the convex order (Shao 2000). A binomial count is replaced by
    nodes: a chord between two nodes is above a convex function (Edmundson, Madansky). `typical` is the
    standard deviation of the other terms, by which the number of nodes is chosen.
    """
    nodes = [Node(np.ones_like(draws), np.zeros_like(draws))]
    for probability, cost in costly:
        if probability > 0:
            success = min(probability, 1.0)
            spread = cost * math.sqrt(draws.max() * success * (1 - success)) / typical
            rule = next(i for i, (most, _) in enumerate(_NODE_RULES) if spread <= most)
            counts = _binomial_nodes(int(draws[0]), len(draws), success, rule)
            nodes = [
                Node(total.probability * count.probability, total.value + cost * count.value)
                for total in nodes
                for count in counts
            ]
    return nodes


@lru_cache(maxsize=4)  # the same for every ε
def _binomial_nodes(most: int, count: int, success: float, rule: int) -> list[Node]:
    """Return nodes with E f(Bin(draws, success)) ≤ Σ probability·f(value) for every convex f.

    `draws` takes `count` values: `most`, `most` − 1, and so on.
    """
    draws, scores = most - np.arange(count, dtype=np.float64), _NODE_RULES[rule][1]
    if success == 1.0:
        return [Node(np.ones_like(draws), draws)]
    center, deviation = draws * success, np.sqrt(draws * success * (1 - success))
    inner = [np.clip(np.floor(center + score * deviation), 0, draws) for score in scores]
    places = [np.zeros_like(draws), *inner, draws]
    # P(K < place) and E[K; K < place] for each place; the last node includes K = draws.
    masses_below = [_binomial_cdf(place - 1, draws, success) for place in places[:-1]]
    masses_below.append(np.ones_like(draws))
    means_below = [center * _binomial_cdf(place - 2, draws - 1, success) for place in places[:-1]]
    means_below.append(center)
    shares = [np.full_like(draws, _ROUNDING) for _ in places]
    # The mass between two places is shared between them so that its mean is preserved.
    for j, (low, high) in enumerate(itertools.pairwise(places)):
        mass = masses_below[j + 1] - masses_below[j]
        mean = means_below[j + 1] - means_below[j]
        upper = np.where(high > low, (mean - low * mass) / np.maximum(high - low, 1), 0.0)
        upper = np.clip(upper, 0.0, mass)
        shares[j + 1] += upper
        shares[j] += mass - upper
    return [Node(*share_and_place) for share_and_place in zip(shares, places, strict=True)]


def _binomial_cdf(successes: Array, draws: Array | int, probability: float) -> Array:
    """Return P(Bin(draws, probability) ≤ successes), elementwise."""
    # SciPy's `bdtr` errs by a seventh at 10⁸ draws, and is NaN beyond 2³¹.
    inside = scipy.special.betaincc(
        np.maximum(successes, 0) + 1, np.maximum(draws - successes, 1), probability
    )
    return np.where(successes < 0, 0.0, np.where(successes >= draws, 1.0, inside))


def _binary_delta(law: ReportLaw, num_people: int, epsilon: float) -> float:
    """Return δ if everybody else holds record 0, rounded down.

    Let the adversary see one bit of a report: whether record 1 alone supports it. The bit is 1 with
    probability a under record 0, and e^ε₀ a under record 1. With B the number of ones of the others, and
    any threshold s, the event "at least s+1 ones" gives pmf(s)(e^ε₀ − e^ε)a − (e^ε−1) P(B > s), and the
    event "at most s ones", in the other order, pmf(s)(e^(ε+ε₀) − 1)a − (e^ε−1) P(B ≤ s).
    """
    others, one = num_people - 1, law.one
    if others == 0:
        return one * math.exp(epsilon) * math.expm1(law.epsilon0 - epsilon)
    ones = _central_window(others, one, _LOG_LEFT_OUT)
    at = _binomial_pmf(ones, others, one) * (1 - 1e-9)  # below, e^ε magnifies errors of 1 − head
    head = _binomial_cdf(ones, others, one)
    tail = scipy.special.betainc(ones + 1, np.maximum(others - ones, 1), one)
    tail = np.where(ones < others, tail, 0.0)
    more = at * one * math.exp(epsilon) * math.expm1(law.epsilon0 - epsilon)
    fewer = at * one * math.expm1(epsilon + law.epsilon0)
    change = math.expm1(epsilon)
    return float(max(np.max(more - change * tail), np.max(fewer - change * head), 0.0))


def _central_window(draws: int, probability: float, log_left_out: float) -> Array:
    """Return integers outside which Bin(draws, p) has mass ≤ 2e^−`log_left_out` (Bernstein)."""
    mean = draws * probability
    variance = mean * (1 - probability)
    half = log_left_out / 3 + math.sqrt(log_left_out**2 / 9 + 2 * variance * log_left_out) + 1
    lowest, highest = max(0, math.floor(mean - half)), min(draws, math.ceil(mean + half))
    return np.arange(lowest, highest + 1, dtype=np.float64)


def _binomial_pmf(successes: Array, draws: Array | int, probability: float) -> Array:
    """Return the binomial probabilities by their deviance (Loader 2000), stable for large n."""
    draws = np.asarray(draws, dtype=np.float64)
    failures = draws - successes
    expected, complement = draws * probability, draws * (1 - probability)
    safe = np.maximum(expected, 1e-300), np.maximum(complement, 1e-300)
    deviance = sum(
        mean * (scipy.special.xlog1py(1 + shift, shift) - shift)
        for mean, shift in (
            # Rounding must not carry the shift of a count of 0 below −1.
            (safe[0], np.maximum((successes - expected) / safe[0], -1.0)),
            (safe[1], np.maximum((expected - successes) / safe[1], -1.0)),
        )
    )
    remainders = (
        _stirling_remainder(draws) - _stirling_remainder(successes) - _stirling_remainder(failures)
    )
    return np.asarray(np.exp(remainders - deviance))


def _stirling_remainder(count: Array) -> Array:
    """Return log n! − n log n + n, from Stirling's series above 16."""
    large = np.maximum(count, 16.0)
    inverse = 1 / large
    series = inverse * (
        1 / 12 - inverse**2 * (1 / 360 - inverse**2 * (1 / 1260 - inverse**2 / 1680))
    )
    small = np.minimum(count, 16.0)
    exact = scipy.special.gammaln(small + 1) - scipy.special.xlogy(small, small) + small
    return np.where(count < 16, exact, 0.5 * np.log(2 * np.pi * large) + series)


def _narrow(
    delta_at: Callable[[float], float], broken: float, proven: float, delta: float
) -> tuple[float, float]:
    """Narrow (broken, proven), points where `delta_at` exceeds `delta` and where it does not.

    The caller has proven the latter. If `broken` meets `delta`, too, it is returned as both ends.
    """
    target = math.log(delta)

    def excess(point: float) -> float:
        value = delta_at(point)
        if math.isnan(value):  # which proves nothing
            value = 1.0
        return math.log(value) - target if value > 0 else -math.inf

    return bracket(excess, broken, proven, _TOLERANCE) if excess(broken) > 0 else (broken, broken)
