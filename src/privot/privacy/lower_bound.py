"""Empirical lower bounds on ε: an audit that tries to break a mechanism from outside.

If M is (ε, δ)-DP, then for any two neighboring records x, x′ and any event S

    ε ≥ log((P(M(x) ∈ S) − δ) / P(M(x′) ∈ S)).

Draw from M(x) and M(x′); choose S on one half of the draws, count it on the other half, and
bound both probabilities by Clopper–Pearson (1934). The chosen S does not depend on the draws
that test it, so the bound holds with the stated confidence, whatever made us choose S; the
error is split evenly over both bounds of every ordered pair tried (Ding et al. 2018; Jagielski,
Ullman, Oprea 2020). A bound above the claimed ε refutes the claim; one below it proves nothing.

**Events** are unions of cells, the cells being of three families:

- *score*: bins of a scalar score, by default the output itself, ideally its log-likelihood
  ratio, fine in both tails;
- *values*: single outputs, when there are few;
- *granularity*: how many binary digits after the point the float needs. Noise drawn as floats
  and added to x leaves x's fingerprint there (Mironov 2012): 0 + noise reaches values that
  1 + noise never takes. No histogram sees that.

Each family offers its cells from the left, from the right, and by decreasing likelihood ratio.

**Gaussian noise** promises μ of Gaussian differential privacy: no event has a higher probability than
$Φ(Φ^{−1}(p) + μ)$ under one record if it has p under the other (Dong, Roth, Su 2022). So one event that
is as likely as not, with both probabilities bounded, gives a lower bound on μ, where a δ far below one
over the draws leaves nothing to count (Nasr et al. 2023).

An audit sees raw outputs of records that its caller invents: it takes no private data.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.privacy.rounding import require_delta

Array = NDArray[Any]
Binning = Callable[[Array], NDArray[np.int64]]
Score = Callable[[Array, Any, Any], Array]

_MOST_VALUES = 1024
_DIGITS = (-70, 130)


@dataclass(frozen=True)
class AuditResult:
    """What an audit proved: with `confidence`, the mechanism's ε at `delta` is ≥ `epsilon_lower`.

    `pair` is the index of the ordered pair (2i as given, 2i+1 swapped) and `event` the family
    behind the bound; `num_tested` draws a record tested it.
    """

    epsilon_lower: float
    delta: float
    confidence: float
    pair: int
    event: str
    num_tested: int

    def refutes(self, epsilon: float) -> bool:
        """Return whether a claim of ε at this δ is refuted."""
        return self.epsilon_lower > epsilon


def audit(
    randomize: Callable[[Any, int], Array],
    pairs: Sequence[tuple[Any, Any]],
    *,
    num_draws: int,
    delta: float = 0.0,
    confidence: float = 0.999,
    score: Score | None = None,
) -> AuditResult:
    """Return a lower bound on the ε of `randomize`, from worst-case `pairs` of records.

    Args:
        randomize: `randomize(record, n)` returns n independent outputs, shape (n,) or (n, d).
        pairs: neighboring records, both orders of each are tried; put the extremes here.
        num_draws: draws of each record, half of them to choose the event and half to test it.
        delta: the δ of the claim.
        confidence: probability that the bound is true.
        score: `score(outputs, record, other)` returns n numbers, larger where `record` is the
            likelier; ideally the log-likelihood ratio. Needed for outputs of shape (n, d).

    >>> coins = np.random.default_rng(0)
    >>> flip = lambda bit, n: np.where(coins.random(n) < 0.75, bit, 1 - bit)
    >>> result = audit(flip, [(0, 1)], num_draws=200_000)
    >>> 1.05 < result.epsilon_lower < 1.0986  # log 3
    True

    Raises:
        PrivotError: if pairs is empty, num_draws < 100, confidence or δ out of range, or no score given.
    """
    require_delta(delta)
    if not pairs:
        raise PrivotError("pairs is empty: give at least one pair of neighboring records")
    if num_draws < 100:
        raise PrivotError(f"num_draws is {num_draws}: give at least 100")
    if not 0 < confidence < 1:
        raise PrivotError(f"confidence is {confidence!r}: give a number between 0 and 1")
    error = (1 - confidence) / (4 * len(pairs))
    results = []
    for index, pair in enumerate(pairs):
        outputs = [np.asarray(randomize(record, num_draws)) for record in pair]
        for swapped in (0, 1):
            record, other = pair[swapped], pair[1 - swapped]
            mine, theirs = outputs[swapped], outputs[1 - swapped]
            family, bound = _bound(mine, theirs, record, other, delta, error, score)
            position = 2 * index + swapped
            tested = num_draws - num_draws // 2
            results.append(AuditResult(bound, delta, confidence, position, family, tested))
    return max(results, key=lambda result: result.epsilon_lower)


def gaussian_mu_lower(mine: Array, theirs: Array, error: float) -> float:
    """A lower bound on μ, wrong with probability at most `error`, from log-likelihood ratios.

    The event is that the ratio is above 0: with Gaussian noise its probabilities are Φ(±μ/2).

    >>> rng = np.random.default_rng(0)
    >>> ratios = rng.normal(0.5, 1.0, 100_000), rng.normal(-0.5, 1.0, 100_000)
    >>> 0.95 < gaussian_mu_lower(*ratios, error=1e-3) < 1.0
    True
    """
    lower, _ = _clopper_pearson((mine > 0).sum(), len(mine), error / 2)
    _, upper = _clopper_pearson((theirs > 0).sum(), len(theirs), error / 2)
    return max(0.0, float(scipy.special.ndtri(lower) - scipy.special.ndtri(upper)))


def _bound(
    mine: Array,
    theirs: Array,
    record: Any,
    other: Any,
    delta: float,
    error: float,
    score: Score | None,
) -> tuple[str, float]:
    """Return the event's family and the bound, for one ordered pair."""
    half = len(mine) // 2
    chosen: tuple[str, Binning, Array] | None = None
    best = -np.inf
    for family, cells in _families(mine[:half], theirs[:half], record, other, score):
        for order, counts, draws in _orders(cells(mine[:half]), cells(theirs[:half])):
            sums = np.cumsum(counts[:, order], axis=1)
            bounds = _epsilon(sums[0], sums[1], draws, delta, error)
            last = int(np.argmax(bounds))
            if bounds[last] > best:
                chosen, best = (family, cells, order[: last + 1]), bounds[last]
    if chosen is None:
        return "none", 0.0
    family, cells, event = chosen
    hits, other_hits = (np.isin(cells(draws[half:]), event).sum() for draws in (mine, theirs))
    tested = _epsilon(hits, other_hits, len(mine) - half, delta, error)
    return family, max(0.0, float(tested))


