r"""Tables by one round of noisy sums: all pairs of columns, and the mixture that explains them.

A row's columns are codes (`privot.local.releases`); side by side, its one-hots are a vector
$z ∈ \{0, u_j\}^D$, column j's with a public weight $u_j$. The round asks for the sum of $z z^\top$: the
counts of all pairs of codes, and of all codes, at once. Every row has the same length, nothing is cut.
The noise of a pair's cells is $∝ 1/(u_i u_j)$, and a pair of columns with K and K′ codes has K K′ cells,
so $u_j ∝ K_j^{1/3}$ makes the sum of all absolute errors least.

Latent classes are fitted to these counts ([`fit_pairs`][privot.central.table_fit]). The number of
classes is doubled until the residual is what noise alone would leave, half of the number of cells (the
discrepancy principle of Morozov 1966): no more classes than the released counts support.

References:
    Morozov, *On the solution of functional equations by the method of regularization* (1966).
    Lazarsfeld, Henry, *Latent structure analysis* (1968).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.central.sums import DIAGONAL, OTHER, NoisySums, Records, Rounds, SumPlan, sensitivity
from privot.core.errors import PrivotError
from privot.local.classes.mixture import LatentClasses, LatentClassSampler, Places
from privot.local.model import read_condition
from privot.local.releases import Atoms, ReportedColumn
from privot.privacy.rounding import at_most
from privot.schema import Schema

# Laws of records: what a model draws from, whatever released it.


PIECE = 16_384  # rows drawn at once


class SchemaRecords(Protocol):
    """What records are to a law: rows of a schema, and plain values that make the same map again."""

    @property
    def schema(self) -> Schema:
        """What one record may be."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""


class Law(ABC):
    """A distribution of records."""

    kind: ClassVar[str]

    @abstractmethod
    def pieces(
        self, records: Any, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """Records that meet a condition, in pieces."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """What is needed, beside the arrays, to build it again."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its numbers."""

    @classmethod
    @abstractmethod
    def build(
        cls, records: Any, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """The law of these fields and arrays."""


# Latent classes fitted to counts of all pairs of codes whose errors are Gaussian and known.
#
# With class weights π and each class's probabilities of all codes, $P ∈ R^{D×C}$, expected shares are
# $P \operatorname{diag}(π) P^\top$ off the diagonal and $P π$ on it. Adam over logits minimizes least
# squares in units of the errors: the likelihood. A function of what was released.
#
# References:
#     Lazarsfeld, Henry, *Latent structure analysis* (1968).
#     Kingma, Ba, *Adam: a method for stochastic optimization* (2015).


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_STEPS = 2000
_RATE = 0.05
_SPREAD = 0.5  # of logits at the start
_LEAST = 1e-5


def fit_pairs(
    shares: Floats, stddev: Floats, sizes: list[int], classes: int, seed: int
) -> tuple[LatentClasses, float]:
    """The mixture whose shares of pairs are nearest in units of their errors, and half the distance².

    Arguments:
        shares: Of all pairs of codes (D, D), symmetric; of codes on the diagonal.
        stddev: Of their errors, infinite where nothing was asked.
        sizes: Codes of each column.
        classes: How many.
        seed: Of the start.
    """
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *sizes[:-1]])
    # Both halves of a symmetric matrix hold every pair.
    weight = stddev**-2.0 * (0.25 + 0.25 * np.eye(len(shares)))
    start = np.log(np.maximum(np.diag(shares), _LEAST))
    noise = _SPREAD * rng.standard_normal((len(shares), classes))
    state = [start[:, None] + noise, np.zeros(classes)]
    steps = [_Adam(each) for each in state]
    for step in range(_STEPS):
        rate = _RATE * (1 + math.cos(math.pi * step / _STEPS)) / 2
        gradients, tables, loss = _slopes(state[0], state[1], shares, weight, starts)
        for adam, gradient in zip(steps, gradients, strict=True):
            adam.step(gradient, rate)
    weights = _softmax(state[1], np.zeros(1, np.int64))
    parts = [part / part.sum(axis=0) for part in np.split(tables, starts[1:])]
    return LatentClasses(weights / weights.sum(), tuple(parts)), loss


