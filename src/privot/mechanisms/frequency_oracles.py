r"""Frequency oracles: mechanisms for categories, whose reports support one or several categories.

The **support** of a report is a set of categories: the one that it names, or the members of its set. A
report supports the true category with probability p, and any other given category with probability
q < p. So $(1[\text{report supports } v] − q)/(p − q)$ is an unbiased estimate of the indicator that the
record is v. Oracles differ only in p, q, and the encoding of reports. The likelihood of a report y is

$$ f(y | v) = c(y) · r \text{ if y supports } v, \text{ else } c(y) , \qquad 1 < r ≤ e^ε . $$

So the support S(y), with the public ratio r, is a sufficient statistic of a report.

References:
    Wang, Blocki, Li, Jha, *Locally differentially private protocols for frequency estimation* (2017).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError, hold_count
from privot.mechanisms import samplers
from privot.mechanisms.forms import SupportForm
from privot.mechanisms.mechanism import Mechanism
from privot.privacy.distributed import ReportLaw
from privot.privacy.guarantees import PureDP
from privot.privacy.rounding import percent_at_least, percent_at_most, require_epsilon
from privot.schema import Column, Domain
from privot.schema.domains import Array

# Codes, and entries of a table of sets' members, that are drawn at once, which bounds the memory.
_BLOCK, _BLOCK_CELLS = 2**14, 2**21
_SCALAR_LIMIT, _SCALAR_SETS = 12, 16  # up to this many reports, plain Python is faster than arrays
_AUDITED_MEMBERS = 3  # number of members of a set that an audit tests


def require_codes(name: str, codes: NDArray[Any], num_codes: int) -> NDArray[np.int64]:
    """Return integer codes 0 … num_codes − 1 as int64.

    Raises:
        PrivotError: if a code is not such an integer; without its value, which is private.
    """
    codes = np.asarray(codes)
    if codes.dtype.kind not in "iu":
        raise PrivotError(f"{name} has type {codes.dtype}: give integer codes 0 … {num_codes - 1}")
    if codes.size and (codes.min() < 0 or codes.max() >= num_codes):
        raise PrivotError(f"{name} has a code outside 0 … {num_codes - 1}: encode by the schema")
    return codes.astype(np.int64, copy=False)


class FrequencyOracle(Mechanism):
    """Base of pure ε-local randomizers of categories; subclasses prove their ε."""

    epsilon: float

    takes_codes = True

    @property
    @abstractmethod
    def num_values(self) -> int:
        """Size K of the alphabet; records are codes 0 … K−1."""

    @property
    @abstractmethod
    def likelihood_ratio(self) -> float:
        """Ratio r of a report's two likelihoods, as the drawn integers imply; at most e^ε."""

    @property
    @abstractmethod
    def probabilities(self) -> tuple[float, float]:
        """Probabilities p and q that the true, and another given, category is supported."""

    @property
    @abstractmethod
    def support_size(self) -> int:
        """Number of codes in every support."""

    @classmethod
    def unfit(cls, column: Column) -> str:
        return "it is for codes of an alphabet: use 'laplace'" if column.alphabet is None else ""

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Self:
        assert column.alphabet is not None
        return cls(column.alphabet.size, epsilon)  # type: ignore[call-arg]  # of all subclasses

    def fits(self, column: Column) -> bool:
        return column.alphabet is not None and column.alphabet.size == self.num_values

    @property
    def supports(self) -> SupportForm:
        """Closed form of the likelihood of reports."""
        ratio, size = self.likelihood_ratio, self.support_size
        return SupportForm(self.num_values, ratio, self.probabilities, size)

    def form(self, column: Column) -> SupportForm:
        return self.supports

    def expected(self, column: Column) -> dict[str, Any]:
        """Describe the probabilities p (as `keep`) and q."""
        keep, other = self.probabilities
        words = (
            f"the truth with probability {percent_at_most(keep)}, each of {self.num_values - 1} "
            f"others with probability {percent_at_least(other)}"
        )
        return {"keep": keep, "in_words": words}

    def _information_of_sets(self, w: int, p: float, rest: float) -> float:
        r"""Return the mutual information of a uniform code and its set of w codes, in bits.

        It is $p \log_2 \frac{Kp}{w} + (1 − p) \log_2 \frac{K(1 − p)}{K−w}$, with p the probability that
        the set contains the true code, and `rest` the exact value of 1 − p.
        """
        k = self.num_values
        return p * math.log2(k * p / w) + rest * math.log2(k * rest / (k - w))

    def report_bits(self, column: Column) -> int:
        return self.support_size * math.ceil(math.log2(max(self.num_values, 2)))

    def impossible(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """See `Mechanism`: all supports (n, w) but increasing codes below K, padded with −1."""
        increasing = (np.diff(reports, axis=1) > 0) | (reports[:, 1:] == -1)
        in_range = (reports >= -1) & (reports < self.num_values)
        complete = (reports >= 0).sum(axis=1) == self.support_size
        return ~(in_range.all(axis=1) & increasing.all(axis=1) & complete)

    def log_ratio(self, reports: NDArray[Any], x: NDArray[Any], other: NDArray[Any]) -> Array:
        """See `Mechanism`: ln r if only `x` is supported, −ln r if only `other` is, else 0."""
        has_x = (reports == np.asarray(x)[..., None]).any(axis=1)
        has_other = (reports == np.asarray(other)[..., None]).any(axis=1)
        return math.log(self.likelihood_ratio) * (has_x.astype(float) - has_other)

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        return PureDP(self.epsilon)

    @property
    def variance(self) -> float:
        """Variance $q(1−q)/(p−q)^2$ of the estimated indicator of a false category."""
        p, q = self.probabilities
        return q * (1 - q) / (p - q) ** 2


@dataclass(frozen=True)
class RandomizedResponse(FrequencyOracle, kind="randomized_response"):
    """Report the true category with probability about e^ε/(e^ε+k−1), else a uniform other one.

    With $W$ uniform on $0 … 2^{64}−1$ and the public integer $m = ⌊2^{64}/(e^ε+k−1)⌋ + 1$, report
    category ⌊W/m⌋ of the k − 1 others if $W < (k−1)m$, else the true one. The likelihood ratio
    $(2^{64} − (k−1)m) / m$ is at most $e^ε$ (`samplers.words_outside`), and by less than a relative
    $2^{−40}$ smaller for any alphabet in use.

    Neighbors are any two categories; only the report leaves the device. The time of a draw does not
    depend on the record, except for memory access.

    References:
        Warner, *Randomized response* (1965); Kairouz, Bonawitz, Ramage, *Discrete distribution
        estimation under local privacy* (2016).

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
        hold_count(self, "num_categories", 2**31, least=2)
        if self.words[0] < self.words[1]:
            raise PrivotError(
                f"epsilon is {self.epsilon!r}: too small for {self.num_categories} categories to "
                "be drawn with 64-bit words; report fewer categories or raise epsilon"
            )

    @cached_property
    def _slot(self) -> int:
        """Number m of words that lead to one given other category."""
        return samplers.words_outside(self.epsilon, 1, self.num_categories - 1, 1)

    @property
    def words(self) -> tuple[int, int]:
        """Numbers of the 2^64 words that lead to the true category, and to each other one."""
        return samplers.WORDS - (self.num_categories - 1) * self._slot, self._slot

    @property
    def num_values(self) -> int:
        return self.num_categories

    @property
    def likelihood_ratio(self) -> float:
        keep, other = self.words
        return keep / other

    def probability_cells(
        self, reports: NDArray[Any], x: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """See `Mechanism`: the true category's cell is first, then those of the others in order."""
        keep, other = self.probabilities
        code, truth = reports[:, 0].astype(np.int64), np.asarray(x)
        low = np.where(code == truth, 0.0, keep + other * (code - (code > truth)))[:, None]
        return low, low + np.where(code == truth, keep, other)[:, None]

    @property
    def probabilities(self) -> tuple[float, float]:
        keep, other = self.words
        return keep / samplers.WORDS, other / samplers.WORDS

    def privatize(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Draw reported codes (int64, the shape of `x`) for true codes 0 … k−1."""
        codes = np.asarray(x)
        if codes.size <= _SCALAR_LIMIT:
            reports = [self._privatize_one(code) for code in codes.ravel().tolist()]
            return np.array(reports, np.int64).reshape(codes.shape)
        out = require_codes("x", codes, self.num_categories).flatten()
        slot, limit = np.uint64(self._slot), np.uint64(samplers.WORDS - self.words[0])
        words = np.empty(min(_BLOCK, out.size), np.uint64)
        for start in range(0, out.size, _BLOCK):
            part = out[start : start + _BLOCK]
            drawn = samplers.random_words(part.size, words[: part.size])
            changed = np.flatnonzero(drawn < limit)
            other = (drawn[changed] // slot).view(np.int64)
            other += other >= part[changed]
            part[changed] = other
        return out.reshape(codes.shape)

    def program(self, column: Column) -> dict[str, Any]:
        return {"draw": "response", "values": self.num_categories, "slot": f"{self._slot:x}"}

    def of_device(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        return answers[:, 0]

    @property
    def report_law(self) -> ReportLaw:
        return ReportLaw.of_subsets(self.epsilon, 1, self.num_categories)

    def _privatize_one(self, code: int) -> int:
        """Draw the report of one code."""
        k = self.num_categories
        if type(code) is not int or not 0 <= code < k:
            raise PrivotError(f"x has a value that is no integer 0 … {k - 1}: encode by the schema")
        other = samplers.random_word() // self._slot
        return code if other >= k - 1 else other + (other >= code)

    def log_likelihood(self, y: NDArray[Any], x: NDArray[Any]) -> Array:
        """Evaluate $\\ln P(y | x)$ of codes, elementwise; `y` and `x` broadcast."""
        y = require_codes("y", y, self.num_categories)
        x = require_codes("x", x, self.num_categories)
        keep, other = np.log(self.probabilities)
        return np.where(y == x, keep, other)

    def information(self, column: Column) -> float:
        keep, other = self.probabilities
        return self._information_of_sets(1, keep, (self.num_values - 1) * other)


def set_cells(
    ranks: NDArray[np.int64], sizes: NDArray[np.int64], total: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return `Mechanism.probability_cells` (n, 3) of three members of uniformly random sets.

    Members are drawn without replacement. Each member of a uniformly random set is uniform on the
    elements that were not drawn before.

    Arguments:
        ranks: Members 0 … total−1 of each set, (n, w); the first `sizes` of a row are valid.
        sizes: Number of members (n,); a set of fewer than three has cells (0, 1) for the others.
        total: Number of elements from which sets are chosen.
        rng: Generator that chooses the members and their order.
    """
    num_sets, width = ranks.shape
    places = np.zeros((num_sets, 0), np.int64)  # columns of `ranks` of the members drawn so far
    members = np.zeros((num_sets, 0), np.int64)
    low, high = np.zeros((num_sets, _AUDITED_MEMBERS)), np.ones((num_sets, _AUDITED_MEMBERS))
    for drawn in range(min(_AUDITED_MEMBERS, width, total - 1)):
        undrawn = rng.integers(0, np.maximum(sizes - drawn, 1))
        place = samplers.skip_taken(undrawn, np.sort(places, axis=1))
        member = ranks[np.arange(num_sets), np.minimum(place, width - 1)]
        rank_left = member - (members < member[:, None]).sum(axis=1)  # among undrawn elements
        exists = sizes > drawn
        low[:, drawn] = np.where(exists, rank_left / (total - drawn), 0.0)
        high[:, drawn] = np.where(exists, (rank_left + 1) / (total - drawn), 1.0)
        places = np.hstack([places, place[:, None]])
        members = np.hstack([members, member[:, None]])
    return low, high


@dataclass(frozen=True)
class SubsetSelection(FrequencyOracle, kind="subset_selection"):
    r"""Report a set of w of K cells, which contains the true one with probability about ½ or more.

    $$ f(S | v) ∝ e^ε \text{ if } v ∈ S, \text{ else } 1, \qquad
    |S| = w = \max(1, \mathrm{round}(K / (1 + e^ε))). $$

    The likelihood ratio of any two cells is $e^ε$, its inverse, or 1. With this w the estimate of a
    distribution over many cells has the least error that ε-local privacy allows, to first order, at
    every ε. With w = 1 it is randomized response.

    **Integers.** There are $\binom{K−1}{w−1}$ sets with $v$ and $\binom{K−1}{w}$ without. The set leaves
    $v$ out if a 64-bit word is below $L = ⌊2^{64} (K−w) / (e^ε w + K−w)⌋ + 1$, so

    $$ \frac{f(S ∋ v)}{f(S ∌ v)} = \frac{2^{64} − L}{L} · \frac{K−w}{w} ≤ e^ε . $$

    Floyd's algorithm draws a uniform w-subset of the other cells. Its uniform integers come from words
    by rejection, and are exact. If the set contains $v$, then $v$ replaces a uniformly drawn element.
    All steps are taken in any case, so the time does not depend on $v$.

    References:
        Ye, Barg, *Optimal schemes for discrete distribution estimation under locally differential
        privacy* (2018); Wang et al., *Mutual information optimally local private discrete distribution
        estimation* (2016); Bentley, Floyd, *A sample of brilliance* (1987).

    Examples:
        >>> mechanism = SubsetSelection(num_cells=100, epsilon=2.0)
        >>> mechanism.subset_size
        12
        >>> mechanism.privatize(np.array([7, 99])).shape
        (2, 12)
    """

    num_cells: int
    epsilon: float

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        hold_count(self, "num_cells", 2**24, least=2)
        if self.epsilon < 2.0**-30:
            raise PrivotError(f"epsilon is {self.epsilon!r}: give at least 2^-30")

    @cached_property
    def subset_size(self) -> int:
        """Number w = max(1, round(K/(1+e^ε))) of cells in a report."""
        odds = samplers.EXACT.add(samplers.EXACT.exp(Decimal(self.epsilon)), 1)
        share = samplers.EXACT.divide(Decimal(self.num_cells), odds)
        return max(1, int(share.to_integral_value(ROUND_HALF_EVEN)))

    @cached_property
    def words(self) -> tuple[int, int]:
        """Numbers of the 2^64 words that put the true cell in the set, and that leave it out (L)."""
        size, rest = self.subset_size, self.num_cells - self.subset_size
        outside = samplers.words_outside(self.epsilon, size, rest, rest)
        return samplers.WORDS - outside, outside

    @property
    def num_values(self) -> int:
        return self.num_cells

    @property
    def likelihood_ratio(self) -> float:
        """Ratio (2^64 − L)/L · (K−w)/w of a report's two likelihoods."""
        inside, outside = self.words
        size = self.subset_size
        return inside * (self.num_cells - size) / (outside * size)

    def probability_cells(
        self, reports: NDArray[Any], x: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """See `Mechanism`: cells of the true cell's membership, then of three of the other members."""
        sets, truth = reports.astype(np.int64), np.asarray(x)[:, None]
        inside = (sets == truth).any(axis=1)
        p_inside = self.words[0] / samplers.WORDS
        # The true cell moves to the end of its row, which `set_cells` ignores.
        others = np.sort(np.where(sets == truth, self.num_cells, sets), axis=1)
        ranks = others - (others > truth)
        low, high = set_cells(ranks, sets.shape[1] - inside, self.num_cells - 1, rng)
        truth_low, truth_high = np.where(inside, 0.0, p_inside), np.where(inside, p_inside, 1.0)
        return np.column_stack([truth_low, low]), np.column_stack([truth_high, high])

    @property
    def probabilities(self) -> tuple[float, float]:
        inside = self.words[0] / samplers.WORDS
        return inside, (self.subset_size - inside) / (self.num_cells - 1)

    def privatize(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Draw sorted sets of w cells, shape (n, w), for true cells 0 … K−1, shape (n,)."""
        cells = require_codes("x", x, self.num_cells)
        if cells.ndim != 1:
            raise PrivotError(f"x has shape {cells.shape}: give one cell a person, shape (n,)")
        if cells.size <= _SCALAR_SETS:
            drawn = [self._draw_one(cell) for cell in cells.tolist()]
            return np.array(drawn, np.int64).reshape(cells.size, self.subset_size)
        out = np.empty((cells.size, self.subset_size), np.int64)
        block = max(1, _BLOCK_CELLS // self.num_cells)
        for start in range(0, cells.size, block):
            out[start : start + block] = self._draw_block(cells[start : start + block])
        return out

    def program(self, column: Column | None = None) -> dict[str, Any]:
        law = {"size": self.subset_size, "out": f"{self.words[1]:x}"}
        return {"draw": "subset", "cells": self.num_cells} | law

    def of_device(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        return answers

    @property
    def report_law(self) -> ReportLaw:
        return ReportLaw.of_subsets(self.epsilon, self.subset_size, self.num_cells)

    def _draw_one(self, cell: int) -> list[int]:
        """Draw the sorted set of one report, by Floyd's algorithm on the other cells."""
        others, size = self.num_cells - 1, self.subset_size
        chosen: set[int] = set()
        drawn = []
        for last in range(others - size, others):
            candidate = samplers.uniform_below(last + 1)
            other = last if candidate in chosen else candidate
            chosen.add(other)
            drawn.append(other + (other >= cell))
        drawn.sort()
        place, word = samplers.uniform_below(size), samplers.random_word()
        drawn[place] = cell if word >= self.words[1] else drawn[place]
        drawn.sort()
        return drawn

    def _draw_block(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw the sorted sets (n, w) of cells (n,), as `_draw_one` does."""
        count, others, size = cells.size, self.num_cells - 1, self.subset_size
        chosen = np.zeros((count, others), bool)
        flat, starts = chosen.reshape(-1), np.arange(count) * others
        for last in range(others - size, others):
            candidate = starts + samplers.uniforms_below(last + 1, count)
            flat[np.where(flat[candidate], starts + last, candidate)] = True
        drawn = np.flatnonzero(flat).reshape(count, size) - starts[:, None]
        drawn += drawn >= cells[:, None]
        rows, place = np.arange(count), samplers.uniforms_below(size, count)
        inside = samplers.random_words(count) >= np.uint64(self.words[1])
        drawn[rows, place] = np.where(inside, cells, drawn[rows, place])
        drawn.sort(axis=1)
        return drawn

    def log_likelihood(self, y: NDArray[Any], x: NDArray[Any]) -> Array:
        """Evaluate $\\ln f(S | v)$ of sets `y` (…, w) and cells `x` (…); leading axes broadcast."""
        y = require_codes("y", y, self.num_cells)
        x = require_codes("x", x, self.num_cells)
        if y.shape[-1] != self.subset_size:
            raise PrivotError(
                f"y has sets of {y.shape[-1]} cells: give {self.subset_size} a report"
            )
        others, size = self.num_cells - 1, self.subset_size
        inside, outside = (math.log(words) - math.log(samplers.WORDS) for words in self.words)
        return np.where(
            (y == x[..., None]).any(axis=-1),
            inside - math.log(math.comb(others, size - 1)),
            outside - math.log(math.comb(others, size)),
        )

    @property
    def support_size(self) -> int:
        return self.subset_size

    def information(self, column: Column) -> float:
        inside, outside = (words / samplers.WORDS for words in self.words)
        return self._information_of_sets(self.subset_size, inside, outside)
