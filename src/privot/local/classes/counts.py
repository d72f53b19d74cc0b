r"""Likelihoods of counted reports (`privot.randomizer.reports.counts`), in flat arrays.

| word | meaning |
|---|---|
| piece | component of a column's marginal: an atom (`privot.local.releases`) or a bump (`marginals`) |
| query | a column in one of its alphabets |
| cell | a code of a query, or a combination of codes of several queries |
| answer | what is reported about one query, or about several jointly |
| factor | table of the likelihoods of answers (rows) to the same queries, given the cells |
| report | one or more independent answers, about different columns |
| group | all reports about the same queries |

**Likelihood.** The likelihood of an answer $y$ given a cell $v$ is written relative to its least likely
cell,

$$ f(y | v) = c(y)\,(1 + (r−1)\,A_{yv}), \qquad 0 ≤ A_{yv} ≤ 1 ≤ r . $$

$c(y)$ does not depend on the cell and drops out of every estimate. For frequency oracles
$A = 1[v ∈ S_y]$ indicates the set of supported cells: one cell for randomized response ($r = e^ε$), w
cells for subset selection ($r = e^ε$), the bits that are on for unary encoding
($r = p(1−q)/(q(1−p))$). For binned Laplace noise and windows over bins, A has values between 0 and 1. EM
(`expectation`) uses this form as a mixture: with some probability the answer is uninformative, otherwise
it reveals a cell with probability proportional to $A_{y·}$.

**Groups** (`count_releases`). Joint reports have one factor over the product of their queries, whose
cells are numbered in C order (the last query fastest). Split reports have one factor per column; with
many columns nearly all reports are distinct. `count_tables` concatenates the groups in flat arrays for
compiled loops, and merges equal reports.

**Pieces.** The matrix $G_{kv}$ of a query has the probability of code k given piece v, which is 0 or 1
if pieces are atoms. If pieces have the shares p, the probabilities of codes are $q = G p$. In class z,
expected counts S of codes are distributed over pieces by their posterior probabilities,

$$ S_{vz} = p_{vz} \sum_{\text{queries}} \sum_k G_{kv} S_{kz} / q_{kz} . $$

This is an EM step too: the piece is missing data like the code, with the posterior
$G_{kv} p_{vz} / q_{kz}$ given the code, so the likelihood never falls. The product of pieces is never
formed: three columns of 100 atoms each cost no more than their alphabets.

References:
    Heitjan, Rubin, *Ignorability and coarse data* (1991).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.local.releases import Releases
from privot.mechanisms.forms import Answers, CodeForm
from privot.randomizer import Counts
from privot.randomizer.reports.counts import CountPlan, Key
from privot.randomizer.reports.joint import JointReport
from privot.randomizer.reports.rows import distinct_rows

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Query(NamedTuple):
    """Column in one of its alphabets."""

    column: int  # number of the column
    law: Array  # G, the probability of each code given each piece of the column (codes, pieces)

    @classmethod
    def of_codes(cls, column: int, codes: Ints, size: int) -> Query:
        """Return the query in which each piece has one code; `codes` (pieces,) are below `size`."""
        return cls(column, (codes == np.arange(size)[:, None]).astype(np.float64))


class Queries(NamedTuple):
    """Sparse matrix of all queries, from pieces of all columns to codes of all queries."""

    sizes: Ints  # (queries,) number of codes of each query
    offsets: Ints  # (queries+1,) number of each query's first code
    pieces: NDArray[np.int32]  # pieces in which a code has positive probability, code after code
    shares: Array  # probability of the code in each of these pieces
    starts: Ints  # (codes+1,) start of each code's entries in `pieces` and `shares`

    @classmethod
    def of(cls, sizes: Sequence[int], queries: Sequence[Query]) -> Queries:
        """Stack queries about columns, whose numbers of pieces are `sizes`.

        Examples:
            >>> stacked = Queries.of([3], [Query(0, np.array([[1, 0.5, 0], [0, 0.5, 1]]))])
            >>> stacked.pieces.tolist(), stacked.shares.tolist(), stacked.starts.tolist()
            ([0, 1, 1, 2], [1.0, 0.5, 0.5, 1.0], [0, 2, 4])
        """
        num_codes = np.array([len(query.law) for query in queries], np.int64)
        first_piece = run_starts(np.array(sizes, np.int64))
        laws = [(query.column, scipy.sparse.csr_array(query.law)) for query in queries]
        pieces = [law.indices + first_piece[column] for column, law in laws]
        return cls(
            sizes=num_codes,
            offsets=run_starts(num_codes),
            pieces=_concatenate(pieces).astype(np.int32),
            shares=np.concatenate([np.zeros(0), *(law.data for _, law in laws)]),
            starts=run_starts(_concatenate([np.diff(law.indptr) for _, law in laws])),
        )


def run_starts(lengths: Ints) -> Ints:
    """Return the starts of consecutive runs of given lengths (n,), and the last one's end (n+1,)."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Factor:
    """Likelihoods of the distinct answers to the same queries."""

    queries: tuple[int, ...]  # numbers of the queries; numbers of columns, if each has one alphabet
    shape: tuple[int, ...]  # sizes of the queries' alphabets; cells are numbered in C order
    likelihood: Any  # A, sparse or dense, with entries from 0 to 1 (answers, cells)
    ratio: float  # r, finite and at least 1


