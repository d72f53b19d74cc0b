r"""Counts of a release's reports and their likelihood, in flat arrays: a sufficient statistic.

An answer $y$ of a report is about one cell $v$ of a query's alphabet, or of the product alphabet of
several queries; its likelihood is written relative to its least likely cell,

$$ f(y | v) = c(y)\,(1 + (r−1)\,A_{yv}), \qquad 0 ≤ A_{yv} ≤ 1 ≤ r . $$

$c(y)$ does not depend on the cell and drops out of every estimate. Frequency oracles have
$A = 1[v ∈ S_y]$, the set that the report supports: one cell for randomized response ($r = e^ε$), w for
subset selection ($r = e^ε$), the bits that are on for unary encoding ($r = p(1−q)/(q(1−p))$).
Binned Laplace noise and windows over bins have fractions. The form reads as a mixture, on which EM
(`expectation`) builds: with some probability the answer is uninformative, else it reveals a cell with
probability proportional to $A_{y·}$.

**Groups** (`count_releases`). Reports about the same queries form a group. Joint reports have one factor
over the product of their queries, whose cells are numbered in C order, the last column fastest; they are
counted piece by piece as they are read, so memory grows with the number of distinct reports. Reports
that split the budget have one factor per column; with many columns they are nearly all distinct, and are
read at once. `count_tables` concatenates groups in flat arrays for compiled loops and merges equal
reports.

**Queries** (`Query`, `Queries`). A column is learned as shares of **pieces**: its atoms
(`privot.local.releases`), or bumps over atoms (`curves`). A query is a column in one of its alphabets.
Its law $G_{kv}$, the probability of code k in piece v, is 0 or 1 where pieces are atoms; the
probabilities of codes and the likelihood follow from $q = G p$. Expected counts S of codes are
distributed over pieces by their posterior probabilities,

$$ S_{vz} = p_{vz} \sum_{\text{queries}} \sum_k G_{kv} S_{kz} / q_{kz} , $$

which is EM as well: the piece behind a code is missing data as the code is, and given the code its law
is $G_{kv} p_{vz} / q_{kz}$. So the likelihood never falls, and the product of pieces is never formed:
three columns of 100 atoms each cost what their alphabets cost.

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
from privot.mechanisms.forms import CodeForm
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.joint import JointReport

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_MAX_KEY = 2**62
# Up to this many possible keys a row, or in all, marking each key is faster than sorting the rows.
_KEYS_PER_ROW, _MIN_KEYS = 4, 2**16


def distinct_rows(rows: NDArray[Any]) -> tuple[Ints, Ints]:
    """Find the distinct rows of a table (n, w) in lexicographic order, and the rank (n,) of every row.

    `rows[places]` are the distinct rows. A row $(v_1, …, v_w)$ with $0 ≤ v_j < m_j$ has the key
    $(…(v_1 m_2 + v_2) m_3 + …) + v_w$, whose order is that of the rows. Few possible keys are counted
    in time proportional to the rows; many are sorted, in a twentieth of the time of comparing rows.
    Where keys would pass 63 bits, the first columns are replaced by their ranks; columns that are no
    integers are ranked first.

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
        if size * span > _MAX_KEY:
            keys, size = _ranks(keys, size)[1], len(rows)
        keys, size = keys * span + own, size * span
    return _ranks(keys, size)


def _from_zero(column: NDArray[Any]) -> tuple[Ints, int]:
    """Return integers from 0 on in the order of a column's values, and a number above all of them."""
    if column.dtype.kind in "iub":
        low, high = int(column.min()), int(column.max())
        if max(-low, high) < _MAX_KEY // (2 * len(column)):
            return column.astype(np.int64) - low, high - low + 1
    distinct, ranks = np.unique(column, return_inverse=True)
    return ranks, len(distinct)


def _ranks(keys: Ints, size: int) -> tuple[Ints, Ints]:
    """Return a place of each distinct key, in order, and every key's rank; keys are below `size`."""
    if size > max(_KEYS_PER_ROW * len(keys), _MIN_KEYS):
        _, places, ranks = np.unique(keys, return_index=True, return_inverse=True)
        return places, ranks
    marks = np.zeros(size, np.bool_)
    marks[keys] = True
    ranks = (np.cumsum(marks) - 1)[keys]
    places = np.zeros(np.count_nonzero(marks), np.int64)
    places[ranks] = np.arange(len(keys))
    return places, ranks


class Query(NamedTuple):
    """A column in one of its alphabets."""

    column: int  # number of the column
    law: Array  # probabilities of codes in each piece of the column, shape (codes, pieces)

    @classmethod
    def of_codes(cls, column: int, codes: Ints, size: int) -> Query:
        """Return the query whose pieces each have one of `size` codes."""
        return cls(column, (codes == np.arange(size)[:, None]).astype(np.float64))


