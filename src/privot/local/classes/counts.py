r"""Counts of reports and their likelihood, in flat arrays: all that an estimator needs of a release.

People who sent the same report about the same columns are interchangeable, so the distinct reports
and how many people sent each are sufficient. One answer $y$ of a report is about one cell $v$ of a
question (`questions`), or of several ones' product alphabet, and its likelihood is written relative to
its least likely cell,

$$ f(y | v) = c(y)\,(1 + (r−1)\,A_{yv}), \qquad 0 ≤ A_{yv} ≤ 1 ≤ r . $$

$c(y)$ does not depend on the cell and drops out of every estimate. Frequency oracles have
$A = 1[v ∈ S_y]$, the set that the report supports: one cell for randomized response ($r = e^ε$), w for
subset selection ($r = e^ε$), the bits that are on for unary encoding ($r = p(1−q)/(q(1−p))$).
Binned Laplace noise and windows over bins have fractions. The form reads as a mixture: with
some probability the device told nothing, else it told a cell in proportion to $A_{y·}$; the EM of
this package builds on that.

Joint reports have one factor over the product of their questions; reports that split the budget have
one factor a column. Cells of a factor are numbered in C order, the last column fastest.

Groups are laid end to end in flat arrays, which is how compiled loops read them; equal reports are added
up, whatever pieces they came in: the tables grow with the distinct reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.compiled import compiled
from privot.core.errors import PrivotError

# Distinct rows of a table of integers, in lexicographic order, found as numbers instead of records.
#
# A row $(v_1, …, v_w)$ with $0 ≤ v_j < m_j$ is the number $(…(v_1 m_2 + v_2) m_3 + …) + v_w$, and
# numbers are in the order of their rows. Few numbers are counted without sorting any, in time
# proportional to the rows; many are sorted, at a twentieth of the time that comparing records takes.
# Where the numbers would pass 63 bits, the first columns are replaced by their ranks, whose order is
# the same.


Ints = NDArray[np.int64]

_MOST = 2**62
# Below so many numbers a row, to mark each of them is faster than to sort the rows.
_MARKS, _FEWEST_MARKS = 4, 2**16


def distinct_rows(rows: NDArray[Any]) -> tuple[Ints, Ints]:
    """Where each distinct row (n, w) is found, in the rows' order, and the rank (n,) of every row.

    `rows[places]` are the distinct rows; numbers that are no integers are ranked column by column first.

    Examples:
        >>> rows = np.array([[2, 1], [0, 5], [2, 1], [-1, 9]])
        >>> places, ranks = distinct_rows(rows)
        >>> rows[places].tolist(), ranks.tolist()
        ([[-1, 9], [0, 5], [2, 1]], [2, 1, 2, 0])
    """
    keys, size = np.zeros(len(rows), np.int64), 1
    if not len(rows):
        return keys, keys
    for column in rows.T:
        own, span = _from_zero(column)
        if size * span > _MOST:
            keys, size = _ranks(keys, size)[1], len(rows)
        keys, size = keys * span + own, size * span
    return _ranks(keys, size)


def _from_zero(column: NDArray[Any]) -> tuple[Ints, int]:
    """Integers from 0 on in the order of a column's values, and a number above all of them."""
    if column.dtype.kind in "iub":
        low, high = int(column.min()), int(column.max())
        if max(-low, high) < _MOST // (2 * len(column)):
            return column.astype(np.int64) - low, high - low + 1
    distinct, ranks = np.unique(column, return_inverse=True)
    return ranks, len(distinct)


def _ranks(keys: Ints, size: int) -> tuple[Ints, Ints]:
    """A place of each distinct key, in order, and every key's rank among them; keys are below `size`."""
    if size > max(_MARKS * len(keys), _FEWEST_MARKS):
        _, places, ranks = np.unique(keys, return_index=True, return_inverse=True)
        return places, ranks
    marks = np.zeros(size, np.bool_)
    marks[keys] = True
    ranks = (np.cumsum(marks) - 1)[keys]
    places = np.zeros(np.count_nonzero(marks), np.int64)
    places[ranks] = np.arange(len(keys))
    return places, ranks


