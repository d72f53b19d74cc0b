r"""Empirical lower bounds on ε, and exact tests of uniformity, independence and repeated noise.

**Lower bounds on ε.** If M is (ε, δ)-DP, then for any two neighboring records x, x′ and any event S

$$ ε ≥ \ln \frac{P(M(x) ∈ S) − δ}{P(M(x′) ∈ S)} . $$

S is chosen by one half of the draws from M(x) and M(x′). The other half is counted, and bounds the two
probabilities by Clopper–Pearson (1934). Since S is independent of the counted draws, the bound holds
with the stated confidence for any choice of S. The error is divided equally among the two probabilities
of every ordered pair (Ding et al. 2018; Jagielski, Ullman, Oprea 2020).

**Events** are unions of cells, which belong to one of three families:

- *score*: bins of a scalar score, narrow in the two tails. The score is the output by default, and
  ideally its log-likelihood ratio.
- *values*: single outputs, if there are few.
- *granularity*: the number of binary digits after the point that the float needs. Noise that is drawn
  as a float and added to x reveals x (Mironov 2012), because 0 + noise takes values that 1 + noise
  cannot take. Bins of the outputs do not show this.

Unions are formed from the left, from the right, and by decreasing likelihood ratio of the cells.

**Gaussian noise** satisfies μ-Gaussian differential privacy: an event of probability p for one record
has at most probability $Φ(Φ^{−1}(p) + μ)$ for the other (Dong, Roth, Su 2022). So one event of
probability near one half gives a lower bound on μ. Counting cannot test a δ far below the inverse number
of draws, but it can test μ (Nasr et al. 2023).

**Tests of numbers that should be independent and uniform.** Rosenblatt's transform (1952) maps reports
to such numbers, so these tests apply to every distribution. Their **p-values** are valid for every
sample size: if the numbers are independent and uniform, a p-value is at most α with probability at most
α. The p-values of several statistics are combined by Bonferroni's correction.

- *uniformity*: the empirical distribution function, by the inequality of Dvoretzky, Kiefer and Wolfowitz
  (1956) with Massart's constant, $P(\sup |F_n − F| > t) ≤ 2 e^{−2nt^2}$; counts in equal bins, and in
  tails of mass $2^{−j}$, by the binomial distribution; and means of Legendre polynomials, which are the
  most powerful against a wrong scale or shift;
- *dependence* between numbers of one person, and between people a fixed number of rows apart: means
  of products $φ_i(u) φ_j(v)$ of linear and of quadratic Legendre polynomials. Quadratic ones detect
  noise whose sizes are equal and whose signs are independent.

For n independent X of mean 0, variance 1 and $|X| ≤ b$, Bernstein's inequality is
$P(|\sum X| ≥ t) ≤ 2 \exp(−t^2 / (2n + \tfrac23 b t))$.

**Repeats.** The test is whether two streams of reports (from different calls, threads or processes)
contain the same sequence. A report of probability p has a surprisal of $−\log_2 p$ bits. If streams are
independent, a given sequence of b bits occurs at a given place of another stream with probability
$2^{−b}$, and among N comparisons with probability at most $N 2^{−b}$. The compared sequences have at
least $\log_2 N + 40$ bits, so a single repeat refutes independence. If reports have almost no surprisal
(one of two answers, at a large ε), no sequence is long enough, and there is no test.

**Frequencies.** In a stream of n reports, the count of a report of probability p among the n − 1 others
is binomial. Its upper tail times n bounds the probability that any report is so frequent. The test
detects a small share of reports without noise, which would hardly change the distribution, as soon as a
few of them are equal. All reports must be of one record, so that equal noise gives equal reports.

**Privacy.** Audits use outputs for records that the caller invents, and no private data.

References:
    Rosenblatt, *Remarks on a multivariate transformation* (1952); Massart, *The tight constant in the
    Dvoretzky–Kiefer–Wolfowitz inequality* (1990); Neyman, *"Smooth test" for goodness of fit* (1937).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.privacy.rounding import require_delta
from privot.schema.columns.identifier import mix_words

# Tests of uniformity, independence and repeats.

Array = NDArray[np.float64]

_BINS = 256  # equal bins of (0, 1)
_DEGREES = (1, 2, 3, 4)  # degrees of Legendre polynomials
_LAGS = (1, 2, 3, 4, 5, 6, 7)  # distances of compared rows, besides powers of two from 8 on
_LINEAR, _QUADRATIC = np.sqrt(3.0), np.sqrt(5.0)  # largest values of the polynomials of degree 1, 2
_SPARE_BITS = 40  # surprisal of compared sequences beyond log₂ N bits
_KEY_BITS = 60.0  # largest surprisal used, because different reports may have equal 64-bit keys
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # of SplitMix64, as `mix_words` (Steele et al. 2014)


def bonferroni(p_values: Sequence[float]) -> float:
    """Return the p-value of the hypothesis that several hypotheses hold together; 1 if there is none."""
    return float(min(1.0, len(p_values) * min(p_values))) if p_values else 1.0


def uniformity(numbers: Array) -> float:
    """Return the p-value of the hypothesis that each column of numbers (n, m) is uniform.

    >>> rng = np.random.default_rng(0)
    >>> uniformity(rng.random((10_000, 2))) > 1e-3, uniformity(rng.random((10_000, 2)) ** 1.1) < 1e-6
    (True, True)
    """
    count, width = numbers.shape
    if numbers.size == 0:
        return 1.0
    bins = np.clip((numbers * _BINS).astype(np.int64), 0, _BINS - 1) + _BINS * np.arange(width)
    counts = np.bincount(bins.ravel(), minlength=_BINS * width).reshape(width, _BINS)
    steps = np.arange(1, _BINS + 1) / _BINS
    deviation = float(np.abs(np.cumsum(counts, axis=1) / count - steps).max())
    p_values = [
        width * 2 * np.exp(-2 * count * deviation**2),
        _binomial(counts, count, 1 / _BINS),
        bonferroni([*_polynomials(numbers)]),
        _tails(numbers),
    ]
    return bonferroni(p_values)


def dependence(numbers: Array, present: NDArray[np.bool_]) -> float:
    """Return the p-value of the hypothesis that the columns of numbers (n, m) are independent.

    Only numbers where `present` (n, m) is True are used.

    >>> rng = np.random.default_rng(0)
    >>> independent = rng.random((10_000, 3))
    >>> repeated, present = independent[:, [0, 1, 1]], np.ones(independent.shape, bool)
    >>> dependence(independent, present) > 1e-3, dependence(repeated, present) < 1e-6
    (True, True)
    """
    width = numbers.shape[1]
    if width < 2:
        return 1.0
    linear, quadratic = _scores(numbers, present)
    counts = present.astype(np.float64).T @ present  # rows with numbers in two columns
    off_diagonal = ~np.eye(width, dtype=bool)
    p_values = []
    for left, right, bound in (
        (linear, linear, _LINEAR**2),
        (quadratic, quadratic, _QUADRATIC**2),
        (linear, quadratic, _LINEAR * _QUADRATIC),
    ):
        p_values.append(_bernstein((left.T @ right)[off_diagonal], counts[off_diagonal], bound))
    return bonferroni(p_values)


def serial_dependence(numbers: Array, present: NDArray[np.bool_]) -> float:
    """Return the p-value of the hypothesis that rows of numbers (n, m) are independent.

    Rows at the distances `_LAGS`, and at powers of two, are compared where `present` (n, m) is True.

    >>> rng = np.random.default_rng(0)
    >>> shared = np.repeat(rng.random((2_000, 1)), 8, axis=0)
    >>> serial_dependence(shared, np.ones(shared.shape, bool)) < 1e-6
    True
    """
    count = len(numbers)
    linear, quadratic = _scores(numbers, present)
    powers = [2**j for j in range(3, max(3, count.bit_length() - 1))]
    p_values = []
    for lag in [lag for lag in (*_LAGS, *powers) if 2 * lag <= count]:
        # Rows are divided into blocks of length `lag`, so pairs that begin in even blocks share no row.
        odd = (np.arange(count - lag) // lag % 2).astype(np.float64)
        pairs = (present[:-lag] & present[lag:]).astype(np.float64)
        phases = [(phase, phase @ pairs) for phase in (odd, 1 - odd)]
        for scores, bound in ((linear, _LINEAR**2), (quadratic, _QUADRATIC**2)):
            products = scores[:-lag] * scores[lag:]
            for phase, counts in phases:
                p_values.append(_bernstein(phase @ products, counts, bound))
    return bonferroni(p_values)


def agreement(first: Array, second: Array, present: NDArray[np.bool_]) -> float:
    """Return the p-value of the hypothesis that samples (n, m) are independent where `present`."""
    products = _scores(first, present)[0] * _scores(second, present)[0]
    return _bernstein(products.sum(axis=0), present.sum(axis=0), _LINEAR**2)


def _scores(numbers: Array, present: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the normalized Legendre polynomials (n, m) of degrees 1 and 2; 0 where not present."""
    linear = np.where(present, _LINEAR * (2 * numbers - 1), 0.0)
    quadratic = np.where(present, _QUADRATIC * (6 * numbers * (numbers - 1) + 1), 0.0)
    return linear, quadratic


