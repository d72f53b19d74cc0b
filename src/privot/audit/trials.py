"""Trials: test records for each part of a report, their raw values, and the distribution of reports.

A part is one separately reported column ("split"), the joint report, the candidates report, the choice
of reported columns, or the report's id. Test records of points are the farthest points of the domain,
the center, a random point, and points a thousand times as far out, which must have the reports of their
projections. Test records of codes are the ends of the alphabet and random codes. Missing values are
tested where they are allowed. The mechanisms define the distributions.

**Privacy review.** All records are invented here, from the public schema alone.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.audit.statistics import row_keys
from privot.mechanisms.frequency_oracles import set_cells
from privot.privacy import ApproximateDP, PureDP
from privot.randomizer.randomizer import Randomizer
from privot.randomizer.reports.candidates import CandidateRecords, CandidatesReport
from privot.randomizer.reports.joint import JointReport
from privot.randomizer.reports.rows import REPORT_ID, id_words, one_array
from privot.schema import Schema
from privot.schema.domains import Array, to_unit

_FAR = 1000.0  # factor by which points lie outside the domain
_ROUNDING = 2.0**-50  # relative error of a conversion to the table's units and back
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class PartReports:
    """One part's reports of n people, as intervals of their distribution function.

    Arguments:
        low, high: Ends (n, m) of intervals in (0, 1). If the reports have the assumed distribution, a
            uniform point of a person's interval is uniform on (0, 1).
        present: Mask (n,) of the people that reported this part.
        keys: Hashes (n,) of the reports.
        impossible: Number of reports that no record can have.
    """

    low: Array
    high: Array
    present: Mask
    keys: NDArray[np.uint64]
    impossible: int = 0

    @property
    def bits(self) -> Array:
        """Lower bound on each report's surprisal in bits, −log₂ of its probability."""
        bits = -np.log2(np.clip(self.high - self.low, 2.0**-40, 1.0)).sum(axis=1)
        return np.where(self.present, bits, 0.0)

    def uniforms(self, rng: np.random.Generator) -> Array:
        """Draw a uniform point of every interval (n, m)."""
        return (self.low + rng.random(self.low.shape) * (self.high - self.low)) % 1.0