def _slopes(
    logits: Floats, log_weights: Floats, target: Floats, weight: Floats, starts: Integers
) -> tuple[tuple[Floats, Floats], Floats, float]:
    r"""Gradients of the weighted squares in both arguments, the probabilities, and the sum of squares.

    With $E = P \operatorname{diag}(π) P^\top$ off the diagonal and $E_{ii} = (Pπ)_i$ on it, the loss
    $\sum_{ij} w_{ij} (E_{ij} − T_{ij})^2$ has the slopes $G = 2 w ∘ (E − T)$ in E; hence, G being
    symmetric and $G°$ being G without its diagonal g, the slope in P is
    $2 G° P \operatorname{diag}(π) + g π^\top$, and in π $\operatorname{diag}(P^\top G° P) + P^\top g$.
    """
    tables, weights = _softmax(logits, starts), _softmax(log_weights, np.zeros(1, np.int64))
    expected = (tables * weights) @ tables.T
    np.fill_diagonal(expected, tables @ weights)
    gap = expected - target
    slope = 2 * weight * gap
    own = np.diag(slope).copy()
    np.fill_diagonal(slope, 0.0)
    turned = slope @ tables
    of_tables = 2 * turned * weights + own[:, None] * weights
    of_weights = (tables * turned).sum(axis=0) + own @ tables
    of_logits = tables * (of_tables - _within(tables * of_tables, starts, len(tables)))
    of_log_weights = weights * (of_weights - weights @ of_weights)
    return (of_logits, of_log_weights), tables, float((weight * gap**2).sum())


def _within(values: Floats, starts: Integers, size: int) -> Floats:
    """Sums over each column's codes, once for each code."""
    counts = np.diff(starts, append=size)
    return np.repeat(np.add.reduceat(values, starts, axis=0), counts, axis=0)


def _softmax(logits: Floats, starts: Integers) -> Floats:
    """Probabilities that sum to 1 over the codes of each column, which start at `starts`."""
    counts = np.diff(starts, append=len(logits))
    highest = np.repeat(np.maximum.reduceat(logits, starts, axis=0), counts, axis=0)
    powers = np.exp(logits - highest)
    return np.asarray(powers / _within(powers, starts, len(logits)))


class _Adam:
    """Adam's steps on one array, in place (β = .9, .999)."""

    def __init__(self, values: Floats) -> None:
        self._values, self._count = values, 0
        self._mean, self._square = np.zeros_like(values), np.zeros_like(values)

    def step(self, gradient: Floats, rate: float) -> None:
        self._count += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.001 * (gradient**2 - self._square)
        mean = self._mean / (1 - 0.9**self._count)
        square = self._square / (1 - 0.999**self._count)
        self._values -= rate * mean / (np.sqrt(square) + 1e-8)


# Latent classes as what a curator's table is drawn from: conditions on any column, exactly.


