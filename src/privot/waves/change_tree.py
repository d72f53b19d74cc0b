r"""A tree of changes: one bit that seldom changes, followed over T waves for one ε in all.

A person's bit is $x_0 … x_{T−1}$, with $x_{−1} = 0$. The device lets it change c times at most (the
first wave counts as a change if it is 1), and keeps it as it is after that: so every sequence is
allowed, and those that change more often are followed wrongly. Public coins give each person one
**level** h, for good. At the end of every whole interval of $2^h$ waves, $[i 2^h, (i + 1) 2^h)$, the
device takes the difference $d_i = x_{(i+1) 2^h − 1} − x_{i 2^h − 1}$, which is −1, 0 or 1, and answers
a sign:

$$ P(+ | d) = 1/2 + d (p − 1/2),  p = e^{ε_h} / (1 + e^{ε_h}),  ε_h = ε / \min(c, m_h) $$

with $m_h = ⌊T/2^h⌋$ intervals. A difference of 0 is answered by a fair coin.

**Theorem.** All answers of a person together, of whatever level, are ε-locally private between any two
sequences, changed as often as one likes.

*Proof.* The level is public coins. Given it, answers are independent, so the loss is the sum over
intervals of $\log P(y_i | d_i) / P(y_i | d′_i)$. Let $a = \log 2p$ and $b = −\log 2(1 − p)$; then $a +
b = ε_h$. Whatever the sign: the term is 0 for $d_i = d′_i$, at most a for $d′_i = 0 ≠ d_i$, at most b
for $d_i = 0 ≠ d′_i$, and a + b for opposite signs. So it is at most $a |d_i| + b |d′_i|$. A sequence
with c changes has at most $\min(c, m_h)$ differences that are not 0, so the sum is at most $\min(c,
m_h) (a + b) = ε$. ∎

It is reached: two sequences whose differences are not 0 in c intervals each, and never in the same.

**What it is for.** Where each person reports once in T waves (`Panel` with w = T) the promise is the
same ε, for sequences that change as they like, and errors grow like √T. A tree's grow like $c \log T$
only, but from a larger constant: `stderr` says which is smaller. *Memoization*, to remember an answer
and repeat it, promises less than is believed: see `privot.waves.memoization`.

**Estimates** are least squares: the mean answer of an interval, divided by 2p − 1, estimates
$E x_{last} − E x_{before}$ with variance below $1 / (N (2p − 1)^2)$, for N people of its level who
answered.

**Privacy review.** Adjacency: one person's whole sequence. Who sees what: level and signs are public;
sequence and changes stay on the device. Each sign is drawn **once**: drawn again, it is another budget,
so that a device must keep what it has sent, and the values of all waves so far as it gave them before:
`privot.waves.tree_ledger` does. An answer is given for every interval, whatever was found.

References:
    Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta, *Amplification by shuffling: from
    local to central differential privacy via anonymity* (2019), section 4, for trees of changes
    whose devices sample one change; Dwork, Naor, Pitassi, Rothblum, *Differential privacy under
    continual observation* (2010), for the tree.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError, require_count
from privot.mechanisms.samplers.entropy import random_words, words_outside
from privot.privacy import PureDP
from privot.privacy.rounding import require_epsilon
from privot.wire.draws import WORDS, NextWord, system_word

_MOST_WAVES = 2**12
_HALF = WORDS // 2
Array = NDArray[np.float64]
Signs = NDArray[np.int8]


@dataclass(frozen=True)
class ChangeTree:
    """Who answers what of their bit, and what the answers say of everybody's.

    Arguments:
        waves: T.
        changes: c, how often a person's bit is followed when it changes.
        epsilon: Of all answers of a person.
        seed: Of the public coins, any text.

    >>> tree = ChangeTree(waves=52, changes=2, epsilon=2.0, seed="2026")
    >>> print(tree.guarantee)
    ε = 2 (pure), local, per person
    >>> tree.levels, tree.level_of("person 7"), tree.intervals(2)
    (6, 2, 13)
    """

    waves: int
    changes: int
    epsilon: float
    seed: str = ""

    def __post_init__(self) -> None:
        require_count("waves", self.waves, _MOST_WAVES)
        require_count("changes", self.changes, self.waves)
        require_epsilon(self.epsilon)

    @property
    def guarantee(self) -> PureDP:
        """Of all answers of one person, over all waves."""
        return PureDP(self.epsilon)

    @property
    def levels(self) -> int:
        """How many there are."""
        return self.waves.bit_length()

    def level_of(self, person: str) -> int:
        """A person's level, by public coins."""
        digest = hmac.digest(self.seed.encode(), person.encode(), hashlib.sha256)
        return int.from_bytes(digest[:8], "big") % self.levels

    def intervals(self, level: int) -> int:
        """Number m of whole intervals of a level, and of answers of a person in it."""
        return self.waves >> level

    def words(self, level: int) -> int:
        """How many of 2^64 words answer a change by the opposite sign."""
        each = math.nextafter(self.epsilon / min(self.changes, self.intervals(level)), 0.0)
        return words_outside(each, 1, 1, 1)

    def followed(self, values: NDArray[np.bool_]) -> NDArray[np.int8]:
        """Sequences (n, T) of 0 and 1 as they are followed: as they stand after c changes."""
        bits = np.asarray(values).astype(np.int8)
        changed = np.diff(bits, axis=1, prepend=np.int8(0)) != 0
        counted = changed & (changed.cumsum(axis=1) <= self.changes)
        return (counted.cumsum(axis=1) % 2).astype(np.int8)

    def differences(self, values: NDArray[np.bool_], level: int) -> NDArray[np.int8]:
        """What a level asks of sequences (n, T): differences (n, m) of the ends of its intervals."""
        ends = self.followed(values)[:, (1 << level) - 1 :: 1 << level]
        return np.diff(ends, axis=1, prepend=np.int8(0))

    def answer(
        self, values: Sequence[bool], level: int, word: NextWord = system_word
    ) -> int | None:
        """A device's sign after its last wave, given all its values; None if no interval ends there."""
        if len(values) % (1 << level) or not 0 < len(values) <= self.waves:
            return None
        drawn = word()
        difference = int(self.differences(np.array([values], bool), level)[0, -1])
        limit = _HALF if difference == 0 else self.words(level)
        return (1 if difference >= 0 else -1) * (-1 if drawn < limit else 1)

    def privatize(self, values: NDArray[np.bool_], level: int) -> Signs:
        """Signs (n, m) of people in one level, from all their values (n, T), with fresh noise."""
        found = self.differences(values, level)
        words = random_words(found.size).reshape(found.shape)
        limit = np.where(found == 0, np.uint64(_HALF), np.uint64(self.words(level)))
        return np.where(found < 0, -1, 1).astype(np.int8) * np.where(words < limit, -1, 1).astype(
            np.int8
        )

    def estimate(self, signs: Sequence[Signs]) -> tuple[Array, Array]:
        """The share of ones in every wave (T,), and its standard error (T,), from signs (n, m) by level.

        A sign of 0 is an answer that did not come; a row need not be one person's.

        Raises:
            PrivotError: if they are not those of every level, or nobody answered in some interval of
                level 0.
        """
        if [each.shape[1:] for each in signs] != [(self.intervals(h),) for h in range(self.levels)]:
            raise PrivotError(
                "signs are not those of this tree's levels: give one array (n, m) a level"
            )
        people = np.concatenate([np.count_nonzero(each, axis=0) for each in signs])
        if not people[: self.waves].all():
            wave = int(people[: self.waves].argmin())
            raise PrivotError(f"signs of level 0 lack wave {wave}: wait for an answer of that wave")
        sums = np.concatenate([each.sum(axis=0, dtype=np.int64) for each in signs])
        gaps, weights, inverse = self._solved(people)
        told = weights * sums / np.maximum(people, 1) / gaps
        return inverse @ (self._design.T @ told), np.sqrt(np.diag(inverse))

    def stderr(self, people: Sequence[int]) -> Array:
        """What to expect of so many people by level: standard errors (T,), from above."""
        if len(people) != self.levels or min(people) < 0 or people[0] < 1:
            raise PrivotError(
                f"people {[*people]!r} cannot be: give numbers by level, the first above 0"
            )
        each = [self.intervals(level) for level in range(self.levels)]
        _, _, inverse = self._solved(np.repeat(people, each))
        return np.sqrt(np.diag(inverse))

    def _gap(self, level: int) -> float:
        return 1 - 2 * self.words(level) / WORDS

    def _solved(self, people: NDArray[np.integer]) -> tuple[Array, Array, Array]:
        """Of people by interval, 2p − 1, inverse variances, and the covariance of shares (T, T)."""
        gaps = np.concatenate(
            [np.full(self.intervals(h), self._gap(h)) for h in range(self.levels)]
        )
        weights = people * gaps**2
        return gaps, weights, np.linalg.inv(self._design.T * weights @ self._design)

    @cached_property
    def _design(self) -> Array:
        """Which waves each interval compares (intervals, T)."""
        rows = []
        for level in range(self.levels):
            for index in range(self.intervals(level)):
                row = np.zeros(self.waves)
                row[((index + 1) << level) - 1] = 1
                if index:
                    row[(index << level) - 1] = -1
                rows.append(row)
        return np.array(rows)
