r"""The closest candidates: a report names one of K public directions, e^ε times likelier a close one.

A record is a vector x of length at most 1. The device draws a fresh **public** seed s, which expands
into unit vectors $Y_1 … Y_K$ (`privot.mechanisms.candidates.codebook`), computes the scores
$⟨x, Y_j⟩$, takes the set T(x, s) of the w candidates with the largest (ties by index), and sends (s, j),

$$ P(j | x, s) = a \text{ if } j ∈ T(x, s), \text{ else } b, \quad a w + b (K − w) = 1, \; a ≤ e^ε b . $$

**Privacy.** Adjacency: any two records. The seed is drawn before the record is looked at, and
independently of it. Given s, the probability of every j is a or b, whatever x is. So for all x, x′ and
every report, $P(s, j | x) / P(s, j | x′) ∈ \{a/b, 1, b/a\}$, which $e^ε$ bounds: the report is ε-private
**for any score**, however far out the records are, and however badly its floating point is rounded.
There is no sensitivity, no diameter, no grid. The score decides what the report is worth, nothing else.

*In integers only.* With $L = ⌊2^{64} (K−w) / (e^ε w + K−w)⌋ + 1$, a 64-bit word below L sends the
report to one of the K − w others, uniformly, any other word to one of the w closest: $a/b ≤ e^ε$
(`words_outside`). All of it is drawn for every record, inside and outside.

*Who sees what, and what else depends on the record.* Seed and index leave the device. Time: the scores
are sums of as many terms, without a branch; features are rounded to multiples of $2^{−20}$, so that no
sum is subnormal, which some processors are slow at; the w largest are found by sixteen counts, whatever
they are. A vector that is not finite is refused, which whoever makes vectors of records must not let
happen (`privot.release.reports.candidates` projects them first).

**What it tells.** The mean of $Y_j$, given x, is $(g/\sqrt D)\, x$, g being the *gain*, so that

$$ \hat{\mathbb E} x = \frac{\sqrt D}{g n} \sum_i Y_{j_i}^{(s_i)} $$

is unbiased, with standard deviation $1/(g \sqrt n)$ in every coordinate. Scores of random directions are
normal, of variance 1/D; with w of K chosen, $w/K → Q(t)$, g is at most

$$ \max_t \frac{φ(t) (e^ε − 1)}{Q(t) e^ε + 1 − Q(t)} $$

(3.26 at ε = 10, 1.85 at 5, .79 at 2), which is the best that ε-local privacy allows, up to terms of
lower order (PrivUnit, and its optimality: Asi, Feldman, Talwar 2022). `gain` is that of the K at hand
with w chosen, by quadrature: of one block, whose scores are a normal vector over its length, exactly,
and of several as of independent directions. What sign-flipped transforms lack in randomness costs below
0.1 % of it for records of many numbers, and 0.3 to 0.7 % for those of only two (measured:
`docs/results/candidates.md`).

**The likelihood** of one report, when nothing is known of the other candidates, is a smooth function of
the score $u = ⟨x, Y_j⟩$ alone: each of the others beats it with a known probability $\bar F(u)$, so

$$ f(y | x) = b + (a − b)\, P\big(\mathrm{Bin}(K−1, \bar F(u)) < w\big) . $$

References:
    Bhowmick, Duchi, Freudiger, Kapoor, Rogers, *Protection against reconstruction and its applications
    in private federated learning* (2018), for PrivUnit; Asi, Feldman, Talwar, *Optimal algorithms for
    mean estimation under local differential privacy* (2022); Feldman, Talwar, *Lossless compression of
    efficient private local randomizers* (2021); Shah, Chen, Ballé, Kairouz, Theis, *Optimal compression
    of locally differentially private mechanisms* (2022); Isik, Chen, Özgür, Weissman, No, *Exact
    optimality of communication-privacy-utility tradeoffs in distributed mean estimation* (2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, optimize, special

from privot.errors import PrivotError
from privot.mechanisms.candidates.codebook import (
    LARGEST_DIMENSION,
    SMALLEST_DIMENSION,
    Codebook,
    Words,
)
from privot.mechanisms.mechanism import require_epsilon
from privot.mechanisms.samplers.entropy import WORDS, random_words, uniforms_below, words_outside
from privot.schema import Array

Indices = NDArray[np.int64]

# Scores are compared as 16-bit integers, 2^11 to one standard deviation.
_STEPS = 2**11
_LOWEST, _HIGHEST = -(2**15), 2**15 - 1
_FEATURE_STEPS = np.float32(2**20)
_FEWEST_CHOSEN, _MOST_BLOCKS_FOR_LUCK = 4, 2**17
_NUMBERS_AT_ONCE = 2**17
_PLACES = 2**15 + 1  # of a quadrature


@dataclass(frozen=True)
class ClosestCandidates:
    """Reports (seed, index) of vectors of length at most 1, which name a close candidate more often.

    Arguments:
        epsilon: Privacy loss of a report.
        codebook: What seeds expand into.
        closest: w, how many candidates count as close.

    Examples:
        >>> mechanism = ClosestCandidates.for_dimension(100, epsilon=4.0)
        >>> mechanism.codebook, mechanism.closest
        (Codebook(dimension=256, blocks=1), 17)
        >>> seeds, indices = mechanism.privatize(np.full((1000, 100), 0.1))
        >>> mean, stddev = mechanism.moments(seeds, indices)
        >>> bool(np.abs(mean[:100] - 0.1).max() < 5 * stddev), round(stddev, 3)
        (True, 0.021)
    """

    epsilon: float
    codebook: Codebook
    closest: int

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        most = self.codebook.num_candidates // 2
        if type(self.closest) is not int or not 1 <= self.closest <= most:
            raise PrivotError(f"closest is {self.closest!r}: give an integer from 1 to {most}")

    @classmethod
    def for_dimension(cls, dimension: int, epsilon: float) -> Self:
        """The best one for vectors of a dimension, of no more candidates than pay."""
        require_epsilon(epsilon)
        if not 1 <= dimension <= LARGEST_DIMENSION:
            raise PrivotError(
                f"a vector of {dimension:,} numbers is too long for a report: give at most "
                f"{LARGEST_DIMENSION:,}"
            )
        size = max(SMALLEST_DIMENSION, 1 << (dimension - 1).bit_length())
        share = best_share(epsilon)
        blocks = math.ceil(min(_FEWEST_CHOSEN / share, _MOST_BLOCKS_FOR_LUCK) / size)
        codebook = Codebook(size, blocks)
        return cls(epsilon, codebook, max(1, round(codebook.num_candidates * share)))

    @cached_property
    def words(self) -> tuple[int, int]:
        """How many of the 2^64 words lead to a close candidate, and to another."""
        rest = self.codebook.num_candidates - self.closest
        outside = words_outside(self.epsilon, self.closest, rest, rest)
        return WORDS - outside, outside

    @property
    def probabilities(self) -> tuple[float, float]:
        """P(one given candidate is reported) if it is among the closest, and if it is not."""
        inside, outside = self.words
        rest = self.codebook.num_candidates - self.closest
        return inside / WORDS / self.closest, outside / WORDS / rest

    def privatize(self, x: NDArray[np.floating]) -> tuple[Words, NDArray[np.uint32]]:
        """Seeds (n,) and indices (n,) of fresh reports of vectors (n, d), d ≤ D.

        Raises:
            PrivotError: if a vector has a number that is not finite, or too many.
        """
        count, size = len(x), self.codebook.dimension
        if x.ndim != 2 or x.shape[1] > size or not np.isfinite(x).all():
            raise PrivotError(f"x has shape {x.shape} or is not finite: give {size} finite numbers")
        seeds, coins = random_words(count), random_words(count)
        close = uniforms_below(self.closest, count)
        other = uniforms_below(self.codebook.num_candidates - self.closest, count)
        indices = np.empty(count, np.uint32)
        for rows in self._some(count):
            chosen = self.chosen(seeds[rows], x[rows])
            inside = chosen[np.arange(len(chosen)), close[rows]]
            outside = _skip(other[rows], chosen)
            near = coins[rows] >= np.uint64(self.words[1])
            indices[rows] = np.where(near, inside, outside)
        return seeds, indices

    def chosen(self, seeds: Words, x: NDArray[np.floating]) -> Indices:
        """The w closest candidates (n, w) of vectors (n, d), by increasing index."""
        padded = np.zeros((len(x), self.codebook.dimension), np.float32)
        padded[:, : x.shape[1]] = x
        padded = np.rint(padded * _FEATURE_STEPS) / _FEATURE_STEPS
        scores = self.codebook.products(seeds, padded)
        scores *= np.float32(_STEPS * math.sqrt(self.codebook.dimension))
        keys = np.clip(np.rint(scores, out=scores), _LOWEST, _HIGHEST, out=scores).astype(np.int16)
        return _largest(keys, self.closest)

    def moments(self, seeds: Words, indices: NDArray[np.integer]) -> tuple[Array, float]:
        """The mean (D,) of the records, without bias, and the standard deviation of each number."""
        total = np.zeros(self.codebook.dimension)
        for rows in self._some(len(seeds)):
            total += self.codebook.rows(seeds[rows], indices[rows]).sum(axis=0, dtype=np.float64)
        root, count = math.sqrt(self.codebook.dimension), max(1, len(seeds))
        return total * (root / (self.gain * count)), 1 / (self.gain * math.sqrt(count))

    @cached_property
    def gain(self) -> float:
        """g, of this many candidates in so many blocks: see the module."""
        size, grid = self.codebook.dimension, np.linspace(-9.0, 9.0, _PLACES)
        inside, outside = self.probabilities
        if self.codebook.blocks == 1:
            density = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
            beaten = special.ndtr(grid)
            # Over the mean length of a normal vector of D numbers.
            ratio = special.gammaln(size / 2) - special.gammaln((size + 1) / 2)
            factor = math.exp(ratio) * math.sqrt(size / 2)
        else:
            density, beaten, factor = *_on_sphere(size, grid), 1.0
        mean = integrate.trapezoid(grid * density * self._is_close(beaten), grid)
        return float(mean) * self.codebook.num_candidates * (inside - outside) * factor

    def log_likelihood(self, products: NDArray[np.floating]) -> Array:
        """$\\ln K f(y | x)$ of reports whose candidates have these inner products with the record."""
        size = self.codebook.dimension
        _, beaten = _on_sphere(size, np.asarray(products, np.float64) * math.sqrt(size))
        inside, outside = (p * self.codebook.num_candidates for p in self.probabilities)
        return np.log(outside + (inside - outside) * self._is_close(beaten))

    def _is_close(self, beaten: Array) -> Array:
        """P(a candidate that beats others with this probability is among the w closest of K)."""
        rest = self.codebook.num_candidates - self.closest
        return np.asarray(special.betainc(rest, self.closest, beaten))

    def _some(self, count: int) -> list[slice]:
        """Rows that are worked on together."""
        rows = max(1, _NUMBERS_AT_ONCE // self.codebook.num_candidates)
        return [slice(start, start + rows) for start in range(0, count, rows)]


def _on_sphere(size: int, scores: Array) -> tuple[Array, Array]:
    """Density and distribution function of √D times a coordinate of a random unit vector."""
    square = np.minimum(scores**2 / size, 1.0)
    beaten = (1 + np.sign(scores) * special.betainc(0.5, (size - 1) / 2, square)) / 2
    ratio = special.gammaln(size / 2) - special.gammaln((size - 1) / 2)
    density = math.exp(ratio) * (1 - square) ** ((size - 3) / 2) / math.sqrt(math.pi * size)
    return density, beaten


def best_share(epsilon: float) -> float:
    """The share Q(t) of candidates that should count as close.

    >>> round(best_share(5.0), 4)
    0.0321
    """
    odds = math.exp(-epsilon) / -math.expm1(-epsilon)

    def loss(t: float) -> float:
        return -math.exp(-t * t / 2) / (float(special.ndtr(-t)) + odds)

    found = optimize.minimize_scalar(loss, bounds=(0.0, 9.0), method="bounded")
    return float(special.ndtr(-found.x))


def _largest(keys: NDArray[np.int16], count: int) -> Indices:
    """Where the `count` largest of each row (n, K) are, ties by index: increasing indices (n, count)."""
    least = np.full((len(keys), 1), _LOWEST, np.int32)
    for bit in range(15, -1, -1):
        trial = least + (1 << bit)
        enough = _count(keys >= trial.astype(np.int16)) >= count
        least[enough] = trial[enough]
    found = np.empty((len(keys), count), np.int64)
    for row, (key, threshold) in enumerate(zip(keys, least[:, 0], strict=True)):
        places = np.flatnonzero(key >= threshold)
        tied = np.flatnonzero(key[places] == threshold)
        found[row] = np.delete(places, tied[len(tied) - (len(places) - count) :])
    return found


def _count(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many of each row (n, K) are true; K is a multiple of 256."""
    columns = mask.view(np.uint8).reshape(len(mask), -1, mask.shape[1] // 128)
    return columns.sum(axis=1, dtype=np.uint8).sum(axis=1, dtype=np.int64)


def _skip(ranks: Indices, taken: Indices) -> Indices:
    """The numbers of these ranks (n,) among those that are not `taken` (n, w), which increase."""
    before = taken - np.arange(taken.shape[1])
    return ranks + (before <= ranks[:, None]).sum(axis=1)
