"""Split reports: every column is reported separately, by its own mechanism with a share of the budget.

Raw values are encoded as codes, or as unit coordinates, which are projected to the column's domain.
Reports are read as noisy unit coordinates, or as **supports** (the codes whose likelihood a report
raises), with a mask of the people who reported. The columns of a release depend on the mechanism: a
point is stored as noisy numbers in the column's units (for a date, days or seconds since 1970), with one
more column for the flag if it may be missing; a single code as its label; a set of codes as a list.

An image is stored as one list of 32-bit floats, its noisy pixels or cosine coefficients in unit
coordinates. Reports are integer multiples of the mechanism's grid step g, and the scale of the noise is
$2^{19}$ to $2^{20}$ g. A 32-bit float represents integers below $2^{24}$ exactly, so numbers up to 16
times the noise are exact, and larger ones are rounded to an even multiple of g. Rounding is
post-processing; the relative error of the likelihood is below $2^{−19}$.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.mechanisms import Mechanism
from privot.mechanisms.forms import Answers, Form
from privot.mechanisms.samplers import random_words
from privot.privacy import ApproximateDP, PureDP
from privot.privacy.distributed import ReportLaw
from privot.randomizer.reports.rows import one_array
from privot.schema.columns.column import CodedColumn, Column, PointColumn
from privot.schema.domains import from_unit, to_unit

Mask = NDArray[np.bool_]

_NUMBERS_AT_ONCE = 2**22  # of images that are randomized together, to bound memory
_ROUNDING = 2.0**-49  # bound on the relative rounding error of a conversion of units


class Layout(ABC):
    """Layout of one column's reports in the table of a release."""

    types: dict[str, pa.DataType]  # of the table's columns, by name
    exact = False  # True if the layout stores reports without rounding

    def privatize(self, mechanism: Mechanism, records: Any, reported: Mask) -> dict[str, pa.Array]:
        """Draw reports of the people in the mask `reported` (n,); return columns, null for others."""
        reporting = records if reported.all() else records[reported]
        return self.write(mechanism.privatize(reporting), mechanism, reported)

    @abstractmethod
    def write(self, reports: Any, mechanism: Mechanism, reported: Mask) -> dict[str, pa.Array]:
        """Return table columns of the reports of the people in the mask (n,); null for others."""

    @abstractmethod
    def read(self, table: pa.Table) -> tuple[NDArray[Any], Mask]:
        """Return reports (n, w), up to rounding errors, and the mask (n,) of people who reported."""

    def without_long_values(self, table: pa.Table) -> pa.Table:
        """Return the table with null for values that are longer than any report."""
        return table

    def stores(self, table: pa.Table, reports: NDArray[Any]) -> Mask:
        """Return the mask (n,) of rows that store exactly these reports (n, w)."""
        return np.ones(len(reports), bool)


class _Labels(Layout):
    """Layout of one code, stored as its label."""

    def __init__(self, name: str, column: CodedColumn) -> None:
        self.name, self.labels, self.types = name, pa.array(column.labels), {name: pa.string()}

    def write(self, reports: Any, mechanism: Mechanism, reported: Mask) -> dict[str, pa.Array]:
        codes = np.zeros(len(reported), np.int64)
        codes[reported] = reports
        return {self.name: self.labels.take(pa.array(codes, mask=~reported))}

    def read(self, table: pa.Table) -> tuple[NDArray[Any], Mask]:
        codes = pc.index_in(table.column(self.name), value_set=self.labels)
        reported = np.asarray(pc.is_valid(codes).to_numpy())
        return codes.fill_null(0).to_numpy().astype(np.int32)[:, None], reported


