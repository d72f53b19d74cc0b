r"""k-ary randomized response, in integers only.

With $W$ uniform on $0 … 2^{64}−1$ and the public integer $m = ⌊2^{64}/(e^ε+k−1)⌋ + 1$: if $W <
(k−1)m$ report the ⌊W/m⌋-th of the other categories, else the true one. Each other category has
probability $m/2^{64}$ exactly. Since $m ≥ 2^{64}/(e^ε+k−1)$, keeping has $2^{64} − (k−1)m ≤ m e^ε$:
the likelihood ratio is at most $e^ε$, proven in integers, with rounding against ε (by less than
$2^{−40}$ for any alphabet in use).

Neighbors are any two categories; the report is all that leaves the device. The time of a draw does
not depend on the record beyond memory access.

References:
    Warner, *Randomized response* (1965); Kairouz, Bonawitz, Ramage, *Discrete distribution
    estimation under local privacy* (2016); Wang, Blocki, Li, Jha, *Locally differentially private
    protocols for frequency estimation* (2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.mechanisms.mechanism import require_codes
from privot.mechanisms.oracles.frequency_oracle import FrequencyOracle
from privot.mechanisms.samplers.entropy import WORDS, random_word, random_words, words_outside
from privot.privacy.rounding import percent_at_most, require_epsilon
from privot.schema import Array, Column

_BLOCK = 2**14
_SMALL = 12


@dataclass(frozen=True)
class RandomizedResponse(FrequencyOracle, kind="randomized_response"):
    """Keep a category with probability about e^ε/(e^ε+k−1), else report any other.

    Examples:
        >>> mechanism = RandomizedResponse(num_categories=2, epsilon=1.0)
        >>> keep, other = mechanism.probabilities
        >>> round(keep, 4), round(other, 4)
        (0.7311, 0.2689)
    """

    num_categories: int
    epsilon: float

    names_code, support_size = True, 1

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        if not isinstance(self.num_categories, int) or not 2 <= self.num_categories <= 2**31:
            raise PrivotError(
                f"num_categories is {self.num_categories!r}: give an integer from 2 to 2^31"
            )
        if self.words[0] < self.words[1]:
            raise PrivotError(
                f"epsilon is {self.epsilon!r}: too small for {self.num_categories} categories to "
                "be drawn with 64-bit words; report fewer categories or raise epsilon"
            )

    @cached_property
    def _slot(self) -> int:
        """The integer m: words that lead to one other category."""
        return words_outside(self.epsilon, 1, self.num_categories - 1, 1)

    @property
    def words(self) -> tuple[int, int]:
        """How many of the 2^64 words lead to the true category, and to one given other."""
        return WORDS - (self.num_categories - 1) * self._slot, self._slot

    @property
    def num_values(self) -> int:
        """Number of categories k."""
        return self.num_categories

    @property
    def likelihood_ratio(self) -> float:
        """P(keep) over P(one given other)."""
        keep, other = self.words
        return keep / other

    def probability_cells(
        self, reports: NDArray[Any], x: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """The true category first, then the others in order."""
        keep, other = self.probabilities
        code, truth = reports[:, 0].astype(np.int64), np.asarray(x)
        low = np.where(code == truth, 0.0, keep + other * (code - (code > truth)))[:, None]
        return low, low + np.where(code == truth, keep, other)[:, None]

    def impossible(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Those that do not name one category."""
        return super().impossible(reports) | ((reports >= 0).sum(axis=1) != 1)

    @property
    def probabilities(self) -> tuple[float, float]:
        """P(true category reported), P(one given other reported), as the integers imply."""
        keep, other = self.words
        return keep / WORDS, other / WORDS

    def privatize(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Reported codes (int64, the shape of `x`) for true codes 0 … k−1."""
        codes = np.asarray(x)
        if codes.size <= _SMALL:
            reports = [self._privatize_one(code) for code in codes.ravel().tolist()]
            return np.array(reports, np.int64).reshape(codes.shape)
        out = require_codes("x", codes, self.num_categories).flatten()
        slot, limit = np.uint64(self._slot), np.uint64(WORDS - self.words[0])
        words = np.empty(min(_BLOCK, out.size), np.uint64)
        for start in range(0, out.size, _BLOCK):
            part = out[start : start + _BLOCK]
            drawn = random_words(part.size, words[: part.size])
            moved = np.flatnonzero(drawn < limit)
            other = (drawn[moved] // slot).view(np.int64)
            other += other >= part[moved]
            part[moved] = other
        return out.reshape(codes.shape)

    def program(self, column: Column) -> dict[str, Any]:
        """See `Mechanism`."""
        return {"draw": "response", "values": self.num_categories, "slot": f"{self._slot:x}"}

    def of_device(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Mechanism`."""
        return answers[:, 0]

    def _privatize_one(self, code: int) -> int:
        k = self.num_categories
        if type(code) is not int or not 0 <= code < k:
            raise PrivotError(f"x has a value that is no integer 0 … {k - 1}: encode by the schema")
        other, _ = divmod(random_word(), self._slot)
        return code if other >= k - 1 else other + (other >= code)

    def log_likelihood(self, y: NDArray[Any], x: NDArray[Any]) -> Array:
        """$\\ln P(y | x)$ of codes, elementwise; `y` and `x` broadcast."""
        y = require_codes("y", y, self.num_categories)
        x = require_codes("x", x, self.num_categories)
        keep, other = np.log(self.probabilities)
        return np.where(y == x, keep, other)

    def information(self, column: Column) -> float:
        """See `FrequencyOracle`, w = 1."""
        own, other = self.probabilities
        return self._information_of_sets(1, own, (self.num_values - 1) * other)

    def report_bits(self, column: Column) -> int:
        """One code."""
        return self._code_bits

    def expected(self, column: Column) -> dict[str, Any]:
        """How often it is the truth."""
        told = super().expected(column)
        truth, others = percent_at_most(told["keep"]), self.num_values - 1
        words = f"the truth with probability {truth}, else one of the other {others} at random"
        return told | {"in_words": words}