def _bernstein(sums: Array, counts: NDArray[Any], bound: float) -> float:
    """Return the p-value of the most extreme of `sums`, each of `counts` terms of size ≤ `bound`."""
    if sums.size == 0:
        return 1.0
    sums = np.abs(sums)
    exponent = sums**2 / np.maximum(2 * counts + 2 / 3 * bound * sums, 1e-300)
    return min(1.0, 2 * sums.size * float(np.exp(-exponent.max())))


def _polynomials(numbers: Array) -> Iterator[float]:
    """Yield the p-value of the mean of the normalized Legendre polynomial of each degree."""
    counts = np.full(numbers.shape[1], len(numbers))
    for degree in _DEGREES:
        sums = scipy.special.eval_sh_legendre(degree, numbers).sum(axis=0)
        bound = np.sqrt(2 * degree + 1)
        yield _bernstein(bound * sums, counts, bound)


def _tails(numbers: Array) -> float:
    """Return the p-value of the counts below 2^−j and above 1 − 2^−j, for j from 2 to log₂ n + 5."""
    count, width = numbers.shape
    powers = max(2, count.bit_length() + 4)
    edge = np.minimum(numbers, 1 - numbers)
    # The level of a number is the largest j with edge < 2^−j, or the highest level if the edge is 0.
    level = np.where(edge > 0, np.clip(-np.frexp(edge)[1], 0, powers), powers)
    # Numbers are counted by level, by half (below or above ½) and by column.
    cell = (2 * level + (numbers > 0.5)) * width + np.arange(width)
    counts = np.bincount(cell.ravel(), minlength=(powers + 1) * 2 * width).reshape(powers + 1, -1)
    in_tail = counts[::-1].cumsum(axis=0)[::-1]  # of this level or higher
    return bonferroni([_binomial(in_tail[j], count, 2.0**-j) for j in range(2, powers + 1)])


