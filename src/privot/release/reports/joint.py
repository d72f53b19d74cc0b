r"""The joint report of a table: one cell of a product alphabet, with the whole ε.

A person's device draws k of the m columns by fresh coins, forms the cell of its values in the product
of their alphabets, of K cells, and reports it by **subset selection**: a set of about $K/(1+e^ε)$ cells
which holds the true one with the odds that ε allows. Splitting ε over the k columns instead costs two
to three times the error, because the odds of k answers multiply.

With reports of k columns, the data identify the k-way marginals: k = 1 identifies one-way marginals
only, and a pair of columns is seen by a share $k(k−1)/(m(m−1))$ of the people. Larger k spread the same
ε over more cells. (On a census table, k = 2 was best up to ε = 6 and k = 3 at ε = 8.)

**Privacy review.** Adjacency: any two records. The mechanism's own proof gives ε for any two cells, so
for any two records *given the columns drawn*; those are coins that know nothing of the record, so the
report with the columns' names is ε-private too. Who sees what: the columns' names and a set of cells
leave the device, nothing else. Time: people who drew columns with the same number of cells are
randomized together, in numbers that are coins; the sampler's time tells nothing of the cell.

References:
    Ye, Barg, *Optimal schemes for discrete distribution estimation under locally differential
    privacy* (2018), for subset selection.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.mechanisms import SubsetSelection
from privot.mechanisms.samplers.entropy import uniforms_below
from privot.privacy.rounding import percent_at_most
from privot.release.reports.ids import one_array
from privot.schema import Array, Schema

# More cells than this make reports of many numbers and tables that nobody can estimate.
MOST_CELLS = 2**16
_MOST_COMBINATIONS = 2**20
_MOST_LISTED = 2**31 - 1  # offsets in a table are 32-bit integers

Codes = NDArray[np.int64]
# Names of a release's columns, which no column of a schema may have.
COMBINATION, CELLS = "joint.columns", "joint.cells"


def largest_fitting(sizes: Collection[int]) -> int:
    """The most columns one joint report can hold: cells and combinations stay countable."""
    descending = sorted(sizes, reverse=True)
    fits = 0
    for k in range(1, len(descending) + 1):
        cells, ways = math.prod(descending[:k]), math.comb(len(descending), k)
        if cells <= MOST_CELLS and ways <= _MOST_COMBINATIONS:
            fits = k
        else:
            break
    return fits


@dataclass(frozen=True)
class JointAnswers:
    """Reports of n people: the combination each was asked, and the set of cells each named.

    Arguments:
        combination: Index of the combination, shape (n,).
        offsets: Where each person's cells begin, and the end, shape (n+1,).
        cells: All cells, one person's after another's.
    """

    combination: NDArray[np.int32]
    offsets: NDArray[np.int64]
    cells: NDArray[np.int32]

    def to_table(self) -> dict[str, pa.Array]:
        """The two columns that a release holds them in.

        Raises:
            PrivotError: if they are too many for one table.
        """
        if self.offsets[-1] > _MOST_LISTED:
            raise PrivotError(
                f"the reports name {self.offsets[-1]} cells, more than one release holds: "
                f"privatize at most {int(len(self.combination) * _MOST_LISTED / self.offsets[-1])} "
                "records at a time"
            )
        lists = pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), pa.array(self.cells))
        return {COMBINATION: pa.array(self.combination), CELLS: lists}


@dataclass(frozen=True)
class JointReport:
    """Which columns may be asked together, how many at a time, with which ε.

    Arguments:
        sizes: Number of codes of each column's alphabet, by name, in the schema's order.
        report_columns: Number k of columns in one report.
        epsilon: Privacy loss of one report.

    Examples:
        >>> report = JointReport({"sex": 2, "age": 10, "work": 9}, report_columns=2, epsilon=2.0)
        >>> report.combinations.tolist()
        [[0, 1], [0, 2], [1, 2]]
        >>> report.mechanism(90).subset_size
        11
    """

    sizes: Mapping[str, int]
    report_columns: int
    epsilon: float

    def __post_init__(self) -> None:
        k, total = self.report_columns, len(self.sizes)
        if type(k) is not int or not 1 <= k <= total:
            raise PrivotError(
                f"report_columns {k} is not between 1 and the table's {total} columns"
            )
        if any(type(size) is not int or size < 2 for size in self.sizes.values()):
            raise PrivotError(
                f"columns have {dict(self.sizes)} values: give each at least 2, or leave out what "
                "cannot vary"
            )
        most = math.prod(sorted(self.sizes.values())[-k:])
        if most > MOST_CELLS or math.comb(total, k) > _MOST_COMBINATIONS:
            raise PrivotError(
                f"report_columns {k} makes up to {most} cells in {math.comb(total, k)} "
                f"combinations: give at most {largest_fitting(self.sizes.values())}, or declare "
                "fewer bins"
            )
        _ = self.mechanism(int(self.num_cells[0]))  # refuses an ε out of range

    @cached_property
    def combinations(self) -> NDArray[np.int32]:
        """The column indices of every combination, in lexicographic order, shape (c, k)."""
        chosen = combinations(range(len(self.sizes)), self.report_columns)
        return np.array(list(chosen), np.int32).reshape(-1, self.report_columns)

    @cached_property
    def num_cells(self) -> Codes:
        """Number of cells of every combination."""
        sizes = np.array(list(self.sizes.values()), np.int64)
        return sizes[self.combinations].prod(axis=1)

    @cached_property
    def _widths(self) -> Codes:
        """Number of cells in a report of every combination."""
        size = {cells: self.mechanism(cells).subset_size for cells in set(self.num_cells.tolist())}
        return np.array([size[cells] for cells in self.num_cells.tolist()], np.int64)

    def shape(self, combination: int) -> tuple[int, ...]:
        """Alphabet sizes of one combination's columns; cells are their C-order indices."""
        sizes = list(self.sizes.values())
        return tuple(sizes[column] for column in self.combinations[combination])

    def width(self, combination: int) -> int:
        """Number of cells in a report of one combination's columns."""
        return int(self._widths[combination])

    def mechanism(self, num_cells: int) -> SubsetSelection:
        """The mechanism of all combinations with this many cells."""
        return _mechanism(num_cells, self.epsilon)

    def encode(self, schema: Schema, table: pa.Table) -> dict[str, Codes]:
        """Raw values as the codes (n,) of every column."""
        return {name: schema.coded[name].encode_codes(name, table) for name in self.sizes}

    def privatize(self, codes: Mapping[str, Codes]) -> JointAnswers:
        """One report for each record, from the codes (n,) of every column."""
        columns = np.stack([codes[name] for name in self.sizes], axis=1)
        drawn = self._draw(len(columns))
        truth = self._cell(drawn, columns)
        offsets = np.concatenate([[0], np.cumsum(self._widths[drawn])])
        cells = np.empty(offsets[-1], np.int32)
        # Whoever has equally many cells is randomized together, whatever their columns.
        asked = self.num_cells[drawn]
        order = np.argsort(asked, kind="stable")
        starts = np.flatnonzero(np.diff(asked[order], prepend=-1))
        for group in np.split(order, starts[1:]):
            sets = self.mechanism(int(asked[group[0]])).privatize(truth[group])
            cells[offsets[group][:, None] + np.arange(sets.shape[1])] = sets
        return JointAnswers(drawn, offsets, cells)

    def probability_cells(
        self, answers: JointAnswers, codes: Codes, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Cells (n, 5) of the combination, and of the set given the cell of each record's `codes`.

        See [`Mechanism.probability_cells`][privot.mechanisms.Mechanism]: combinations are uniform,
        whatever the record, and sets are a subset selection's.
        """
        asked, ways = answers.combination, len(self.combinations)
        parts = [(asked[:, None] / ways, (asked[:, None] + 1) / ways)]
        truth = self._cell(asked, codes)
        ends = np.zeros((2, len(truth), 4))
        for rows, sets in self._by_size(answers):
            mechanism = self.mechanism(int(self.num_cells[asked[rows[0]]]))
            ends[:, rows] = mechanism.probability_cells(sets, truth[rows], rng)
        parts.append((ends[0], ends[1]))
        low, high = (np.hstack(side) for side in zip(*parts, strict=True))
        return low, high

    def log_ratio(self, answers: JointAnswers, codes: Codes, other: Codes) -> Array:
        """$\\ln f(y | x) / f(y | x′)$ of whole reports, for records of `codes` (n, m)."""
        cells = [self._cell(answers.combination, each) for each in (codes, other)]
        ratio = np.zeros(len(answers.combination))
        for rows, sets in self._by_size(answers):
            mechanism = self.mechanism(int(self.num_cells[answers.combination[rows[0]]]))
            ratio[rows] = mechanism.log_ratio(sets, cells[0][rows], cells[1][rows])
        return ratio

    def _cell(self, combination: NDArray[np.int32], codes: Codes) -> Codes:
        """The cell, in each combination, of the codes (n, m) of every column."""
        sizes = np.array(list(self.sizes.values()), np.int64)
        cell, rows = np.zeros(len(codes), np.int64), np.arange(len(codes))
        for place in range(self.report_columns):
            column = self.combinations[combination, place]
            cell = cell * sizes[column] + codes[rows, column]
        return cell

    def _by_size(self, answers: JointAnswers) -> Iterator[tuple[Codes, NDArray[np.int32]]]:
        """Rows, and their sets (n, w), of all reports with equally many cells."""
        asked = self.num_cells[answers.combination]
        for size in np.unique(asked):
            rows = np.flatnonzero(asked == size)
            width = np.arange(self.mechanism(int(size)).subset_size)
            yield rows, answers.cells[answers.offsets[rows][:, None] + width]

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Names and types of the columns that a release holds them in."""
        return {COMBINATION: pa.int32(), CELLS: pa.list_(pa.int32())}

    def possible(self, table: pa.Table) -> NDArray[np.bool_]:
        """Which rows name a combination, and as many increasing cells of it as a device does."""
        drawn, lists = (one_array(table.column(name)) for name in (COMBINATION, CELLS))
        drawn = drawn.fill_null(-1).to_numpy()
        possible = (drawn >= 0) & (drawn < len(self.combinations)) & np.asarray(lists.is_valid())
        combination = np.where(possible, drawn, 0)
        widths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
        possible &= widths == self._widths[combination]
        cells = lists.flatten().fill_null(-1).to_numpy()
        rows = np.repeat(np.arange(len(widths)), widths)
        rising = np.diff(cells, prepend=-1) > 0
        rising[(np.cumsum(widths) - widths)[widths > 0]] = True
        wrong = ~rising | (cells < 0) | (cells >= self.num_cells[combination][rows])
        return np.asarray(possible & (np.bincount(rows, wrong, len(widths)) == 0))

    def faults(self, table: pa.Table) -> Iterator[tuple[NDArray[np.bool_], str]]:
        """Which rows (n,) no device sends, and why."""
        yield ~self.possible(table), "no device names these cells of these columns"

    def expected(self) -> dict[str, Any]:
        """What to expect of it, before anyone reports; see `Randomizer.expected_noise`."""
        cells = sorted(set(self.num_cells.tolist()))
        few, many = self.mechanism(cells[0]), self.mechanism(cells[-1])
        keep = sorted([few.probabilities[0], many.probabilities[0]])
        named = _span(f"{few.subset_size:,}", f"{many.subset_size:,}")
        out_of = _span(f"{cells[0]:,}", f"{cells[-1]:,}")
        truth = _span(*map(percent_at_most, keep))
        return {
            "column": f"{self.report_columns} of {len(self.sizes)} columns, jointly",
            "mechanism": few.kind,
            "columns": list(self.sizes),
            "report_columns": self.report_columns,
            "cells": [cells[0], cells[-1]],
            "keep": keep,
            "in_words": f"{named} of {out_of} cells, the true one among them with probability {truth}",
        }

    def read(self, table: pa.Table) -> JointAnswers:
        """The answers in a release's table, all of which are possible."""
        drawn, lists = (one_array(table.column(name)) for name in (COMBINATION, CELLS))
        offsets = lists.offsets.to_numpy().astype(np.int64)
        return JointAnswers(drawn.to_numpy(), offsets - offsets[0], lists.flatten().to_numpy())

    def _draw(self, number: int) -> NDArray[np.int32]:
        """Uniform combinations."""
        return uniforms_below(len(self.combinations), number).astype(np.int32)


@lru_cache(maxsize=4096)
def _mechanism(num_cells: int, epsilon: float) -> SubsetSelection:
    return SubsetSelection(num_cells, epsilon)


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"