@dataclass(frozen=True, eq=False)
class TableMixture(Law):
    """A mixture of products over a table's columns.

    Arguments:
        sampler: What draws rows of it.
    """

    kind: ClassVar[str] = "classes"

    sampler: LatentClassSampler

    def pieces(
        self,
        records: SchemaRecords,
        num_rows: int,
        rng: np.random.Generator,
        where: Mapping[str, Any],
    ) -> Iterator[pa.Table]:
        """See `Law`."""
        condition = read_condition(records.schema, where)
        names = list(records.schema.table_columns)
        for start in range(0, max(num_rows, 1), PIECE):
            rows = min(PIECE, num_rows - start)
            yield self.sampler.records(rows, rng, condition).select(names)

    def fields(self) -> dict[str, Any]:
        """See `Law`."""
        return self.sampler.shape()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Law`."""
        return self.sampler.arrays()

    @classmethod
    def build(
        cls, records: SchemaRecords, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """See `Law`."""
        return cls(LatentClassSampler.stored(records.schema, fields, arrays))


_WEIGHT = 64  # of the column with most codes
_FIRST_CLASSES, _MOST_CLASSES = 16, 256
_MOST_NOISE = 0.5  # total variation of a column


@dataclass(frozen=True)
class CodedTable:
    """Rows of a schema as codes of atoms.

    Arguments:
        schema: All of whose columns are coded.
    """

    schema: Schema

    @cached_property
    def atoms(self) -> tuple[Atoms, ...]:
        """Of each column: the codes of its bins, or of what all its codings tell apart."""
        coded = self.schema.coded.items()
        return tuple(
            Atoms.of(name, [ReportedColumn(column, jointly=True)]) for name, column in coded
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values that it is made of again."""
        return {"schema": self.schema.to_dict()}

    @property
    def sizes(self) -> list[int]:
        """Codes of each column."""
        return [atoms.size for atoms in self.atoms]

    def encode(self, table: pa.Table) -> Integers:
        """Codes (n, columns) of rows."""
        found = []
        for (name, column), atoms in zip(self.schema.coded.items(), self.atoms, strict=True):
            (codings,) = atoms.codings
            shape = tuple(coding.size for coding in codings)
            known = np.ravel_multi_index([coding.codes for coding in codings], shape)
            told = np.ravel_multi_index(
                list(ReportedColumn(column, jointly=True).encode(name, table)), shape
            )
            order = np.argsort(known)
            found.append(order[np.searchsorted(known[order], told)])
        return np.stack(found, axis=1)


@dataclass(frozen=True, eq=False)
class PairCounts:
    """The question: counts of all pairs of codes.

    Arguments:
        sizes: Codes of each column.
    """

    sizes: list[int]

    moment: ClassVar[Literal[2]] = 2
    non_negative: ClassVar[bool] = True
    slots: ClassVar[int] = 1

    @cached_property
    def weights(self) -> Integers:
        """Of each column."""
        relative = (np.array(self.sizes) / max(self.sizes)) ** (1 / 3)
        return np.maximum(np.rint(_WEIGHT * relative), 1).astype(np.int64)

    @property
    def width(self) -> int:
        """See `Question`."""
        return sum(self.sizes)

    @property
    def radius(self) -> int:
        """See `Question`."""
        return int(np.ceil(np.sqrt((self.weights**2).sum())))

    @cached_property
    def of_code(self) -> Integers:
        """The column of every code (D,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Question`."""
        codes = records[0] + np.cumsum([0, *self.sizes[:-1]])
        vectors = np.zeros((len(codes), self.width), np.int64)
        np.put_along_axis(vectors, codes, self.weights[None], axis=1)
        return np.zeros(len(codes), np.int64), vectors

    def counts(self, released: NoisySums) -> tuple[Floats, Floats]:
        """Counts (D, D) and the standard deviations of their errors; infinite of what was not asked."""
        weights = self.weights[self.of_code].astype(float)
        unit = np.outer(weights, weights)
        diagonal = np.eye(self.width, dtype=bool)
        stddev = released.stddev * np.where(diagonal, 1.0, DIAGONAL / OTHER) / unit
        same = self.of_code[:, None] == self.of_code
        return released.sums[0] / unit, np.where(same & ~diagonal, np.inf, stddev)


def plan_table(coded: CodedTable, epsilon: float, delta: float, count: int) -> SumPlan:
    """One round under (ε, δ); nothing is spent on what noise would drown.

    Raises:
        PrivotError: if noise alone would make half of the total variation of the column that is least
            disturbed: a public computation.
    """
    plan = SumPlan.calibrate(epsilon, delta, [1.0], count, coded.schema.unit)
    question = PairCounts(coded.sizes)
    nothing = np.zeros((1, question.width, question.width))
    stddev = sensitivity(question) / plan.ratios[0] / DIAGONAL
    share = np.diag(question.counts(NoisySums(nothing, stddev))[1]) / count
    # Of Gaussian noise on a column's shares, half the sum of their mean absolute values.
    least = min(np.bincount(question.of_code, weights=share)) / math.sqrt(2 * math.pi)
    if least > _MOST_NOISE:
        raise PrivotError(
            f"epsilon {at_most(epsilon)} for {count:,} rows: noise alone would move every column by a "
            f"total variation of {least:.2g} or more; give "
            f"{math.ceil(count * least / _MOST_NOISE):,} rows, as much more epsilon, or fewer columns"
        )
    return plan


def fit_table(
    rounds: Rounds, coded: CodedTable, count: int, classes: int | None, seed: int
) -> LatentClassSampler:
    """Latent classes that explain the pairs of codes which a round tells.

    Arguments:
        rounds: Of a plan with one round.
        coded: Its columns.
        count: Number of rows.
        classes: How many; None for no more than explain what was released.
        seed: Of the starts.
    """
    question = PairCounts(coded.sizes)
    counts, stddev = question.counts(rounds.ask(question))
    explained = np.isfinite(stddev)[np.triu_indices(len(stddev))].sum() / 2
    number = classes or _FIRST_CLASSES
    while True:
        mixture, residual = fit_pairs(counts / count, stddev / count, coded.sizes, number, seed)
        if classes or residual <= explained or number >= _MOST_CLASSES:
            break
        number *= 2
    return LatentClassSampler(mixture, tuple(map(Places.of, coded.atoms)), coded.schema)
