r"""Subset selection: report a set of w of K cells, e^ε times likelier to hold the true cell.

$$ f(S | v) ∝ e^ε \text{ if } v ∈ S, \text{ else } 1, \qquad
|S| = w = \max(1, \mathrm{round}(K / (1 + e^ε))). $$

The likelihood ratio of any two cells is $e^ε$, its inverse, or 1. With this w the estimate of a
distribution over many cells has the least error that ε-local privacy allows, to first order, at
every ε; w = 1 is randomized response.

**In integers only.** There are $\binom{K−1}{w−1}$ sets with $v$ and $\binom{K−1}{w}$ without. Let
$L = ⌊2^{64} (K−w) / (e^ε w + K−w)⌋ + 1$; $v$ is left out if a 64-bit word is below $L$. Then

$$ \frac{f(S ∋ v)}{f(S ∌ v)} = \frac{2^{64} − L}{L} · \frac{K−w}{w} ≤ e^ε . $$

The rest is uniform: a w-subset of the other cells by Floyd's algorithm, whose uniform integers come
from words by rejection, so exactly; if $v$ belongs in, it takes the place of one element drawn
uniformly. All steps are taken whether $v$ is in or not: time tells nothing of it, as it would add
to what the set tells.

References:
    Ye, Barg, *Optimal schemes for discrete distribution estimation under locally differential
    privacy* (2018); Wang et al., *Mutual information optimally local private discrete distribution
    estimation* (2016); Bentley, Floyd, *A sample of brilliance* (1987).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.mechanisms.mechanism import require_codes
from privot.mechanisms.oracles.frequency_oracle import FrequencyOracle
from privot.mechanisms.samplers.entropy import (
    EXACT,
    WORDS,
    random_word,
    random_words,
    uniform_below,
    uniforms_below,
    words_outside,
)
from privot.privacy.rounding import require_epsilon
from privot.schema import Array, Column

_SMALL = 16  # up to here, one report at a time is faster than arrays
_STANDING = 3  # members of a set that stand for all in an audit
_BLOCK_CELLS = 2**21  # cells of the membership table of one block of reports


def set_cells(
    ranks: NDArray[np.int64], sizes: NDArray[np.int64], total: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Cells (n, 3) of uniformly random sets, of three members in random order: see `probability_cells`.

    Arguments:
        ranks: Members 0 … total−1 of each set, (n, w), the first `sizes` of a row being valid.
        sizes: Number of members (n,); of what a set does not have, the cell is all of (0, 1).
        total: What sets are chosen from.
        rng: Draws the order.
    """
    rows = np.arange(len(ranks))
    places = np.zeros((len(ranks), 0), np.int64)
    members = np.zeros((len(ranks), 0), np.int64)
    low, high = np.zeros((len(ranks), _STANDING)), np.ones((len(ranks), _STANDING))
    for drawn in range(min(_STANDING, ranks.shape[1], total - 1)):
        place = _skip(rng.integers(0, np.maximum(sizes - drawn, 1)), places)
        member = ranks[rows, np.minimum(place, ranks.shape[1] - 1)]
        left = member - (members < member[:, None]).sum(axis=1)
        there = sizes > drawn
        low[:, drawn] = np.where(there, left / (total - drawn), 0.0)
        high[:, drawn] = np.where(there, (left + 1) / (total - drawn), 1.0)
        places = np.hstack([places, place[:, None]])
        members = np.hstack([members, member[:, None]])
    return low, high