class _Sets(Layout):
    """Layout of a set of codes, stored as a list."""

    def __init__(self, name: str, column: CodedColumn) -> None:
        self.name, self.most, self.types = name, column.alphabet.size, {name: pa.list_(pa.int32())}

    def write(self, reports: Any, mechanism: Mechanism, reported: Mask) -> dict[str, pa.Array]:
        support = mechanism.support(reports)
        width = np.zeros(len(reported), np.int32)
        width[reported] = (support >= 0).sum(axis=1)
        offsets = np.concatenate([[0], np.cumsum(width)]).astype(np.int32)
        mask = np.concatenate([~reported, [False]])
        codes = pa.array(support[support >= 0], pa.int32())
        return {self.name: pa.ListArray.from_arrays(pa.array(offsets, mask=mask), codes)}

    def read(self, table: pa.Table) -> tuple[NDArray[Any], Mask]:
        lists = table.column(self.name).combine_chunks()
        reported = np.asarray(lists.is_valid())
        width = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
        support = np.full((len(lists), int(width.max(initial=0))), -1, np.int32)
        support[np.arange(support.shape[1]) < width[:, None]] = lists.flatten().fill_null(-2)
        return support, reported

    def without_long_values(self, table: pa.Table) -> pa.Table:
        # A forged, very long list would need an array of that width.
        lists = one_array(table.column(self.name))
        long = np.asarray(pc.fill_null(pc.greater(pc.list_value_length(lists), self.most), False))
        return pa.table({self.name: lists.take(pa.array(np.arange(len(lists)), mask=long))})


class _Numbers(Layout):
    """Layout of a point in the column's units, or of its place on a curve, and of its flag."""

    def __init__(self, name: str, column: PointColumn, mechanism: Mechanism) -> None:
        self.domain = mechanism.report_domain(column.domain)
        on_curve = self.domain is not column.domain
        self.names = (name,) if on_curve else column.table_columns(name)
        self.types = dict.fromkeys(self.names, pa.float64())
        if mechanism.flagged:
            self.types[f"{name}.missing"] = pa.bool_()

    def write(self, reports: Any, mechanism: Mechanism, reported: Mask) -> dict[str, pa.Array]:
        d = self.domain.dimension
        numbers = (*from_unit(self.domain, reports[:, :d]).T, *reports[:, d:].T)
        columns, absent = {}, None if reported.all() else ~reported
        for (name, kind), reports_of_name in zip(self.types.items(), numbers, strict=True):
            values = np.zeros(len(reported), reports_of_name.dtype)  # zeros are stored under a null
            values[reported] = reports_of_name
            columns[name] = pa.array(values, mask=absent).cast(kind)
        return columns

    def read(self, table: pa.Table) -> tuple[NDArray[Any], Mask]:
        d, columns = self.domain.dimension, [table.column(name) for name in self.types]
        reported = np.asarray(pc.is_valid(columns[0]).to_numpy())
        numbers = [column.cast(pa.float64()).fill_null(0.0).to_numpy() for column in columns]
        values = np.stack(numbers, axis=1)
        values[:, :d] = to_unit(self.domain, values[:, :d])
        values[~reported] = 0.0
        return values, reported

    def stores(self, table: pa.Table, reports: NDArray[Any]) -> Mask:
        columns = [table.column(name).fill_null(0.0).to_numpy() for name in self.names]
        stored = np.stack(columns, axis=1)
        expected = from_unit(self.domain, reports[:, : self.domain.dimension])
        error = _ROUNDING * (np.abs(self.domain.center) + np.abs(stored))
        return np.asarray((np.abs(expected - stored) <= error).all(axis=1))