@dataclass(frozen=True, eq=False)
class ReportGroup:
    """Counts of all reports about the same queries."""

    factors: tuple[Factor, ...]  # factors of a report's answers, which are about different columns
    answers: NDArray[np.int32]  # row of each factor in each distinct report (reports, factors)
    counts: Array  # number of people who sent each distinct report, whole numbers (reports,)

    @property
    def queries(self) -> tuple[int, ...]:
        """Numbers of all queries, in the order of the factors."""
        return tuple(query for factor in self.factors for query in factor.queries)


def count_releases(releases: Releases) -> tuple[list[Query], list[ReportGroup]]:
    """Return the queries and groups of all reports of one or several releases.

    Columns are numbered in the order of `releases.atoms`, and pieces are atoms.
    """
    names = list(releases.atoms)
    queries, groups = list[Query](), list[ReportGroup]()
    for number, counts in enumerate(releases.counts):
        first = len(queries)
        for name in counts.randomizer.schema.coded:
            for codes, alphabet in releases.atoms[name].codings[number]:
                queries.append(Query.of_codes(names.index(name), codes, alphabet.size))
        groups += report_groups(counts, first)
    return queries, groups


def report_groups(counts: Counts, first: int = 0) -> list[ReportGroup]:
    """Group all reports of coded columns by their queries.

    Queries are numbered from `first` on, in the schema's order.
    """
    joint = counts.randomizer.joint
    return _split_groups(counts, first) if joint is None else _joint_groups(counts, joint, first)


def _joint_groups(counts: Counts, joint: JointReport, first: int) -> list[ReportGroup]:
    """Return a group with one factor for each sheet (set of queries)."""
    groups = []
    for (sheet,), (sets, people) in sorted(counts.groups.items()):
        shape = joint.design.shape(sheet)
        queries = tuple(first + number for number in joint.design.numbers(sheet))
        form = joint.mechanism(int(np.prod(shape))).supports
        factor = Factor(queries, shape, form.shares(sets), form.ratio)
        rows = np.arange(len(sets), dtype=np.int32)[:, None]
        groups.append(ReportGroup((factor,), rows, people.astype(np.float64)))
    return groups


class SplitAnswers(NamedTuple):
    """Distinct answers about one column, and the answer in each report, by group."""

    form: CodeForm  # likelihood of the answers
    answers: Answers  # sorted distinct answers (d, w)
    ranks: dict[Key, Ints]  # number of each report's answer (reports,), by key of the group


