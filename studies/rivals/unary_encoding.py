r"""Optimized unary encoding: one noisy bit a category, for categories with many levels.

Bit $i$ of the report of category $v$ is 1 with probability $p = ½$ if $i = v$, else $q = 1/(e^ε + 1)$,
independently. Two records $v, v′$ differ in the laws of two bits, so

$$ \frac{f(y | v)}{f(y | v′)} ≤ \frac{p (1−q)}{q (1−p)} = \frac{1−q}{q} ≤ e^ε , $$

with equality in the first for $y_v = 1, y_{v′} = 0$. Of all such bits, these have the least variance
for a category that few people are in; it does not grow with their number $k$, as that of randomized
response does. `SubsetSelection`, which it is a rival of, says as much with a report of other size.
`mechanism_kinds` does not list it, so that nothing chooses it.

**In integers only.** With $L = ⌊2^{64}/(e^ε+1)⌋ + 1$, a bit is 1 if a 64-bit word is below $L$: $q =
L/2^{64}$ and $(1−q)/q = (2^{64}−L)/L ≤ e^ε$. A word's first byte is drawn for every bit, its other
seven only where the first equals that of $L$: the same comparison of a uniform word, with about
an eighth of the entropy.

**Who sees what.** All $k$ bits are drawn at $q$, whatever the record, and then one is overwritten by a
fair coin: the time depends on the noise (how many bytes tie) and on public numbers. Neighbors are any
two categories.

References:
    Wang, Blocki, Li, Jha, *Locally differentially private protocols for frequency estimation* (2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.mechanisms.frequency_oracles import FrequencyOracle, require_codes
from privot.mechanisms.samplers import WORDS, random_words, words_outside
from privot.privacy.rounding import require_epsilon
from privot.schema import Column
from privot.schema.domains import Array

_BLOCK_BITS = 2**20
_STANDING = 256  # bits that stand for all in an audit


@dataclass(frozen=True)
class UnaryEncoding(FrequencyOracle):
    """Report k bits: a fair coin at the true category, rare ones everywhere else.

    Examples:
        >>> mechanism = UnaryEncoding(num_categories=1000, epsilon=2.0)
        >>> true, other = mechanism.probabilities
        >>> true, round(other, 4)
        (0.5, 0.1192)
        >>> mechanism.privatize(np.array([7, 999])).shape
        (2, 1000)
    """

    kind: ClassVar[str] = "unary_encoding"

    num_categories: int
    epsilon: float

    support_size = None  # type: ignore[assignment]  # supports differ in size

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        if not isinstance(self.num_categories, int) or not 2 <= self.num_categories <= 2**24:
            raise PrivotError(
                f"num_categories is {self.num_categories!r}: give an integer from 2 to 2^24"
            )
        if self.epsilon < 2.0**-30:
            raise PrivotError(f"epsilon is {self.epsilon!r}: give at least 2^-30")

    @cached_property
    def _threshold(self) -> int:
        """The integer L: words that set the bit of another category."""
        return words_outside(self.epsilon, 1, 1, 1)

    @property
    def words(self) -> tuple[int, int]:
        """How many of the 2^64 words set the bit of the true category, and of any other."""
        return WORDS // 2, self._threshold

    @property
    def num_values(self) -> int:
        """Number of categories k."""
        return self.num_categories

    @property
    def likelihood_ratio(self) -> float:
        """p(1−q) / (q(1−p)), p = ½."""
        other = self.words[1]
        return (WORDS - other) / other

    def support(self, reports: NDArray[Any]) -> NDArray[np.int32]:
        """The categories whose bit is set, padded with −1 to the longest."""
        return codes_of_bits(reports)

    def impossible(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Supports other than increasing codes < k, padded with −1; of any size."""
        increasing = (np.diff(reports, axis=1) > 0) | (reports[:, 1:] == -1)
        in_range = (reports >= -1) & (reports < self.num_categories)
        return np.asarray(~(in_range.all(axis=1) & increasing.all(axis=1)))

    def probability_cells(
        self, reports: NDArray[Any], x: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Those of the true category's bit, and of up to 255 others', the same for all records."""
        own, other = self.probabilities
        count = min(self.num_categories, _STANDING)
        ranks = np.linspace(0, self.num_categories - 2, count - 1).astype(np.int64)
        truth = np.asarray(x)[:, None]
        asked = np.hstack([truth, ranks + (ranks >= truth)])
        bits = np.zeros((len(reports), self.num_categories + 1), bool)
        bits[np.arange(len(reports))[:, None], reports] = True  # what pads is put last
        bit = np.take_along_axis(bits, asked, axis=1)
        share = np.array([own] + [other] * (count - 1))
        return np.where(bit, 0.0, share), np.where(bit, share, 1.0)

    @property
    def probabilities(self) -> tuple[float, float]:
        """P(bit is 1) for the true category, and for any other."""
        own, other = self.words
        return own / WORDS, other / WORDS

    def privatize(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Bits of shape (n, k) for true categories 0 … k−1, shape (n,)."""
        codes = require_codes("x", x, self.num_categories)
        if codes.ndim != 1:
            raise PrivotError(f"x has shape {codes.shape}: give one code a person, shape (n,)")
        out = np.empty((codes.size, self.num_categories), bool)
        flat = out.reshape(-1)
        for start in range(0, flat.size, _BLOCK_BITS):
            self._fill(flat[start : start + _BLOCK_BITS])
        coins = random_words((codes.size + 63) // 64).view(np.uint8)
        out[np.arange(codes.size), codes] = np.unpackbits(coins)[: codes.size]
        return out

    def _fill(self, bits: NDArray[np.bool_]) -> None:
        """Overwrite `bits` by independent ones of probability L/2^64."""
        first, rest = divmod(self._threshold, 2**56)
        drawn = random_words((bits.size + 7) // 8).view(np.uint8)[: bits.size]
        np.less(drawn, first, out=bits)
        ties = np.flatnonzero(drawn == first)
        bits[ties] = random_words(ties.size) >> np.uint64(8) < np.uint64(rest)

    def log_likelihood(self, y: NDArray[Any], x: NDArray[Any]) -> Array:
        """$\\ln f(y | v)$ for bits `y` (…, k) and codes `x` (…), broadcast over the leading axes."""
        y, x = np.asarray(y), require_codes("x", x, self.num_categories)
        if y.dtype != np.bool_ or y.shape[-1:] != (self.num_categories,):
            raise PrivotError(
                f"y has type {y.dtype} and shape {y.shape}: give {self.num_categories} booleans a "
                "report, in the last axis"
            )
        q = self.probabilities[1]
        set_bit, unset_bit = math.log(q), math.log1p(-q)
        ones = np.count_nonzero(y, axis=-1)
        base = ones * set_bit + (self.num_categories - ones) * unset_bit
        shape = np.broadcast_shapes(y.shape[:-1], x.shape)
        bits = np.broadcast_to(y, (*shape, self.num_categories))
        own = np.take_along_axis(bits, np.broadcast_to(x, shape)[..., None], axis=-1)[..., 0]
        return base + np.where(own, -set_bit, -unset_bit) - math.log(2.0)

    def information(self, column: Column) -> float:
        r"""$E[\log r_{Y_V} − \log \frac{C r_1 + (k−C) r_0}{k}]$, C bits being set, $Y_V$ the true one.

        $r_1 = p/q$, $r_0 = (1−p)/(1−q)$; C is $Y_V$ and a binomial of k−1, of which all but 40 standard
        deviations are summed.
        """
        k, (own, other) = self.num_values, self.probabilities
        ratios = (1 - own) / (1 - other), own / other
        mean, spread = (k - 1) * other, math.sqrt((k - 1) * other * (1 - other))
        first = max(0, math.floor(mean - 40 * spread) - 60)
        count = np.arange(first, min(k - 1, math.ceil(mean + 40 * spread) + 60) + 1.0)
        choices = (
            scipy.special.gammaln(k)
            - scipy.special.gammaln(count + 1)
            - scipy.special.gammaln(k - count)
        )
        pmf = np.exp(choices + count * math.log(other) + (k - 1 - count) * math.log1p(-other))
        pmf /= pmf.sum()
        total = 0.0
        for bit, probability in ((0, 1 - own), (1, own)):
            set_bits = count + bit
            mixture = (set_bits * ratios[1] + (k - set_bits) * ratios[0]) / k
            total += probability * (math.log2(ratios[bit]) - float(pmf @ np.log2(mixture)))
        return total

    def report_bits(self, column: Column) -> int:
        """One a category."""
        return self.num_values


def codes_of_bits(bits: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the codes (n, w) whose bits (n, K) are set, padded with −1 to the longest."""
    count = np.count_nonzero(bits, axis=1)
    out = np.full((len(bits), int(count.max(initial=0))), -1, np.int32)
    rows, codes = np.nonzero(bits)
    starts = np.concatenate([[0], np.cumsum(count)[:-1]])
    out[rows, np.arange(rows.size) - starts[rows]] = codes
    return out
