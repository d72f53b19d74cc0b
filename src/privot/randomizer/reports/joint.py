"""Joint reports: several columns of a table, reported together as one cell of their product alphabet.

A person's device draws at random which columns it reports, and the coding of each. The values of these
columns are one of the K cells of the product of their alphabets, which is reported by **subset
selection**: a random set of about $K/(1+e^ε)$ cells, where a set with the true cell is $e^ε$ times as
likely as one without. If ε were split over k columns, the error would be two to three times larger.

**Design.** A **coding** of a column is an alphabet over its values, and a **question** is a column in
one of its codings. A **form** is a tuple of columns, of any length, that are reported together; forms
are drawn in proportion to positive integer **weights**. If columns have several codings, a **view** v is
drawn uniformly from 0 … V−1, and a column with c codings is reported in coding v mod c. V is the least
common multiple of all c, so the codings of a column are equally frequent. A form in a view is a
**sheet**, of number form · V + view; its cells are the product of its questions' alphabets in C order.

Reports of k columns identify k-way marginals; a larger k spreads the same ε over more cells.
`privot.randomizer.information` chooses the forms.

**Privacy review.** Adjacency: any two records. The proof of the mechanism gives ε for any two cells,
hence for any two records *given the sheet*: every sheet spends the whole ε. The sheet is drawn
independently of the record, so its probability cancels in likelihood ratios, and the report with its
sheet's number is ε-private too. The draw is exact: one uniform integer below the sum of the weights
selects the form, and another the view. Forms, weights and views are public. Only the sheet's number and
a set of cells leave the device. The time of the sampler depends on the sheet, which is reported, not on
the record's cell.

References:
    Ye, Barg, *Optimal schemes for discrete distribution estimation under locally differential privacy*
    (2018), for subset selection.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.mechanisms import SubsetSelection
from privot.mechanisms.samplers import uniforms_below
from privot.privacy.distributed import ReportLaw
from privot.privacy.rounding import percent_at_most
from privot.randomizer.reports.rows import grouped, one_array
from privot.schema.domains import Array

# With more cells, reports would be long, and tables could not be estimated.
MOST_CELLS = 2**16
MOST_FORMS, _MAX_SHEETS = 2**16, 2**20  # bound the memory and the length of a program for devices
_MAX_TOTAL_WEIGHT = 2**31 - 1
# Up to this total weight, forms are looked up, which is twice as fast as a search.
_MAX_LISTED = 2**20
_MAX_OFFSET = 2**31 - 1  # largest offset in a list column

# Names of a release's columns, which no column of a schema may have.
SHEET, CELLS = "joint.sheet", "joint.cells"

Codes = NDArray[np.int64]
Sheets = NDArray[np.int32]
Cells = NDArray[np.int32]


def largest_fitting(sizes: Collection[int]) -> int:
    """Return the largest k for which all forms of k columns are allowed, by their cells and number."""
    descending = sorted(sizes, reverse=True)
    for k in range(1, len(descending) + 1):
        cells, num_forms = math.prod(descending[:k]), math.comb(len(descending), k)
        if cells > MOST_CELLS or num_forms > MOST_FORMS:
            return k - 1
    return len(descending)


class _SheetLayout(NamedTuple):
    """Questions and cells of s sheets of up to k columns.

    The number of a cell is the sum of the strides times the codes of the questions. If a form has fewer
    than k columns, its last questions and strides are 0.
    """

    questions: Codes  # numbers of the questions (k, s)
    strides: Codes  # products of the sizes of all later questions (k, s)
    num_cells: Codes  # number of cells (s,), at most `MOST_CELLS` + 1


@dataclass(frozen=True)
class FormDesign:
    """Forms of a joint report, their weights, and the codings of the columns.

    Arguments:
        codings: For each column, in the schema's order, the number of codes of each of its codings.
        forms: Sets of columns that are reported together, as increasing column indices.
        weights: Positive integers in proportion to which forms are drawn.

    Raises:
        PrivotError: if a coding has fewer than two codes, a column is in no form, a weight is not
            positive, or there are too many forms, sheets or cells.

    Examples:
        >>> design = FormDesign({"sex": (2,), "age": (10, 12)}, ((0,), (0, 1)), (1, 3))
        >>> [design.questions(sheet) for sheet in range(4)]
        [((0, 0),), ((0, 0),), ((0, 0), (1, 0)), ((0, 0), (1, 1))]
        >>> design.num_cells.tolist()
        [2, 2, 20, 24]
    """

    codings: Mapping[str, tuple[int, ...]]
    forms: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        _require_codings(self.codings)
        _require_forms(self.columns, self.forms)
        _require_weights(self.forms, self.weights)
        if self.num_sheets > _MAX_SHEETS:
            raise PrivotError(
                f"{len(self.forms)} forms in {self.views} views are more than {_MAX_SHEETS}: give "
                "fewer forms, or columns as many codings each"
            )
        largest = int(np.argmax(self.num_cells))
        if self.num_cells[largest] > MOST_CELLS:
            names = [self.columns[column] for column, _ in self.questions(largest)]
            raise PrivotError(
                f"columns {names} have more than {MOST_CELLS} cells together: put fewer of them in one "
                "form, or declare fewer bins"
            )

    @classmethod
    def uniform(cls, codings: Mapping[str, tuple[int, ...]], report_columns: int) -> Self:
        """Create all forms of `report_columns` columns, with equal weights.

        Examples:
            >>> FormDesign.uniform({"sex": (2,), "age": (10,), "work": (9,)}, report_columns=2).forms
            ((0, 1), (0, 2), (1, 2))

        Raises:
            PrivotError: if the number is out of range, or its forms have too many cells.
        """
        k, total = report_columns, len(codings)
        if type(k) is not int or not 1 <= k <= total:
            raise PrivotError(f"report_columns {k} is not between 1 and the {total} columns")
        _require_codings(codings)
        largest = [max(sizes) for sizes in codings.values()]
        most, num_forms = math.prod(sorted(largest)[-k:]), math.comb(total, k)
        if most > MOST_CELLS or num_forms > MOST_FORMS:
            raise PrivotError(
                f"report_columns {k} makes up to {most} cells in {num_forms} combinations: give at most "
                f"{largest_fitting(largest)}, or declare fewer bins"
            )
        forms = tuple(combinations(range(total), k))
        return cls(codings, forms, (1,) * len(forms))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Create a design from the plain values of `to_dict`."""
        codings = {name: tuple(sizes) for name, sizes in fields["codings"].items()}
        return cls(codings, tuple(map(tuple, fields["forms"])), tuple(fields["weights"]))

    def to_dict(self) -> dict[str, Any]:
        """Return its arguments as plain values."""
        return {
            "codings": {name: list(sizes) for name, sizes in self.codings.items()},
            "forms": [list(form) for form in self.forms],
            "weights": list(self.weights),
        }

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.codings)

    @cached_property
    def sizes(self) -> list[int]:
        """Number of codes of each column's largest coding."""
        return [max(sizes) for sizes in self.codings.values()]

    @cached_property
    def lengths(self) -> tuple[int, int]:
        """Numbers of columns of the shortest and of the longest form."""
        lengths = [len(form) for form in self.forms]
        return min(lengths), max(lengths)

    @cached_property
    def views(self) -> int:
        """Number V of views."""
        return math.lcm(*(len(sizes) for sizes in self.codings.values()))

    @property
    def num_sheets(self) -> int:
        """Number of sheets, which are all forms in all views."""
        return len(self.forms) * self.views

    @cached_property
    def shares(self) -> Array:
        """Probability of every sheet (sheets,)."""
        low, high = self.sheet_intervals(np.arange(self.num_sheets))
        return high - low

    def questions(self, sheet: int) -> tuple[tuple[int, int], ...]:
        """Return the questions of a sheet, as pairs of indices of a column and its coding."""
        form, view = divmod(sheet, self.views)
        return tuple((column, view % int(self._num_codings[column])) for column in self.forms[form])

    def numbers(self, sheet: int) -> tuple[int, ...]:
        """Return the numbers of a sheet's questions, counted over all codings of all columns."""
        starts = self._first_question
        return tuple(int(starts[column]) + coding for column, coding in self.questions(sheet))

    def shape(self, sheet: int) -> tuple[int, ...]:
        """Return the sizes of a sheet's questions; cells are their C-order indices."""
        sizes = list(self.codings.values())
        return tuple(sizes[column][coding] for column, coding in self.questions(sheet))

    @cached_property
    def _num_codings(self) -> Codes:
        return np.array(list(map(len, self.codings.values())), np.int64)

    @cached_property
    def _first_question(self) -> Codes:
        """Number of each column's first question."""
        return np.cumsum(self._num_codings) - self._num_codings

    @cached_property
    def _layout(self) -> _SheetLayout:
        """Questions, strides and cells of all sheets."""
        most = self.lengths[1]
        forms = np.array([form + (-1,) * (most - len(form)) for form in self.forms])
        forms, view = forms.repeat(self.views, axis=0), np.tile(range(self.views), len(self.forms))
        absent = forms < 0
        questions = self._first_question[forms] + view[:, None] % self._num_codings[forms]
        sizes = np.concatenate(list(self.codings.values()))[questions]
        sizes = np.where(absent, 1.0, sizes)  # floats, whose products cannot overflow
        # Column j has the product of the sizes of questions j, j+1, …, and the last column 1.
        products = np.cumprod(np.insert(sizes[:, ::-1], 0, 1.0, axis=1), axis=1)[:, ::-1]
        products = np.minimum(products, MOST_CELLS + 1).astype(np.int64)
        strides = np.where(absent, 0, products[:, 1:])
        questions = np.where(absent, 0, questions)
        return _SheetLayout(questions.T.copy(), strides.T.copy(), products[:, 0])

    @property
    def num_cells(self) -> Codes:
        """Number of cells of every sheet (sheets,); `MOST_CELLS` + 1 if there are more."""
        return self._layout.num_cells

    def draw(self, number: int) -> Sheets:
        """Draw the sheets (n,) of n = `number` reports."""
        ends = np.cumsum(self.weights, dtype=np.int64)  # of the integers that select each form
        drawn = uniforms_below(int(ends[-1]), number)
        if ends[-1] <= _MAX_LISTED:
            sheets = self._form_of_integer[drawn]
        else:
            sheets = np.searchsorted(ends, drawn, side="right")
        if self.views > 1:
            sheets = sheets * self.views + uniforms_below(self.views, number)
        return sheets.astype(np.int32)

    @cached_property
    def _form_of_integer(self) -> Codes:
        """Form that is selected by each integer below the sum of the weights."""
        return np.repeat(np.arange(len(self.weights)), self.weights)

    def sheet_intervals(self, sheets: NDArray[Any]) -> tuple[Array, Array]:
        """Return the ends (n,) of each sheet's interval in (0, 1).

        The intervals are disjoint, and as long as the sheets are probable.
        """
        weights = np.repeat(np.array(self.weights, np.int64), self.views)
        ends = np.cumsum(weights)
        return (ends - weights)[sheets] / ends[-1], ends[sheets] / ends[-1]

    def cell(self, sheets: Sheets, codes: Codes) -> Codes:
        """Return the cells (n,) on sheets (n,) of records with codes (n, q) in all codings."""
        number, flat = len(codes), codes.T.reshape(-1)
        cells, rows = np.zeros(number, np.int64), np.arange(number)
        for question, stride in zip(self._layout.questions, self._layout.strides, strict=True):
            cells += stride[sheets] * flat[question[sheets] * number + rows]
        return cells