# Questions: what reports are about, where a column is reported in several alphabets.
#
# A column is learned as shares of **pieces**: its atoms (`privot.local.releases`), or bumps over
# atoms (`bumps`). A question is a column in one of its alphabets. It has a law $G_{kv}$, the
# probability of code k in piece v, 0 or 1 where pieces are atoms; the probabilities of codes and the
# likelihood follow from $q = G p$. Expected numbers of people S of its codes are given back to pieces
# in proportion to what is believed of them,
#
# $$ S_{vz} = p_{vz} \sum_{\text{questions}} \sum_k G_{kv} S_{kz} / q_{kz} , $$
#
# which is EM still: the piece of each told code is missing data as the code is, and given the code
# its law is $G_{kv} p_{vz} / q_{kz}$. So the likelihood climbs at every step as it does over codes,
# and the product of pieces is never formed: three columns of 100 atoms each cost what their alphabets
# cost.
#
# References:
#     Heitjan, Rubin, *Ignorability and coarse data* (1991).


Array = NDArray[np.float64]


class Question(NamedTuple):
    """A column in one of its alphabets.

    Args:
        column: its number.
        law: probabilities of codes in each piece of the column, shape (codes, pieces).
    """

    column: int
    law: Array

    @classmethod
    def of_codes(cls, column: int, codes: Ints, size: int) -> Question:
        """Of pieces each of which has one of so many codes."""
        return cls(column, (codes == np.arange(size)[:, None]).astype(np.float64))

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.law)


class Questions(NamedTuple):
    """All of them laid end to end, their codes numbered through as pieces are."""

    sizes: Ints  # (questions,) numbers of codes
    offsets: Ints  # (questions+1,) first of the numbered codes of each
    pieces: NDArray[np.int32]  # that have a code, one code after the other
    shares: Array  # and how likely it is in each
    starts: Ints  # (codes+1,) into them

    @classmethod
    def of(cls, sizes: Sequence[int], asked: Sequence[Question]) -> Questions:
        """Of columns of so many pieces.

        Examples:
            >>> asked = Questions.of([3], [Question(0, np.array([[1, 0.5, 0], [0, 0.5, 1]]))])
            >>> asked.gather(np.array([[0.5], [0.2], [0.3]])).ravel().tolist()
            [0.6, 0.4]
        """
        counts = np.array([each.size for each in asked], np.int64)
        first = starts(np.array(sizes, np.int64))
        found = [np.nonzero(each.law) for each in asked]
        pieces = [
            places + first[each.column] for (_, places), each in zip(found, asked, strict=True)
        ]
        shares = [each.law[place] for each, place in zip(asked, found, strict=True)]
        held = [np.bincount(k, minlength=n) for (k, _), n in zip(found, counts, strict=True)]
        none = np.zeros(0, np.int64)
        return cls(
            sizes=counts,
            offsets=starts(counts),
            pieces=np.concatenate([none, *pieces]).astype(np.int32),
            shares=np.concatenate([np.zeros(0), *shares]),
            starts=starts(np.concatenate([none, *held])),
        )

    def gather(self, p: Array) -> Array:
        """Probabilities q of codes (codes, classes) from those of pieces (pieces, classes)."""
        return _gather(self, p)

    def give_back(self, expected: Array, q: Array, p: Array) -> Array:
        """Expected numbers of pieces (pieces, classes) from those of codes (codes, classes)."""
        return _give_back(self, expected, q, p)


def plain(sizes: Sequence[int]) -> list[Question]:
    """One question a column, whose codes are its pieces."""
    return [Question(column, np.eye(size)) for column, size in enumerate(sizes)]


def starts(lengths: Ints) -> Ints:
    """Where each of runs of these lengths begins, and the end."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@compiled
def _gather(asked: Questions, p: Array) -> Array:
    q = np.zeros((asked.starts.size - 1, p.shape[1]))
    for code in range(q.shape[0]):
        for t in range(asked.starts[code], asked.starts[code + 1]):
            for z in range(p.shape[1]):
                q[code, z] += asked.shares[t] * p[asked.pieces[t], z]
    return q


@compiled
def _give_back(asked: Questions, expected: Array, q: Array, p: Array) -> Array:
    out = np.zeros_like(p)
    for code in range(q.shape[0]):
        for t in range(asked.starts[code], asked.starts[code + 1]):
            piece = asked.pieces[t]
            for z in range(p.shape[1]):
                if q[code, z] > 0.0:
                    part = asked.shares[t] * p[piece, z] / q[code, z]
                    out[piece, z] += expected[code, z] * part
    return out


@dataclass(frozen=True, eq=False)
class Factor:
    """The likelihood of one answer about `questions`: one row of A a distinct answer.

    Args:
        questions: their numbers; where a column is asked in one way only, its own.
        shape: their alphabets' sizes; cells are C-order flat indices.
        likelihood: A, sparse or dense, shape (answers, cells), entries from 0 to 1.
        ratio: r ≥ 1, finite: largest over least likelihood of an answer where A is 1.
    """

    questions: tuple[int, ...]
    shape: tuple[int, ...]
    likelihood: Any
    ratio: float


@dataclass(frozen=True, eq=False)
class ReportGroup:
    """All reports about the same combination of questions.

    Args:
        factors: independent answers of one report, about different columns.
        answers: row of each factor's likelihood, shape (distinct reports, factors).
        counts: how many people sent it, whole numbers, shape (distinct reports,).
    """

    factors: tuple[Factor, ...]
    answers: NDArray[np.int32]
    counts: Array

    @property
    def questions(self) -> tuple[int, ...]:
        """All that the reports are about, in the factors' order."""
        return tuple(question for factor in self.factors for question in factor.questions)