def split_answers(counts: Counts) -> list[SplitAnswers]:
    """Return the answers about every column of split reports, in the schema's order."""
    plan = CountPlan.of(counts.randomizer)
    parts: dict[int, dict[Key, Answers]] = {}
    for key, (answers, _) in counts.groups.items():
        ends = np.cumsum([form.width for form in plan.forms(key)])[:-1]
        for column, part in zip(key, np.split(answers, ends, axis=1), strict=True):
            parts.setdefault(column, {})[key] = part
    columns = []
    for number, (name, declared) in enumerate(counts.randomizer.schema.coded.items()):
        form = cast(CodeForm, counts.randomizer.mechanisms[name].form(declared))
        answers_by_key = parts.get(number, {})
        rows = np.concatenate([np.zeros((0, form.width), np.int32), *answers_by_key.values()])
        first_places, ranks = distinct_rows(rows)
        ends = np.cumsum([len(answers) for answers in answers_by_key.values()])[:-1]
        ranks_by_key = dict(zip(answers_by_key, np.split(ranks, ends), strict=False))
        columns.append(SplitAnswers(form, rows[first_places], ranks_by_key))
    return columns


def _split_groups(counts: Counts, first: int) -> list[ReportGroup]:
    """Group split reports by the columns that they contain; every column is a factor."""
    columns = split_answers(counts)
    factors = []
    for number, (form, answers, _) in enumerate(columns):
        likelihood = form.shares(answers)
        factors.append(Factor((first + number,), likelihood.shape[1:], likelihood, form.ratio))
    groups, numbers = [], range(len(columns))
    for key in sorted(counts.groups, key=lambda key: [number in key for number in numbers]):
        rows = np.stack([columns[column].ranks[key] for column in key], axis=1).astype(np.int32)
        people = counts.groups[key].people.astype(np.float64)
        groups.append(ReportGroup(tuple(factors[column] for column in key), rows, people))
    return groups


class CountTables(NamedTuple):
    """Flat arrays of all groups of reports, as the compiled loops read them.

    The rows of all factors are numbered consecutively, and so are all reports. The `single` arrays list
    the reports with one factor, sorted by factor; the `multi` arrays list the reports with several
    factors, each as a run of (factor, row) pairs. The last start is the end of the last run.
    """

    sizes: Ints  # (columns,) number of pieces of each column
    offsets: Ints  # (columns+1,) first piece of each column, numbered consecutively
    columns: Ints  # (pieces,) column of each piece
    queries: Queries  # probabilities of codes given pieces
    widths: Ints  # (factors,) number of queries of each factor
    gains: Array  # (factors,) r − 1
    cell_start: Ints  # (factors+1,) first cell of each factor; cells in no row are not numbered
    cell_codes: NDArray[np.int32]  # (cells, largest width) codes of each cell, padded with 0
    row_start: Ints  # (rows+1,) into cells
    cells: NDArray[np.int32]  # cells with A > 0 in each row, row after row
    values: Array  # A at `cells`; empty if every entry is 1
    single_start: Ints  # (factors+1,) into single_rows and single_report
    single_rows: Ints  # row of each report with one factor
    single_report: Ints  # number of each report with one factor
    multi_start: Ints  # start of each report's run in multi_factors and multi_rows
    multi_factors: Ints  # factors of the reports with several factors, report after report
    multi_rows: Ints  # row of each of these factors
    multi_report: Ints  # number of each report with several factors
    counts: Array  # (reports,) number of people who sent each report

    @property
    def has_pairs(self) -> bool:
        """True if a report is about several columns; otherwise only marginals are identified."""
        singles = np.diff(self.single_start) > 0
        return bool(self.multi_report.size or (self.widths[singles] > 1).any())

    def with_counts(self, counts: Array) -> CountTables:
        """Return the same reports with other counts (reports,)."""
        return self._replace(counts=counts)

    def nonzero(self) -> CountTables:
        """Return the reports whose count is not 0, in the same order, with their rows and cells."""
        present = self.counts > 0
        new_number = np.cumsum(present) - 1
        single, multi = present[self.single_report], present[self.multi_report]
        single_factor = np.repeat(np.arange(self.gains.size), np.diff(self.single_start))
        runs = np.diff(self.multi_start)
        pairs = np.repeat(multi, runs)
        single_rows, multi_rows = self.single_rows[single], self.multi_rows[pairs]
        lengths = np.diff(self.row_start)
        rows, cells = np.zeros(lengths.size, bool), np.zeros(len(self.cell_codes), bool)
        rows[single_rows] = rows[multi_rows] = True
        entries = np.repeat(rows, lengths)
        cells[self.cells[entries]] = True
        new_row, new_cell = np.cumsum(rows) - 1, np.cumsum(cells, dtype=np.int32) - 1
        return self._replace(
            cell_start=run_starts(cells)[self.cell_start],
            cell_codes=self.cell_codes[cells],
            row_start=run_starts(lengths[rows]),
            cells=new_cell[self.cells[entries]],
            values=self.values[entries] if self.values.size else self.values,
            single_start=run_starts(np.bincount(single_factor[single], minlength=self.gains.size)),
            single_rows=new_row[single_rows],
            single_report=new_number[self.single_report[single]],
            multi_start=run_starts(runs[multi]),
            multi_factors=self.multi_factors[pairs],
            multi_rows=new_row[multi_rows],
            multi_report=new_number[self.multi_report[multi]],
            counts=self.counts[present],
        )

    def held_out(self, folds: int, parts: int, rng: np.random.Generator) -> list[CountTables]:
        """Draw `folds` disjoint samples of the people, each with about one in `parts` of them."""
        remaining, samples = self.counts.astype(np.int64), []
        for fold in range(folds):
            drawn = rng.binomial(remaining, 1 / (parts - fold))
            remaining = remaining - drawn
            samples.append(self.with_counts(drawn.astype(np.float64)))
        return samples

    def splits(
        self, folds: int, parts: int, rng: np.random.Generator
    ) -> list[tuple[CountTables, CountTables]]:
        """Return the training and the held-out reports of `folds` samples (see `held_out`)."""
        return [
            (self.with_counts(self.counts - sample.counts).nonzero(), sample.nonzero())
            for sample in self.held_out(folds, parts, rng)
        ]