class Queries(NamedTuple):
    """Queries end to end, their codes numbered consecutively as pieces are."""

    sizes: Ints  # (queries,) numbers of codes
    offsets: Ints  # (queries+1,) first of the numbered codes of each
    pieces: NDArray[np.int32]  # pieces with positive probability, one code after the other
    shares: Array  # probability of the code in each of them
    starts: Ints  # (codes+1,) into `pieces`

    @classmethod
    def of(cls, sizes: Sequence[int], queries: Sequence[Query]) -> Queries:
        """Stack queries about columns of `sizes` pieces.

        Examples:
            >>> stacked = Queries.of([3], [Query(0, np.array([[1, 0.5, 0], [0, 0.5, 1]]))])
            >>> stacked.pieces.tolist(), stacked.shares.tolist(), stacked.starts.tolist()
            ([0, 1, 1, 2], [1.0, 0.5, 0.5, 1.0], [0, 2, 4])
        """
        counts = np.array([len(each.law) for each in queries], np.int64)
        first = run_starts(np.array(sizes, np.int64))
        found = [np.nonzero(each.law) for each in queries]
        pieces = [
            places + first[each.column] for (_, places), each in zip(found, queries, strict=True)
        ]
        shares = [each.law[place] for each, place in zip(queries, found, strict=True)]
        held = [np.bincount(k, minlength=n) for (k, _), n in zip(found, counts, strict=True)]
        none = np.zeros(0, np.int64)
        return cls(
            sizes=counts,
            offsets=run_starts(counts),
            pieces=np.concatenate([none, *pieces]).astype(np.int32),
            shares=np.concatenate([np.zeros(0), *shares]),
            starts=run_starts(np.concatenate([none, *held])),
        )


def run_starts(lengths: Ints) -> Ints:
    """Return the start of each of consecutive runs of these lengths, and the end of the last."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Factor:
    """The likelihood of one answer about `queries`: one row of A per distinct answer.

    Arguments:
        queries: Numbers of the queries; where every column has one alphabet, the columns' numbers.
        shape: Their alphabets' sizes; cells are C-order flat indices.
        likelihood: A, sparse or dense, shape (answers, cells), entries from 0 to 1.
        ratio: r ≥ 1, finite: largest over least likelihood of an answer where A is 1.
    """

    queries: tuple[int, ...]
    shape: tuple[int, ...]
    likelihood: Any
    ratio: float


@dataclass(frozen=True, eq=False)
class ReportGroup:
    """All reports about the same combination of queries."""

    factors: tuple[Factor, ...]  # independent answers of one report, about different columns
    answers: NDArray[np.int32]  # row of each factor's likelihood, shape (distinct reports, factors)
    counts: Array  # people who sent each report, whole numbers, shape (distinct reports,)

    @property
    def queries(self) -> tuple[int, ...]:
        """Numbers of all queries that the reports are about, in the factors' order."""
        return tuple(query for factor in self.factors for query in factor.queries)


class Tally:
    """Counts of distinct rows of integers that arrive in pieces.

    New rows wait until they outnumber the distinct ones, so each is sorted a few times at most.
    """

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []
        self._counts: list[np.ndarray] = []
        self._settled = self._waiting = 0

    def add(self, rows: np.ndarray) -> None:
        """Count more rows (n, w)."""
        self._hold(rows, np.ones(len(rows)))
        self._waiting += len(self._rows[-1])
        if self._waiting > self._settled:
            self._settle()

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        """Return distinct rows, sorted, and their counts."""
        self._settle()
        return self._rows[0], self._counts[0]

    def _settle(self) -> None:
        rows, counts = np.concatenate(self._rows), np.concatenate(self._counts)
        self._rows, self._counts = [], []
        self._hold(rows, counts)
        self._settled, self._waiting = len(self._rows[0]), 0

    def _hold(self, rows: np.ndarray, counts: np.ndarray) -> None:
        places, ranks = distinct_rows(rows)
        self._rows.append(rows[places])
        self._counts.append(np.bincount(ranks, counts, len(places)))


def alphabet_sizes(randomizer: Randomizer) -> list[int]:
    """Return the number of codes of every column, in the schema's order."""
    return [column.alphabet.size for column in randomizer.schema.coded.values()]


def count_releases(releases: Releases) -> tuple[list[Query], list[ReportGroup]]:
    """Return the queries and groups of all reports of one or several releases.

    Columns and atoms are those of `releases.atoms`, in the newest one's order.
    """
    names = list(releases.atoms)
    queries, groups = list[Query](), list[ReportGroup]()
    for number, release in enumerate(releases.parts):
        first = len(queries)
        for name in release.randomizer.schema.coded:
            for codes, size in releases.atoms[name].codings[number]:
                queries.append(Query.of_codes(names.index(name), codes, size))
        groups += report_groups(release, first)
    return queries, groups