class CountTables(NamedTuple):
    """Groups of reports laid end to end in flat arrays, as the kernels read them.

    Rows of all factors are numbered through, and so are all reports. `alone` lists the reports of one
    factor, sorted by factor (`alone_start`, `alone_rows`, and their places `alone_report` in `counts`);
    `several` those of more, as runs of (factor, row) pairs.
    """

    sizes: NDArray[np.int64]  # (columns,) numbers of pieces
    offsets: NDArray[np.int64]  # (columns+1,) first piece of each column, all numbered through
    asked: Questions
    factor_questions: NDArray[np.int64]
    factor_start: NDArray[np.int64]  # (factors+1,) into factor_questions
    gains: Array  # (factors,) r − 1
    row_start: NDArray[np.int64]  # (rows+1,) into cells
    cells: NDArray[np.int32]
    values: Array  # A at `cells`; empty where every entry is 1
    alone_start: NDArray[np.int64]  # (factors+1,)
    alone_rows: NDArray[np.int64]
    alone_report: NDArray[np.int64]
    several_start: NDArray[np.int64]
    several_factors: NDArray[np.int64]
    several_rows: NDArray[np.int64]
    several_report: NDArray[np.int64]
    counts: Array  # (reports,)

    @property
    def num_people(self) -> float:
        """How many people reported."""
        return float(self.counts.sum())

    @property
    def sees_pairs(self) -> bool:
        """Whether any report is about more than one column; else only marginals are identified."""
        widths = np.diff(self.factor_start)
        return bool(self.several_report.size or (widths[np.diff(self.alone_start) > 0] > 1).any())

    def with_counts(self, counts: Array) -> CountTables:
        """The same reports, sent by other numbers of people."""
        return self._replace(counts=counts)

    def sent(self) -> CountTables:
        """Without the reports that nobody sent; those that are left keep their order."""
        kept = self.counts > 0
        number = np.cumsum(kept) - 1
        alone, several = kept[self.alone_report], kept[self.several_report]
        factor = np.repeat(np.arange(self.gains.size), np.diff(self.alone_start))
        widths = np.diff(self.several_start)
        pairs = np.repeat(several, widths)
        return self._replace(
            alone_start=starts(np.bincount(factor[alone], minlength=self.gains.size)),
            alone_rows=self.alone_rows[alone],
            alone_report=number[self.alone_report[alone]],
            several_start=starts(widths[several]),
            several_factors=self.several_factors[pairs],
            several_rows=self.several_rows[pairs],
            several_report=number[self.several_report[several]],
            counts=self.counts[kept],
        )

    def held_out(self, folds: int, parts: int, rng: np.random.Generator) -> list[CountTables]:
        """Disjoint tables of one in `parts` people each, drawn without replacement, `folds` of them."""
        left, out = self.counts.astype(np.int64), []
        for fold in range(folds):
            drawn = rng.binomial(left, 1 / (parts - fold))
            left = left - drawn
            out.append(self.with_counts(drawn.astype(np.float64)))
        return out

    def column_of_piece(self) -> NDArray[np.int64]:
        """The column of each of the pieces that are numbered through."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)


def count_tables(
    groups: Iterable[ReportGroup],
    sizes: Sequence[int],
    questions: Sequence[Question] | None = None,
    *,
    merge: bool = True,
) -> CountTables:
    """Lay `groups` end to end, equal reports added up (`merge=False` keeps them in their order).

    Args:
        groups: reports.
        sizes: number of pieces of each column.
        questions: what `groups` are about; by default every column's pieces.
        merge: whether equal reports are added up.

    Raises:
        PrivotError: if a factor's shape contradicts `sizes`.
    """
    asked = Questions.of(sizes, plain(sizes) if questions is None else questions)
    factors, gathered = _gather_groups(groups, asked.sizes, merge)
    first_row = np.cumsum([0, *(factor.likelihood.shape[0] for factor in factors)])
    lengths, cells, values = _stack_rows(factors)
    alone: list[tuple[NDArray[np.int64], ...]] = []
    several: list[tuple[NDArray[np.int64], ...]] = []
    counts = [np.zeros(0)]
    reports = 0
    for which, answers, sent in gathered:
        places = reports + np.arange(len(answers))
        rows = answers + first_row[which]
        if which.size == 1:
            alone.append((np.repeat(which, len(rows)), rows[:, 0], places))
        else:
            several.append((np.full(len(rows), which.size), np.tile(which, len(rows)),
                            rows.ravel(), places))  # fmt: skip
        counts.append(sent)
        reports += len(answers)
    of_factor, alone_rows, alone_report = _columns(alone, 3)
    order = np.argsort(of_factor, kind="stable")
    widths, several_factors, several_rows, several_report = _columns(several, 4)
    return CountTables(
        sizes=np.array(sizes, np.int64),
        offsets=starts(np.array(sizes, np.int64)),
        asked=asked,
        factor_questions=np.array([q for f in factors for q in f.questions], np.int64),
        factor_start=starts(np.array([len(f.questions) for f in factors], np.int64)),
        gains=np.array([f.ratio - 1.0 for f in factors], np.float64),
        row_start=starts(lengths),
        cells=cells,
        values=values,
        alone_start=starts(np.bincount(of_factor, minlength=len(factors))),
        alone_rows=alone_rows[order],
        alone_report=alone_report[order],
        several_start=starts(widths),
        several_factors=several_factors,
        several_rows=several_rows,
        several_report=several_report,
        counts=np.concatenate(counts),
    )


def _gather_groups(
    groups: Iterable[ReportGroup], sizes: NDArray[np.int64], merge: bool
) -> tuple[list[Factor], list[tuple[NDArray[np.int64], NDArray[np.int64], Array]]]:
    """All factors, and groups as their factors' numbers, their distinct answers, and who sent them."""
    numbers: dict[int, int] = {}
    factors: list[Factor] = []
    alike: dict[tuple[int, ...], list[ReportGroup]] = {}
    for place, group in enumerate(groups):
        for factor in group.factors:
            if id(factor) not in numbers:
                _require_fit(factor, sizes)
                numbers[id(factor)] = len(factors)
                factors.append(factor)
        # Merging gathers the groups that share their factors; otherwise every group is its own.
        key = tuple(numbers[id(factor)] for factor in group.factors)
        alike.setdefault(key if merge else (*key, -1 - place), []).append(group)
    gathered = []
    for key, same in alike.items():
        which = np.array([number for number in key if number >= 0], np.int64)
        answers = np.concatenate([group.answers for group in same]).astype(np.int64)
        sent: Array = np.concatenate([group.counts for group in same]).astype(np.float64)
        if merge:
            places, ranks = distinct_rows(answers)
            answers = answers[places]
            sent = np.bincount(ranks, sent, len(answers)).astype(np.float64)
        gathered.append((which, answers, sent))
    return factors, gathered