def _require_codings(codings: Mapping[str, Sequence[int]]) -> None:
    all_sizes = [size for sizes in codings.values() for size in sizes]
    if not all(codings.values()) or any(type(size) is not int or size < 2 for size in all_sizes):
        raise PrivotError(
            f"columns have {dict(codings)} values: give each at least 2, or leave constant ones out"
        )


def _require_forms(columns: Sequence[str], forms: Sequence[Sequence[int]]) -> None:
    if not 1 <= len(forms) <= MOST_FORMS or len(set(forms)) < len(forms):
        raise PrivotError(
            f"there are {len(forms)} forms, or repeated ones: give 1 to {MOST_FORMS} different ones"
        )
    for form in forms:
        indices = all(type(column) is int and 0 <= column < len(columns) for column in form)
        if not form or not indices or sorted(set(form)) != list(form):
            raise PrivotError(
                f"form {list(form)} is no list of columns: give increasing numbers from 0 to "
                f"{len(columns) - 1}"
            )
    if absent := sorted(set(range(len(columns))) - {column for form in forms for column in form}):
        raise PrivotError(
            f"columns {[columns[i] for i in absent]} are in no form, so nothing would be learned of "
            "them: give each a form"
        )


def _require_weights(forms: Sequence[Any], weights: Sequence[int]) -> None:
    are_positive = all(type(weight) is int and weight > 0 for weight in weights)
    if len(weights) != len(forms) or not are_positive or sum(weights) > _MAX_TOTAL_WEIGHT:
        raise PrivotError(
            f"weights do not fit {len(forms)} forms: give each a positive integer, with a sum of at "
            f"most {_MAX_TOTAL_WEIGHT}"
        )


