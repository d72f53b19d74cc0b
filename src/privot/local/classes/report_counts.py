r"""Counts of reports and their likelihood: all that an estimator needs to know of a release.

People who sent the same report about the same columns are interchangeable, so the distinct reports
and how many people sent each are sufficient. One answer $y$ of a report is about one cell $v$ of a
column, or of several columns' product alphabet, and its likelihood is written relative to its least
likely cell,

$$ f(y | v) = c(y)\,(1 + (r−1)\,A_{yv}), \qquad 0 ≤ A_{yv} ≤ 1 ≤ r . $$

$c(y)$ does not depend on the cell and drops out of every estimate. Frequency oracles have
$A = 1[v ∈ S_y]$, the set that the report supports: one cell for randomized response ($r = e^ε$), w for
subset selection ($r = e^ε$), the bits that are on for unary encoding ($r = p(1−q)/(q(1−p))$).
Binned Laplace noise and the square wave over bins have fractions. The form reads as a mixture: with
some probability the device told nothing, else it told a cell in proportion to $A_{y·}$; the EM of
this package builds on that.

Joint reports have one factor over the product of their columns; reports that split the budget have
one factor a column. Cells of a factor are numbered in C order, the last column fastest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privot.errors import PrivotError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Factor:
    """The likelihood of one answer about `columns`: one row of A a distinct answer.

    Args:
        columns: indices of the columns, increasing.
        shape: their alphabets' sizes; cells are C-order flat indices.
        likelihood: A, sparse or dense, shape (answers, cells), entries from 0 to 1.
        ratio: r ≥ 1, finite: largest over least likelihood of an answer where A is 1.

    Raises:
        PrivotError: if the parts do not fit together.
    """

    columns: tuple[int, ...]
    shape: tuple[int, ...]
    likelihood: Any
    ratio: float

    def __post_init__(self) -> None:
        increasing = all(a < b for a, b in zip(self.columns, self.columns[1:], strict=False))
        if not self.columns or not increasing or min(self.columns) < 0:
            raise PrivotError(f"columns is {self.columns!r}: give increasing indices, at least one")
        if len(self.shape) != len(self.columns) or min(self.shape) < 1:
            raise PrivotError(f"shape is {self.shape!r}: give one size ≥ 1 for each of the columns")
        if not 1 <= self.ratio < math.inf:
            raise PrivotError(f"ratio is {self.ratio!r}: give a finite number from 1")
        rows = self.likelihood.shape
        if len(rows) != 2 or rows[1] != math.prod(self.shape):
            raise PrivotError(
                f"likelihood has shape {rows}: give (answers, {math.prod(self.shape)} cells)"
            )
        stored = self.likelihood.data if sparse.issparse(self.likelihood) else self.likelihood
        stored = np.asarray(stored)
        if stored.size and not (stored.min() >= 0 and stored.max() <= 1):
            raise PrivotError(
                "likelihood has entries outside [0, 1]: divide (f/min f − 1) by r − 1"
            )


@dataclass(frozen=True, eq=False)
class ReportGroup:
    """All reports about the same combination of columns.

    Args:
        factors: independent answers of one report, about disjoint columns.
        answers: row of each factor's likelihood, shape (distinct reports, factors).
        counts: how many people sent it, whole numbers, shape (distinct reports,).

    Raises:
        PrivotError: if the parts do not fit together.
    """

    factors: tuple[Factor, ...]
    answers: NDArray[np.int32]
    counts: Array

    def __post_init__(self) -> None:
        columns = [column for factor in self.factors for column in factor.columns]
        if not columns or len(set(columns)) < len(columns):
            raise PrivotError(
                f"factors are about columns {columns}: each column once, at least one"
            )
        if self.answers.shape != (self.counts.size, len(self.factors)) or self.counts.ndim != 1:
            raise PrivotError(
                f"answers has shape {self.answers.shape} and counts {self.counts.shape}: give "
                f"(reports, {len(self.factors)} factors) and (reports,)"
            )
        rows = np.array([factor.likelihood.shape[0] for factor in self.factors])
        if self.answers.size and ((self.answers < 0).any() or (self.answers >= rows).any()):
            raise PrivotError("answers has a row that its factor's likelihood does not have")
        if (self.counts < 0).any() or (self.counts != np.rint(self.counts)).any():
            raise PrivotError("counts has a value that is no whole number ≥ 0: count people")

    @property
    def columns(self) -> tuple[int, ...]:
        """All columns that the reports are about, in the factors' order."""
        return tuple(column for factor in self.factors for column in factor.columns)