def _orders(codes: Array, other_codes: Array) -> Iterator[tuple[Array, Array, int]]:
    """Yield (order of cells, both records' counts by cell, draws behind the counts).

    A ratio order learned and judged on the same draws would pick lucky cells, so it is learned
    on the first half of these draws and judged on the second.
    """
    draws = len(codes)
    size = int(max(codes.max(), other_codes.max())) + 1

    def count(part: slice) -> Array:
        return np.stack([np.bincount(c[part], minlength=size) for c in (codes, other_codes)])

    ascending, counts = np.arange(size), count(slice(None))
    yield ascending, counts, draws
    yield ascending[::-1], counts, draws
    learned = count(slice(0, draws // 2)) + 0.5
    ratio_order = np.argsort(-learned[0] / learned[1], kind="stable")
    yield ratio_order, count(slice(draws // 2, None)), draws - draws // 2


def _clopper_pearson(hits: Array, draws: int, error: float) -> tuple[Array, Array]:
    """Bounds on a probability from below and from above, each wrong with probability `error`."""
    misses = draws - hits
    # betaincinv is only called inside its domain; the ends are known.
    lower = np.where(
        hits > 0, scipy.special.betaincinv(np.maximum(hits, 1), misses + 1, error), 0.0
    )
    upper = scipy.special.betaincinv(hits + 1, np.maximum(misses, 1), 1 - error)
    return lower, np.where(misses > 0, upper, 1.0)


def _epsilon(hits: Array, other_hits: Array, draws: int, delta: float, error: float) -> Array:
    """Return log((lower(P) − δ)/upper(P′)), −∞ where the numerator is not positive."""
    excess = _clopper_pearson(hits, draws, error)[0] - delta
    upper = _clopper_pearson(other_hits, draws, error)[1]
    return np.where(excess > 0, np.log(np.maximum(excess, 1e-300) / upper), -np.inf)


def _families(
    mine: Array, theirs: Array, record: Any, other: Any, score: Score | None
) -> Iterator[tuple[str, Binning]]:
    """Yield (name, outputs -> cell numbers), built from the choosing half alone."""
    if score is not None:

        def scored(outputs: Array) -> Array:
            return np.asarray(score(outputs, record, other), dtype=np.float64)

        yield "score", _bins(scored, mine, theirs)
    elif mine.ndim > 1:
        raise PrivotError(
            f"outputs have shape {mine.shape}: give score=, a number for each output, such as "
            "its log-likelihood ratio"
        )
    for column in range(mine.shape[1] if mine.ndim > 1 else 1):
        pick = _picker(column)
        if score is None:
            yield "score", _bins(pick, mine, theirs)
        # The first draws tell whether there are too many values: no need to sort all.
        if len(np.unique(pick(mine[: 8 * _MOST_VALUES]))) <= _MOST_VALUES:
            values = np.unique(np.concatenate([pick(mine), pick(theirs)]))
            if len(values) <= _MOST_VALUES:
                yield "values", _matches(pick, values)
        yield "granularity", _granularity(pick)


def _picker(column: int) -> Callable[[Array], Array]:
    return lambda outputs: np.asarray(outputs.reshape(len(outputs), -1)[:, column], np.float64)


def _bins(scored: Callable[[Array], Array], mine: Array, theirs: Array) -> Binning:
    """Return bins by quantiles of the first record's scores, geometrically fine in both tails."""
    draws = len(mine)
    tail = np.geomspace(min(0.4, 20 / draws), 0.5, 90)
    levels = np.concatenate([tail, 1 - tail])
    edges = np.unique(
        np.concatenate([np.quantile(scored(outputs), levels) for outputs in (mine, theirs)])
    )
    return lambda outputs: np.searchsorted(edges, scored(outputs), side="right").astype(np.int64)


def _matches(pick: Callable[[Array], Array], values: Array) -> Binning:
    """Return the index of each output among `values`; what was never seen is a cell of its own."""

    def cells(outputs: Array) -> NDArray[np.int64]:
        picked = pick(outputs)
        index = np.minimum(np.searchsorted(values, picked), len(values) - 1)
        return np.where(values[index] == picked, index, len(values)).astype(np.int64)

    return cells


def _granularity(pick: Callable[[Array], Array]) -> Binning:
    """Return the number of binary digits after the point that each float needs, clipped."""

    def cells(outputs: Array) -> NDArray[np.int64]:
        mantissa, exponent = np.frexp(pick(outputs))
        digits = np.ldexp(mantissa, 53).astype(np.int64)
        lowest = np.log2(np.maximum(digits & -digits, 1)).astype(np.int64)
        needed = np.where(digits == 0, _DIGITS[0], 53 - exponent - lowest)
        return np.clip(needed, *_DIGITS).astype(np.int64) - _DIGITS[0]

    return cells