def count_tables(
    groups: Iterable[ReportGroup],
    sizes: Sequence[int],
    queries: Sequence[Query] | None = None,
    *,
    merge: bool = True,
) -> CountTables:
    """Concatenate groups of reports in flat arrays.

    Arguments:
        groups: Groups of reports.
        sizes: Number of pieces of each column.
        queries: Queries that the groups number; by default one per column, whose codes are its pieces.
        merge: Whether to merge equal reports; otherwise reports keep their order.

    Raises:
        PrivotError: if a factor's shape contradicts `sizes`.
    """
    if queries is None:
        queries = [Query(column, np.eye(size)) for column, size in enumerate(sizes)]
    stacked = Queries.of(sizes, queries)
    factors, blocks = _merge_groups(groups, stacked.sizes, merge)
    cell_start, cell_codes, lengths, cells, values = _stack_rows(factors, stacked.offsets)
    singles = [block for block in blocks if block.factors.size == 1]
    singles.sort(key=lambda block: int(block.factors[0]))
    multis = [block for block in blocks if block.factors.size > 1]
    singles_per_factor = np.zeros(len(factors), np.int64)
    for block in singles:
        singles_per_factor[block.factors] += len(block.rows)
    return CountTables(
        sizes=np.array(sizes, np.int64),
        offsets=run_starts(np.array(sizes, np.int64)),
        columns=np.repeat(np.arange(len(sizes)), sizes),
        queries=stacked,
        widths=np.array([len(factor.queries) for factor in factors], np.int64),
        gains=np.array([factor.ratio - 1.0 for factor in factors], np.float64),
        cell_start=cell_start,
        cell_codes=cell_codes,
        row_start=run_starts(lengths),
        cells=cells,
        values=values,
        single_start=run_starts(singles_per_factor),
        single_rows=_concatenate([block.rows.ravel() for block in singles]),
        single_report=_concatenate([block.reports for block in singles]),
        multi_start=run_starts(
            _concatenate([np.full(len(block.rows), block.factors.size) for block in multis])
        ),
        multi_factors=_concatenate([np.tile(block.factors, len(block.rows)) for block in multis]),
        multi_rows=_concatenate([block.rows.ravel() for block in multis]),
        multi_report=_concatenate([block.reports for block in multis]),
        counts=np.concatenate([np.zeros(0), *(block.counts for block in blocks)]),
    )