def _skip(index: NDArray[np.int64], taken: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index-th of the integers from 0 on that are not `taken` in each row."""
    for place in np.sort(taken, axis=1).T:
        index = index + (index >= place)
    return index


@dataclass(frozen=True)
class SubsetSelection(FrequencyOracle, kind="subset_selection"):
    """Report w of K cells, sorted; the true one is among them with probability about ½ or more.

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
        if not isinstance(self.num_cells, int) or not 2 <= self.num_cells <= 2**24:
            raise PrivotError(f"num_cells is {self.num_cells!r}: give an integer from 2 to 2^24")
        if self.epsilon < 2.0**-30:
            raise PrivotError(f"epsilon is {self.epsilon!r}: give at least 2^-30")

    @cached_property
    def subset_size(self) -> int:
        """Cells in a report: w = max(1, round(K/(1+e^ε)))."""
        odds = EXACT.add(EXACT.exp(Decimal(self.epsilon)), 1)
        share = EXACT.divide(Decimal(self.num_cells), odds)
        return max(1, int(share.to_integral_value(ROUND_HALF_EVEN)))

    @cached_property
    def _words_out(self) -> int:
        """The integer L: words that leave the true cell out."""
        size, rest = self.subset_size, self.num_cells - self.subset_size
        return words_outside(self.epsilon, size, rest, rest)

    @property
    def words(self) -> tuple[int, int]:
        """How many of the 2^64 words put the true cell in the set, and leave it out."""
        return WORDS - self._words_out, self._words_out

    @property
    def num_values(self) -> int:
        """Number of cells K."""
        return self.num_cells

    @property
    def likelihood_ratio(self) -> float:
        """(2^64 − L)/L · (K−w)/w."""
        inside, outside = self.words
        size = self.subset_size
        return inside * (self.num_cells - size) / (outside * size)

    def probability_cells(
        self, reports: NDArray[Any], x: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Whether the true cell is in the set, and three of the others that are, in random order."""
        sets, truth = reports.astype(np.int64), np.asarray(x)[:, None]
        inside = (sets == truth).any(axis=1)
        own = self.words[0] / WORDS
        # The true cell moves to the end of its row, where no other is looked for.
        others = np.sort(np.where(sets == truth, self.num_cells, sets), axis=1)
        ranks = others - (others > truth)
        low, high = set_cells(ranks, sets.shape[1] - inside, self.num_cells - 1, rng)
        first = np.where(inside, 0.0, own), np.where(inside, own, 1.0)
        return np.column_stack([first[0], low]), np.column_stack([first[1], high])

    def impossible(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Those that are no set of w cells."""
        wrong = (reports >= 0).sum(axis=1) != self.subset_size
        return super().impossible(reports) | wrong

    @property
    def probabilities(self) -> tuple[float, float]:
        """P(a cell is reported) for the true cell, and for any given other."""
        inside = self.words[0] / WORDS
        return inside, (self.subset_size - inside) / (self.num_cells - 1)

    def privatize(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Sorted sets of w cells, shape (n, w), for true cells 0 … K−1, shape (n,)."""
        cells = require_codes("x", x, self.num_cells)
        if cells.ndim != 1:
            raise PrivotError(f"x has shape {cells.shape}: give one cell a person, shape (n,)")
        if cells.size <= _SMALL:
            drawn = [self._draw_one(cell) for cell in cells.tolist()]
            return np.array(drawn, np.int64).reshape(cells.size, self.subset_size)
        out = np.empty((cells.size, self.subset_size), np.int64)
        block = max(1, _BLOCK_CELLS // self.num_cells)
        for start in range(0, cells.size, block):
            out[start : start + block] = self._draw_block(cells[start : start + block])
        return out

    def program(self, column: Column | None = None) -> dict[str, Any]:
        """See `Mechanism`."""
        law = {"size": self.subset_size, "out": f"{self._words_out:x}"}
        return {"draw": "subset", "cells": self.num_cells} | law

    def of_device(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Mechanism`."""
        return answers

    def _draw_one(self, cell: int) -> list[int]:
        """One report; the elements' order in `drawn` is not uniform, but the set is."""
        others, size = self.num_cells - 1, self.subset_size
        chosen: set[int] = set()
        for last in range(others - size, others):
            candidate = uniform_below(last + 1)
            chosen.add(last if candidate in chosen else candidate)
        drawn = sorted(other + (other >= cell) for other in chosen)
        place, word = uniform_below(size), random_word()
        drawn[place] = cell if word >= self._words_out else drawn[place]
        return sorted(drawn)

    def _draw_block(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        count, others, size = cells.size, self.num_cells - 1, self.subset_size
        chosen = np.zeros((count, others), bool)
        flat, starts = chosen.reshape(-1), np.arange(count) * others
        for last in range(others - size, others):
            candidate = starts + uniforms_below(last + 1, count)
            flat[np.where(flat[candidate], starts + last, candidate)] = True
        drawn = np.flatnonzero(flat).reshape(count, size) - starts[:, None]
        drawn += drawn >= cells[:, None]
        rows, place = np.arange(count), uniforms_below(size, count)
        inside = random_words(count) >= np.uint64(self._words_out)
        drawn[rows, place] = np.where(inside, cells, drawn[rows, place])
        drawn.sort(axis=1)
        return drawn

    def log_likelihood(self, y: NDArray[Any], x: NDArray[Any]) -> Array:
        """$\\ln f(S | v)$ for sets `y` (…, w) and cells `x` (…), broadcast over the leading axes."""
        y = require_codes("y", y, self.num_cells)
        x = require_codes("x", x, self.num_cells)
        if y.shape[-1] != self.subset_size:
            raise PrivotError(
                f"y has sets of {y.shape[-1]} cells: give {self.subset_size} a report"
            )
        others, size = self.num_cells - 1, self.subset_size
        inside, outside = (math.log(words) - math.log(WORDS) for words in self.words)
        return np.where(
            (y == x[..., None]).any(axis=-1),
            inside - math.log(math.comb(others, size - 1)),
            outside - math.log(math.comb(others, size)),
        )

    @property
    def support_size(self) -> int:
        """It is w."""
        return self.subset_size

    def information(self, column: Column) -> float:
        """See `FrequencyOracle`."""
        inside, outside = (words / WORDS for words in self.words)
        return self._information_of_sets(self.subset_size, inside, outside)

    def report_bits(self, column: Column) -> int:
        """Those of w codes."""
        return self.subset_size * self._code_bits