def report_groups(release: Release, first: int = 0) -> list[ReportGroup]:
    """Group all reports of a release, whose columns are all coded, by the queries they are about.

    Queries are numbered from `first` on, in the schema's order.
    """
    joint = release.randomizer.joint
    return _split_groups(release, first) if joint is None else _joint_groups(release, joint, first)


def _joint_groups(release: Release, joint: JointReport, first: int) -> list[ReportGroup]:
    design, tallies = joint.design, dict[int, Tally]()
    for table in release.rows.pieces():
        answers = joint.read(table)
        sent = np.bincount(answers.sheets)
        sheets = answers.sheets.astype(np.min_scalar_type(len(sent)))  # 16 bits: sorted by radix
        order = np.argsort(sheets, kind="stable")
        for number, rows in enumerate(np.split(order, np.cumsum(sent)[:-1])):
            if len(rows):
                places = answers.offsets[rows][:, None] + np.arange(joint.widths[number])
                tallies.setdefault(number, Tally()).add(answers.cells[places])
    groups = []
    for number, tally in sorted(tallies.items()):
        sets, counts = tally.total()
        shape, queries = design.shape(number), design.numbers(number)
        form = joint.mechanism(int(np.prod(shape))).supports
        numbers = (first + np.array(queries)).tolist()
        factor = Factor(tuple(numbers), shape, form.shares(sets), form.ratio)
        groups.append(ReportGroup((factor,), np.arange(len(sets), dtype=np.int32)[:, None], counts))
    return groups


def _split_groups(release: Release, first: int) -> list[ReportGroup]:
    """Group split reports by their columns; every column's distinct answers are numbered once."""
    factors, numbers, masks = [], [], []
    for index, (name, column) in enumerate(release.schema.coded.items()):
        values, reported = release.reports(name)
        places, ranks = distinct_rows(values)
        form = cast(CodeForm, release.randomizer.mechanisms[name].form(column))  # as all are
        shares = form.shares(values[places])
        factors.append(Factor((first + index,), shares.shape[1:], shares, form.ratio))
        numbers.append(ranks)
        masks.append(reported)
    answers, reported = np.stack(numbers, axis=1), np.stack(masks, axis=1)
    subsets, which = distinct_rows(reported)
    groups = []
    for number, subset in enumerate(reported[subsets]):
        columns = np.flatnonzero(subset)
        sent = answers[which == number][:, columns]
        places, ranks = distinct_rows(sent)
        counts = np.bincount(ranks, minlength=len(places)).astype(np.float64)
        own = tuple(factors[column] for column in columns)
        groups.append(ReportGroup(own, sent[places].astype(np.int32), counts))
    return groups


class CountTables(NamedTuple):
    """Groups of reports end to end in flat arrays, as the kernels read them.

    Rows of all factors are numbered consecutively, and so are all reports. `single` arrays list reports
    of one factor, sorted by factor (`single_start`, `single_rows`, and their places `single_report` in
    `counts`); `multi` arrays list reports of several factors, as runs of (factor, row) pairs.
    """

    sizes: Ints  # (columns,) numbers of pieces
    offsets: Ints  # (columns+1,) first piece of each column, numbered consecutively
    columns: Ints  # (pieces,) column of each piece
    queries: Queries
    factor_queries: Ints
    factor_start: Ints  # (factors+1,) into factor_queries
    gains: Array  # (factors,) r − 1
    row_start: Ints  # (rows+1,) into cells
    cells: NDArray[np.int32]
    values: Array  # A at `cells`; empty where every entry is 1
    single_start: Ints  # (factors+1,)
    single_rows: Ints
    single_report: Ints
    multi_start: Ints
    multi_factors: Ints
    multi_rows: Ints
    multi_report: Ints
    counts: Array  # (reports,)

    @property
    def has_pairs(self) -> bool:
        """Say whether any report is about several columns; else only marginals are identified."""
        widths = np.diff(self.factor_start)
        return bool(self.multi_report.size or (widths[np.diff(self.single_start) > 0] > 1).any())

    def with_counts(self, counts: Array) -> CountTables:
        """Return the same reports with other counts of people."""
        return self._replace(counts=counts)

    def sent(self) -> CountTables:
        """Drop reports of count 0; the others stay in order."""
        sent = self.counts > 0
        number = np.cumsum(sent) - 1
        single, multi = sent[self.single_report], sent[self.multi_report]
        factor = np.repeat(np.arange(self.gains.size), np.diff(self.single_start))
        widths = np.diff(self.multi_start)
        pairs = np.repeat(multi, widths)
        return self._replace(
            single_start=run_starts(np.bincount(factor[single], minlength=self.gains.size)),
            single_rows=self.single_rows[single],
            single_report=number[self.single_report[single]],
            multi_start=run_starts(widths[multi]),
            multi_factors=self.multi_factors[pairs],
            multi_rows=self.multi_rows[pairs],
            multi_report=number[self.multi_report[multi]],
            counts=self.counts[sent],
        )

    def held_out(self, folds: int, parts: int, rng: np.random.Generator) -> list[CountTables]:
        """Draw `folds` disjoint tables of one in `parts` people each, without replacement."""
        left, out = self.counts.astype(np.int64), []
        for fold in range(folds):
            drawn = rng.binomial(left, 1 / (parts - fold))
            left = left - drawn
            out.append(self.with_counts(drawn.astype(np.float64)))
        return out


