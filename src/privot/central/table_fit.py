r"""Fit of tables by one round of noisy sums: counts of all pairs of columns, and latent classes.

A row's columns are codes (`privot.local.releases`). Their one-hot vectors, each multiplied by a public
weight $u_j$, are concatenated to $z ∈ \{0, u_j\}^D$. The round releases the sum of $z z^\top$: the
counts of all codes and of all pairs of codes. All rows have the same norm, so none is clipped. The noise
of a pair's cells is $∝ 1/(u_i u_j)$, and a pair of columns with K and K′ codes has K K′ cells, so
$u_j ∝ K_j^{1/3}$ minimizes the sum of all absolute errors.

Latent classes are fitted to these counts (`fit_pairs`). The number of classes is doubled until the
residual is at most its expectation under noise alone, half of the number of cells (the discrepancy
principle of Morozov 1966), so that there are no more classes than the released counts support.

**Privacy review.** Adjacency `replace_one`; the round is a Gaussian mechanism (`privot.central.sums`).
Everything else is a function of the release and of public numbers.

References:
    Morozov, *On the solution of functional equations by the method of regularization* (1966).
    Lazarsfeld, Henry, *Latent structure analysis* (1968).
    Kingma, Ba, *Adam: a method for stochastic optimization* (2015).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.central.fitting import PIECE, Law, OneSumFit, RecordMap, SumSettings
from privot.central.sums import (
    DIAGONAL,
    OTHER,
    Budget,
    Floats,
    Integers,
    NoisySums,
    Query,
    Records,
    SumPlan,
    sensitivity,
)
from privot.local.classes.mixture import LatentClasses, LatentClassSampler, Places
from privot.local.model import read_condition
from privot.local.releases import Atoms, ReportedColumn
from privot.schema import Schema

# Adam: steps, learning rate, standard deviation of logits at the start, floor of shares.
_STEPS, _RATE, _SPREAD, _FLOOR = 2000, 0.05, 0.5, 1e-5
_WEIGHT = 64  # integer weight of the column with most codes
_FIRST_CLASSES, _MAX_CLASSES = 16, 256
_MAX_NOISE = 0.5  # largest total variation of a column by noise


def fit_pairs(
    shares: Floats, stddev: Floats, sizes: list[int], classes: int, seed: int
) -> tuple[LatentClasses, float]:
    r"""Fit a mixture to shares of pairs; return it and its negative log-likelihood.

    With class weights π and the probabilities $P ∈ R^{D×C}$ of all codes in each class, expected shares
    are $P \operatorname{diag}(π) P^\top$ off the diagonal and $P π$ on it. Errors are Gaussian with
    known standard deviations, so the negative log-likelihood is, up to a constant, half the sum of
    squared standardized errors, which Adam minimizes over logits.

    Arguments:
        shares: Shares of all pairs of codes (D, D), symmetric; shares of codes on the diagonal.
        stddev: Standard deviations (D, D) of errors, infinite where nothing was measured.
        sizes: Number of codes of each column.
        classes: Number of classes C.
        seed: Seed of the random start.
    """
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *sizes[:-1]])
    # Off the diagonal, every pair occurs twice in the symmetric matrix.
    weight = stddev**-2.0 * (0.25 + 0.25 * np.eye(len(shares)))
    start = np.log(np.maximum(np.diag(shares), _FLOOR))[:, None]
    logits = start + _SPREAD * rng.standard_normal((len(shares), classes))
    log_weights = np.zeros(classes)
    optimizers = _Adam(logits), _Adam(log_weights)
    for step in range(_STEPS):
        rate = _RATE * (1 + math.cos(math.pi * step / _STEPS)) / 2
        gradients, p, loss = _gradients(logits, log_weights, shares, weight, starts)
        for optimizer, gradient in zip(optimizers, gradients, strict=True):
            optimizer.step(gradient, rate)
    weights = _softmax(log_weights, np.zeros(1, np.int64))
    parts = [part / part.sum(axis=0) for part in np.split(p, starts[1:])]
    return LatentClasses(weights / weights.sum(), tuple(parts)), loss


def _gradients(
    logits: Floats, log_weights: Floats, target: Floats, weight: Floats, starts: Integers
) -> tuple[tuple[Floats, Floats], Floats, float]:
    r"""Return the gradients of the loss in logits and log weights, the probabilities P, and the loss.

    With $E = P \operatorname{diag}(π) P^\top$ off the diagonal and $E_{ii} = (Pπ)_i$ on it, the loss
    $\sum_{ij} w_{ij} (E_{ij} − T_{ij})^2$ has the gradient $G = 2 w ∘ (E − T)$ in E, which is symmetric.
    With g its diagonal and $G°$ the rest, the gradient in P is
    $2 G° P \operatorname{diag}(π) + g π^\top$, and in π $\operatorname{diag}(P^\top G° P) + P^\top g$.
    """
    p, weights = _softmax(logits, starts), _softmax(log_weights, np.zeros(1, np.int64))
    expected = (p * weights) @ p.T
    np.fill_diagonal(expected, p @ weights)
    gap = expected - target
    slope = 2 * weight * gap
    own = np.diag(slope).copy()
    np.fill_diagonal(slope, 0.0)
    product = slope @ p
    in_p = 2 * product * weights + own[:, None] * weights
    in_weights = (p * product).sum(axis=0) + own @ p
    # A softmax p has the derivative diag(p) − p pᵀ.
    in_logits = p * (in_p - _column_sums(p * in_p, starts, len(p)))
    in_log_weights = weights * (in_weights - weights @ in_weights)
    return (in_logits, in_log_weights), p, float((weight * gap**2).sum())


def _column_sums(values: Floats, starts: Integers, size: int) -> Floats:
    """Return for each code the sum of values over all codes of its column."""
    counts = np.diff(starts, append=size)
    return np.repeat(np.add.reduceat(values, starts, axis=0), counts, axis=0)


def _softmax(logits: Floats, starts: Integers) -> Floats:
    """Return the softmax over the codes of each column; columns begin at the rows `starts`."""
    counts = np.diff(starts, append=len(logits))
    highest = np.repeat(np.maximum.reduceat(logits, starts, axis=0), counts, axis=0)
    powers = np.exp(logits - highest)
    return np.asarray(powers / _column_sums(powers, starts, len(logits)))


class _Adam:
    """Adam optimizer of one array, in place (β = .9, .999)."""

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


@dataclass(frozen=True, eq=False)
class TableMixture(Law):
    """Latent classes of a table's columns, sampled exactly under conditions on any column."""

    kind: ClassVar[str] = "classes"

    sampler: LatentClassSampler

    def pieces(
        self, records: RecordMap, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
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
        cls, records: RecordMap, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """See `Law`."""
        return cls(LatentClassSampler.stored(records.schema, fields, arrays))


@dataclass(frozen=True)
class CodedRecords(RecordMap):
    """Map from rows of a schema with coded columns to codes of atoms."""

    schema: Schema

    @cached_property
    def atoms(self) -> tuple[Atoms, ...]:
        """Atoms of each column: the finest cells that its codings distinguish."""
        columns = self.schema.coded.items()
        return tuple(Atoms.of(name, [ReportedColumn(column, True)]) for name, column in columns)

    @property
    def sizes(self) -> list[int]:
        """Number of codes of each column."""
        return [len(atoms.codes) for atoms in self.atoms]

    def encode(self, table: pa.Table) -> tuple[Integers]:
        """See `RecordMap`: codes (n, columns)."""
        columns = []
        for (name, column), atoms in zip(self.schema.coded.items(), self.atoms, strict=True):
            (codings,) = atoms.codings
            shape = tuple(coding.size for coding in codings)
            known = np.ravel_multi_index([coding.codes for coding in codings], shape)
            cells = np.ravel_multi_index([*column.encode_codings(name, table)], shape)
            order = np.argsort(known)
            columns.append(order[np.searchsorted(known[order], cells)])
        return (np.stack(columns, axis=1),)


class PairCounts(Query):
    """Query: counts of all codes and of all pairs of codes.

    Arguments:
        sizes: Number of codes of each column.

    Attributes:
        weights: Integer weight u of each column.
        column_of_code: Column of every code (D,).
    """

    moment, non_negative, slots = 2, True, 1  # one sum of z zᵀ

    def __init__(self, sizes: list[int]) -> None:
        relative = (np.array(sizes) / max(sizes)) ** (1 / 3)
        self.weights = np.maximum(np.rint(_WEIGHT * relative), 1).astype(np.int64)
        self.column_of_code = np.repeat(np.arange(len(sizes)), sizes)
        self.width, self.radius = sum(sizes), math.ceil(math.sqrt((self.weights**2).sum()))
        self._starts = np.cumsum([0, *sizes[:-1]])

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Query`."""
        codes = records[0] + self._starts
        vectors = np.zeros((len(codes), self.width), np.int64)
        np.put_along_axis(vectors, codes, self.weights[None], axis=1)
        return np.zeros(len(codes), np.int64), vectors

    def counts(self, released: NoisySums) -> tuple[Floats, Floats]:
        """Return counts (D, D) and standard deviations (D, D) of errors, infinite if not measured."""
        weights = self.weights[self.column_of_code].astype(float)
        unit = np.outer(weights, weights)
        diagonal = np.eye(self.width, dtype=bool)
        # Off the diagonal, sums are multiplied by 41 instead of 29 before noise is added.
        stddev = released.stddev * np.where(diagonal, 1.0, DIAGONAL / OTHER) / unit
        same = self.column_of_code[:, None] == self.column_of_code
        return released.sums[0] / unit, np.where(same & ~diagonal, np.inf, stddev)


class TableFit(OneSumFit):
    """Fit of a table of codes by one round."""

    records: CodedRecords

    def __init__(self, schema: Schema, settings: SumSettings, budget: Budget) -> None:
        self.records, self.settings, self.budget = CodedRecords(schema), settings, budget

    @cached_property
    def query(self) -> PairCounts:  # type: ignore[override]  # made when it is first used
        """See `OneSumFit`."""
        return PairCounts(self.records.sizes)

    def plan(self) -> SumPlan:
        """See `CentralFit`.

        Raises:
            PrivotError: if noise alone would change every column by a total variation above ½.
        """
        query = self.query
        plan = self.budget.plan([1.0])
        # The noise Δ/μ is added to sums whose diagonal is multiplied by 29 (`privot.central.sums`).
        stddev = sensitivity(query) / plan.ratios[0] / DIAGONAL
        nothing = np.zeros((1, query.width, query.width))
        share = np.diag(query.counts(NoisySums(nothing, stddev))[1]) / self.budget.records
        # Expected total variation by Gaussian noise: half the sum of mean absolute errors of shares.
        least = min(np.bincount(query.column_of_code, weights=share)) / math.sqrt(2 * math.pi)
        words = f"noise alone would move every column by a total variation of {least:.2g} or more"
        self.budget.require_signal(least, _MAX_NOISE, "rows", words, "fewer columns")
        return plan

    def law(self, released: NoisySums) -> TableMixture:
        """See `OneSumFit`: latent classes that explain the released pairs of codes."""
        count, classes, seed = self.budget.records, self.settings.classes, self.settings.seed
        counts, stddev = self.query.counts(released)
        pairs, sizes = (counts / count, stddev / count), self.records.sizes
        explained = np.isfinite(stddev)[np.triu_indices(len(stddev))].sum() / 2
        number = classes or _FIRST_CLASSES
        mixture, residual = fit_pairs(*pairs, sizes, number, seed)
        while not classes and residual > explained and number < _MAX_CLASSES:
            number *= 2
            mixture, residual = fit_pairs(*pairs, sizes, number, seed)
        places = tuple(Places(each.codes, each.cells) for each in self.records.atoms)
        return TableMixture(LatentClassSampler(mixture, places, self.records.schema))
