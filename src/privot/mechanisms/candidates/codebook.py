r"""Seeded candidates: a report names a public random direction near the record (PrivUnit, compressed).

A 64-bit seed expands into $K = RD$ candidates, the rows of R blocks

$$ \tfrac1D H S_2 H S_1 , \qquad H_{ij} = (−1)^{|i ∧ j|} , $$

with H the Hadamard matrix of size D, a power of two ($|i ∧ j|$ counts the bits that i and j share), and
$S_1, S_2$ diagonal matrices of signs. Rows of a block are orthonormal, and nearly uniform on the
sphere. Compared with uniform directions, they lose less than 0.1 % of the gain (see below) for records
of many numbers, and 0.3 to 0.7 % for records of only two (`docs/results/candidates.md`). Two transforms
compute all D inner products of a block with a vector, or one row. Seeds are published, not secret.

**From seed to signs**, as a specification for other implementations. The i-th word (i = 0, 1, …) of a
seed s is that of SplitMix64: with all arithmetic modulo $2^{64}$,

    z = s + (i + 1) · 0x9E3779B97F4A7C15
    z = (z ⊕ (z ≫ 30)) · 0xBF58476D1CE4E5B9
    z = (z ⊕ (z ≫ 27)) · 0x94D049BB133111EB
    word = z ⊕ (z ≫ 31)

Each diagonal takes D/64 words. The words of block r begin at word $2rD/64$, first those of $S_1$, then
those of $S_2$. The sign of coordinate i is bit i mod 64 of word ⌊i/64⌋ of the diagonal, where bit 0 is
the least significant, and a set bit is the sign −1. Candidate j is row j mod D of block ⌊j/D⌋.

Transforms are products with two Hadamard matrices of about $\sqrt D$ rows each. A matrix library
computes these faster than the usual butterflies.

**The gain.** Given a unit vector x, the mean of the reported candidate $Y_j$ is $(g / \sqrt D)\, x$. The
larger the gain g, the fewer reports estimate a mean. Scores $\sqrt D ⟨x, Y_j⟩$ of random directions are
about normal. If the scores above t, a share Q(t) of all, count as close and are $e^ε$ times likelier,
then

$$ g(t) = \frac{φ(t) (e^ε − 1)}{Q(t) e^ε + 1 − Q(t)} , $$

and the largest g(t) is the best that ε-local privacy allows, up to terms of lower order (PrivUnit,
and its optimality: Asi, Feldman, Talwar 2022).

Let w of K candidates be close, and reported with probability a each, all others with probability b each.
With m the mean of the w largest scores, $g = w (a − b) m$. A candidate whose score exceeds each other
score with probability p is among the w with probability $P(\mathrm{Bin}(K − 1, 1 − p) < w)$, so m
follows by quadrature. Rows of one block are a rotation of the unit vectors, so their scores have exactly
the law of a normal vector divided by its length. Scores of several blocks are treated as independent.

References:
    Bhowmick, Duchi, Freudiger, Kapoor, Rogers, *Protection against reconstruction and its applications
    in private federated learning* (2018); Asi, Feldman, Talwar, *Optimal algorithms for mean estimation
    under local differential privacy* (2022); Steele, Lea, Flood, *Fast splittable pseudorandom number
    generators* (2014); Ailon, Chazelle, *The fast Johnson–Lindenstrauss transform and approximate
    nearest neighbors* (2009).
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError, hold_count
from privot.mechanisms import samplers
from privot.privacy.distributed import ReportLaw
from privot.privacy.rounding import require_epsilon
from privot.schema.columns.identifier import Words, mix_words
from privot.schema.domains import Array

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]

SMALLEST_DIMENSION, LARGEST_DIMENSION = 2**8, 2**16
MOST_CANDIDATES = 2**20

_STEP = np.uint64(0x9E3779B97F4A7C15)  # of SplitMix64
# Scores are compared as 16-bit integers, 2^11 to one standard deviation.
_SCORE_STEPS = 2**11
_MIN_SCORE, _MAX_SCORE = -(2**15), 2**15 - 1
_FEATURE_STEPS = np.float32(2**20)  # records are rounded to multiples of 2^−20
# The number of candidates gives four close ones, but is at most 2^17, rounded up to whole blocks.
_WANTED_CLOSEST, _MOST_WANTED = 4, 2**17
_CHUNK = 2**17  # scores that are computed at once
_NODES = 2**15 + 1  # number of points of a quadrature


def seed_words(seeds: Words, first: NDArray[np.int64] | int, count: int) -> Words:
    """Return words `first` (n,) to `first` + `count` − 1 of every seed (n,): (n, count).

    >>> [f"{word:016x}" for word in seed_words(np.zeros(1, np.uint64), 0, 2)[0]]
    ['e220a8397b1dcdaf', '6e789e6aa1b965f4']
    """
    number = np.asarray(first, np.uint64)[..., None] + np.arange(1, count + 1, dtype=np.uint64)
    return mix_words(np.asarray(seeds, np.uint64)[:, None] + number.astype(np.uint64) * _STEP)


@lru_cache(maxsize=32)
def hadamard(size: int) -> Floats:
    """Return the Hadamard matrix of a size that is a power of two."""
    matrix = scipy.linalg.hadamard(size, np.float32)
    matrix.setflags(write=False)
    return matrix


def _factors(size: int) -> tuple[Floats, Floats]:
    """Return two Hadamard matrices, of about √size rows, whose Kronecker product has this size."""
    left = 1 << (size.bit_length() - 1) // 2
    return hadamard(left), hadamard(size // left)


def transform(x: Floats) -> Floats:
    """Return H x for each row x (n, D); the order of summation does not depend on the other rows."""
    left, right = _factors(x.shape[1])
    return np.matmul(left, np.matmul(x.reshape(-1, len(left), len(right)), right)).reshape(x.shape)


@dataclass(frozen=True)
class Codebook:
    """Map from seeds to candidates: K = RD unit vectors of D coordinates for each seed.

    Arguments:
        dimension: Number D of coordinates.
        blocks: Number R of blocks.

    Examples:
        >>> codebook = Codebook(dimension=256, blocks=2)
        >>> rows = codebook.rows(np.full(512, 7, np.uint64), np.arange(512))
        >>> bool(np.allclose(rows[:256] @ rows[:256].T, np.eye(256), atol=1e-6))
        True
    """

    dimension: int
    blocks: int

    def __post_init__(self) -> None:
        hold_count(self, "dimension", LARGEST_DIMENSION, "a power of two", SMALLEST_DIMENSION)
        if self.dimension & (self.dimension - 1):
            raise PrivotError(f"dimension is {self.dimension}: give a power of two")
        hold_count(self, "blocks", MOST_CANDIDATES // self.dimension)

    @property
    def num_candidates(self) -> int:
        """Number K = RD of candidates of a seed."""
        return self.blocks * self.dimension

    def products(self, seeds: Words, x: Floats) -> Floats:
        """Return inner products (n, K) of vectors (n, D) with all candidates of their seeds (n,)."""
        size = self.dimension
        out = np.empty((len(x), self.blocks, size), np.float32)
        for block in range(self.blocks):
            flips = self._flips(seeds, block)
            out[:, block] = transform(_flip(transform(_flip(x, flips[:, 0])), flips[:, 1]))
        out *= np.float32(1 / size)
        return out.reshape(len(x), -1)

    def rows(self, seeds: Words, indices: NDArray[np.integer]) -> Floats:
        """Return the candidates (n, D) of seeds (n,) and their indices (n,), from 0 to K − 1."""
        size = self.dimension
        block, row = np.divmod(np.asarray(indices, np.int64), size)
        flips = self._flips(seeds, block)
        # A row of H is the Kronecker product of two rows of its factors.
        left, right = _factors(size)
        high, low = np.divmod(row, len(right))
        hadamard_rows = (left[high][:, :, None] * right[low][:, None, :]).reshape(len(row), size)
        candidates = _flip(transform(_flip(hadamard_rows, flips[:, 1])), flips[:, 0])
        candidates *= np.float32(1 / size)
        return candidates

    def _flips(self, seeds: Words, block: NDArray[np.int64] | int) -> NDArray[np.uint32]:
        """Return the diagonals S_1, S_2 (n, 2, D) of a block, as sign bits of 32-bit floats."""
        num_words = self.dimension // 32  # of both diagonals
        words = seed_words(seeds, np.asarray(block) * num_words, num_words)
        octets = words.astype("<u8", copy=False).view(np.uint8)
        flips = np.unpackbits(octets, axis=1, bitorder="little").astype(np.uint32)
        flips <<= np.uint32(31)
        return flips.reshape(len(words), 2, self.dimension)


def _flip(x: Floats, flips: NDArray[np.uint32]) -> Floats:
    """Change the sign of `x` where `flips` has the sign bit."""
    return (np.ascontiguousarray(x).view(np.uint32) ^ flips).view(np.float32)


def best_close_share(epsilon: float) -> float:
    """Return the share Q(t) of close candidates that maximizes g(t) = φ(t) / (Q(t) + 1/(e^ε − 1))."""
    constant = math.exp(-epsilon) / -math.expm1(-epsilon)  # 1/(e^ε − 1), without overflow
    grid = np.linspace(0.0, 9.0, 2**16 + 1)
    share = scipy.special.ndtr(-grid)
    return float(share[(np.exp(-(grid**2) / 2) / (share + constant)).argmax()])


def mean_of_closest(size: int, blocks: int, closest: int) -> float:
    """Return the mean m of the `closest` largest scores of `blocks` blocks of dimension `size`."""
    grid = np.linspace(-9.0, 9.0, _NODES)
    if blocks == 1:
        density = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
        below = scipy.special.ndtr(grid)
        # Divide by the mean length of a normal vector, in units of √D.
        log_ratio = scipy.special.gammaln(size / 2) - scipy.special.gammaln((size + 1) / 2)
        density *= math.exp(log_ratio) * math.sqrt(size / 2)
    else:
        density, below = score_law(size, grid)
    total = blocks * size
    mean = (grid * density * closest_probability(below, total, closest)).sum() * (grid[1] - grid[0])
    return float(mean) * total / closest


def closest_probability(below: Array, total: int, closest: int) -> Array:
    """Return P(Bin(K − 1, 1 − p) < w) (see the module), with K = `total`, p = `below`, w = `closest`."""
    return np.asarray(scipy.special.betainc(total - closest, closest, below))


def score_law(size: int, scores: Array) -> tuple[Array, Array]:
    """Return the density and distribution function, at `scores`, of √D times ⟨x, a random direction⟩."""
    square = np.minimum(scores**2 / size, 1.0)
    below = (1 + np.sign(scores) * scipy.special.betainc(0.5, (size - 1) / 2, square)) / 2
    log_ratio = scipy.special.gammaln(size / 2) - scipy.special.gammaln((size - 1) / 2)
    density = math.exp(log_ratio) * (1 - square) ** ((size - 3) / 2) / math.sqrt(math.pi * size)
    return density, below


@dataclass(frozen=True)
class ClosestCandidates:
    r"""Mechanism for vectors of length at most 1: a report (seed, index) names a likely close candidate.

    The device draws a fresh **public** seed s, which expands into unit vectors $Y_1 … Y_K$. It computes
    the scores $\sqrt D ⟨x, Y_j⟩$ of its record x. With T(x, s) the set of the w candidates with the
    largest scores (ties by index), it sends (s, j) with the probability

    $$ P(j | x, s) = a \text{ if } j ∈ T(x, s), \text{ else } b, \quad a w + b (K − w) = 1, \; a ≤ e^ε b
    . $$

    **Privacy.** Adjacency: any two records. The seed is drawn before the record is read, and
    independently of it. Given s, the probability of every j is a or b for all x. So for all x, x′
    and every report, $P(s, j | x) / P(s, j | x′) ∈ \{a/b, 1, b/a\}$ is at most $e^ε$. The report is
    ε-private **for any score**, for records of any length, and for any rounding of the score, which
    affects utility only. There is no sensitivity, no diameter, no grid.

    *Integers.* A 64-bit word below $L = ⌊2^{64} (K−w) / (e^ε w + K−w)⌋ + 1$ gives a uniform one of the
    others, any other word one of the closest (`words_outside`). Two candidates are drawn for every
    record.

    *Who sees what, and what else depends on the record.* Seed and index leave the device. The time does
    not depend on the record: scores are sums of equally many terms, without a branch; features are
    rounded to multiples of $2^{−20}$, so that no sum is a slow subnormal number; sixteen counts find the
    w largest scores. A vector that is not finite is refused, so records must be projected first, as
    `privot.randomizer.reports.candidates` does.

    **Estimate of a mean.** The mean of $Y_j$ given x is $(g/\sqrt D)\, x$, with g the *gain*, so

    $$ \hat{\mathbb E} x = \frac{\sqrt D}{g n} \sum_i Y_{j_i}^{(s_i)} $$

    is unbiased, with standard deviation $1/(g \sqrt n)$ in every coordinate. The largest gain is .79 at
    ε = 2, 1.85 at 5, and 3.26 at 10.

    **The likelihood** of one report, averaged over the other candidates, is a smooth function of the
    reported candidate's score u. Each other candidate has a higher score with a known probability
    $\bar F(u)$, so

    $$ f(y | x) = b + (a − b)\, P\big(\mathrm{Bin}(K−1, \bar F(u)) < w\big) . $$

    References:
        Feldman, Talwar, *Lossless compression of efficient private local randomizers* (2021); Shah,
        Chen, Ballé, Kairouz, Theis, *Optimal compression of locally differentially private mechanisms*
        (2022); Isik, Chen, Özgür, Weissman, No, *Exact optimality of communication-privacy-utility
        tradeoffs in distributed mean estimation* (2023).

    Arguments:
        epsilon: Privacy loss of a report.
        codebook: Map from seeds to candidates.
        closest: Number w of candidates that count as close.

    Examples:
        >>> mechanism = ClosestCandidates.for_dimension(100, epsilon=4.0)
        >>> mechanism.codebook, mechanism.closest
        (Codebook(dimension=256, blocks=1), 17)
        >>> seeds, indices = mechanism.privatize(np.full((1000, 100), 0.1))
        >>> mean, stddev = mechanism.estimate_mean(seeds, indices)
        >>> bool(np.abs(mean[:100] - 0.1).max() < 5 * stddev), round(stddev, 3)
        (True, 0.021)
    """

    epsilon: float
    codebook: Codebook
    closest: int

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        hold_count(self, "closest", self.codebook.num_candidates // 2)

    @classmethod
    def for_dimension(cls, dimension: int, epsilon: float) -> Self:
        """Return the mechanism for vectors of `dimension` numbers, with nearly the largest gain.

        Raises:
            PrivotError: if the dimension is not from 1 to 65 536, or ε is not positive.
        """
        require_epsilon(epsilon)
        if not 1 <= dimension <= LARGEST_DIMENSION:
            raise PrivotError(
                f"dimension is {dimension:,}: give 1 to {LARGEST_DIMENSION:,} numbers"
            )
        size = max(SMALLEST_DIMENSION, 1 << (dimension - 1).bit_length())
        share = best_close_share(epsilon)
        blocks = math.ceil(min(_WANTED_CLOSEST / share, _MOST_WANTED) / size)
        codebook = Codebook(size, blocks)
        return cls(epsilon, codebook, max(1, round(codebook.num_candidates * share)))

    @cached_property
    def words(self) -> tuple[int, int]:
        """Numbers of 64-bit words that lead to a close candidate, and to another one."""
        rest = self.codebook.num_candidates - self.closest
        outside = samplers.words_outside(self.epsilon, self.closest, rest, rest)
        return samplers.WORDS - outside, outside

    @property
    def probabilities(self) -> tuple[float, float]:
        """Probabilities a and b of one of the closest candidates, and of one other."""
        inside, outside = self.words
        rest = self.codebook.num_candidates - self.closest
        return inside / samplers.WORDS / self.closest, outside / samplers.WORDS / rest

    @property
    def report_law(self) -> ReportLaw:
        """Overlap of the laws of reports, given the seed: the closest candidates are likelier."""
        return ReportLaw.of_sets(self.epsilon, self.closest, self.codebook.num_candidates)

    def privatize(self, x: NDArray[np.floating]) -> tuple[Words, NDArray[np.uint32]]:
        """Draw reports of vectors (n, d), d ≤ D: seeds (n,) and indices (n,).

        Raises:
            PrivotError: if a vector has a number that is not finite, or too many.
        """
        count, size = len(x), self.codebook.dimension
        if x.ndim != 2 or x.shape[1] > size or not np.isfinite(x).all():
            raise PrivotError(f"x {x.shape} is refused: give rows of at most {size} finite numbers")
        seeds, words = samplers.random_words(count), samplers.random_words(count)
        close_rank = samplers.uniforms_below(self.closest, count)
        other_rank = samplers.uniforms_below(self.codebook.num_candidates - self.closest, count)
        indices = np.empty(count, np.uint32)
        for rows in self._chunks(count):
            closest = self.closest_indices(seeds[rows], x[rows])
            close = closest[np.arange(len(closest)), close_rank[rows]]
            other = samplers.skip_taken(other_rank[rows], closest)
            report_close = words[rows] >= np.uint64(self.words[1])
            indices[rows] = np.where(report_close, close, other)
        return seeds, indices

    def closest_indices(self, seeds: Words, x: NDArray[np.floating]) -> Indices:
        """Return the increasing indices (n, w) of the closest candidates of vectors (n, d), d ≤ D."""
        padded = np.zeros((len(x), self.codebook.dimension), np.float32)
        padded[:, : x.shape[1]] = x
        padded = np.rint(padded * _FEATURE_STEPS) / _FEATURE_STEPS
        scores = self.codebook.products(seeds, padded)
        scores *= np.float32(_SCORE_STEPS * math.sqrt(self.codebook.dimension))
        np.clip(np.rint(scores, out=scores), _MIN_SCORE, _MAX_SCORE, out=scores)
        return _largest(scores.astype(np.int16), self.closest)

    def probability_cells(
        self, seeds: Words, indices: NDArray[np.integer], x: NDArray[np.floating]
    ) -> tuple[Array, Array]:
        """Return cells (n, 5), as in `Mechanism`, of the seed's four 16-bit parts and the index."""
        seed_parts = seeds.astype(">u8").view(">u2").reshape(len(seeds), 4).astype(np.float64)
        inside, outside = self.probabilities
        low, high = np.empty(len(seeds)), np.empty(len(seeds))
        for rows in self._chunks(len(seeds)):
            index = np.asarray(indices, np.int64)[rows, None]
            closest = self.closest_indices(seeds[rows], x[rows])
            close, before = (closest == index).any(axis=1), (closest < index).sum(axis=1)
            rank = np.where(close, before, index[:, 0] - before)
            probability = np.where(close, inside, outside)
            start = np.where(close, 0.0, self.words[0] / samplers.WORDS)
            low[rows] = start + rank * probability
            high[rows] = start + (rank + 1) * probability
        seed_low, seed_high = seed_parts / 2**16, (seed_parts + 1) / 2**16
        return np.column_stack([seed_low, low]), np.column_stack([seed_high, high])

    def log_ratio(
        self,
        seeds: Words,
        indices: NDArray[np.integer],
        x: NDArray[np.floating],
        other: NDArray[np.floating],
    ) -> Array:
        """Evaluate $\\ln P(s, j | x) / P(s, j | x′)$ of reports, for vectors x and x′ (d,)."""
        inside, outside = np.log(self.probabilities)
        close = np.empty((2, len(seeds)), bool)
        for rows in self._chunks(len(seeds)):
            index = np.asarray(indices)[rows, None]
            for row, vector in enumerate((x, other)):
                vectors = np.broadcast_to(vector, (len(index), len(vector)))
                closest = self.closest_indices(seeds[rows], vectors)
                close[row, rows] = (closest == index).any(axis=1)
        return (close[0].astype(np.float64) - close[1]) * (inside - outside)

    def estimate_mean(self, seeds: Words, indices: NDArray[np.integer]) -> tuple[Array, float]:
        """Estimate the mean (D,) of records, unbiased but for the gain's error; with its deviation."""
        total = np.zeros(self.codebook.dimension)
        for rows in self._chunks(len(seeds)):
            total += self.codebook.rows(seeds[rows], indices[rows]).sum(axis=0, dtype=np.float64)
        root, count = math.sqrt(self.codebook.dimension), max(1, len(seeds))
        return total * (root / (self.gain * count)), 1 / (self.gain * math.sqrt(count))

    @cached_property
    def gain(self) -> float:
        """Gain g: the mean of a reported candidate is g/√D times the record."""
        inside, outside = self.probabilities
        mean_score = mean_of_closest(self.codebook.dimension, self.codebook.blocks, self.closest)
        return mean_score * self.closest * (inside - outside)

    def log_likelihood(self, products: NDArray[np.floating]) -> Array:
        """Evaluate $\\ln K f(y | x)$ for inner products (…) of records and reported candidates."""
        inside, outside = (p * self.codebook.num_candidates for p in self.probabilities)
        scores = np.asarray(products, np.float64) * math.sqrt(self.codebook.dimension)
        _, below = score_law(self.codebook.dimension, scores)
        close = closest_probability(below, self.codebook.num_candidates, self.closest)
        return np.log(outside + (inside - outside) * close)

    def _chunks(self, count: int) -> list[slice]:
        """Return slices of `count` rows that are short enough to bound the memory of their scores."""
        rows = max(1, _CHUNK // self.codebook.num_candidates)
        return [slice(start, start + rows) for start in range(0, count, rows)]


def _largest(keys: NDArray[np.int16], count: int) -> Indices:
    """Return increasing indices (n, count) of the `count` largest of each row (n, K), ties by index."""
    # Search the bits of each row's `count`-th largest key: the largest threshold that `count` keys
    # reach.
    thresholds = np.full((len(keys), 1), _MIN_SCORE, np.int32)
    for bit in range(15, -1, -1):
        trial = thresholds + (1 << bit)
        enough = _count(keys >= trial.astype(np.int16)) >= count
        thresholds[enough] = trial[enough]
    rows, indices = np.nonzero(keys >= thresholds)
    tied = keys[rows, indices] == thresholds[rows, 0]
    # Of the keys that equal a row's threshold, the last `too_many` are left out.
    too_many = np.bincount(rows, minlength=len(keys)) - count
    tied_until = np.cumsum(np.bincount(rows[tied], minlength=len(keys)))
    tied_after = tied_until[rows] - np.cumsum(tied)
    return indices[~tied | (tied_after >= too_many[rows])].reshape(len(keys), count)


def _count(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the true values of each row (n, K); K is a multiple of 256."""
    # A word adds eight truth values at once, and no byte of a sum of 32 words overflows.
    words = mask.view(np.uint64).reshape(len(mask), -1, 32)
    return words.sum(axis=2).view(np.uint8).sum(axis=1, dtype=np.int64)
