r"""The joint report of a table: one cell of a product alphabet, with the whole ε.

A person's device draws a *sheet* by fresh coins: a few of the columns, and how each of them is coded
(`privot.release.reports.questionnaire`). It forms the cell of its values in the product of these
alphabets, of K cells, and reports it by **subset selection**: a set of about $K/(1+e^ε)$ cells
which holds the true one with the odds that ε allows. Splitting ε over k columns instead costs two
to three times the error, because the odds of k answers multiply.

With reports of k columns, the data identify the k-way marginals: k = 1 identifies one-way marginals
only, and of m columns a pair is seen by a share $k(k−1)/(m(m−1))$ of the people. Larger k spread the
same ε over more cells. (On a census table, k = 2 was best up to ε = 6 and k = 3 at ε = 8.)

**Privacy review.** Adjacency: any two records. The mechanism's own proof gives ε for any two cells, so
for any two records *given the sheet*: every form and view has the whole ε. Sheets are drawn by coins
that know nothing of the record, so the report with its sheet's number is ε-private too. Who sees what:
that number and a set of cells leave the device, nothing else. Time: people who drew sheets with the
same number of cells are randomized together, in numbers that are coins; the sampler's time tells
nothing of the cell.

References:
    Ye, Barg, *Optimal schemes for discrete distribution estimation under locally differential
    privacy* (2018), for subset selection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.mechanisms import SubsetSelection
from privot.privacy.rounding import percent_at_most
from privot.release.reports.ids import one_array
from privot.release.reports.questionnaire import Codes, Questionnaire, Sheets
from privot.schema import Array

_MOST_LISTED = 2**31 - 1  # offsets in a table are 32-bit integers

# Names of a release's columns, which no column of a schema may have.
SHEET, CELLS = "joint.sheet", "joint.cells"


@dataclass(frozen=True)
class JointAnswers:
    """Reports of n people: the sheet that each answered, and the set of cells each named.

    Arguments:
        sheets: Number of the sheet, shape (n,).
        offsets: Where each person's cells begin, and the end, shape (n+1,).
        cells: All cells, one person's after another's.
    """

    sheets: Sheets
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
                f"privatize at most {int(len(self.sheets) * _MOST_LISTED / self.offsets[-1])} "
                "records at a time"
            )
        lists = pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), pa.array(self.cells))
        return {SHEET: pa.array(self.sheets), CELLS: lists}


@dataclass(frozen=True)
class JointReport:
    """What is asked, and the ε of one answer.

    Arguments:
        asked: The forms, their weights, and the codings of their columns.
        epsilon: Privacy loss of one report.

    Examples:
        >>> asked = Questionnaire.uniform({"sex": (2,), "age": (10,), "work": (9,)}, report_columns=2)
        >>> report = JointReport(asked, epsilon=2.0)
        >>> report.asked.forms
        ((0, 1), (0, 2), (1, 2))
        >>> report.mechanism(90).subset_size
        11
    """

    asked: Questionnaire
    epsilon: float

    def __post_init__(self) -> None:
        _ = self.mechanism(int(self.asked.num_cells[0]))  # refuses an ε out of range

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """What `to_dict` made."""
        return cls(Questionnaire.from_dict(fields), fields["epsilon"])

    def to_dict(self) -> dict[str, Any]:
        """Its arguments as plain values."""
        return self.asked.to_dict() | {"epsilon": self.epsilon}

    @cached_property
    def widths(self) -> Codes:
        """Number of cells in a report of every sheet."""
        cells, sheets = np.unique(self.asked.num_cells, return_inverse=True)
        return np.array([self.mechanism(int(n)).subset_size for n in cells], np.int64)[sheets]

    def mechanism(self, num_cells: int) -> SubsetSelection:
        """The mechanism of all sheets with this many cells."""
        return _mechanism(num_cells, self.epsilon)

    def privatize(self, codes: Codes) -> JointAnswers:
        """One report for each record, from the codes (n, q) of all codings of all columns."""
        sheets = self.asked.draw(len(codes))
        truth = self.asked.cell(sheets, codes)
        offsets = np.concatenate([[0], np.cumsum(self.widths[sheets])])
        cells = np.empty(offsets[-1], np.int32)
        # Whoever has equally many cells is randomized together, whatever their columns.
        num_cells = self.asked.num_cells[sheets]
        order = np.argsort((num_cells - 1).astype(np.uint16), kind="stable")  # 16 bits: by radix
        starts = np.flatnonzero(np.diff(num_cells[order], prepend=-1))
        for group in np.split(order, starts[1:]):
            sets = self.mechanism(int(num_cells[group[0]])).privatize(truth[group])
            cells[offsets[group][:, None] + np.arange(sets.shape[1])] = sets
        return JointAnswers(sheets, offsets, cells)

    def probability_cells(
        self, answers: JointAnswers, codes: Codes, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Cells (n, 5) of the sheet, and of the set given the cell of each record's `codes` (n, q).

        See [`Mechanism.probability_cells`][privot.mechanisms.Mechanism]: sheets have their shares,
        whatever the record, and sets are a subset selection's.
        """
        drawn = self.asked.draw_cells(answers.sheets)
        truth = self.asked.cell(answers.sheets, codes)
        ends = np.zeros((2, len(truth), 4))
        for rows, sets in self._by_size(answers):
            mechanism = self.mechanism(int(self.asked.num_cells[answers.sheets[rows[0]]]))
            ends[:, rows] = mechanism.probability_cells(sets, truth[rows], rng)
        low, high = (np.column_stack(side) for side in zip(drawn, ends, strict=True))
        return low, high

    def log_ratio(self, answers: JointAnswers, codes: Codes, other: Codes) -> Array:
        """$\\ln f(y | x) / f(y | x′)$ of whole reports, for records of `codes` (n, q)."""
        cells = [self.asked.cell(answers.sheets, each) for each in (codes, other)]
        ratio = np.zeros(len(answers.sheets))
        for rows, sets in self._by_size(answers):
            mechanism = self.mechanism(int(self.asked.num_cells[answers.sheets[rows[0]]]))
            ratio[rows] = mechanism.log_ratio(sets, cells[0][rows], cells[1][rows])
        return ratio

    def _by_size(self, answers: JointAnswers) -> Iterator[tuple[Codes, NDArray[np.int32]]]:
        """Rows, and their sets (n, w), of all reports with equally many cells."""
        num_cells = self.asked.num_cells[answers.sheets]
        for size in np.unique(num_cells):
            rows = np.flatnonzero(num_cells == size)
            width = np.arange(self.mechanism(int(size)).subset_size)
            yield rows, answers.cells[answers.offsets[rows][:, None] + width]

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Names and types of the columns that a release holds them in."""
        return {SHEET: pa.int32(), CELLS: pa.list_(pa.int32())}

    def possible(self, table: pa.Table) -> NDArray[np.bool_]:
        """Which rows name a sheet, and as many increasing cells of it as a device does."""
        drawn, lists = (one_array(table.column(name)) for name in (SHEET, CELLS))
        drawn = drawn.fill_null(-1).to_numpy()
        possible = (drawn >= 0) & (drawn < self.asked.num_sheets) & np.asarray(lists.is_valid())
        sheets = np.where(possible, drawn, 0)
        widths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
        possible &= widths == self.widths[sheets]
        cells = lists.flatten().fill_null(-1).to_numpy()
        rows = np.repeat(np.arange(len(widths)), widths)
        rising = np.diff(cells, prepend=-1) > 0
        rising[(np.cumsum(widths) - widths)[widths > 0]] = True
        wrong = ~rising | (cells < 0) | (cells >= self.asked.num_cells[sheets][rows])
        return np.asarray(possible & (np.bincount(rows, wrong, len(widths)) == 0))

    def faults(self, table: pa.Table) -> Iterator[tuple[NDArray[np.bool_], str]]:
        """Which rows (n,) no device sends, and why."""
        yield ~self.possible(table), "no device names these cells of these columns"

    def expected(self) -> dict[str, Any]:
        """What to expect of it, before anyone reports; see `Randomizer.expected_noise`."""
        cells = sorted(set(self.asked.num_cells.tolist()))
        few, many = self.mechanism(cells[0]), self.mechanism(cells[-1])
        keep = sorted([few.probabilities[0], many.probabilities[0]])
        named = _span(f"{few.subset_size:,}", f"{many.subset_size:,}")
        out_of = _span(f"{cells[0]:,}", f"{cells[-1]:,}")
        truth = _span(*map(percent_at_most, keep))
        fewest, most = self.asked.lengths
        return {
            "column": f"{_span(str(fewest), str(most))} of {len(self.asked.columns)} columns, jointly",
            "mechanism": few.kind,
            "columns": self.asked.columns,
            "report_columns": [fewest, most],
            "cells": [cells[0], cells[-1]],
            "keep": keep,
            "in_words": f"{named} of {out_of} cells, the true one among them with probability {truth}",
        }

    def read(self, table: pa.Table) -> JointAnswers:
        """The answers in a release's table, all of which are possible."""
        drawn, lists = (one_array(table.column(name)) for name in (SHEET, CELLS))
        offsets = lists.offsets.to_numpy().astype(np.int64)
        return JointAnswers(drawn.to_numpy(), offsets - offsets[0], lists.flatten().to_numpy())


@lru_cache(maxsize=4096)
def _mechanism(num_cells: int, epsilon: float) -> SubsetSelection:
    return SubsetSelection(num_cells, epsilon)


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"