def _binomial(counts: NDArray[Any], draws: int, probability: float) -> float:
    """Return the p-value of the most extreme of `counts`, which are binomial."""
    least, most = int(counts.min()), int(counts.max())
    below = scipy.special.bdtr(least, draws, probability)
    above = scipy.special.bdtrc(most - 1, draws, probability) if most else 1.0
    return min(1.0, 2 * counts.size * float(min(below, above)))


@dataclass(frozen=True)
class Stream:
    """Reports in the order of their draws: hashes `keys` (n,) and surprisals `bits` (n,)."""

    keys: NDArray[np.uint64]
    bits: NDArray[np.float64]


def row_keys(values: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Return 64-bit hashes (n,) of the bits of rows (n, w) of 64-bit numbers."""
    keys = np.zeros(len(values), np.uint64)
    for column in np.ascontiguousarray(values).view(np.uint64).T:
        keys = mix_words(keys * _MULTIPLIER + column)
    return keys


def repeats(streams: Sequence[Stream]) -> float | None:
    """Return the p-value of the hypothesis that streams are independent, by their common sequences.

    It is None if no sequence can have enough bits.

    >>> rng = np.random.default_rng(0)
    >>> words = [rng.integers(0, 2**32, 100).astype(np.uint64) for _ in range(2)]
    >>> first, second = (Stream(word, np.full(100, 32.0)) for word in words)
    >>> shifted = Stream(np.roll(first.keys, 7), first.bits)
    >>> repeats([first, second]), repeats([first, second, shifted]) < 1e-9
    (1.0, True)
    """
    comparisons = sum(len(stream.keys) for stream in streams) ** 2
    required = np.log2(max(comparisons, 2)) + _SPARE_BITS
    bits = np.concatenate([stream.bits for stream in streams])
    mean = float(bits.mean()) if bits.size else 0.0
    length = 1
    while length * mean < 2 * required:  # so that most sequences have the required bits
        length *= 2
        if mean <= 0 or length > max(len(stream.keys) for stream in streams) // 2:
            return None
    seen: set[int] = set()
    for stream in streams:
        # Disjoint sequences of this stream are compared with all sequences of the streams before.
        whole = len(stream.keys) // length
        bits = stream.bits[: whole * length].reshape(whole, length).sum(axis=1)
        sequences = _sequence_keys(stream.keys, length)
        if not seen.isdisjoint(sequences[length * np.flatnonzero(bits >= required)].tolist()):
            return float(comparisons * 2.0**-required)
        seen.update(sequences.tolist())
    return 1.0


def most_common(stream: Stream) -> float:
    """Return the p-value of the hypothesis that no report is too frequent for its probability.

    >>> words = np.random.default_rng(0).integers(0, 2**32, 10_000).astype(np.uint64)
    >>> repeated = np.where(np.arange(10_000) % 2_000, words, words[0])
    >>> most_common(Stream(words, np.full(10_000, 32.0))) > 1e-3
    True
    >>> most_common(Stream(repeated, np.full(10_000, 32.0))) < 1e-9
    True
    """
    _, first, counts = np.unique(stream.keys, return_index=True, return_counts=True)
    repeated = counts > 1
    if not repeated.any():
        return 1.0
    probability = 2.0 ** -np.minimum(stream.bits[first[repeated]], _KEY_BITS)
    draws = len(stream.keys)
    tails = scipy.special.bdtrc(counts[repeated] - 2, draws - 1, probability)
    return min(1.0, draws * float(tails.min()))


def _sequence_keys(keys: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
    """Return hashes of the sequences of `length` keys, a power of two, that begin at each key."""
    if len(keys) < length:
        return keys[:0]
    step = 1
    while step < length:
        keys = mix_words(keys[:-step] * _MULTIPLIER + keys[step:])
        step *= 2
    return keys


# Lower bounds on ε.

AnyArray = NDArray[Any]
Binning = Callable[[AnyArray], NDArray[np.int64]]  # from outputs to numbers of cells
Numbering = Callable[[AnyArray], AnyArray]  # from outputs (n, …) to numbers (n,)
Score = Callable[[AnyArray, Any, Any], AnyArray]  # (outputs, record, other record) to numbers (n,)

_MIN_DRAWS = 100
_MAX_VALUES = 1024  # most different outputs that are cells of the family *values*
_DIGITS = (-70, 130)  # numbers of binary digits after the point are clipped to this range


@dataclass(frozen=True)
class AuditResult:
    """Result of an audit: with `confidence`, the mechanism's ε at `delta` is ≥ `epsilon_lower`.

    `pair` is the index of the ordered pair (2i as given, 2i+1 swapped), `event` the family of the event
    that gives the bound, and `num_tested` the number of draws of each record that tested it.
    """

    epsilon_lower: float
    delta: float
    confidence: float
    pair: int
    event: str
    num_tested: int

    def refutes(self, epsilon: float) -> bool:
        """Return whether the bound refutes the claim of this ε at this δ."""
        return self.epsilon_lower > epsilon


def audit(
    randomize: Callable[[Any, int], AnyArray],
    pairs: Sequence[tuple[Any, Any]],
    *,
    num_draws: int,
    delta: float = 0.0,
    confidence: float = 0.999,
    score: Score | None = None,
) -> AuditResult:
    """Return a lower bound on the ε of `randomize`, from worst-case `pairs` of records.

    Arguments:
        randomize: `randomize(record, n)` returns n independent outputs, shape (n,) or (n, d).
        pairs: Neighboring records, as far apart as the domain allows; both orders are tried.
        num_draws: Draws of each record, half of them to choose the event and half to test it.
        delta: The δ of the claim.
        confidence: Least probability that the bound holds, in (0, 1).
        score: `score(outputs, record, other)` returns n numbers, larger where `record` is more
            likely, ideally the log-likelihood ratio; required for outputs of shape (n, d).

    >>> rng = np.random.default_rng(0)
    >>> flip = lambda bit, n: np.where(rng.random(n) < 0.75, bit, 1 - bit)
    >>> result = audit(flip, [(0, 1)], num_draws=200_000)
    >>> 1.05 < result.epsilon_lower < 1.0986  # log 3
    True

    Raises:
        PrivotError: if pairs is empty, num_draws < 100, confidence or δ out of range, or score missing.
    """
    require_delta(delta)
    if not pairs:
        raise PrivotError("pairs is empty: give at least one pair of neighboring records")
    require_audit(num_draws, confidence)
    error = (1 - confidence) / (4 * len(pairs))  # two bounds for each order of a pair
    tested = num_draws - num_draws // 2
    results = []
    for index, (first, second) in enumerate(pairs):
        outputs = [np.asarray(randomize(record, num_draws)) for record in (first, second)]
        for swapped, (record, other) in enumerate([(first, second), (second, first)]):
            numbering = None if score is None else _scored_by(score, record, other)
            drawn, others = outputs[swapped], outputs[1 - swapped]
            family, bound = _bound_epsilon(drawn, others, numbering, delta, error)
            position = 2 * index + swapped
            results.append(AuditResult(bound, delta, confidence, position, family, tested))
    return max(results, key=lambda result: result.epsilon_lower)


def require_audit(num_draws: int | None, confidence: float) -> None:
    """Raise PrivotError unless draws, if given, are at least 100, and 0 < confidence < 1."""
    if num_draws is not None and num_draws < _MIN_DRAWS:
        raise PrivotError(f"num_draws is {num_draws}: give at least {_MIN_DRAWS}")
    if not 0 < confidence < 1:
        raise PrivotError(f"confidence is {confidence!r}: give a number between 0 and 1")


def _scored_by(score: Score, record: Any, other: Any) -> Numbering:
    """Return the function from outputs to their scores for an ordered pair of records."""
    return lambda outputs: np.asarray(score(outputs, record, other), dtype=np.float64)


def gaussian_mu_lower(ratios: AnyArray, other_ratios: AnyArray, error: float) -> float:
    """Return a lower bound on μ that is wrong with probability at most `error`.

    The log-likelihood ratios (n,) are of outputs of a record and of another one. The event is a ratio
    above 0, whose probabilities with Gaussian noise are Φ(±μ/2).

    >>> rng = np.random.default_rng(0)
    >>> ratios = rng.normal(0.5, 1.0, 100_000), rng.normal(-0.5, 1.0, 100_000)
    >>> 0.95 < gaussian_mu_lower(*ratios, error=1e-3) < 1.0
    True
    """
    lower = _lower_bound((ratios > 0).sum(), len(ratios), error / 2)
    upper = _upper_bound((other_ratios > 0).sum(), len(other_ratios), error / 2)
    return max(0.0, float(scipy.special.ndtri(lower) - scipy.special.ndtri(upper)))


def _bound_epsilon(
    outputs: AnyArray, others: AnyArray, score: Numbering | None, delta: float, error: float
) -> tuple[str, float]:
    """Return the family of the best event and its bound on ε.

    `outputs` are of the record whose outputs have larger scores, `others` of the other record. `error`
    is the probability that one bound of a probability is wrong.
    """
    half = len(outputs) // 2
    family, event, binning, best = "none", None, None, -np.inf
    for name, cells_of in _event_families(outputs[:half], others[:half], score):
        for ranking in _rankings(cells_of(outputs[:half]), cells_of(others[:half])):
            hits, other_hits = np.cumsum(ranking.counts[:, ranking.order], axis=1)
            bounds = _epsilon_lower(hits, other_hits, ranking.draws, delta, error)
            last = int(np.argmax(bounds))
            if bounds[last] > best:
                family, binning, best = name, cells_of, bounds[last]
                event = ranking.order[: last + 1]
    if binning is None or event is None:
        return family, 0.0
    hits = np.isin(binning(outputs[half:]), event).sum()
    other_hits = np.isin(binning(others[half:]), event).sum()
    tested = _epsilon_lower(hits, other_hits, len(outputs) - half, delta, error)
    return family, max(0.0, float(tested))


class _Ranking(NamedTuple):
    """Order of the cells of a family; each event consists of the first cells of this order."""

    order: AnyArray  # (cells,), numbers of cells
    counts: AnyArray  # (2, cells), draws of the two records in each cell
    draws: int  # number of counted draws of each record


def _rankings(cells: AnyArray, other_cells: AnyArray) -> Iterator[_Ranking]:
    """Yield orders of cells from the left, from the right, and by decreasing likelihood ratio.

    The likelihood ratio is estimated on the first half of the draws, and the second half is counted,
    because counts of the same draws would overfit.
    """
    draws = len(cells)
    size = int(max(cells.max(), other_cells.max())) + 1

    def count(part: slice) -> AnyArray:
        by_record = [np.bincount(drawn[part], minlength=size) for drawn in (cells, other_cells)]
        return np.stack(by_record)

    ascending, counts = np.arange(size), count(slice(None))
    yield _Ranking(ascending, counts, draws)
    yield _Ranking(ascending[::-1], counts, draws)
    estimated = count(slice(0, draws // 2)) + 0.5  # no ratio is 0/0
    by_ratio = np.argsort(-estimated[0] / estimated[1], kind="stable")
    yield _Ranking(by_ratio, count(slice(draws // 2, None)), draws - draws // 2)


def _lower_bound(hits: AnyArray, draws: int, error: float) -> AnyArray:
    """Bound a probability from below (Clopper, Pearson), wrong with probability `error`."""
    # Arguments of betaincinv must be positive.
    lower = scipy.special.betaincinv(np.maximum(hits, 1), draws - hits + 1, error)
    return np.where(hits > 0, lower, 0.0)


def _upper_bound(hits: AnyArray, draws: int, error: float) -> AnyArray:
    """Bound a probability from above (Clopper, Pearson), wrong with probability `error`."""
    upper = scipy.special.betaincinv(hits + 1, np.maximum(draws - hits, 1), 1 - error)
    return np.where(hits < draws, upper, 1.0)


def _epsilon_lower(
    hits: AnyArray, other_hits: AnyArray, draws: int, delta: float, error: float
) -> AnyArray:
    """Return ln((lower bound of P − δ) / upper bound of P′); −∞ where the numerator is not positive."""
    excess = _lower_bound(hits, draws, error) - delta
    upper = _upper_bound(other_hits, draws, error)
    return np.where(excess > 0, np.log(np.maximum(excess, 1e-300) / upper), -np.inf)


def _event_families(
    outputs: AnyArray, others: AnyArray, score: Numbering | None
) -> Iterator[tuple[str, Binning]]:
    """Yield the name and the cells of each family, from the draws that choose the event."""
    if score is not None:
        yield "score", _score_bins(score, outputs, others)
    elif outputs.ndim > 1:
        raise PrivotError(
            f"outputs have shape {outputs.shape}: give score=, a number for each output, such as "
            "its log-likelihood ratio"
        )
    for column in range(outputs.shape[1] if outputs.ndim > 1 else 1):
        coordinate = _coordinate(column)
        if score is None:
            yield "score", _score_bins(coordinate, outputs, others)
        # If the first draws already have too many values, the others need not be sorted.
        if len(np.unique(coordinate(outputs[: 8 * _MAX_VALUES]))) <= _MAX_VALUES:
            values = np.unique(np.concatenate([coordinate(outputs), coordinate(others)]))
            if len(values) <= _MAX_VALUES:
                yield "values", _value_cells(coordinate, values)
        yield "granularity", _granularity(coordinate)


def _coordinate(column: int) -> Numbering:
    """Return the function from outputs (n,) or (n, d) to one coordinate (n,)."""
    return lambda outputs: np.asarray(outputs.reshape(len(outputs), -1)[:, column], np.float64)


def _score_bins(score: Numbering, outputs: AnyArray, others: AnyArray) -> Binning:
    """Return bins at quantiles of the two records' scores, geometrically narrower in the tails."""
    # The outermost bins have about 20 draws, because fewer would hardly bound a probability.
    tail = np.geomspace(min(0.4, 20 / len(outputs)), 0.5, 90)
    levels = np.concatenate([tail, 1 - tail])
    quantiles = [np.quantile(score(drawn), levels) for drawn in (outputs, others)]
    edges = np.unique(np.concatenate(quantiles))
    return lambda drawn: np.searchsorted(edges, score(drawn), side="right").astype(np.int64)


def _value_cells(coordinate: Numbering, values: AnyArray) -> Binning:
    """Return the function from outputs to their index in `values`; other values share one cell."""

    def cells(outputs: AnyArray) -> NDArray[np.int64]:
        numbers = coordinate(outputs)
        index = np.minimum(np.searchsorted(values, numbers), len(values) - 1)
        return np.where(values[index] == numbers, index, len(values)).astype(np.int64)

    return cells


def _granularity(coordinate: Numbering) -> Binning:
    """Return the function from outputs to the number of binary digits after the point, clipped."""

    def cells(outputs: AnyArray) -> NDArray[np.int64]:
        mantissa, exponent = np.frexp(coordinate(outputs))
        # An output is significand · 2^(exponent − 53).
        significand = np.ldexp(mantissa, 53).astype(np.int64)
        trailing_zeros = np.log2(np.maximum(significand & -significand, 1)).astype(np.int64)
        needed = np.where(significand == 0, _DIGITS[0], 53 - exponent - trailing_zeros)
        return np.clip(needed, *_DIGITS).astype(np.int64) - _DIGITS[0]

    return cells
