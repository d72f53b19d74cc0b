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
checked. The noise is $⌊σ Z + ½⌋$ with $σ = Δ/μ_t$, μ_t the plan's (`privot.central.sums`).

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from privot.core.errors import PrivotError
from privot.mechanisms.samplers.rounding import sample_rounded_gaussian
from privot.models import Checkpoint
from privot.privacy import ApproximateDP, calibrate_gaussian, gaussian_epsilon
from privot.privacy.accounts import charge, fingerprint
from privot.privacy.ledger import Countable, Ledger
from privot.privacy.rounding import require_finite
from privot.randomizer.reports.rows import require_raw
from privot.schema import Schema
from privot.tables.files import as_table, read_table
from privot.training import Interrupted, Progress, deferred_interruption

# The ledger of a run by noisy sums or slices: a file beside its checkpoint.


# Releases are taken in blocks of a hundredth of the plan: a kill costs one block.
_BLOCKS = 100
P = TypeVar("P", bound=Countable)


def open_ledger(plan: P, checkpoint: Path | None, resume: bool) -> Ledger[P]:
    """The ledger of a run: beside its checkpoint, or in memory if there is none."""
    if checkpoint is None:
        return Ledger(plan)
    path = checkpoint.with_name(checkpoint.name + ".ledger")
    if resume and checkpoint.exists() and not path.exists():
        raise PrivotError(
            f"ledger {path} is gone, and {checkpoint} holds what its releases told: restore it; to "
            "start again without it is another budget, which adds to the plan's"
        )
    ledger = Ledger(plan, path, resume=resume, ahead=plan.uses // _BLOCKS)
    if resume and path.exists() and not checkpoint.exists() and not ledger.left:
        raise PrivotError(
            f"ledger {path} has counted all {plan.uses:,} {plan.noun} and there is no {checkpoint} to "
            "go on from: this run is finished, use its model; another path is another budget"
        )
    return ledger


# A curator's records as they are given, and what of them is compared between runs. Needs no PyTorch.


_CHUNK = 4096


def raw_table(data: Any, schema: Schema) -> pa.Table:
    """A curator's records as they are given, a table or its file, checked against the schema."""
    table = read_table(data, schema) if isinstance(data, str | Path) else as_table(data)
    schema.check_table(require_raw(table))
    return table


def whole_records(*parts: NDArray[Any]) -> Iterator[NDArray[np.float32]]:
    """Records as accounts compare them (`privot.privacy.accounts`), in chunks: all parts side by side.

    Arguments:
        parts: Arrays (n, …) of the same n records: values, then labels. Values without a label have
            label 0, whoever fits them, so that all methods compare the same records alike. Labels, whole
            numbers below 2^24, are exact in single precision.

    >>> [rows.tolist() for rows in whole_records(np.zeros((2, 1, 2)), np.array([0, 3]))]
    [[[0.0, 0.0, 0.0], [0.0, 0.0, 3.0]]]
    """
    for start in range(0, len(parts[0]), _CHUNK):
        with np.errstate(over="ignore"):  # numbers too large are infinity in single precision
            chunk = [np.asarray(part[start : start + _CHUNK], np.float32) for part in parts]
        yield np.concatenate([part.reshape(len(part), -1) for part in chunk], axis=1)


# The plan of a run by noisy sums: how many rounds, and which share of the budget each has.
#
# Round t releases a sum $s_t + N(0, σ_t^2 I)$ whose sensitivity is $Δ_t$. What is summed in a round
# may depend on all earlier releases, as long as $μ_t = Δ_t/σ_t$ does not: it is fixed here, before
# private data are touched. All rounds together are then as private as **one** Gaussian release with
#
# $$ μ^2 = \sum_t μ_t^2 , \qquad δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) , $$
#
# exactly: nothing is lost by composing (Dong, Roth, Su 2022, corollary 3.3; the curve of Balle and
# Wang 2018). Rounding the noisy sum to integers is post-processing.
#
# References:
#     Dong, Roth, Su, *Gaussian differential privacy* (2022).
#     Balle, Wang, *Improving the Gaussian mechanism for differential privacy* (2018).


_UP = 1 + 2.0**-40  # what rounding of the sums below may cost, many times over


@dataclass(frozen=True)
class SumPlan:
    """Rounds of noisy sums, and what all of them together promise.

    Arguments:
        ratios: Of each round, μ_t = Δ_t/σ_t: sensitivity in standard deviations of its noise.
        delta: δ of the guarantee.
        records: How many records are summed; public under `replace_one`.
        unit: Whom one record belongs to.

    Examples:
        >>> plan = SumPlan.calibrate(1.0, 1e-5, [3, 1], records=60_000, unit="person")
        >>> [round(ratio, 4) for ratio in plan.ratios], str(plan.guarantee)
        ([0.2321, 0.134], 'ε = 1, δ = 1e-05, replace_one, per person')
    """

    ratios: tuple[float, ...]
    delta: float
    records: int
    unit: str = "person"

    noun: ClassVar[str] = "releases"

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratios", tuple(float(ratio) for ratio in self.ratios))
        if not self.ratios or not all(0 < ratio < math.inf for ratio in self.ratios):
            raise PrivotError(f"ratios {self.ratios}: give a positive number for every round")

    @classmethod
    def calibrate(
        cls, epsilon: float, delta: float, shares: Sequence[float], records: int, unit: str
    ) -> Self:
        """The plan that spends (ε, δ) on rounds, by shares of μ².

        Raises:
            PrivotError: if ε is not positive, or δ not in (0, 1).
        """
        require_finite("epsilon", epsilon, positive=True)
        total = 1.0 / calibrate_gaussian(1.0, epsilon, delta)
        whole = math.fsum(shares)
        ratios = tuple(total / _UP**2 * math.sqrt(share / whole) for share in shares)
        return cls(ratios, delta, records, unit)

    @property
    def uses(self) -> int:
        """Rounds that are declared."""
        return len(self.ratios)

    @cached_property
    def guarantee(self) -> ApproximateDP:
        """What all rounds together promise, however many of them are made."""
        total = math.sqrt(math.fsum(ratio**2 for ratio in self.ratios)) * _UP
        epsilon = gaussian_epsilon(1.0, total, self.delta)
        return ApproximateDP(epsilon, self.delta, "replace_one", self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"ratios": list(self.ratios)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The plan of `to_dict`."""
        return cls(**fields | {"ratios": tuple(fields["ratios"])})


Integers = NDArray[np.int64]
Records = tuple[NDArray[Any], ...]
Floats = NDArray[np.float64]
DIAGONAL, OTHER = 29, 41  # 41² = 1681 ≤ 1682 = 2·29²


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


# Rounds of a run: what was released so far, once more from its checkpoint, and then what is new.
#
# What a run asks is a function of public numbers and of what was released before. A run that goes on
# after a kill therefore asks the same questions again; those that are in the checkpoint are answered
# from it, at no cost. The ledger counts a round before it is made: one that was counted and whose
# answer was lost is spent, and with it the plan, since later rounds would have to do without it.
#
# **Privacy.** A run goes on with the records it began with, labels included, or not at all: sums of
# two sets of records would be told as those of one. Which set that was is known from its account
# alone (`privot.privacy.accounts`: a keyed digest, entered before the first round, in the curator's
# state folder). The checkpoint holds released sums and public settings, and nothing else of the
# records. That a set is another one is told by a refusal, to the curator, before anything is spent.


class Rounds:
    """The releases of a run, in their order.

    Arguments:
        mechanism: Who answers.
        checkpoint: Where answers are kept; a run without resumes nothing.
        progress: Told after every round: which, of how many, and the noise that it bore.

    Raises:
        PrivotError: if the ledger counted rounds that the checkpoint lacks, or rounds of other records.
    """

    def __init__(
        self, mechanism: SumMechanism, checkpoint: Checkpoint, progress: Progress | None = None
    ) -> None:
        self._mechanism, self._checkpoint, self._progress = mechanism, checkpoint, progress
        self._kept = checkpoint.load() or {}
        self._asked = 0
        held, spent = len(self._kept) // 2, mechanism.ledger.spent
        if held != spent:
            raise PrivotError(
                f"ledger {mechanism.ledger.path} counted {spent} rounds, and {held} are in "
                f"{checkpoint.path}: restore both; a round that was lost is spent, and a run without "
                "it starts again with a budget of its own"
            )
        if held:
            mechanism.enter()

    def ask(self, question: Question) -> NoisySums:
        """The answer to the run's next question."""
        sums, stddev = f"sums_{self._asked}", f"stddev_{self._asked}"
        if sums not in self._kept:
            with deferred_interruption() as interruption:
                released = self._mechanism.release(question)
                self._kept[sums] = released.sums
                self._kept[stddev] = np.array(released.stddev)
                self._checkpoint.save(self._kept)
            if interruption.requested:
                raise Interrupted(f"stopped after round {self._asked + 1}")
        self._asked += 1
        told = NoisySums(self._kept[sums], float(self._kept[stddev]))
        if self._progress is not None:
            self._progress(self._asked, self._mechanism.ledger.plan.uses, told.stddev)
        return told
