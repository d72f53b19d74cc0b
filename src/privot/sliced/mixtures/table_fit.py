r"""Tables by one round of noisy sums: all pairs of columns, and the mixture that explains them.

A row's columns are codes (`privot.local.atoms`); side by side, its one-hots are a vector
$z ∈ \{0, u_j\}^D$, column j's with a public weight $u_j$. The round asks for the sum of $z z^\top$: the
counts of all pairs of codes, and of all codes, at once. Every row has the same length, nothing is cut.
The noise of a pair's cells is $∝ 1/(u_i u_j)$, and a pair of columns with K and K′ codes has K K′ cells,
so $u_j ∝ K_j^{1/3}$ makes the sum of all absolute errors least.

Latent classes are fitted to these counts ([`fit_pairs`][privot.sliced.mixtures.pair_fit]). The number of
classes is doubled until the residual is what noise alone would leave, half of the number of cells (the
discrepancy principle of Morozov 1966): no more classes than the released counts support.

References:
    Morozov, *On the solution of functional equations by the method of regularization* (1966).
    Lazarsfeld, Henry, *Latent structure analysis* (1968).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.local.atoms import Asked, Atoms
from privot.local.classes.sampler import LatentClassSampler, Places
from privot.privacy.rounding import at_most
from privot.schema import Schema
from privot.sliced.mixtures.pair_fit import fit_pairs
from privot.sliced.sums.mechanism import DIAGONAL, OTHER, Integers, NoisySums, Records, sensitivity
from privot.sliced.sums.plan import SumPlan
from privot.sliced.sums.rounds import Rounds

Floats = NDArray[np.float64]
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
        return tuple(Atoms.of(name, [Asked(column, jointly=True)]) for name, column in coded)

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
            (codings,) = atoms.asked
            shape = tuple(coding.size for coding in codings)
            known = np.ravel_multi_index([coding.codes for coding in codings], shape)
            told = np.ravel_multi_index(
                list(Asked(column, jointly=True).encode(name, table)), shape
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
