"""Privacy amplification by shuffling: the central (ε, δ) of anonymous ε₀-locally private reports.

**Assumption.** n people each send one report through the same mechanism, ε₀-DP locally (pure),
a trusted shuffler removes the senders, and the curator sees only the multiset. Neighbors:
`replace_one`. There is no guarantee against an adversary who sees reports before the shuffler, nor if
reports carry an identifier, a time or an address, nor if fewer than n people are honest.

**Whole reports.** ε₀ is the loss of everything that one person sends in one piece. The ε of a single
column is not amplified: the other columns of a report, such as a noised image, can identify its sender.

**The bound.** Let R₀, R₁ be the laws of person 1's report under two records, and ω ≤ R_x for every
record x, with R₀, R₁ ∈ [ω, e^ε₀ ω]. The hockey-stick divergence at e^ε is (`docs/guarantees.md`: proofs)

    δ(ε) ≤ (1/n) E[Z₁ + … + Z_n]₊,   Z = (R₀ − e^ε R₁)/ω at a draw from ω, and 0 with 1 − ∫ω.

Whatever the mechanism, it is largest, in both orders of R₀ and R₁, for

    Z = e^ε₀ − e^ε  or  1 − e^(ε+ε₀), each with probability 1/(e^ε₀+1), else 0:

the pair of Feldman, McMillan, Talwar (2023), C ~ Bin(n−1, 2/(e^ε₀+1)) clones of which half say 0, and
person 1's binary randomized response among them.

**Two-level mechanisms.** In many mechanisms, a record either *supports* a report, which is then e^ε₀
times likelier than otherwise, or not: R_x ∈ {ω, e^ε₀ ω} (windows, randomized response, subsets,
candidates). Let a be the mass of ω on reports that record 0 supports and record 1 does not, c that of
reports that both support, d of those that neither does: (e^ε₀+1)a + e^ε₀c + d = 1. They are known for
each mechanism (`ReportLaw`), and Z has the atoms

    e^ε₀ − e^ε and 1 − e^(ε+ε₀) (a each),  −(e^ε−1)e^ε₀ (c),  −(e^ε−1) (d),  0 (the rest).

The pair with the largest a + c/(1 + e^−ε₀), and c = 0, bounds all pairs. If a public coin, independent
of the record, chooses the form of the report, the laws of forms are averaged.

**Others' records.** This treats everyone else as if they reported by ω, although a report by another
record hides person 1 too. The *bound by labels* counts that. Others are given away up to the first
who reports by ω: g people, with probability (1 − γ)^(g−1) γ, where γ = ∫ω. The m = n − g left give

    δ(ε) ≤ E (1/m) E[Z₁ + … + Z_m + ξ]₊,

plus δ of one report times (1 − γ)^(n−1), the probability that nobody else does. Here Z has the atoms
above, but parts (1 − α)a and (1 − β)a of the two large ones, v, have the value v/e^ε₀ and e^ε₀ times the
probability. The noise ξ = s(E₁ − 1) − t(E₂ − 1), of standard exponential E₁ and E₂, is no noise of
reports: it raises the bound, so that factors α and β exist that bound Z for all records at once. A few
hundred people need no such noise: all numbers of others with either record are tried.

**Two categories.** If j others hold 1, S ~ Bin(j, 1 − p) + Bin(n − 1 − j, p) of their reports are ones,
p = 1/(e^ε₀ + 1), and δ(ε) is the maximum over j and s of (1 − p − p e^ε) P(S = s) − (e^ε − 1) P(S < s).

**Evaluation.** In the worst case N₀ and N₁ count the reports at either atom. Given M = N₀ + N₁, of law
Bin(n, 2a), N₁ has the law Bin(M, ½), and a sum over it a closed form. The terms left out of the sum over
M have probability at most 2e^−L (Bernstein), with L = `log_left_out`, and are at most 4e^−L of δ, which
is added: their part of E N₀/n is a P(1 + Bin(n − 1, 2a) is left out), and (e^ε₀ − e^ε)a < 1. Other sums
are on a grid, by FFT.

**Several batches** with a report of the same person, each shuffled by itself with fresh coins: the
bound, δ at e^−ε by 1 − e^−ε + e^−ε δ(ε), is the divergence of a pair of laws whose products dominate the
composition, also if records depend on earlier releases. The smallest batch counts for all: δ falls with
n at every ε.

References:
    Balle, Bell, Gascón, Nissim, *The privacy blanket of the shuffle model* (2019). Feldman, McMillan,
    Talwar, *Stronger privacy amplification by shuffling for Rényi and approximate differential privacy*
    (2023). Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, *Connect the dots: tighter discrete
    approximations of privacy loss distributions* (2022). Loader, *Fast and accurate computation of
    binomial probabilities* (2000).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core import errors
from privot.privacy.distributed import EPSILON0_MAX, ReportLaw
from privot.privacy.rounding import bracket, multiply_up, require_delta
from privot.privacy.slice_losses import LossDistribution, composed_epsilon

Array = NDArray[np.float64]

_LOSSES = 400  # points on either side of 0 of the grid of losses of a composition
_INFINITE_SHARE = 0.01  # share of δ for losses beyond that grid, which count as infinite
_LOG_LEFT_OUT = 60.0  # a sum over a central window leaves out probability of at most 2e^−60
# Special functions here are within 1e-9, and the one cancellation loses a factor ≤ 1e3.
_NUMERICAL_ERROR = 1e-6
_TOLERANCE = 1e-7  # relative, of an ε or ε₀ found by bracketing
# Cells of the grid of Σ Z in the largest |Z|: fewer, at least 8, if it would have more points.
_CELLS, _MAX_POINTS = 64, 2**17
_BLOCKS = 12  # numbers g of people left out for which the bound by labels is computed
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
# Numbers of others with either of two categories, and products of probabilities for each of them.
_HOLDERS, _MAX_PRODUCTS = 100, 2**20
# People of whom all numbers of holders are tried; those who count as so many; a block's least distance
# from 0 and from all, in its width; cells of the grid in the largest |Z|.
_FEW, _MOST_FEW, _SHARED, _FEW_CELLS = 300, 350, 12, 16


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
    num_people = errors.require_people(num_people)
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
    batches = errors.require_count("batches", batches, errors.MOST_STEPS)
    law = report if isinstance(report, ReportLaw) else ReportLaw.worst(report)
    if batches == 1:
        return shuffled_epsilon(law, num_people, delta).epsilon
    if (share := delta / batches) < errors.SMALLEST_DELTA:  # which no report by itself spends
        return multiply_up(law.epsilon0, batches)
    negligible = max(share * _INFINITE_SHARE, errors.SMALLEST_DELTA)
    # At so many ε, the bound of few people takes too long.
    quick = law if law.third is None else replace(law, one_form=False)
    if (highest := shuffled_epsilon(quick, num_people, negligible).epsilon) == 0:
        return 0.0
    total = composed_epsilon(_batch_loss(quick, num_people, highest, negligible), batches, delta)
    return min(total, multiply_up(shuffled_epsilon(law, num_people, share).epsilon, batches))


def _batch_loss(
    law: ReportLaw, num_people: int, highest: float, resolution: float
) -> LossDistribution:
    """Return an upper bound of the privacy losses of one batch, on a grid up to ±`highest`.

    δ is a convex function of e^ε for any records of the others, so chords between bounds of it at grid
    points are above it, and so is the largest convex function below these chords. That is the δ of a
    pair of laws whose losses are on the grid (Doroshenko et al. 2022).
    """
    step = highest / _LOSSES
    losses = step * np.arange(_LOSSES + 1)
    deltas = np.array([shuffled_delta(law, num_people, each, resolution) for each in losses])
    odds = np.exp(losses)
    # The slope of a chord is minus the second law's probability of all losses above the chord.
    widths = np.diff(odds)
    convex = scipy.optimize.isotonic_regression(np.diff(deltas) / widths, weights=widths).x
    slopes = np.append(np.minimum(convex, 0.0), 0.0)
    above = np.diff(slopes) * odds[1:]
    return LossDistribution.around_zero(step, above, above / odds[1:], float(deltas[-1]))


def calibrate_shuffling(epsilon: float, num_people: int, delta: float) -> float:
    """Return the largest local ε₀ (pure) such that shuffled reports are (ε, δ)-private, rounded down.

    >>> epsilon0 = calibrate_shuffling(epsilon=0.1, num_people=400_000, delta=1e-6)
    >>> round(epsilon0, 3), shuffled_epsilon(epsilon0, 400_000, 1e-6).epsilon <= 0.1
    (5.04, True)

    The result is between ε (shuffling never harms) and 40 (above, shuffling amplifies nothing); it was
    itself evaluated, so its guarantee holds.

    Raises:
        PrivotError: if epsilon is not in [0, 40], num_people < 1, or δ not in (0, 1).
    """
    errors.require_finite("epsilon", epsilon)
    require_delta(delta, positive=True)
    num_people = errors.require_people(num_people)
    if epsilon > EPSILON0_MAX:
        raise errors.PrivotError(
            f"epsilon is {epsilon!r}: above 40 shuffling amplifies nothing; give every report epsilon"
        )
    # Slightly smaller, so that `shuffled_epsilon` of the result, which rounds up, is at most epsilon.
    target = epsilon * (1 - 2 * _TOLERANCE)
    _, epsilon0 = _narrow(
        lambda e0: shuffled_delta(e0, num_people, target, delta), EPSILON0_MAX, target, delta
    )
    return max(epsilon, epsilon0)


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
        given = f"epsilon {epsilon}, num_people {num_people}"
        raise errors.PrivotError(f"{given}: give epsilon ≥ 0 and at least one person")
    law = report if isinstance(report, ReportLaw) else ReportLaw.worst(report)
    if epsilon >= law.epsilon0:
        return 0.0
    # Truncation adds 4e^−L, which is to be at most 1e-9 of the resolution.
    log_left_out, worst = math.log(4e9) - math.log(resolution), ReportLaw.worst(law.epsilon0).one
    total = _expected_excess(law.epsilon0, epsilon, num_people, worst, 0.0, log_left_out)
    if law.one < worst:
        total = min(total, _mean_excess(*_terms(law, epsilon, 1, 1), {num_people: 1 / num_people}))
    if law.one_form and law.third is None and (others := _ones_of_others(law.epsilon0, num_people)):
        gain, _ = _gain_and_loss(law.epsilon0, epsilon)
        equal, fewer = others
        total = min(total, float(np.max(gain * law.one * equal - math.expm1(epsilon) * fewer)))
    elif law.shared > 0 and num_people > 1:
        total = min(total, _labeled_delta(law, num_people, epsilon))
        if (
            law.one_form
            and law.third is not None
            and num_people <= _MOST_FEW
            and total > resolution
        ):
            total = min(total, _delta_of_few(law, min(num_people, _FEW), epsilon))
    return total * (1 + _NUMERICAL_ERROR) + 4 * math.exp(-log_left_out)


def _gain_and_loss(epsilon0: float, epsilon: float) -> tuple[float, float]:
    """Return e^ε₀ − e^ε and e^(ε + ε₀) − 1."""
    return math.exp(epsilon) * math.expm1(epsilon0 - epsilon), math.expm1(epsilon + epsilon0)


def _terms(law: ReportLaw, epsilon: float, alpha: float, beta: float) -> tuple[Array, Array]:
    """Return probabilities and values of Z in the bound by labels; α = β = 1 is the bound by ω."""
    odds, excess = math.exp(law.epsilon0), math.expm1(epsilon)
    gain, loss = _gain_and_loss(law.epsilon0, epsilon)
    hidden = law.shared / max(law.most, 1e-300)
    fewer, less = hidden * (1 - alpha), hidden * (1 - beta)
    masses = [law.one - fewer, law.one - less, odds * fewer, odds * less, law.both, law.neither]
    values = [gain, -loss, gain / odds, -loss / odds, -excess * odds, -excess, 0.0]
    return np.array([*masses, max(1 - sum(masses), 0.0)]), np.array(values)


@lru_cache(maxsize=8)
def _ones_of_others(epsilon0: float, num_people: int) -> tuple[Array, Array] | None:
    """Return P(S = s) and P(S < s) for all s and j, without dominated pairs; None if there are too many.

    Blocks of consecutive j share one law, of fewer reports: as many as j differs are given away.
    """
    flip, block = 1 / (math.exp(epsilon0) + 1), math.ceil(num_people / _HOLDERS)
    laws, sums = [], []
    for ones in range(0, num_people, block):
        holders = ones, max(num_people - block - ones, 0)
        windows = [_central_window(each, flip, _LOG_LEFT_OUT) for each in holders]
        if windows[0].size * windows[1].size > _MAX_PRODUCTS:
            return None
        flips = [_binomial_pmf(*each, flip) for each in zip(windows, holders, strict=True)]
        laws.append(np.convolve(flips[0][::-1], flips[1]))
        sums.append(np.cumsum(np.append(0.0, laws[-1][:-1])))  # no difference, which cancels
    equal, fewer = np.concatenate(laws) + 4 * math.exp(-_LOG_LEFT_OUT), np.concatenate(sums)
    order = np.argsort(-equal)
    order = order[fewer[order] <= np.minimum.accumulate(fewer[order])]
    return equal[order], fewer[order]


def _labeled_delta(law: ReportLaw, num_people: int, epsilon: float) -> float:
    """Return the bound by labels, with s and t of the noise that are best by a normal approximation.

    `docs/guarantees.md` derives the limits `low` and `high` of N/P, and α and β from them.
    """
    odds, excess = math.exp(law.epsilon0), math.expm1(epsilon)
    gain, loss = _gain_and_loss(law.epsilon0, epsilon)
    nodes, weights = (_NODES + 1) / 2, _WEIGHTS * (1 - _NODES) / 4

    def tent(top: float, rate: Array) -> Array:
        """Return ∫ ((z − x)₊ − (z − e^ε₀ x)₊) e^(−rate x) dx over x > 0 for z = `top`."""
        large, small = (z * z * np.exp(-z * rate * nodes) @ weights for z in (top, top / odds))
        return np.asarray(large - odds * small)

    rates = (8 / loss / 2 ** (np.arange(28) / 2))[:, None]  # 1/s, 1/t
    low = (tent(loss, rates) / tent(gain, -rates))[:, None] * (1 - _NUMERICAL_ERROR)
    high = tent(loss, -rates) / tent(gain, rates) * (1 + _NUMERICAL_ERROR)
    at_low, at_high = (np.maximum(np.maximum(1, r), (1 - law.most) * (1 + r)) for r in (low, high))
    beta = (at_high - at_low) / (high - low)
    alpha = at_low - beta * low
    beta = np.maximum(beta, (odds**2 * excess - loss) / ((odds - 1) * loss))
    hidden = law.shared / law.most * (1 - 1 / odds)
    variance = num_people * (
        law.one * (gain**2 + loss**2) - hidden * ((1 - alpha) * gain**2 + (1 - beta) * loss**2)
    )
    tilt = num_people * excess / variance.min() + 1e-3 / math.sqrt(variance.max())
    up, down = tilt / rates, tilt / rates.T
    allowed = np.minimum(up, 0.7)
    cost = variance + 2 / tilt**2 * (down - np.log1p(down) - allowed - np.log1p(-allowed))
    i, j = np.unravel_index(np.argmin(np.where(up < 0.7, cost, np.inf)), cost.shape)
    blanket = law.one + law.both + law.neither  # γ, or less: `of_sets` may overstate a
    remaining, last = 1 - blanket, min(num_people - 1, math.ceil(-80 / math.log1p(-blanket)))
    left_out = np.unique(np.round(np.geomspace(1, last, _BLOCKS))).astype(int)
    shares = remaining ** np.append(0, left_out[:-1]) - remaining**left_out
    people = num_people - left_out
    sizes = dict(zip(people.tolist(), shares / people, strict=True))
    terms = _terms(law, epsilon, float(alpha[i, j]), float(beta[i, j]))
    noise = 1 / rates[[i, j], 0]
    return _mean_excess(*terms, sizes, *noise.tolist()) + remaining**last * law.one * gain


def _delta_of_few(law: ReportLaw, num_people: int, epsilon: float) -> float:
    """Return the largest δ over all numbers of others with record 0, with record 1 and with neither.

    If the first of the others who reports by ω comes when q of them are left, on average, δ is at most
    E[Σ B_k Z_k]₊/(q(n − 1)), with B_k of law Bernoulli(q), and falls in q, which is rounded down.
    """
    others, unlike = num_people - 1, 1 - law.most
    shares = ((0.0, 1.0), (1.0, 0.0), (unlike, unlike))  # α and β of the three kinds of others
    masses = np.array([_terms(law, epsilon, *each)[0] for each in shares])
    step, cells, masses = _rounded(masses, _terms(law, epsilon, 1, 1)[1], _FEW_CELLS)
    if (rate := _centering(masses[2], cells)) is None:
        return math.inf
    tilted = masses * np.exp(rate * cells)
    total = float(tilted[2].sum())
    if total**others < 1e-200:  # products of powers could leave the range of floats
        return math.inf
    size = scipy.fft.next_fast_len(others * int(np.ptp(cells)) + 1, real=True)
    laws = np.array([np.bincount(cells % size, each, size) for each in tilted]) / total
    transforms, sums = scipy.fft.rfft(laws), np.arange(size)
    sums[others * cells.max() + 1 :] = 0  # these are below 0
    weights = np.conj(scipy.fft.rfft(step * sums * np.exp(-rate * sums))) * 2 / size
    weights[[0, -1] if size % 2 == 0 else [0]] /= 2  # others stand for negative frequencies too
    zeros, ones, neither = _blocks_of_others(others)
    people = zeros + ones + neither
    fewest = int(people.min())

    def largest(q: float) -> float:
        thinned = q * transforms + (1 - q) / total
        large = np.log(np.abs(thinned).max(axis=0)) * fewest > -_LOG_LEFT_OUT
        powers = np.repeat(thinned[:, None, large], others + 1, axis=1)
        powers[:, 0] = 1.0
        powers = np.cumprod(powers, axis=1)
        powers[np.abs(powers) < 1e-100] = 0.0  # denormal numbers are slow
        # At frequency 0, whose power is the largest: rounding errors; and the frequencies left out.
        norms = powers[:, :, 0].real
        excess = 1e-13 * norms[0, zeros] * norms[1, ones] * norms[2, neither]
        excess = (excess + math.exp(-_LOG_LEFT_OUT)) * np.abs(weights).sum()
        for number in np.unique(zeros):
            at, factor = zeros == number, powers[0, number] * weights[large]
            excess[at] += ((powers[1, ones[at]] * powers[2, neither[at]]) @ factor).real
        return float(np.max(excess * total**people / (q * people)))

    blanket = 2 * law.one + law.both + law.neither
    alone = law.one * _gain_and_loss(law.epsilon0, epsilon)[0]  # δ without others
    # `later`: the probability of a smaller q, or more: the others of a block are no fewer than `fewest`.
    result, later, k = 0.0, 1.0, 1
    while later * alone > 1e-3 * result:
        q = (1 - (1 - blanket) * math.exp(k * k / (6 * fewest))) / blanket
        if q <= 0:
            break
        before, later, k = later, math.exp(-k * k / 6), k + 1
        result += (before - later) * largest(q)
    return result + later * alone


def _blocks_of_others(others: int) -> tuple[NDArray[np.int64], ...]:
    """Return how many others hold 0, 1 and neither, of each block: as many as differ are given away."""
    least = [0]
    while least[-1] < others:
        least.append(least[-1] + 1 + min(least[-1], others - least[-1]) // _SHARED)
    held, more = np.array(least), np.diff([*least, others + 1]) - 1
    zeros, ones = np.nonzero(held[:, None] + held <= others)
    neither = others - (held + more)[zeros] - (held + more)[ones]
    return held[zeros], held[ones], np.maximum(neither, 0)


def _rounded(masses: Array, values: Array, cells: float) -> tuple[float, NDArray[np.int64], Array]:
    """Return (step, cells, masses): values on a grid by coins that preserve means."""
    step = float(np.abs(values).max()) / cells
    floors = np.floor(values / step)
    parts = values / step - floors
    places = np.concatenate([floors, floors + 1]).astype(np.int64)
    return step, places, np.concatenate([masses * (1 - parts), masses * parts], axis=-1)


def _centering(masses: Array, cells: NDArray[np.int64]) -> float | None:
    """Return the rate s ≥ 0 at which the law tilted by e^(s cell) has mean 0; None above 500."""

    def slope(rate: float) -> float:
        return float(masses * np.exp(rate * (cells - cells.max())) @ cells)

    if slope(0.0) >= 0:
        return 0.0
    return scipy.optimize.brentq(slope, 0.0, 500.0) if slope(500.0) > 0 else None


def _mean_excess(
    masses: Array, values: Array, sizes: dict[int, float], up: float = 0.0, down: float = 0.0
) -> float:
    """Return Σ_m sizes[m] E(Z₁ + … + Z_m + ξ)₊ or more, ξ = `up`·(E₁ − 1) − `down`·(E₂ − 1).

    E₁ and E₂ are standard exponential. Z is rounded to a grid by a coin, its mean preserved, which only
    raises the expectation. The law of the sum is computed under the tilt e^(s ΣZ) that centers Z.
    """
    most, largest = max(sizes), float(np.abs(values).max())

    def reach(variance: float) -> float:  # exceeded with probability e^−L (Bernstein)
        third = 1.2 * largest * _LOG_LEFT_OUT / 3
        return third + math.sqrt(third**2 + 2 * most * variance * _LOG_LEFT_OUT) + 2 * (up + down)

    cells_of_largest = _MAX_POINTS * largest / (2 * reach(float(masses @ values**2)))
    step, cells, masses = _rounded(masses, values, min(max(cells_of_largest, 8), _CELLS))
    cells, masses = cells[masses > 0], masses[masses > 0]
    if (rate := _centering(masses, cells)) is None:
        return math.inf
    tilt, total = rate / step, float(masses @ np.exp(rate * cells))
    if tilt * up > 0.9 or tilt * down > 20:  # terms outside of the window would not be small
        return math.inf
    law = masses * np.exp(rate * cells) / total
    variance = float(law @ cells**2) * step**2
    size = scipy.fft.next_fast_len(math.ceil(2 * reach(variance) / step) + 2, real=True)
    transform = scipy.fft.rfft(np.bincount(cells % size, law, size))
    powers, logs = np.zeros_like(transform), np.log(np.maximum(np.abs(transform), 1e-300))
    large, before = logs > 0.0, most
    for m, share in sorted(sizes.items(), reverse=True):  # Horner: powers of differences are quick
        powers[large] *= transform[large] ** (before - m)
        large, before = m * logs > -70.0, m  # the rest is below rounding errors
        powers[large] += share * math.exp((m - most) * math.log(total))
    powers[large] *= transform[large] ** before
    probabilities = np.maximum(scipy.fft.irfft(powers, size), 0.0)
    sums = step * ((np.arange(size) + size // 2) % size - size // 2)
    positive = (shifted := sums - up + down) >= 0
    with np.errstate(over="ignore", under="ignore"):
        excess = float(probabilities[positive] @ (np.exp(-tilt * sums) * sums)[positive])
        if up + down > 0:
            tails = np.where(positive, down, up)
            tails *= tails * np.exp(-tilt * sums - np.abs(shifted) / tails)
            excess += float(probabilities @ tails) / (up + down)
    lost = (math.exp(-_LOG_LEFT_OUT / 2) + max(1e-10, 1e-15 * most)) * sum(sizes.values())
    lost *= math.sqrt(most * variance) + up + down
    # A transform loses atoms below 1e-16 of its sum, at up to 64 cells.
    lost += 1e-14 * (10 + most) * sum(sizes.values()) * step * math.exp(-rate)
    return (excess + lost) * math.exp(most * math.log(total))


def _delta_attained(law: ReportLaw, num_people: int, epsilon: float) -> float:
    """Return a δ that some shuffled mechanism of this law attains at ε, rounded down.

    The other people hold a third record, under this law or ternary randomized response. A report of it
    has probability p (`third`) to be supported by the first record alone, and p by the second alone,
    with the terms Z of the module's docstring; all other reports share one value of Z, which follows
    from E Z = 1 − e^ε. Without a third record, 0 is returned.
    """
    if epsilon >= law.epsilon0:
        return 0.0
    odds, excess = math.exp(law.epsilon0), math.expm1(epsilon)
    if not (law.neither or law.shared):  # the worst law: ternary randomized response is below it
        law = ReportLaw(law.epsilon0, 1 / (odds + 2), third=1 / (odds + 2))
    if not law.third:
        return 0.0
    cost = excess * (1 - law.third * (odds + 1)) / (1 - 2 * law.third)
    delta = _expected_excess(law.epsilon0, epsilon, num_people, law.third, cost, _LOG_LEFT_OUT)
    return delta * (1 - _NUMERICAL_ERROR)


def _expected_excess(
    epsilon0: float, epsilon: float, num_people: int, clone: float, cost: float, log_left_out: float
) -> float:
    """Return (1/n) E[(e^ε₀−e^ε)N₀ − (e^(ε+ε₀)−1)N₁ − cost (n − N₀ − N₁)]₊ over the central N₀ + N₁.

    Counts are multinomial with n draws: N₀ and N₁ have probability `clone` each. N₀ + N₁ outside the
    central window, which is left out, has probability at most 2e^−`log_left_out`.
    """
    gain, loss = _gain_and_loss(epsilon0, epsilon)
    clones = _central_window(num_people, min(2 * clone, 1.0), log_left_out)
    weights = _binomial_pmf(clones, num_people, min(2 * clone, 1.0))
    # With M = N₀ + N₁ the bracket is (gain + loss)(room − N₁): positive for N₁ = 0 … ⌊room⌋.
    # N₁, not N₀, is counted because gain/loss may be 1e-16 (ε₀ = 36), and M − room rounds to M.
    room = (gain * clones - cost * (num_people - clones)) / (gain + loss)
    inside = room >= 0
    positive = _mean_positive_part(clones[inside], room[inside])
    return float(np.sum(weights[inside] * positive)) * (gain + loss) / num_people


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