class _Pixels(Layout):
    """Layout of an image, stored as one list of 32-bit floats."""

    exact = True

    def __init__(self, name: str, column: PointColumn) -> None:
        self.name, self.dimension = name, column.domain.dimension
        self.types = {name: pa.list_(pa.float32(), self.dimension)}

    def privatize(self, mechanism: Mechanism, records: Any, reported: Mask) -> dict[str, pa.Array]:
        noisy = np.zeros(records.shape, np.float32)
        num_rows = max(1, _NUMBERS_AT_ONCE // self.dimension)
        for start in range(0, len(records), num_rows):
            rows = slice(start, start + num_rows)
            noisy[rows][reported[rows]] = mechanism.privatize(records[rows][reported[rows]])
        return self.write(noisy, mechanism, reported)

    def write(self, reports: Any, mechanism: Mechanism, reported: Mask) -> dict[str, pa.Array]:
        flat, absent = pa.array(reports.reshape(-1)), pa.array(~reported)
        lists = pa.FixedSizeListArray.from_arrays(flat, type=self.types[self.name], mask=absent)
        return {self.name: lists}

    def read(self, table: pa.Table) -> tuple[NDArray[Any], Mask]:
        lists = table.column(self.name)
        reported = np.asarray(pc.is_valid(lists).to_numpy())
        points = np.zeros((len(lists), self.dimension), np.float32)
        flat = [np.asarray(chunk.flatten()) for chunk in lists.chunks]  # without null lists
        points[reported] = np.concatenate([points[:0].ravel(), *flat]).reshape(-1, self.dimension)
        return points, reported

    def stores(self, table: pa.Table, reports: NDArray[Any]) -> Mask:
        return np.asarray((self.read(table)[0] == reports).all(axis=1))


@dataclass(frozen=True)
class SplitReport:
    """Part of a report with one column."""

    name: str  # name of the column in the schema
    column: Column  # declaration of its values
    mechanism: Mechanism  # mechanism that reports them

    @cached_property
    def layout(self) -> Layout:
        """Layout of the column's reports in a release's table."""
        if self.mechanism.takes_codes:
            layout = _Labels if self.mechanism.names_code else _Sets
            return layout(self.name, cast("CodedColumn", self.column))
        column = cast("PointColumn", self.column)
        if column.image_shape is not None:
            return _Pixels(self.name, column)
        return _Numbers(self.name, column, self.mechanism)

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Names and types of the report's columns in a release."""
        return self.layout.types

    def value_program(self) -> dict[str, Any] | None:
        """Return the program by which a device reads a value of the column; None if there is none."""
        if self.mechanism.takes_codes:
            return self.column.code_program(self.name, [self.column.alphabet])
        return self.column.point_program(self.name)

    def encode(self, table: pa.Table) -> NDArray[Any]:
        """Encode raw values for the mechanism: codes (n,), or projected unit coordinates (n, d)."""
        if self.mechanism.takes_codes:
            return cast("CodedColumn", self.column).encode_codes(self.name, table)
        column = cast("PointColumn", self.column)
        return self.mechanism.records(column.encode_units(self.name, table), column.domain)

    def privatize(self, records: NDArray[Any], reported: Mask) -> dict[str, pa.Array]:
        """Draw reports of the people in the mask `reported` (n,); return columns, null for others."""
        return self.layout.privatize(self.mechanism, records, reported)

    def read(self, table: pa.Table) -> tuple[NDArray[Any], Mask]:
        """Return the reports, rounded to the mechanism's grid, and the mask, as `Release.reports`."""
        values, reported = self.layout.read(table)
        return values if self.layout.exact else self.mechanism.to_grid(values), reported

    def reported(self, table: pa.Table) -> Mask:
        """Return the mask (n,) of people who reported the column."""
        return np.asarray(np.logical_and.reduce(self._valid(table)))

    def faults(self, table: pa.Table) -> Iterator[tuple[Mask, str]]:
        """Yield masks of rows (n,) that no device sends, with the reason."""
        valid, reported = self._valid(table), self.reported(table)
        yield np.logical_or.reduce(valid) & ~reported, f"column {self.name!r} is half reported"
        bounded = self.layout.without_long_values(table)
        with np.errstate(all="ignore"):  # forged numbers may be infinite or very large
            values, read = self.read(bounded)
            possible = read & self.mechanism.possible(values, self.column.domain)
            possible &= self.layout.stores(bounded, self.mechanism.to_grid(values))
        reason = f"column {self.name!r} holds what the randomizer does not report"
        yield reported & ~possible, reason

    def _valid(self, table: pa.Table) -> list[Mask]:
        """Return the masks (n,) of values that are not null, one for each table column."""
        return [np.asarray(pc.is_valid(table.column(name)).to_numpy()) for name in self.types]

    @property
    def report_law(self) -> ReportLaw | None:
        """Overlap of the distributions of reports under two records; None if it is not known."""
        return self.mechanism.report_law

    def guarantee(self, delta: float) -> PureDP | ApproximateDP:
        """Return the guarantee of the mechanism on the column's domain."""
        return self.mechanism.guarantee(self.column.domain, delta)

    def expected(self) -> dict[str, Any]:
        """Describe the noise of the report; see `Randomizer.expected_noise`."""
        noise = self.mechanism.expected(self.column)
        return {"column": self.name, "mechanism": self.mechanism.kind} | noise


class PointAnswers:
    """Conversion of the reports of one column of points to answers (`privot.mechanisms.forms`).

    An answer of a window is one cell, and each coordinate of a cell is stored as one number. So the cell
    of a stored number is looked up, in a tenth of the time of converting and validating other numbers.

    Attributes:
        size: Number of possible answers.
    """

    def __init__(self, split: SplitReport, form: Form) -> None:
        self._split, self._form, mechanism = split, form, split.mechanism
        column = cast("PointColumn", split.column)
        self._dimension = mechanism.report_domain(column.domain).dimension
        self.size = form.num_answers(self._dimension) or 0
        self._possible: Mask | None = None  # mask (size,) of the cells that can be reported
        self._axes: list[NDArray[np.float64]] = []  # stored numbers of each coordinate's cells
        if form.one_report:
            points = form.points(np.arange(self.size, dtype=np.int32)[:, None])
            self._possible = mechanism.possible(points, column.domain)
            # The cells on the diagonal have every value that a coordinate of a cell can have.
            width = round((self.size - mechanism.flagged) ** (1 / self._dimension))
            cells = np.arange(width) * sum(width**axis for axis in range(self._dimension))
            diagonal = form.points(cells.astype(np.int32)[:, None])
            written = split.layout.write(diagonal, mechanism, np.ones(width, bool))
            self._axes = [axis.to_numpy() for axis in [*written.values()][: self._dimension]]

    def possible(self, answers: NDArray[Any]) -> Mask:
        """Return the mask of possible answers, of the shape of `answers`, which are below `size`."""
        return np.ones(answers.shape, bool) if self._possible is None else self._possible[answers]

    def read(self, table: pa.Table) -> tuple[Answers, Mask]:
        """Look up the answers (n, 1) of reports; return them, and the mask (n,) of those found."""
        names, cells = [*self._split.types], np.zeros(len(table), np.int64)
        if not self._axes:
            return cells.astype(np.int32)[:, None], np.zeros(len(table), bool)
        found = np.ones(len(table), bool)
        for axis, name in zip(self._axes, names, strict=False):
            stored, last = table.column(name).to_numpy(), len(axis) - 1
            with np.errstate(invalid="ignore"):  # forged numbers may be NaN
                places = ((stored - axis[0]) * (last / (axis[-1] - axis[0])) + 0.5).astype(np.int64)
            np.clip(places, 0, last, out=places)
            found &= axis[places] == stored
            cells = cells * len(axis) + places
        if self._split.mechanism.flagged:
            flags = table.column(names[-1])
            missing = np.asarray(flags.fill_null(False).to_numpy())
            middle = (self.size - 1) // 2  # the cell of zeros, which are stored if missing
            found &= np.asarray(flags.is_valid().to_numpy()) & (~missing | (cells == middle))
            cells[missing] = self.size - 1
        found &= self.possible(cells)
        return cells.astype(np.int32)[:, None], found

    def convert(self, table: pa.Table) -> Answers:
        """Return the answers (n, 1) of reports, which must be possible, without looking them up."""
        return self._form.answers(self._split.read(table)[0])


def privatize_columns(
    reports: Mapping[str, SplitReport], num_reported: int, encoded: Mapping[str, NDArray[Any]]
) -> dict[str, pa.Array]:
    """Draw reports of `num_reported` random columns of each record; return them as table columns."""
    num_rows = max((len(values) for values in encoded.values()), default=0)
    chosen = draw_columns(num_rows, len(reports), num_reported)
    # Columns that are not reported are not randomized, so no value is stored under a null.
    columns: dict[str, pa.Array] = {}
    for (name, report), reported in zip(reports.items(), chosen.T, strict=True):
        columns |= report.privatize(encoded[name], reported)
    return columns


def draw_columns(num_rows: int, total: int, chosen: int) -> Mask:
    """Draw a uniformly random set of `chosen` of `total` columns for each record, as a mask (n, total).

    The draw is independent of the record. The ranks of independent 64-bit words are a uniform
    permutation except for ties, which have probability < 2^−50 per record and are broken by position.
    """
    if chosen == total:
        return np.ones((num_rows, total), dtype=bool)
    words = random_words(num_rows * total).reshape(num_rows, total)
    return np.asarray(np.argsort(np.argsort(words, axis=1), axis=1) < chosen)
