r"""The mechanism of noisy sums: records as integer vectors in slots, their moments, Gaussian noise.

A round asks a `Question`: a public map, which may have been made of earlier releases, from one record
to a slot $j(x)$ and an integer vector $v(x) ∈ Z^w$ with $‖v(x)‖ ≤ R$. Released is, for every slot,

$$ \sum_{i : j(x_i) = j} v(x_i) + N_j \quad \text{(moment 1), or} \quad
   \sum_{i : j(x_i) = j} v(x_i) v(x_i)^\top + N_j \quad \text{(moment 2)} . $$

Of a matrix the upper triangle is added up, diagonal entries 29 times and the others 41 times: as
$41^2 ≤ 2·29^2$, one record's has at most the length $29 ‖v‖^2$, and entries off the diagonal, which
stand for two each, have noise that is less by $29/41 ≈ 1/\sqrt 2$.

**Adjacency** is `replace_one`: one unit's record becomes any other; the number of records is public.
One record of each unit is assumed. **Δ.** A record adds a vector $u$ of length at most L (R, or 29 R²)
to its slot. Two that fall into different slots move all slots together by $\sqrt{‖u‖^2 + ‖u'‖^2} ≤
\sqrt 2 L$; two in one slot by $‖u − u'‖$: at most $2L$, or $\sqrt 2 L$ where $⟨u, u'⟩ ≥ 0$. Moments of
order 2 have that always:

$$ ⟨u, u'⟩ = \tfrac{41^2}{2} ⟨v, v'⟩^2 + \bigl(29^2 − \tfrac{41^2}{2}\bigr) \sum_i v_i^2 v_i'^2 ≥ 0 , $$

those of order 1 where the question promises it, as of vectors without negative coordinates: these are
checked. The noise is $⌊σ Z + ½⌋$ with $σ = Δ/μ_t$, μ_t the plan's (`privot.sliced.sums.plan`).

**Why floats do no harm.** Vectors are integers, and are checked: one that is too long, or negative where
none may be, counts as zeros, whatever the question made of it. Sums are exact in any order. The noise is
a Gaussian rounded exactly (`privot.mechanisms.samplers`): an integer plus it is the rounded sum,
post-processing of the continuous mechanism. A question maps records one by one, in chunks of fixed
places, so what it makes of a record in its last bits depends on no other's.

**Who sees what.** Releases have public shapes. Whoever times a release learns about raw records (the
order of slots in memory, the rejections of the sampler); the curator alone may. The fingerprint by which
a second run on the same records is seen, a keyed digest of all that questions may look at (values and
labels), stays with the curator as well. Nothing is logged. **Count
first**: the plan's whole guarantee is entered in the account of these records before the first round,
and the ledger is charged before a round is answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from privot.disk import Ledger, charge, fingerprint
from privot.errors import PrivotError
from privot.mechanisms.samplers.rounded_gaussian import sample_rounded_gaussian
from privot.sliced.curator_table import whole_records
from privot.sliced.sums.plan import SumPlan

Integers = NDArray[np.int64]
Records = tuple[NDArray[Any], ...]
Floats = NDArray[np.float64]
_CHUNK = 4096
DIAGONAL, OTHER = 29, 41  # 41² = 1681 ≤ 1682 = 2·29²
_UP = 1 + 2.0**-40  # what rounding of lengths may cost, many times over


class Question(Protocol):
    """What one round sums: a public map of single records, fixed before it is answered."""

    @property
    def slots(self) -> int:
        """How many there are."""

    @property
    def width(self) -> int:
        """Coordinates w of a vector."""

    @property
    def radius(self) -> int:
        """Most length R of a vector."""

    @property
    def moment(self) -> Literal[1, 2]:
        """Whether vectors are summed, or their products with themselves."""

    @property
    def non_negative(self) -> bool:
        """Of moment 1: whether no vector has a negative coordinate."""

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """Slots (n,) and vectors (n, w) of some records, row by row."""


@dataclass(frozen=True, eq=False)
class NoisySums:
    """What a round released.

    Arguments:
        sums: By slot, (slots, w), or symmetric matrices (slots, w, w) of moment 2.
        stddev: Standard deviation of their noise; of moment 2 that of the diagonal, the rest has 29/41.
    """

    sums: Floats
    stddev: float


def sensitivity(question: Question) -> float:
    """The most by which all slots together move when one record is replaced, in ℓ2."""
    if question.moment == 2:
        return math.sqrt(2.0) * DIAGONAL * float(question.radius) ** 2 * _UP
    return (math.sqrt(2.0) if question.non_negative else 2.0) * question.radius * _UP


class SumMechanism:
    """Owns private records and the ledger; answers the rounds of a plan.

    Arguments:
        records: Arrays of n rows: all that questions may look at.
        ledger: What may be released.

    Raises:
        PrivotError: if they are not as many records as the plan says, or hold NaN or infinity.
    """

    def __init__(self, records: Records, ledger: Ledger[SumPlan]) -> None:
        expected = ledger.plan.records
        if any(len(part) != expected for part in records):
            raise PrivotError(
                f"{len(records[0]):,} records do not fit a plan for {expected:,}: calibrate it for them"
            )
        for part in records:
            if part.dtype.kind == "f" and not np.isfinite(part).all():
                raise PrivotError("values hold NaN or infinity: replace or drop such records first")
        self.ledger, self._records = ledger, records
        self._entered = False

    def release(self, question: Question) -> NoisySums:
        """The answer to the next round's question; counted first.

        Raises:
            BudgetExhausted: if no round is left.
            PrivotError: if sums of so many records would not be exact.
        """
        plan = self.ledger.plan
        if not question.radius > 0 or plan.records * float(question.radius) ** 2 >= 2.0**53:
            raise PrivotError(
                f"radius {question.radius}: give a positive one whose square times {plan.records:,} "
                "records is below 2^53, so that sums are exact"
            )
        self.enter()
        round_ = self.ledger.spend()  # its own, whoever else counts in this ledger
        stddev = sensitivity(question) / plan.ratios[round_ - 1]
        if question.moment == 1:
            sums = self._summed(question, _add_up)
            noise = sample_rounded_gaussian(sums.shape, stddev)
            return NoisySums((sums + noise).astype(np.float64), stddev)
        return _noisy_products(self._summed(question, _multiply), stddev)

    def enter(self) -> None:
        """Enter the plan in the account of these records, if it is not there yet.

        Raises:
            PrivotError: if rounds of the plan were made of other records.
        """
        if not self._entered:
            charge(fingerprint(whole_records(*self._records)), self.ledger)
            self._entered = True

    def _summed(
        self, question: Question, sums_of: Callable[[Integers, Integers, int], Integers]
    ) -> Integers:
        total: Integers | int = 0
        for start in range(0, self.ledger.plan.records, _CHUNK):
            part = tuple(each[start : start + _CHUNK] for each in self._records)
            slots, vectors = question.answer(part)
            total = total + sums_of(slots, _within(vectors, question), question.slots)
        return np.asarray(total)


def _within(vectors: Integers, question: Question) -> Integers:
    """The vectors, zeros in the place of those that may not be."""
    wrong = np.square(vectors.astype(np.float64)).sum(axis=1) > float(question.radius) ** 2
    if question.moment == 1 and question.non_negative:
        wrong |= (vectors < 0).any(axis=1)
    return np.where(wrong[:, None], 0, vectors)


def _add_up(slots: Integers, vectors: Integers, count: int) -> Integers:
    places = (np.ones(len(slots), np.int64), (slots, np.arange(len(slots))))
    return np.asarray(csr_array(places, shape=(count, len(slots))) @ vectors)


def _multiply(slots: Integers, vectors: Integers, count: int) -> Integers:
    """Products by slot; integers below 2^53, which double precision multiplies and adds exactly."""
    order = np.argsort(slots, kind="stable")
    held, starts = np.unique(slots[order], return_index=True)
    real = vectors[order].astype(np.float64)
    sums = np.zeros((count, vectors.shape[1], vectors.shape[1]), np.int64)
    for slot, part in zip(held, np.split(real, starts[1:]), strict=True):
        sums[slot] = part.T @ part
    return sums


def _noisy_products(sums: Integers, stddev: float) -> NoisySums:
    """Matrices whose upper triangles bear noise, each entry in its own units again."""
    rows, columns = np.triu_indices(sums.shape[1])
    times = np.where(rows == columns, DIAGONAL, OTHER)
    noise = sample_rounded_gaussian((len(sums), len(rows)), stddev)
    noisy = (sums[:, rows, columns] * times + noise) / times
    matrices = np.empty(sums.shape)
    matrices[:, rows, columns] = matrices[:, columns, rows] = noisy
    return NoisySums(matrices, stddev / DIAGONAL)