def count_tables(
    groups: Iterable[ReportGroup],
    sizes: Sequence[int],
    queries: Sequence[Query] | None = None,
    *,
    merge: bool = True,
) -> CountTables:
    """Concatenate groups of reports in flat arrays.

    Arguments:
        groups: Reports.
        sizes: Number of pieces of each column.
        queries: Queries of `groups`; by default every column's pieces.
        merge: Add up equal reports; otherwise all stay in their order.

    Raises:
        PrivotError: if a factor's shape contradicts `sizes`.
    """
    if queries is None:
        queries = [Query(column, np.eye(size)) for column, size in enumerate(sizes)]
    stacked = Queries.of(sizes, queries)
    factors, gathered = _gather_groups(groups, stacked.sizes, merge)
    first_row = np.cumsum([0, *(factor.likelihood.shape[0] for factor in factors)])
    lengths, cells, values = _stack_rows(factors)
    single: list[tuple[Ints, ...]] = []
    multi: list[tuple[Ints, ...]] = []
    reports = 0
    for which, answers, _ in gathered:
        places = reports + np.arange(len(answers))
        rows = answers + first_row[which]
        if which.size == 1:
            single.append((np.repeat(which, len(rows)), rows[:, 0], places))
        else:
            multi.append((np.full(len(rows), which.size), np.tile(which, len(rows)),
                          rows.ravel(), places))  # fmt: skip
        reports += len(answers)
    of_factor, single_rows, single_report = _columns(single, 3)
    order = np.argsort(of_factor, kind="stable")
    widths, multi_factors, multi_rows, multi_report = _columns(multi, 4)
    return CountTables(
        sizes=np.array(sizes, np.int64),
        offsets=run_starts(np.array(sizes, np.int64)),
        columns=np.repeat(np.arange(len(sizes)), sizes),
        queries=stacked,
        factor_queries=np.array([q for f in factors for q in f.queries], np.int64),
        factor_start=run_starts(np.array([len(f.queries) for f in factors], np.int64)),
        gains=np.array([f.ratio - 1.0 for f in factors], np.float64),
        row_start=run_starts(lengths),
        cells=cells,
        values=values,
        single_start=run_starts(np.bincount(of_factor, minlength=len(factors))),
        single_rows=single_rows[order],
        single_report=single_report[order],
        multi_start=run_starts(widths),
        multi_factors=multi_factors,
        multi_rows=multi_rows,
        multi_report=multi_report,
        counts=np.concatenate([np.zeros(0), *(sent for _, _, sent in gathered)]),
    )


def _gather_groups(
    groups: Iterable[ReportGroup], sizes: Ints, merge: bool
) -> tuple[list[Factor], list[tuple[Ints, Ints, Array]]]:
    """Return all factors, and each group as numbers of factors, distinct answers and counts."""
    numbers: dict[int, int] = {}
    factors: list[Factor] = []
    alike: dict[tuple[int, ...], list[ReportGroup]] = {}
    for place, group in enumerate(groups):
        for factor in group.factors:
            if id(factor) not in numbers:
                _require_shape(factor, sizes)
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


def _require_shape(factor: Factor, sizes: Ints) -> None:
    if max(factor.queries) >= len(sizes) or factor.shape != tuple(
        int(sizes[query]) for query in factor.queries
    ):
        raise PrivotError(
            f"sizes has no columns {factor.queries} of shape {factor.shape}: give every column's "
            "alphabet size, as in the factors"
        )


def _stack_rows(factors: list[Factor]) -> tuple[Ints, NDArray[np.int32], Array]:
    """Return the entries of each row, and all rows' cells and values; no values if all are 1."""
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


def _columns(rows: list[tuple[Ints, ...]], width: int) -> tuple[Ints, ...]:
    empty = np.zeros(0, np.int64)
    return tuple(np.concatenate([empty, *(row[i] for row in rows)]) for i in range(width))