class _ReportBlock(NamedTuple):
    """Reports with the same factors."""

    factors: Ints  # numbers of the factors (f,)
    rows: Ints  # row of each factor, numbered over all factors (reports, f)
    counts: Array  # number of people who sent each report (reports,)
    reports: Ints  # number of each report among all blocks (reports,)


def _merge_groups(
    groups: Iterable[ReportGroup], sizes: Ints, merge: bool
) -> tuple[list[Factor], list[_ReportBlock]]:
    """Return the distinct factors, and blocks of reports: by their factors or, unmerged, by group."""
    numbers: dict[int, int] = {}  # number of each factor, by its identity
    factors: list[Factor] = []
    # Groups of one block, by the factors' numbers and, without merging, the group's number.
    groups_of_block: dict[tuple[tuple[int, ...], int], list[ReportGroup]] = {}
    for number, group in enumerate(groups):
        for factor in group.factors:
            if id(factor) not in numbers:
                _require_shape(factor, sizes)
                numbers[id(factor)] = len(factors)
                factors.append(factor)
        factor_numbers = tuple(numbers[id(factor)] for factor in group.factors)
        groups_of_block.setdefault((factor_numbers, 0 if merge else number), []).append(group)
    first_row = run_starts(np.array([factor.likelihood.shape[0] for factor in factors], np.int64))
    blocks, first_report = list[_ReportBlock](), 0
    for (factor_numbers, _), block_groups in groups_of_block.items():
        answers = np.concatenate([group.answers for group in block_groups]).astype(np.int64)
        counts: Array = np.concatenate([group.counts for group in block_groups]).astype(np.float64)
        if merge:
            first_places, ranks = distinct_rows(answers)
            answers = answers[first_places]
            counts = np.bincount(ranks, counts, len(answers)).astype(np.float64)
        block_factors = np.array(factor_numbers, np.int64)
        rows, reports = answers + first_row[block_factors], first_report + np.arange(len(answers))
        blocks.append(_ReportBlock(block_factors, rows, counts, reports))
        first_report += len(answers)
    return factors, blocks


def _require_shape(factor: Factor, sizes: Ints) -> None:
    """Raise PrivotError if a factor's shape contradicts the sizes (queries,) of the alphabets."""
    if max(factor.queries) >= len(sizes) or factor.shape != tuple(
        int(sizes[query]) for query in factor.queries
    ):
        raise PrivotError(
            f"sizes has no columns {factor.queries} of shape {factor.shape}: give every column's "
            "alphabet size, as in the factors"
        )


def _stack_rows(
    factors: list[Factor], offsets: Ints
) -> tuple[Ints, NDArray[np.int32], Ints, NDArray[np.int32], Array]:
    """Return `cell_start`, `cell_codes`, the lengths of rows, `cells` and `values` (see `CountTables`).

    `offsets` has each query's first code.
    """
    widest, starts = max((len(factor.queries) for factor in factors), default=0), [0]
    codes, lengths, cells, values = [np.zeros((0, widest), np.int32)], [], [], [np.zeros(0)]
    for factor in factors:
        matrix = scipy.sparse.csr_array(factor.likelihood)
        matrix.sum_duplicates()
        used, places = np.unique(matrix.indices, return_inverse=True)
        of_queries = np.stack(np.unravel_index(used, factor.shape), 1) + offsets[[*factor.queries]]
        codes.append(np.pad(of_queries, ((0, 0), (0, widest - len(factor.shape)))))
        cells.append(places + starts[-1])
        starts.append(starts[-1] + used.size)
        lengths.append(np.diff(matrix.indptr))
        values.append(matrix.data)
    data = np.concatenate(values).astype(np.float64)
    return (
        np.array(starts, np.int64),
        np.concatenate(codes).astype(np.int32),
        _concatenate(lengths),
        _concatenate(cells).astype(np.int32),
        data if (data != 1).any() else np.zeros(0),
    )


def _concatenate(parts: Sequence[Ints]) -> Ints:
    """Concatenate zero or more integer arrays (n,)."""
    return np.concatenate([np.zeros(0, np.int64), *parts])