def _require_fit(factor: Factor, sizes: NDArray[np.int64]) -> None:
    if max(factor.questions) >= len(sizes) or factor.shape != tuple(
        int(sizes[question]) for question in factor.questions
    ):
        raise PrivotError(
            f"sizes has no columns {factor.questions} of shape {factor.shape}: give every column's "
            "alphabet size, as in the factors"
        )


def _stack_rows(
    factors: list[Factor],
) -> tuple[NDArray[np.int64], NDArray[np.int32], Array]:
    """Entries a row, cells and values of all rows; no values if all are 1, to save memory."""
    lengths, cells, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], []
    for factor in factors:
        matrix = scipy.sparse.csr_array(factor.likelihood)
        matrix.sum_duplicates()
        lengths.append(np.diff(matrix.indptr).astype(np.int64))
        cells.append(matrix.indices.astype(np.int32))
        values.append(matrix.data)
    flat = np.zeros(0)
    if any((data != 1).any() for data in values):
        flat = np.concatenate(values).astype(np.float64)
    return np.concatenate(lengths), np.concatenate(cells), flat


def _columns(
    rows: list[tuple[NDArray[np.int64], ...]], width: int
) -> tuple[NDArray[np.int64], ...]:
    empty = np.zeros(0, np.int64)
    return tuple(np.concatenate([empty, *(row[i] for row in rows)]) for i in range(width))
