"""Privacy amplification by shuffling: what a local promise becomes once reports lose their senders.

**Assumption.** n people each send one report through the same mechanism, ε₀-DP locally (pure),
a trusted shuffler drops who sent what, and the curator sees only the multiset. Neighbors:
`replace_one`. It says nothing about an adversary who sees reports before the shuffler, nor when
reports carry an identifier, a time or an address, nor if fewer than n people are honest.

**Whole reports.** ε₀ is of all that one person sends in one piece. A column's own ε is not amplified: of
data sets that differ in one label, the noised image sent along tells whose row it is.

**The bound.** Let R₀, R₁ be the laws of person 1's report under two records, and ω ≤ R_x for every
record x, with R₀, R₁ ∈ [ω, e^ε₀ ω]. Everyone else's report is drawn from ω with probability γ = ∫ω and
otherwise from a law that may be given away. Averaging over which report is person 1's (privacy blanket:
Balle, Bell, Gascón, Nissim 2019, Lemma 5.3), the hockey-stick divergence at e^ε is

    δ(ε) ≤ (1/n) E[Z₁ + … + Z_n]₊,   Z = (R₀ − e^ε R₁)/ω at a draw from ω, and 0 with 1 − γ.

The right side grows in the convex order of Z. (R₀/ω, R₁/ω) lies in the square [1, e^ε₀]², and
moving its mass to the corners, means preserved, only raises it. Masses a, a, c, d at
(e^ε₀, 1), (1, e^ε₀), (e^ε₀, e^ε₀), (1, 1) obey (e^ε₀+1)a + e^ε₀c + d = 1, so Z is a mixture of
three laws with mean 1 − e^ε; the one of c, on {−(e^ε−1)e^ε₀, 0} with probability e^−ε₀ of the
first, and the one of d, constant, are below that of a in the convex order. The worst case is

    Z = e^ε₀ − e^ε  or  1 − e^(ε+ε₀), each with probability 1/(e^ε₀+1), else 0:

the pair of Feldman, McMillan, Talwar (2023), C ~ Bin(n−1, 2/(e^ε₀+1)) clones of which half say
0, and person 1's binary randomized response among them. Swapping R₀ and R₁ swaps the corners,
so both orders of the pair have this same δ.

**Evaluation.** Given the number M ~ Bin(n, 2a) of reports that are not 0, a sum over the half
binomial N₀ is closed: Σ_{j≥k} (j − M/2) pmf(j) = (k/2) pmf(k). What is left out of the sum
over M has probability at most 2e^−L (Bernstein), and so at most 4e^−L of δ, which is added.

**The other way.** The right side grows with ε₀ too, as [1, e^ε₀]² does, so the largest ε₀ for a
given ε and δ is found by bracketing. What is returned was itself checked: its promise holds anyway.

**Lower bounds.** Ternary randomized response, everybody else holding the third category, has
exactly δ(ε) = (1/n) E[(e^ε₀−e^ε)N₀ + (1−e^(ε+ε₀))N₁ − (e^ε−1)e^−ε₀ N₂]₊ with multinomial counts
(1, 1, e^ε₀)/(e^ε₀+2); binary randomized response has a shifted binomial. No bound for all
ε₀-DP mechanisms can be below either.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import MOST_PEOPLE, PrivotError, require_count
from privot.privacy.rounding import bracket, require_delta, require_finite

Array = NDArray[np.float64]

# Special functions here are within 1e-9, and the one cancellation loses a factor ≤ 1e3.
_NUMERICAL_ERROR = 1e-6
_TOLERANCE = 1e-7
_EPSILON0_MAX = 40.0


@dataclass(frozen=True)
class ShuffleBound:
    """Central ε of shuffled ε₀-DP reports at a given δ; neighbors: `replace_one`.

    `epsilon` is proven; no proof for every ε₀-DP mechanism can reach below `epsilon_lower`;
    `epsilon_closed_form` is the formula of Feldman, McMillan, Talwar (2023), Theorem 3.2.
    """

    epsilon: float
    epsilon_lower: float
    epsilon_closed_form: float


def shuffled_epsilon(epsilon0: float, num_people: int, delta: float) -> ShuffleBound:
    """Return the central guarantee at δ of `num_people` shuffled whole reports, each ε₀-DP (pure).

    >>> bound = shuffled_epsilon(epsilon0=5.0, num_people=400_000, delta=1e-6)
    >>> round(bound.epsilon, 3), round(bound.epsilon_closed_form, 3)
    (0.098, 0.352)

    Raises:
        PrivotError: if epsilon0 is negative, num_people < 1, or δ not in (0, 1).
    """
    require_finite("epsilon0", epsilon0)
    require_delta(delta, positive=True)
    num_people = _require_people(num_people)
    if epsilon0 > _EPSILON0_MAX:
        raise PrivotError(
            f"epsilon0 is {epsilon0!r}: above 40 shuffling amplifies nothing; use epsilon0 itself"
        )
    closed_form = shuffled_epsilon_closed_form(epsilon0, num_people, delta)
    _, above = _bracket(
        lambda e: shuffled_delta(epsilon0, num_people, e, delta), 0.0, closed_form, delta
    )
    below, _ = _bracket(lambda e: _delta_attained(epsilon0, num_people, e), 0.0, above, delta)
    return ShuffleBound(above, min(below, above), closed_form)


def calibrate_shuffling(epsilon: float, num_people: int, delta: float) -> float:
    """Return the largest ε₀ of each report (pure) whose shuffled reports keep (ε, δ), rounded down.

    >>> epsilon0 = calibrate_shuffling(epsilon=0.1, num_people=400_000, delta=1e-6)
    >>> round(epsilon0, 3), shuffled_epsilon(epsilon0, 400_000, 1e-6).epsilon <= 0.1
    (5.04, True)

    At most 40: beyond, shuffling amplifies nothing. At least ε: shuffling never harms.

    Raises:
        PrivotError: if epsilon is not in [0, 40], num_people < 1, or δ not in (0, 1).
    """
    require_finite("epsilon", epsilon)
    require_delta(delta, positive=True)
    num_people = _require_people(num_people)
    if epsilon > _EPSILON0_MAX:
        raise PrivotError(
            f"epsilon is {epsilon!r}: above 40 shuffling amplifies nothing; give every report epsilon"
        )
    # A little less, so that `shuffled_epsilon`, which rounds up, agrees.
    target = epsilon * (1 - 2 * _TOLERANCE)
    _, epsilon0 = _bracket(
        lambda e0: shuffled_delta(e0, num_people, target, delta), _EPSILON0_MAX, target, delta
    )
    return max(epsilon, epsilon0)


def _require_people(num_people: int) -> int:
    return require_count("people", num_people, MOST_PEOPLE, "more than ever lived")


def shuffled_epsilon_closed_form(epsilon0: float, num_people: int, delta: float) -> float:
    """Return log(1 + (e^ε₀−1)(4√(2 log(4/δ))/√((e^ε₀+1)n) + 4/n)), or ε₀ where it is no proof.

    Source: Feldman, McMillan, Talwar (2023), Theorem 3.2, for e^ε₀ + 1 ≤ n/(8 log(2/δ)).
    """
    if math.exp(epsilon0) + 1 > num_people / (8 * math.log(2 / delta)):
        return epsilon0
    spread = 4 * math.sqrt(2 * math.log(4 / delta) / ((math.exp(epsilon0) + 1) * num_people))
    amplified = math.log1p(math.expm1(epsilon0) * (spread + 4 / num_people))
    return min(epsilon0, amplified * (1 + 1e-14))


def shuffled_delta(
    epsilon0: float, num_people: int, epsilon: float, resolution: float = 1e-12
) -> float:
    """Return an upper bound on δ(ε); numerical error is added up to 1e-9 of `resolution`.

    >>> shuffled_delta(epsilon0=1.0, num_people=1, epsilon=1.0) < 1e-20
    True
    """
    if num_people < 1 or not epsilon >= 0 or not 0 <= epsilon0 <= 40:
        raise PrivotError(
            f"epsilon {epsilon}, epsilon0 {epsilon0}, num_people {num_people}: give epsilon ≥ 0, "
            "epsilon0 from 0 to 40, and at least one person"
        )
    if epsilon >= epsilon0:
        return 0.0
    log_left_out = math.log(4e9) - math.log(resolution)
    odds = math.exp(epsilon0)
    total = _expected_excess(epsilon0, epsilon, num_people, 1 / (odds + 1), 0.0, log_left_out)
    return total * (1 + _NUMERICAL_ERROR) + 4 * math.exp(-log_left_out)


def _delta_attained(epsilon0: float, num_people: int, epsilon: float) -> float:
    """Return a δ that some shuffled ε₀-DP mechanism needs at ε, rounded down."""
    if epsilon >= epsilon0:
        return 0.0
    odds = math.exp(epsilon0)
    third = math.expm1(epsilon) / odds
    ternary = _expected_excess(epsilon0, epsilon, num_people, 1 / (odds + 2), third, 60.0)
    return max(ternary, _binary_delta(epsilon0, num_people, epsilon)) * (1 - _NUMERICAL_ERROR)


def _expected_excess(
    epsilon0: float,
    epsilon: float,
    num_people: int,
    clone: float,
    others: float,
    log_left_out: float,
) -> float:
    """Return (1/n) E[(e^ε₀−e^ε)N₀ − (e^(ε+ε₀)−1)N₁ − others·(n−N₀−N₁)]₊ over the central M.

    (N₀, N₁) are multinomial counts of n draws with probability `clone` each.
    """
    gain = math.exp(epsilon) * math.expm1(epsilon0 - epsilon)
    loss = math.expm1(epsilon + epsilon0)
    clones = _central_window(num_people, 2 * clone, log_left_out)
    weights = _binomial_pmf(clones, num_people, 2 * clone)
    # With M = N₀ + N₁ the bracket is (gain + loss)(room − N₁): positive for N₁ = 0 … ⌊room⌋. Counting
    # N₁, not N₀, keeps its digits: gain/loss may be 1e-16 (ε₀ = 36), and then M − room rounds to M.
    room = (gain * clones - others * (num_people - clones)) / (gain + loss)
    clones, weights, room = (values[room >= 0] for values in (clones, weights, room))
    last = np.floor(room)
    at_next = np.where(last < clones, _binomial_pmf(np.minimum(last + 1, clones), clones, 0.5), 0.0)
    tail = np.where(
        last < clones, scipy.special.betainc(np.maximum(clones - last, 1), last + 1, 0.5), 1.0
    )
    excess = (room - clones / 2) * tail + (last + 1) / 2 * at_next
    # That difference cancels where only N₁ = 0 counts; there the sum is one term.
    excess = np.where(last == 0, room * np.exp2(-clones), excess)
    return float(np.sum(weights * np.maximum(excess, 0.0))) * (gain + loss) / num_people


def _binary_delta(epsilon0: float, num_people: int, epsilon: float) -> float:
    """Return δ of binary randomized response, everybody else holding 0, rounded to nearest.

    With B the number of ones among the others, p = 1/(e^ε₀+1), and any threshold s, the event
    "at least s+1 ones" gives pmf(s)(1−p−e^ε p) − (e^ε−1) P(B > s), and the event "at most s
    ones", in the other order, pmf(s)(e^ε(1−p) − p) − (e^ε−1) P(B ≤ s).
    """
    others = num_people - 1
    wrong = 1 / (math.exp(epsilon0) + 1)
    if others == 0:
        return wrong * math.exp(epsilon) * math.expm1(epsilon0 - epsilon)
    ones = _central_window(others, wrong, 60.0)
    at = _binomial_pmf(ones, others, wrong)
    tail = scipy.special.bdtrc(ones, others, wrong)
    head = scipy.special.bdtr(ones, others, wrong)
    more = at * wrong * math.exp(epsilon) * math.expm1(epsilon0 - epsilon)
    fewer = at * wrong * math.expm1(epsilon + epsilon0)
    change = math.expm1(epsilon)
    return float(max(np.max(more - change * tail), np.max(fewer - change * head), 0.0))


def _central_window(draws: int, probability: float, log_left_out: float) -> Array:
    """Return the integers that Bin(draws, p) misses with probability ≤ 2e^−L (Bernstein)."""
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
    remainders = _remainder(draws) - _remainder(successes) - _remainder(failures)
    return np.asarray(np.exp(remainders - deviance))


def _remainder(count: Array) -> Array:
    """Return log n! − n log n + n, from Stirling's series above 16."""
    large = np.maximum(count, 16.0)
    inverse = 1 / large
    series = inverse * (
        1 / 12 - inverse**2 * (1 / 360 - inverse**2 * (1 / 1260 - inverse**2 / 1680))
    )
    small = np.minimum(count, 16.0)
    exact = scipy.special.gammaln(small + 1) - scipy.special.xlogy(small, small) + small
    return np.where(count < 16, exact, 0.5 * np.log(2 * np.pi * large) + series)


def _bracket(
    delta_at: Callable[[float], float], broken: float, proven: float, delta: float
) -> tuple[float, float]:
    """Return neighbors (broken, proven) with δ(broken) > δ ≥ δ(proven); both `broken` if that meets δ.

    That δ(proven) ≤ δ must be proven for the one given.
    """
    target = math.log(delta)

    def excess(at: float) -> float:
        found = delta_at(at)
        return math.log(found) - target if found > 0 else -math.inf

    return bracket(excess, broken, proven, _TOLERANCE) if excess(broken) > 0 else (broken, broken)