class Trial(ABC):
    """Test records for one part of a report, and the distribution of the part for each of them."""

    name: str  # name of the part
    kind: str  # kind of the mechanism that draws the part
    num_records: int  # test records have indices 0 … num_records − 1
    noisy: bool = False  # whether noise is added to points, so that equal noise gives equal reports
    pairs: tuple[tuple[int, int], ...] = ()  # pairs of records for lower bounds on ε
    work: int = 0  # additional time of a report, relative to the test of one of its numbers

    def raw(self, indices: Indices, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return the raw table columns of the records of indices (n,), some outside the limits."""
        return {}

    @abstractmethod
    def read(self, table: pa.Table, indices: Indices, rng: np.random.Generator) -> PartReports:
        """Read a table's reports of the records of indices (n,); `rng` chooses tested coordinates."""

    def guarantee(self) -> PureDP | ApproximateDP:
        """Return the guarantee of this part alone; by default ε = 0, if it ignores the record."""
        return PureDP(0.0)

    def gaussian_mu(self) -> float | None:
        """Return μ of Gaussian differential privacy if the noise is Gaussian, else None."""
        return None

    def log_ratio(self, table: pa.Table, first: int, second: int) -> Array:
        """Return the log-likelihood ratios (n,) of reports for two records; 0 where not reported."""
        raise NotImplementedError  # called for parts with `pairs` only


class _ColumnTrial(Trial):
    """Trial of a split column."""

    records: NDArray[Any]

    def __init__(self, randomizer: Randomizer, name: str) -> None:
        self.randomizer, self.name, self.split = randomizer, name, randomizer.splits[name]
        self.mechanism, self.kind = self.split.mechanism, self.split.mechanism.kind
        self._make_records()
        self.num_records = len(self.records)

    @abstractmethod
    def _make_records(self) -> None:
        """Set `records`, as the mechanism takes them, and `pairs`."""

    def _rounding(self, values: Array) -> Array:
        """Bound the rounding errors (n, w) of reports (n, w) due to conversion of units."""
        return np.zeros(values.shape)

    def read(self, table: pa.Table, indices: Indices, rng: np.random.Generator) -> PartReports:
        values, present = self._values(table)
        nearest = self.mechanism.to_grid(values)
        off: Mask = np.any(np.abs(values - nearest) > self._rounding(values), axis=1)
        low, high = self.mechanism.probability_cells(nearest, self.records[indices], rng)
        keys = row_keys(nearest.astype(np.float64))
        return PartReports(low, high, present, keys, int(off[present].sum()))

    def _values(self, table: pa.Table) -> tuple[NDArray[Any], Mask]:
        return self.split.layout.read(table)

    def guarantee(self) -> PureDP | ApproximateDP:
        return self.split.guarantee(self.randomizer.delta)

    def log_ratio(self, table: pa.Table, first: int, second: int) -> Array:
        values, present = self._values(table)
        values = self.mechanism.to_grid(values)
        ratio = self.mechanism.log_ratio(values, self.records[first], self.records[second])
        return np.where(present, ratio, 0.0)


class _CodesTrial(_ColumnTrial):
    """Trial of a split column that is reported as a code."""

    def _make_records(self) -> None:
        self.column = self.randomizer.schema.coded[self.name]
        size = self.column.alphabet.size
        # Random codes, so that repeated audits test every code.
        others = np.random.default_rng().integers(0, size, 3)
        self.records = np.unique([0, 1, size - 1, *others])
        last = len(self.records) - 1
        self.pairs = ((0, 1),) if last == 1 else ((0, 1), (0, last))

    def raw(self, indices: Indices, rng: np.random.Generator) -> dict[str, pa.Array]:
        codes = self.records[indices]
        return self.column.make_up_codes(self.name, self.column.alphabet, codes, rng)


class _PointsTrial(_ColumnTrial):
    """Trial of a split column that is reported as a point."""

    noisy = True

    def _make_records(self) -> None:
        self.column = self.randomizer.schema.point_column(self.name)
        domain = self.column.domain
        ends = domain.unit.project(np.concatenate(domain.unit.far_apart()))  # pair after pair
        # The center, and a random point, so that repeated audits test other places.
        inside = np.random.default_rng().uniform(-1, 1, (2, domain.dimension)) * [[1], [0]]
        tested = np.concatenate([ends, _FAR * ends, domain.unit.project(inside)])
        _, first_rows = np.unique(tested, axis=0, return_index=True)
        self.units = tested[np.sort(first_rows)]  # raw values (n, d) in unit coordinates, distinct
        distinct, near_and_far = self.units.tolist(), tested[: 2 * len(ends)].tolist()
        rows = [distinct.index(point) for point in near_and_far]
        self.pairs = tuple(zip(rows[::2], rows[1::2], strict=True))
        in_table = self.units
        if self.column.is_number:  # a table rounds dates to whole numbers
            raw = pa.table(self.column.make_up_points(self.name, self.units))
            in_table = to_unit(domain, self.column.encode_points(self.name, raw))
        points = domain.unit.project(in_table)  # as a device reports them
        if self.column.nullable:
            absent = np.full((1, domain.dimension), np.nan)
            self.units, points = np.vstack([self.units, absent]), np.vstack([points, absent])
            missing = len(self.units) - 1
            self.pairs += tuple((missing, row) for row in rows[: len(ends)])
        self.records = self.mechanism.records(points, domain)

    def raw(self, indices: Indices, rng: np.random.Generator) -> dict[str, pa.Array]:
        return self.column.make_up_points(self.name, self.units[indices])

    def _values(self, table: pa.Table) -> tuple[NDArray[Any], Mask]:
        values, present = super()._values(table)
        return values.astype(np.float64), present

    def _rounding(self, values: Array) -> Array:
        domain = self.mechanism.report_domain(self.column.domain)
        bound, center = np.zeros(values.shape), np.abs(domain.center) / domain.scale
        width = len(center)  # the flag of a missing value, if any, follows and is exact
        bound[:, :width] = _ROUNDING * (center + np.abs(values[:, :width]) + 1)
        return bound

    def gaussian_mu(self) -> float | None:
        return self.mechanism.gaussian_mu(self.column.domain)


class _JointTrial(Trial):
    """Trial of the joint report, whose records have an atom of each column, to test every coding."""

    name, kind, pairs = "joint report", "subset_selection", ((0, 1), (0, 2))

    def __init__(self, schema: Schema, joint: JointReport) -> None:
        self.joint, self.unit = joint, schema.unit
        self.columns = {name: schema.coded[name] for name in joint.design.columns}
        sizes = np.array([column.atoms[0].size for column in self.columns.values()])
        random = np.random.default_rng().random(len(sizes))  # repeated audits test every code
        shares = np.vstack([np.outer([0.0, 0.25, 0.5, 0.75], np.ones(len(sizes))), random])
        # Atoms (records, columns): the first, second and last of all columns, and some between.
        at_shares = (shares * sizes).astype(np.int64)
        self.records = np.vstack([0 * sizes, 0 * sizes + 1, sizes - 1, at_shares])
        by_column = []
        for column, atoms in zip(self.columns.values(), self.records.T, strict=True):
            _, codes_of_atoms = column.atoms
            by_column.append(codes_of_atoms[:, atoms])
        self.codes = np.concatenate(by_column).T
        self.num_records = len(self.records)

    def raw(self, indices: Indices, rng: np.random.Generator) -> dict[str, pa.Array]:
        table: dict[str, pa.Array] = {}
        for (name, column), records in zip(self.columns.items(), self.records.T, strict=True):
            table |= column.make_up_codes(name, column.atoms[0], records[indices], rng)
        return table

    def read(self, table: pa.Table, indices: Indices, rng: np.random.Generator) -> PartReports:
        answers = self.joint.read(table)
        low, high = self.joint.probability_cells(answers, self.codes[indices], rng)
        # A report is a sheet (some columns, each in one coding) and a set of the sheet's cells. The key
        # of a set is the sum of its cells' keys, which does not depend on their order.
        cell_keys = row_keys(answers.cells.astype(np.int64)[:, None])
        sets = np.add.reduceat(cell_keys, answers.offsets[:-1])
        keys = row_keys(np.stack([sets, answers.sheets.astype(np.uint64)], axis=1))
        return PartReports(low, high, np.ones(len(low), bool), keys)

    def guarantee(self) -> PureDP:
        return PureDP(self.joint.epsilon, unit=self.unit)

    def log_ratio(self, table: pa.Table, first: int, second: int) -> Array:
        answers = self.joint.read(table)
        codes, other = (np.tile(self.codes[i], (table.num_rows, 1)) for i in (first, second))
        return self.joint.log_ratio(answers, codes, other)


class _CandidatesTrial(Trial):
    """Trial of the candidates report: records far apart, one outside the domain, a random one."""

    kind = "candidates"

    def __init__(self, schema: Schema, report: CandidatesReport) -> None:
        self.report, self.unit, self.name = report, schema.unit, " with ".join(report.columns)
        column, domain = self.report.coordinates.column, self.report.coordinates.column.domain
        ends = np.array([point for pair in domain.unit.far_apart()[:2] for point in pair])
        inside = np.random.default_rng().uniform(-1, 1, (1, domain.dimension))
        units = [ends, _FAR * ends[:1], inside]
        if column.nullable:
            units.append(np.full((1, domain.dimension), np.nan))
        self.units = np.concatenate(units)
        self.num_records = len(self.units)
        # 64 candidates are taken to cost as much as one number.
        self.work = self.report.mechanism.codebook.num_candidates // 64
        size = 1 if self.report.labels is None else self.report.labels.alphabet.size
        self.codes = np.arange(self.num_records) % size
        self.pairs = ((0, 1), (0, self.num_records - 1)) if column.nullable else ((0, 1),)
        projected = domain.unit.project(np.nan_to_num(self.units))
        absent = np.isnan(self.units).any(axis=1, keepdims=True)
        points = self.report.coordinates.encode(np.where(absent, np.nan, projected))
        self.vectors = self.report.vectors(CandidateRecords(points, self.codes))

    def raw(self, indices: Indices, rng: np.random.Generator) -> dict[str, pa.Array]:
        report, labels = self.report, self.report.labels
        table = report.coordinates.column.make_up_points(report.name, self.units[indices])
        if labels is not None and report.label is not None:
            table |= labels.make_up_codes(report.label, labels.alphabet, self.codes[indices], rng)
        return table

    def read(self, table: pa.Table, indices: Indices, rng: np.random.Generator) -> PartReports:
        answers, mechanism = self.report.read(table), self.report.mechanism
        vectors = self.vectors[indices]
        low, high = mechanism.probability_cells(answers.seeds, answers.indices, vectors)
        keys = row_keys(np.stack([answers.seeds, answers.indices.astype(np.uint64)], axis=1))
        return PartReports(low, high, np.ones(len(low), bool), keys)

    def guarantee(self) -> PureDP:
        return self.report.guarantee(self.unit)

    def log_ratio(self, table: pa.Table, first: int, second: int) -> Array:
        answers, records = self.report.read(table), (self.vectors[first], self.vectors[second])
        return self.report.mechanism.log_ratio(answers.seeds, answers.indices, *records)


class _CoinsTrial(Trial):
    """Trial of the choice of split columns: a uniform set of k columns, independent of the record."""

    name, kind, num_records = "columns reported", "coins", 1

    def __init__(self, randomizer: Randomizer) -> None:
        self.randomizer = randomizer

    def read(self, table: pa.Table, indices: Indices, rng: np.random.Generator) -> PartReports:
        splits = self.randomizer.splits.values()
        chosen = np.stack([split.reported(table) for split in splits], axis=1)
        count = self.randomizer.num_reported
        sets = np.nonzero(chosen)[1].reshape(-1, count)
        low, high = set_cells(sets, np.full(len(sets), count), chosen.shape[1], rng)
        return PartReports(low, high, np.ones(len(sets), bool), row_keys(sets.astype(np.int64)))


class _IdTrial(Trial):
    """Trial of the report's id: 128 fair bits, as eight numbers of 16 bits."""

    name, kind, num_records = "report ids", "fair coins", 1

    def read(self, table: pa.Table, indices: Indices, rng: np.random.Generator) -> PartReports:
        # A repeated id counts as impossible: its probability is below 1e-26.
        words = id_words(one_array(table.column(REPORT_ID)))
        numbers = words.astype(">u8").view(">u2").astype(np.float64)
        keys = row_keys(words)
        repeated = len(keys) - len(np.unique(keys))
        present = np.ones(len(keys), bool)
        return PartReports(numbers / 2**16, (numbers + 1) / 2**16, present, keys, repeated)


def trials(randomizer: Randomizer) -> list[Trial]:
    """Return the trials of all parts of a randomizer's reports."""
    parts: list[Trial] = []
    if randomizer.joint is not None:
        parts.append(_JointTrial(randomizer.schema, randomizer.joint))
    if randomizer.candidates is not None:
        parts.append(_CandidatesTrial(randomizer.schema, randomizer.candidates))
    for name, mechanism in randomizer.mechanisms.items():
        trial = _CodesTrial if mechanism.takes_codes else _PointsTrial
        parts.append(trial(randomizer, name))
    if randomizer.num_reported < len(randomizer.mechanisms):
        parts.append(_CoinsTrial(randomizer))
    return [*parts, _IdTrial()]
