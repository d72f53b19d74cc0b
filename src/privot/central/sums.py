r"""Noisy sums of private records: the plan of a run, its queries, the mechanism and its rounds.

**Mechanism.** A round answers a `Query`: a public map, which may depend on earlier releases, from one
record x to a slot $j(x)$ and an integer vector $v(x) ∈ Z^w$ with $‖v(x)‖ ≤ R$. It releases, for every j,

$$ \sum_{i : j(x_i) = j} v(x_i) + N_j \quad \text{(moment 1), or} \quad
   \sum_{i : j(x_i) = j} v(x_i) v(x_i)^\top + N_j \quad \text{(moment 2)} . $$

Only the upper triangle of a matrix is summed, with diagonal entries multiplied by 29 and the others by
41. As $41^2 ≤ 2·29^2$, the contribution of one record has a norm of at most $29 ‖v‖^2$. Entries off the
diagonal, each of which represents two, have less noise by the factor $29/41 ≈ 1/\sqrt 2$.

**Adjacency** is `replace_one`: one unit's record becomes any other; the number of records is public.
Each unit must have only one record. **Δ.** A record adds a vector $c$ of norm at most L (R, or 29 R²) to
its slot. Replacing a record changes all slots together by $\sqrt{‖c‖^2 + ‖c'‖^2} ≤ \sqrt 2 L$ if the two
records have different slots, and by $‖c − c'‖$ if they share one: at most $2L$, or $\sqrt 2 L$ if
$⟨c, c'⟩ ≥ 0$. Under `zero_out` a blank replaces the record and adds nothing: Δ = L. Moments of order 2
always satisfy $⟨c, c'⟩ ≥ 0$:

$$ ⟨c, c'⟩ = \tfrac{41^2}{2} ⟨v, v'⟩^2 + \bigl(29^2 − \tfrac{41^2}{2}\bigr) \sum_i v_i^2 v_i'^2 ≥ 0 . $$

Moments of order 1 satisfy it if the query declares its vectors non-negative, which is checked. The noise
is $⌊σ Z + ½⌋$, with Z standard normal, $σ = Δ/μ_t$, and μ_t from the plan.

**Indicators.** The vector of a query of counts consists of B blocks. Each block is a one-hot vector
times a public integer $u_j$, and the query returns its position. At moment 1 the release contains the
number of records at each position of each block, and $Δ = \sqrt{2 \sum_j u_j^2}$ is the change by a
record that differs in every block. At moment 2 it also contains the number at each pair of positions.

**Composition.** The query of a round may depend on all earlier releases, as long as $μ_t = Δ_t/σ_t$
does not: the plan fixes it before private data are read. All rounds are then as private as **one**
release with

$$ μ^2 = \sum_t μ_t^2 , \qquad δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) , $$

exactly: nothing is lost by composing (Dong, Roth, Su 2022, corollary 3.3; the curve of Balle and Wang
2018).

**Floating point.** Vectors are integers, and are checked: a vector that is too long, or negative though
the query declared otherwise, is replaced by zeros, as is a record with a position outside its block.
Sums are exact in any order. The noise is an exactly rounded Gaussian (`privot.mechanisms.samplers`); an
integer plus this noise is the rounded noisy sum, post-processing of the continuous mechanism. A query
maps records independently, in chunks that begin at fixed rows: no bit of a vector depends on another
record.

**Passes.** A round is one pass over the records, which are read and encoded in chunks and not stored, so
memory does not grow with their number. The first pass also computes their fingerprint. Until a pass is
complete nothing is charged or released.

**Privacy review: who sees what.** Releases have public shapes. The time of a release depends on raw
records (how they are compressed, the order of slots in memory, the rejections of the sampler), so only
the curator may measure it. A fingerprint, a keyed digest of values and labels, recognizes a second run
on the same records; it stays with the curator, as do refusals of records. Nothing is logged, and no file
of records is written. **Count first**: the plan's whole guarantee is entered in the account of these
records before the first round is charged, and the ledger is charged before a round is answered.

**Resuming.** Queries are functions of public numbers and of earlier releases. So a run that is resumed
after a kill repeats its queries, and answers in the checkpoint are used again, at no cost. If the answer
of a round that the ledger counted was lost, the run cannot be resumed, since later rounds depend on it.
Nor can it be resumed with other records, since sums of two sets would be combined. Such records have
another account (`privot.privacy.ledger`), and are refused before any budget is spent. The checkpoint
contains only released sums and public settings.

References:
    Dong, Roth, Su, *Gaussian differential privacy* (2022).
    Balle, Wang, *Improving the Gaussian mechanism for differential privacy* (2018).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from privot.core.errors import PrivotError, require_choice, require_finite
from privot.core.processes import deferred_interruption
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.mechanisms.samplers import check_ratio
from privot.models import Checkpoint
from privot.privacy import ApproximateDP, calibrate_gaussian, gaussian_epsilon
from privot.privacy.guarantees import Neighboring
from privot.privacy.ledger import Ledger, Plan, charge, fingerprint
from privot.privacy.rounding import at_most
from privot.training import Interrupted, Progress

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Records = tuple[NDArray[Any], ...]
Chunks = Callable[[], Iterable[Records]]  # each call makes one pass over all records
P = TypeVar("P", bound=Plan)

DIAGONAL, OTHER = 29, 41  # 41² = 1681 ≤ 1682 = 2·29²
_UP = 1 + 2.0**-40  # exceeds 1 + the relative rounding errors of Δ and of μ by far
CHUNK = 4096  # records encoded at once
_BLOCKS = 100  # a ledger reserves releases in blocks of 1/100 of the plan: a kill wastes one block


def open_ledger(plan: P, checkpoint: Path | None, resume: bool) -> Ledger[P]:
    """Open a run's ledger, beside its checkpoint or in memory; PrivotError if one of the two is gone."""
    if checkpoint is None:
        return Ledger(plan)
    path = checkpoint.with_name(checkpoint.name + ".ledger")
    if resume and checkpoint.exists() and not path.exists():
        raise PrivotError(
            f"ledger {path} is gone, and {checkpoint} was learned from its releases: restore it; a "
            "new run without it spends a budget of its own, which adds to the plan's"
        )
    ledger = Ledger(plan, path, resume=resume, ahead=plan.uses // _BLOCKS)
    if resume and path.exists() and not checkpoint.exists() and not ledger.left:
        raise PrivotError(
            f"ledger {path} has counted all {plan.uses:,} {plan.noun}, and {checkpoint} is gone: "
            "this run is finished, use its model; a run with another path spends another budget"
        )
    return ledger


def whole_records(*parts: NDArray[Any]) -> Iterator[NDArray[np.float32]]:
    """Yield chunks (rows, p) of records as `privot.privacy.ledger.fingerprint` takes them.

    Arguments:
        parts: Arrays (n, …) of the same n records: values, then labels, integers below 2^24, which
            are exact in single precision. Give label 0 to records without labels, as all methods do.

    Examples:
        >>> [rows.tolist() for rows in whole_records(np.zeros((2, 1, 2)), np.array([0, 3]))]
        [[[0.0, 0.0, 0.0], [0.0, 0.0, 3.0]]]
    """
    for records in _in_chunks(parts):
        with np.errstate(over="ignore"):  # numbers too large are infinity in single precision
            chunk = [np.asarray(part, np.float32) for part in records]
        yield np.concatenate([part.reshape(len(part), -1) for part in chunk], axis=1)


@dataclass(frozen=True)
class Budget:
    """Public numbers of a run: ε > 0, δ in (0, 1), the number of records, and the owner of a record."""

    epsilon: float
    delta: float
    records: int
    unit: str = "person"

    def signal(self, num_labels: int) -> float:
        """Return s = μ n/labels, with which a label's signal-to-noise ratio grows (Δ/σ = μ)."""
        return self.records / calibrate_gaussian(1.0, self.epsilon, self.delta) / num_labels

    def plan(self, shares: Sequence[float]) -> "SumPlan":
        """Return the plan of this budget: see `SumPlan.calibrate`."""
        return SumPlan.calibrate(self.epsilon, self.delta, shares, self.records, self.unit)

    def require_signal(
        self, noise: float, limit: float, noun: str, effect: str, remedy: str
    ) -> None:
        """Refuse noise above the limit; it is inversely proportional to the number of records.

        `noun` (the records), `effect` and `remedy` are words of the message.
        """
        if noise > limit:
            raise PrivotError(
                f"epsilon {at_most(self.epsilon)} for {self.records:,} {noun}: {effect}; give "
                f"{math.ceil(self.records * noise / limit):,} {noun}, as much more epsilon, or {remedy}"
            )


@dataclass(frozen=True)
class SumPlan(Plan):
    """Noise of the rounds of a run, and the guarantee of all of them together.

    Arguments:
        ratios: μ_t = Δ_t/σ_t of each round t: sensitivity divided by the noise's standard deviation.
        delta: δ of the guarantee.
        records: Number of records that are summed; public, whoever may differ.
        unit: Owner of one record, such as a person.
        neighboring: Who may differ: `replace_one`, or `zero_out` with the smaller Δ = L.

    Examples:
        >>> plan = SumPlan.calibrate(1.0, 1e-5, [3, 1], records=60_000, unit="person")
        >>> [round(ratio, 4) for ratio in plan.ratios], str(plan.guarantee)
        ([0.2321, 0.134], 'ε = 1, δ = 1e-05, replace_one, per person')
    """

    ratios: tuple[float, ...]
    delta: float
    records: int
    unit: str = "person"
    neighboring: Neighboring = "replace_one"

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratios", tuple(float(ratio) for ratio in self.ratios))
        if not self.ratios or not all(0 < ratio < math.inf for ratio in self.ratios):
            raise PrivotError(f"ratios {self.ratios}: give a positive number for every round")
        require_choice("neighboring", self.neighboring, ("replace_one", "zero_out"))

    @classmethod
    def calibrate(
        cls, epsilon: float, delta: float, shares: Sequence[float], records: int, unit: str
    ) -> Self:
        """Return the plan that spends (ε, δ) on one round a share, with $μ_t^2$ proportional to shares.

        Raises:
            PrivotError: if ε is not positive, or δ not in (0, 1).
        """
        require_finite("epsilon", epsilon, positive=True)
        total = 1.0 / calibrate_gaussian(1.0, epsilon, delta)
        sum_of_shares = math.fsum(shares)
        ratios = tuple(total / _UP**2 * math.sqrt(share / sum_of_shares) for share in shares)
        return cls(ratios, delta, records, unit)

    @property
    def uses(self) -> int:
        return len(self.ratios)

    @cached_property
    def guarantee(self) -> ApproximateDP:
        total = math.sqrt(math.fsum(ratio**2 for ratio in self.ratios)) * _UP
        epsilon = gaussian_epsilon(1.0, total, self.delta)
        return ApproximateDP(epsilon, self.delta, self.neighboring, self.unit)

    def stddev(self, query: "Query", index: int = 0) -> float:
        """Return σ = Δ/μ, the noise on integer sums in round `index`; refuse one beyond the sampler."""
        return check_ratio(sensitivity(query, self.neighboring) / self.ratios[index])

    def released_stddev(self, query: "Query", index: int = 0) -> float:
        """Return the standard deviation that the release of round `index` will state (`NoisySums`)."""
        return self.stddev(query, index) / (DIAGONAL if query.moment == 2 else 1)


class Query(ABC):
    """Public map from single records to slots and vectors; one round sums the vectors of each slot.

    Attributes:
        slots: Number of slots.
        width: Number w of coordinates of a vector.
        radius: Largest norm R of a vector.
        moment: 1 to sum vectors v, 2 to sum products v vᵀ.
        non_negative: At moment 1, whether no vector has a negative coordinate.
    """

    slots: int
    width: int
    radius: float
    moment: Literal[1, 2]
    non_negative: bool

    @abstractmethod
    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """Return slots (n,) and vectors (n, w) of n records, each computed from one record."""

    def add(self, total: Integers, records: Records) -> None:
        """Add the sums of records to a total; vectors that break a declaration count as zeros."""
        slots, vectors = self.answer(records)
        add = _add_vectors if self.moment == 1 else _add_products
        total += add(slots, _checked(vectors, self), self.slots)


class Indicators(Query):
    """Query whose vectors consist of B blocks, each with one integer at a position and zeros elsewhere.

    Attributes:
        sizes: Number of positions in each block.
    """

    sizes: tuple[int, ...]
    moment: Literal[1, 2] = 1
    slots, non_negative = 1, True

    @cached_property
    def weights(self) -> Integers:
        """Integer $u_j$ of each block (B,), 1 by default."""
        return np.ones(len(self.sizes), np.int64)

    @property
    def width(self) -> int:  # type: ignore[override]  # read-only
        return sum(self.sizes)

    @property
    def radius(self) -> float:  # type: ignore[override]  # read-only
        """See `Query`: the root of Σ u_j², rounded up."""
        return math.sqrt((self.weights**2).sum()) * _UP

    @abstractmethod
    def positions(self, records: Records) -> Integers:
        """Return each record's position within each block (n, B), from 0 to the block's size − 1."""

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Query`; `add_indicators` sums these vectors without forming them."""
        positions, inside = _positions(self, records)
        columns = np.where(inside[:, None], positions, 0) + np.cumsum(self.sizes) - self.sizes
        vectors = np.zeros((len(columns), self.width), np.int64)
        np.put_along_axis(vectors, columns, inside[:, None] * self.weights, axis=1)
        return np.zeros(len(columns), np.int64), vectors

    def add(self, total: Integers, records: Records) -> None:
        add_indicators(total, self, records)


@dataclass(frozen=True, eq=False)
class NoisySums:
    """Release of a round, in units of the query's vectors."""

    sums: Floats  # vectors (slots, w), or at moment 2 symmetric matrices (slots, w, w)
    # Standard deviation of the noise; at moment 2 of the diagonal, and 29/41 of it elsewhere.
    stddev: float


def sensitivity(query: Query, neighboring: Neighboring = "replace_one") -> float:
    """Return the largest change of all slots together, in ℓ2, when one record is replaced."""
    longest = DIAGONAL * float(query.radius) ** 2 if query.moment == 2 else query.radius
    if neighboring == "zero_out":
        return longest * _UP
    return (math.sqrt(2.0) if query.moment == 2 or query.non_negative else 2.0) * longest * _UP


class SumMechanism:
    """Mechanism that holds private records, and answers queries within a ledger's budget.

    Arguments:
        records: All data that queries may read: arrays of n rows each, or a function whose every call
            yields these arrays in chunks of `CHUNK` rows.
        ledger: Ledger of the rounds.
        digest: Fingerprint of the raw records, if `records` are computed from them.
    """

    def __init__(
        self, records: Records | Chunks, ledger: "Ledger[SumPlan]", digest: str | None = None
    ) -> None:
        self.ledger = ledger
        self._read = records if callable(records) else partial(_in_chunks, records)
        self._digest = digest  # the fingerprint, once it is known
        self._entered = False

    def release(self, query: Query) -> NoisySums:
        """Charge the next round, and return its release; raises as `release_integers`."""
        return noisy_sums(query, *self.release_integers(query))

    def release_integers(self, query: Query) -> tuple[Integers, float]:
        """Charge the next round; return its noisy integer sums and their standard deviation.

        Raises:
            BudgetExhausted: if no round is left.
            PrivotError: if the number of records is not the plan's, a value is NaN or infinite, sums
                would not be exact, or earlier rounds used other records.
        """
        plan = self.ledger.plan
        most = min((2.0**53 / plan.records) ** (1 / query.moment), 2.0**26)
        if not 0 < query.radius < most:
            raise PrivotError(
                f"radius {query.radius}: give a positive one below {most:g}, so that sums of "
                f"{plan.records:,} records are exact"
            )
        _ = plan.stddev(query, int(np.argmin(plan.ratios)))  # refused before anything is spent
        sums = noise_free(query, self._exact_sums(query))
        self.enter()
        number = self.ledger.spend()  # from 1; unique, even if other threads use this ledger
        stddev = plan.stddev(query, number - 1)
        return sums + sample_rounded_gaussian(sums.shape, stddev), stddev

    def enter(self) -> None:
        """Enter the plan in the account of these records, if it is not there yet.

        Raises:
            PrivotError: if earlier rounds of the plan used other records.
        """
        if not self._entered:
            self._digest = self._digest or fingerprint_of(self._pass())
            charge(self._digest, self.ledger)
            self._entered = True

    def _pass(self) -> Iterator[Records]:
        """Yield all records in chunks; refuse those that do not fit the plan, or are not finite."""
        count, expected = 0, self.ledger.plan.records
        for records in self._read():
            count += len(records[0])
            if any(part.dtype.kind == "f" and not np.isfinite(part).all() for part in records):
                raise PrivotError("values hold NaN or infinity: replace or drop such records first")
            yield records
        if count != expected:
            raise PrivotError(
                f"{count:,} records do not fit a plan for {expected:,}: calibrate it for them"
            )

    def _exact_sums(self, query: Query) -> Integers:
        """Return sums (slots, w) of vectors, or at moment 2 sums (slots, w, w) of v vᵀ."""
        total = zero_sums(query)
        chunks = _adding(query, self._pass(), total)
        if self._digest is None:  # the first pass also computes the fingerprint
            self._digest = fingerprint_of(chunks)
        for _ in chunks:  # those that the fingerprint has not read
            pass
        return total


def zero_sums(query: Query) -> Integers:
    """Return the sums of no records (slots, w), or (slots, w, w) at moment 2."""
    return np.zeros((query.slots, *[query.width] * query.moment), np.int64)


def _in_chunks(parts: Records) -> Iterator[Records]:
    """Yield the same rows of all parts, `CHUNK` at once."""
    for start in range(0, len(parts[0]), CHUNK):
        yield tuple(part[start : start + CHUNK] for part in parts)


def fingerprint_of(chunks: Iterable[Records]) -> str:
    """Return the fingerprint by which an account recognizes records."""
    return fingerprint(chain.from_iterable(whole_records(*records) for records in chunks))


def _adding(query: Query, chunks: Iterable[Records], total: Integers) -> Iterator[Records]:
    """Pass on chunks of records, and add the sums of each to the total."""
    for records in chunks:
        query.add(total, records)
        yield records


def add_indicators(
    total: Integers, query: Indicators, records: Records, occurrences: Integers | None = None
) -> None:
    """Add sums of indicators to a total (1, w), or their products to the upper half of one (1, w, w).

    Record i occurs `occurrences[i]` times, once by default. A record with a position outside its block
    counts as zeros.
    """
    positions, inside = _positions(query, records)
    times = None if occurrences is None else occurrences[inside]
    by_block = np.ascontiguousarray(positions[inside].T)
    sizes, weights, starts = query.sizes, query.weights, np.cumsum(query.sizes) - query.sizes
    blocks = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    for i, block in enumerate(blocks):
        counts = np.bincount(by_block[i], times, sizes[i]).astype(np.int64) * weights[i]
        if query.moment == 1:
            total[0, block] += counts
            continue
        total[0, block, block] += np.diag(counts * weights[i])
        for j in range(i + 1, len(sizes)):
            shape = sizes[i], sizes[j]
            pairs = np.bincount(by_block[i] * sizes[j] + by_block[j], times, math.prod(shape))
            pairs = pairs.astype(np.int64).reshape(shape)
            total[0, block, blocks[j]] += pairs * (weights[i] * weights[j])


def _checked(vectors: Integers, query: Query) -> Integers:
    """Replace vectors by zeros that are longer than the radius, or negative but declared otherwise."""
    wrong = np.square(vectors.astype(np.float64)).sum(axis=1) > float(query.radius) ** 2
    if query.moment == 1 and query.non_negative:
        wrong |= (vectors < 0).any(axis=1)
    return np.where(wrong[:, None], 0, vectors)


def _positions(query: Indicators, records: Records) -> tuple[Integers, NDArray[np.bool_]]:
    """Return positions (n, B), and whether all positions of a record are inside their blocks (n,)."""
    positions = query.positions(records)
    return positions, np.asarray(((positions >= 0) & (positions < query.sizes)).all(axis=1))


def _add_vectors(slots: Integers, vectors: Integers, count: int) -> Integers:
    """Return sums of vectors by slot."""
    entries = (np.ones(len(slots), np.int64), (slots, np.arange(len(slots))))
    return np.asarray(csr_array(entries, shape=(count, len(slots))) @ vectors)


def _add_products(slots: Integers, vectors: Integers, count: int) -> Integers:
    """Return sums of v vᵀ by slot; they are integers below 2^53, exact in double precision."""
    order = np.argsort(slots, kind="stable")
    present, starts = np.unique(slots[order], return_index=True)
    floats = vectors[order].astype(np.float64)
    sums = np.zeros((count, vectors.shape[1], vectors.shape[1]), np.int64)
    for slot, part in zip(present, np.split(floats, starts[1:]), strict=True):
        sums[slot] = part.T @ part
    return sums


@lru_cache(maxsize=8)
def _triangle(width: int) -> tuple[Integers, Integers, Integers]:
    """Return rows and columns of the upper triangle of a matrix, and the factors of its entries."""
    rows, columns = np.triu_indices(width)
    return rows, columns, np.where(rows == columns, DIAGONAL, OTHER)


def noise_free(query: Query, sums: Integers) -> Integers:
    """Return the integers to which noise is added: at moment 2, scaled upper triangles of the sums."""
    if query.moment == 1:
        return sums
    rows, columns, factors = _triangle(query.width)
    return np.asarray(sums[:, rows, columns] * factors)


def contributions(query: Query, records: Records) -> Integers:
    """Return the contribution of each record to a round's integer sums (n, slots · entries)."""
    slots, vectors = query.answer(records)
    vectors = _checked(vectors, query)
    if query.moment == 2:
        rows, columns, factors = _triangle(query.width)
        vectors = vectors[:, rows] * vectors[:, columns] * factors
    added = np.zeros((len(slots), query.slots, vectors.shape[1]), np.int64)
    added[np.arange(len(slots)), slots] = vectors
    return added.reshape(len(slots), -1)


def noisy_sums(query: Query, sums: Integers, stddev: float) -> NoisySums:
    """Return the release of integer sums, of any shape, with Gaussian noise of `stddev`."""
    if query.moment == 1:
        return NoisySums(sums.reshape(query.slots, query.width).astype(np.float64), stddev)
    rows, columns, factors = _triangle(query.width)
    matrices = np.empty((query.slots, query.width, query.width))
    entries = sums.reshape(query.slots, -1) / factors
    matrices[:, rows, columns] = matrices[:, columns, rows] = entries
    return NoisySums(matrices, stddev / DIAGONAL)


class Rounds:
    """Releases of a run in order, from its checkpoint or from the mechanism.

    Arguments:
        mechanism: Mechanism that answers new queries.
        checkpoint: File of the answers.
        progress: Callback after every round, with its standard deviation of the noise as the loss.

    Raises:
        PrivotError: if ledger and checkpoint have unequal numbers of rounds, or rounds of other records.
    """

    def __init__(
        self, mechanism: SumMechanism, checkpoint: Checkpoint, progress: Progress | None = None
    ) -> None:
        self._mechanism, self._checkpoint, self._progress = mechanism, checkpoint, progress
        self._stored = checkpoint.load() or {}
        self._made = 0
        stored, spent = len(self._stored) // 2, mechanism.ledger.spent
        if stored != spent:
            raise PrivotError(
                f"ledger {mechanism.ledger.path} counted {spent} rounds, and {stored} are in "
                f"{checkpoint.path}: restore both; a lost round stays spent, and a new run spends a "
                "budget of its own"
            )
        if stored:
            mechanism.enter()

    def release(self, query: Query) -> NoisySums:
        """Return the answer to the run's next query; raise `Interrupted` on a signal, after saving."""
        sums, stddev = f"sums_{self._made}", f"stddev_{self._made}"
        if sums not in self._stored:
            with deferred_interruption() as interruption:
                released = self._mechanism.release(query)
                self._stored[sums] = released.sums
                self._stored[stddev] = np.array(released.stddev)
                self._checkpoint.save(self._stored)
            if interruption.requested:
                raise Interrupted(f"stopped after round {self._made + 1}")
        self._made += 1
        released = NoisySums(self._stored[sums], float(self._stored[stddev]))
        if self._progress is not None:
            self._progress(self._made, self._mechanism.ledger.plan.uses, released.stddev)
        return released
