r"""Fits of latent classes to tables, by one round of noisy counts of all pairs of codes.

Every value of a row is represented by a code (`privot.local.releases`). The one-hot vectors of all
columns j, multiplied by public weights $u_j$, are concatenated to a vector $z ∈ R^D$, with D the number
of all codes. The round releases the sum of $z z^\top$: the counts of all codes and of all pairs of
codes. All rows have the same norm, so none is clipped. The noise of the counts of columns i and j is
$∝ 1/(u_i u_j)$, and there are $K_i K_j$ such counts, with $K_j$ the number of codes of column j. So
$u_j ∝ K_j^{1/3}$ minimizes the sum of absolute errors at a fixed norm $\sum_j u_j^2$.

Latent classes are fitted to these counts (`fit_pairs`). The number of classes is doubled until the
residual is at most its expectation under noise alone, half of the number of measured counts (the
discrepancy principle of Morozov 1966). So there are no more classes than the released counts support.

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
    Indicators,
    Integers,
    NoisySums,
    Records,
    SumPlan,
)
from privot.local.classes.mixture import LatentClasses, LatentClassSampler
from privot.local.model import read_condition
from privot.local.releases import Atoms, Places, ReportedColumn
from privot.schema import Schema

_STEPS, _RATE = 2000, 0.05  # of Adam
_SPREAD, _FLOOR = 0.5, 1e-5  # at the start: standard deviation of logits, smallest share of a code
_MAX_WEIGHT = 64  # of the column with most codes; large, as weights are rounded to integers
_FIRST_CLASSES, _MAX_CLASSES = 16, 256
_ONE_COLUMN = np.zeros(1, np.int64)  # `starts` of a softmax over all rows
_MAX_NOISE = 0.5  # largest total variation that noise may cause in the least noisy column


def fit_pairs(
    shares: Floats, stddev: Floats, sizes: list[int], classes: int, seed: int
) -> tuple[LatentClasses, float]:
    r"""Fit latent classes to shares of pairs of codes.

    With class weights π and the probabilities $P ∈ R^{D×C}$ of all codes in each class, expected shares
    are $P \operatorname{diag}(π) P^\top$ off the diagonal and $P π$ on it. Errors are Gaussian with
    known standard deviations. So the negative log-likelihood is, up to a constant, half the sum of
    squared standardized errors; Adam minimizes it over logits.

    Arguments:
        shares: Shares of all pairs of codes (D, D), symmetric; shares of codes on the diagonal.
        stddev: Standard deviations (D, D) of errors, infinite where nothing was measured.
        sizes: Number of codes of each column.
        classes: Number of classes C.
        seed: Seed of the random start.

    Returns:
        The latent classes, and half the sum of squared standardized errors.
    """
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *sizes[:-1]])
    # ½ of each squared error; off the diagonal ¼, as every pair occurs twice in the symmetric matrix.
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
    weights = _softmax(log_weights, _ONE_COLUMN)
    tables = [table / table.sum(axis=0) for table in np.split(p, starts[1:])]
    return LatentClasses(weights / weights.sum(), tuple(tables)), loss


def _gradients(
    logits: Floats, log_weights: Floats, target: Floats, weight: Floats, starts: Integers
) -> tuple[tuple[Floats, Floats], Floats, float]:
    r"""Return the gradients of the loss in logits and log weights, the probabilities P, and the loss.

    With targets T, weights w, and $E = P \operatorname{diag}(π) P^\top$ off the diagonal and
    $E_{ii} = (Pπ)_i$ on it, the loss $\sum_{ij} w_{ij} (E_{ij} − T_{ij})^2$ has in E the symmetric
    gradient $G = 2 w ∘ (E − T)$. With g its diagonal and $G°$ the rest, the gradient in P is
    $2 G° P \operatorname{diag}(π) + g π^\top$, and in π $\operatorname{diag}(P^\top G° P) + P^\top g$.
    """
    p, weights = _softmax(logits, starts), _softmax(log_weights, _ONE_COLUMN)
    expected = (p * weights) @ p.T
    np.fill_diagonal(expected, p @ weights)
    error = expected - target
    gradient = 2 * weight * error
    diagonal = np.diag(gradient).copy()
    np.fill_diagonal(gradient, 0.0)
    product = gradient @ p
    gradient_p = 2 * product * weights + diagonal[:, None] * weights
    gradient_weights = (p * product).sum(axis=0) + diagonal @ p
    # A softmax p has the derivative diag(p) − p pᵀ.
    gradient_logits = p * (gradient_p - _over_columns(np.add, p * gradient_p, starts))
    gradient_log_weights = weights * (gradient_weights - weights @ gradient_weights)
    return (gradient_logits, gradient_log_weights), p, float((weight * error**2).sum())


def _over_columns(function: np.ufunc, values: Floats, starts: Integers) -> Floats:
    """Reduce values over the codes of each column, and return the result (a sum or maximum) by code."""
    counts = np.append(starts[1:], len(values)) - starts  # np.diff takes ten times as long
    return np.repeat(function.reduceat(values, starts, axis=0), counts, axis=0)


def _softmax(logits: Floats, starts: Integers) -> Floats:
    """Return the softmax over the codes of each column; its codes begin at one of the rows `starts`."""
    powers = np.exp(logits - _over_columns(np.maximum, logits, starts))
    return np.asarray(powers / _over_columns(np.add, powers, starts))


class _Adam:
    """Adam optimizer of one array, which it updates in place (β = .9, .999)."""

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
    """Law of latent classes, sampled exactly under conditions on any column."""

    kind: ClassVar[str] = "classes"

    sampler: LatentClassSampler

    def pieces(
        self, records: RecordMap, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        condition = read_condition(records.schema, where)
        names = list(records.schema.table_columns)
        for start in range(0, max(num_rows, 1), PIECE):
            rows = min(PIECE, num_rows - start)
            yield self.sampler.records(rows, rng, condition).select(names)

    def fields(self) -> dict[str, Any]:
        return self.sampler.fields()

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.sampler.arrays()

    @classmethod
    def build(
        cls, records: RecordMap, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        return cls(LatentClassSampler.stored(records.schema, fields, arrays))


@dataclass(frozen=True)
class CodedRecords(RecordMap):
    """Map from rows to codes of atoms, for a schema all of whose columns have codes."""

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
        coded = self.schema.coded.items()
        return (np.stack([column.encode_atoms(name, table) for name, column in coded], axis=1),)


class PairCounts(Indicators):
    """Query: counts of all codes and of all pairs of codes.

    Arguments:
        sizes: Number of codes of each column.

    Attributes:
        weights: Integer weight u of each column.
        column_of_code: Column of every code (D,).
    """

    moment = 2  # one sum of z zᵀ

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = tuple(sizes)
        relative = (np.array(sizes) / max(sizes)) ** (1 / 3)
        self.weights = np.maximum(np.rint(_MAX_WEIGHT * relative), 1).astype(np.int64)
        self.column_of_code = np.repeat(np.arange(len(sizes)), sizes)

    @property
    def radius(self) -> int:  # type: ignore[override]  # an integer
        return math.ceil(math.sqrt((self.weights**2).sum()))

    def positions(self, records: Records) -> Integers:
        return np.asarray(records[0])

    @property
    def _weight_products(self) -> Floats:
        """Products (D, D) of the weights of two codes: a sum divided by its count."""
        weights = self.weights[self.column_of_code].astype(float)
        return np.outer(weights, weights)

    def counts(self, released: NoisySums) -> Floats:
        """Return the released counts (D, D): of codes on the diagonal, of pairs elsewhere."""
        return np.asarray(released.sums[0] / self._weight_products)

    def errors(self, stddev: float) -> Floats:
        """Return standard deviations (D, D) of the counts of a release with this `stddev`.

        They are infinite for two codes of one column, which no row has together: nothing is measured.
        """
        products = self._weight_products
        diagonal = np.eye(len(products), dtype=bool)
        # Before noise is added, sums are multiplied by `OTHER` off the diagonal, by `DIAGONAL` on it.
        errors = stddev * np.where(diagonal, 1.0, DIAGONAL / OTHER) / products
        same_column = self.column_of_code[:, None] == self.column_of_code
        return np.where(same_column & ~diagonal, np.inf, errors)


class TableFit(OneSumFit):
    """Fit of a table of codes by one round."""

    records: CodedRecords

    def __init__(self, schema: Schema, settings: SumSettings, budget: Budget) -> None:
        self.records, self.settings, self.budget = CodedRecords(schema), settings, budget

    @cached_property
    def query(self) -> PairCounts:  # type: ignore[override]  # made when it is first used
        return PairCounts(self.records.sizes)

    def plan(self) -> SumPlan:
        """See `CentralFit`; refuse noise that moves every column by a total variation above ½."""
        query, plan = self.query, self.budget.plan([1.0])
        errors = query.errors(plan.released_stddev(query))
        share_errors = np.diag(errors) / self.budget.records
        # Expected total variation by Gaussian noise: half the sum of mean absolute errors of shares.
        by_column = np.bincount(query.column_of_code, weights=share_errors)
        least = min(by_column) / math.sqrt(2 * math.pi)
        effect = f"noise alone would move every column by a total variation of {least:.2g} or more"
        self.budget.require_signal(least, _MAX_NOISE, "rows", effect, "fewer columns")
        return plan

    def law(self, released: NoisySums) -> TableMixture:
        """See `OneSumFit`: latent classes that explain the released pairs of codes."""
        number, sizes, seed = self.budget.records, self.records.sizes, self.settings.seed
        shares = self.query.counts(released) / number
        stddev = self.query.errors(released.stddev) / number
        expected_residual = np.isfinite(stddev)[np.triu_indices(len(stddev))].sum() / 2
        places = tuple(Places(atoms.codes, atoms.cells) for atoms in self.records.atoms)
        classes = self.settings.classes or _FIRST_CLASSES
        most = self.settings.classes or _MAX_CLASSES
        mixture, residual = fit_pairs(shares, stddev, sizes, classes, seed)
        while residual > expected_residual and classes < most:
            classes *= 2
            mixture, residual = fit_pairs(shares, stddev, sizes, classes, seed)
        return TableMixture(LatentClassSampler(mixture, places, self.records.schema))