@dataclass(frozen=True)
class JointAnswers:
    """Sheets and sets of cells of n reports."""

    sheets: Sheets  # number of each report's sheet (n,)
    offsets: Codes  # start of each report's cells, and the end (n + 1,)
    cells: Cells  # cells of all reports, one report after the other

    def sets(self, rows: Codes, width: int) -> Cells:
        """Return the sets of cells (r, `width`) of reports `rows` (r,), which all have `width` cells."""
        return self.cells[self.offsets[rows][:, None] + np.arange(width)]

    def to_table(self) -> dict[str, pa.Array]:
        """Return the reports as two columns of a release.

        Raises:
            PrivotError: if there are too many cells for one table.
        """
        if self.offsets[-1] > _MAX_OFFSET:
            raise PrivotError(
                f"the reports name {self.offsets[-1]} cells, more than one release holds: "
                f"privatize at most {int(len(self.sheets) * _MAX_OFFSET / self.offsets[-1])} "
                "records at a time"
            )
        lists = pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), pa.array(self.cells))
        return {SHEET: pa.array(self.sheets), CELLS: lists}


@dataclass(frozen=True)
class JointReport:
    """Joint report: its design, and its privacy loss.

    Arguments:
        design: Forms, their weights, and the codings of the columns.
        epsilon: Privacy loss of one report.

    Raises:
        PrivotError: if ε is out of range.
    """

    design: FormDesign
    epsilon: float

    def __post_init__(self) -> None:
        _ = self.mechanism(int(self.design.num_cells[0]))  # checks ε

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Create a joint report from the plain values of `to_dict`."""
        return cls(FormDesign.from_dict(fields), fields["epsilon"])

    def to_dict(self) -> dict[str, Any]:
        """Return its arguments as plain values."""
        return self.design.to_dict() | {"epsilon": self.epsilon}

    def program(self) -> dict[str, Any]:
        """Return the part of `Randomizer.program` by which a device draws the joint report."""
        design, sets = self.design, {}
        for num_cells in np.unique(design.num_cells).tolist():
            draw = self.mechanism(num_cells).program()
            sets[str(num_cells)] = {"size": draw["size"], "out": draw["out"]}
        return {
            "columns": design.columns,
            "sizes": list(design.codings.values()),
            "views": design.views,
            "forms": design.forms,
            "weights": design.weights,
            "sets": sets,
        }

    @cached_property
    def widths(self) -> Codes:
        """Number of cells in a report on each sheet (sheets,)."""
        sizes, sheets = np.unique(self.design.num_cells, return_inverse=True)
        return np.array([self.mechanism(int(size)).subset_size for size in sizes], np.int64)[sheets]

    def mechanism(self, num_cells: int) -> SubsetSelection:
        """Return the mechanism of all sheets with this many cells."""
        return _mechanism(num_cells, self.epsilon)

    @property
    def report_law(self) -> ReportLaw:
        """Overlap of the distributions of reports under two records, a mixture over sheets."""
        sizes, sheets = np.unique(self.design.num_cells, return_inverse=True)
        shares = np.bincount(sheets, weights=self.design.shares)
        laws = [self.mechanism(int(size)).report_law for size in sizes]
        law = ReportLaw.mixed(list(zip(shares.tolist(), laws, strict=True)))
        return replace(law, one_form=len(sheets) == 1)

    def privatize(self, codes: Codes) -> JointAnswers:
        """Draw one report for each record, given its codes (n, q) in all codings of all columns."""
        sheets = self.design.draw(len(codes))
        truth = self.design.cell(sheets, codes)
        offsets = np.concatenate([[0], np.cumsum(self.widths[sheets])])
        cells = np.empty(offsets[-1], np.int32)
        for size, rows in grouped(self.design.num_cells[sheets]):
            sets = self.mechanism(size).privatize(truth[rows])
            cells[offsets[rows][:, None] + np.arange(sets.shape[1])] = sets
        return JointAnswers(sheets, offsets, cells)

    def probability_cells(
        self, answers: JointAnswers, codes: Codes, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return the ends of intervals (n, 5), one for the sheet and four for the set of cells.

        `codes` (n, q) are those of the records. See `Mechanism.probability_cells`.
        """
        low, high = self.design.sheet_intervals(answers.sheets)
        truth = self.design.cell(answers.sheets, codes)
        set_low, set_high = np.zeros((2, len(truth), 4))
        for rows, mechanism, sets in self._by_size(answers):
            set_low[rows], set_high[rows] = mechanism.probability_cells(sets, truth[rows], rng)
        return np.column_stack([low, set_low]), np.column_stack([high, set_high])

    def log_ratio(self, answers: JointAnswers, codes: Codes, other: Codes) -> Array:
        """Return $\\ln f(y | x) / f(y | x′)$ (n,) of reports y, for codes (n, q) of records x and x′."""
        first, second = (self.design.cell(answers.sheets, records) for records in (codes, other))
        ratio = np.zeros(len(answers.sheets))
        for rows, mechanism, sets in self._by_size(answers):
            ratio[rows] = mechanism.log_ratio(sets, first[rows], second[rows])
        return ratio

    def _by_size(self, answers: JointAnswers) -> Iterator[tuple[Codes, SubsetSelection, Cells]]:
        """Yield the rows, the mechanism and the sets (n, w) of reports with the same number of cells."""
        for num_cells, rows in grouped(self.design.num_cells[answers.sheets]):
            mechanism = self.mechanism(num_cells)
            yield rows, mechanism, answers.sets(rows, mechanism.subset_size)

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Names and types of the report's columns in a release."""
        return {SHEET: pa.int32(), CELLS: pa.list_(pa.int32())}

    def faults(self, table: pa.Table) -> Iterator[tuple[NDArray[np.bool_], str]]:
        """Yield the mask of rows (n,) that no device sends, with the reason.

        A device sends the number of a sheet, and as many increasing cells as its mechanism reports.
        """
        drawn, lists = (one_array(table.column(name)) for name in (SHEET, CELLS))
        drawn = drawn.fill_null(-1).to_numpy()
        possible = (drawn >= 0) & (drawn < self.design.num_sheets) & np.asarray(lists.is_valid())
        sheets = np.where(possible, drawn, 0)
        widths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
        possible &= widths == self.widths[sheets]
        cells = lists.flatten().fill_null(-1).to_numpy()
        rows = np.repeat(np.arange(len(widths)), widths)  # the row of each cell
        increasing = np.diff(cells, prepend=-1) > 0
        increasing[(np.cumsum(widths) - widths)[widths > 0]] = True  # the first cell of a report
        wrong = ~increasing | (cells < 0) | (cells >= self.design.num_cells[sheets][rows])
        possible &= np.bincount(rows, wrong, len(widths)) == 0
        yield ~possible, "no device names these cells of these columns"

    def expected(self) -> dict[str, Any]:
        """Describe the noise of the report; see `Randomizer.expected_noise`."""
        cells = [int(self.design.num_cells.min()), int(self.design.num_cells.max())]
        few, many = map(self.mechanism, cells)
        keep = sorted([few.probabilities[0], many.probabilities[0]])
        columns = _span(*map(str, self.design.lengths))
        selected = _span(f"{few.subset_size:,}", f"{many.subset_size:,}")
        out_of = _span(*(f"{number:,}" for number in cells))
        truth = _span(*map(percent_at_most, keep))
        return {
            "column": f"{columns} of {len(self.design.columns)} columns, jointly",
            "mechanism": few.kind,
            "columns": self.design.columns,
            "report_columns": list(self.design.lengths),
            "cells": cells,
            "keep": keep,
            "in_words": (
                f"{selected} of {out_of} cells, the true one among them with probability {truth}"
            ),
        }

    def read(self, table: pa.Table) -> JointAnswers:
        """Read the reports in a release's table, which must all be possible."""
        drawn, lists = (one_array(table.column(name)) for name in (SHEET, CELLS))
        offsets = lists.offsets.to_numpy().astype(np.int64)
        return JointAnswers(drawn.to_numpy(), offsets - offsets[0], lists.flatten().to_numpy())

    def sets_by_sheet(self, table: pa.Table) -> dict[tuple[int, ...], Cells]:
        """Return the sets (n, w) of cells on each sheet, by the tuple of its number."""
        answers = self.read(table)
        sheets = grouped(answers.sheets)
        return {(sheet,): answers.sets(rows, self.widths[sheet]) for sheet, rows in sheets}


_mechanism = lru_cache(maxsize=4096)(SubsetSelection)


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"
