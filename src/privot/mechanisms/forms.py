r"""Closed forms of the likelihood of reports, by which a curator fits models to reports.

A form states the likelihood $f(y | x)$ of a report y given a record x, up to a factor c(y). Additive
noise has a likelihood with a gradient in x, so that points can be fitted. The window mechanism's reports
are fitted by a distribution over the cells of a grid. All other forms are fitted by a distribution p
over the codes v of the column's alphabet. With the largest likelihood ratio r of any report, they define
the **shares** A of a report by

$$ f(y | v) = c(y) (1 + (r−1) A_{yv}), \quad 0 ≤ A_{yv} ≤ 1 ≤ r, \qquad
−\ln \sum_v p(v) f(y | v) = −\ln \big( 1 + (r−1) \sum_v p(v) A_{yv} \big) − \ln c(y) . $$

`privot.local` uses forms only: a new mechanism of one of these forms needs no change there.

**Answers.** A form maps reports to rows of w integers, called answers, so that equal reports can be
counted together (`privot.randomizer.reports.counts`). An answer consists of the codes of a set, the row
of a table, or the cell of a point. Noisy points are counted in bins and in two tails. The bins have the
width of the grid on which the distribution is learned. With Laplace noise the tails lose no information:
beyond the domain, the ratio of the densities $e^{−|y − x|/b}$ of two records does not depend on y.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.mechanisms.window_cells import window_offsets
from privot.schema import Column
from privot.schema.columns.alphabet import Bins
from privot.schema.domains import Array

_MAX_VALUES = 4096  # largest number of values over which a bin is averaged
_TAIL = 6.0  # standard deviations of Gaussian noise beyond which reports share one bin
_MAX_BINS = 1024  # of reports with noise, per coordinate
SPACINGS = {1: 256, 2: 128, 3: 32}  # most spacings of a grid of points, by dimension

Answers = NDArray[np.int32]


@dataclass(frozen=True)
class Form:
    """Base of the forms of a report's likelihood."""

    learns_codes: ClassVar[bool] = False  # a distribution over codes is fitted, rather than points
    flagged: ClassVar[bool] = False  # reports of points end with a flag: 1 if missing
    alone: ClassVar[bool] = False  # can be fitted only if no other column is reported
    width: ClassVar[int] = 1  # number w of integers in an answer
    one_report: ClassVar[bool] = False  # an answer determines the report, which `points` returns

    def num_answers(self, dimension: int = 1) -> int | None:
        """Return the number of possible integers of an answer; None if answers cannot be counted.

        `dimension` is the number of coordinates of points.
        """
        return None

    def answers(self, reports: NDArray[Any]) -> Answers:
        """Return the answers (n, w) of reports (n, …)."""
        raise NotImplementedError

    def points(self, answers: Answers) -> Array:
        """Return the reports (n, d), or (n, d+1) with a flag, of answers (n, 1)."""
        raise NotImplementedError


@dataclass(frozen=True)
class NoiseForm(Form):
    """Additive noise: −ln f is ‖x − y‖₁/b or ‖x − y‖₂²/(2σ²); `scale` is b or σ."""

    distance: Literal["manhattan", "squared_euclidean"]
    scale: float

    def ends(self, dimension: int) -> Array:
        """Return the ends (bins + 1,) of the bins of one coordinate, increasing, without the tails."""
        reach = 1.0 if self.distance == "manhattan" else 1.0 + _TAIL * self.scale
        return np.linspace(-reach, reach, min(_MAX_BINS, round(SPACINGS[dimension] * reach)) + 1)

    def num_answers(self, dimension: int = 1) -> int | None:
        if self.distance not in ("manhattan", "squared_euclidean"):
            return None  # a user's noise, whose tails `ends` does not know
        return int((len(self.ends(dimension)) + 1) ** dimension)

    def answers(self, reports: NDArray[Any]) -> Answers:
        """See `Form`: the bins of points (n, d), in C order."""
        ends, dimension = self.ends(reports.shape[1]), reports.shape[1]
        bins = np.searchsorted(ends, reports)
        return _column(np.ravel_multi_index(tuple(bins.T), (len(ends) + 1,) * dimension))


@dataclass(frozen=True)
class FlaggedForm(Form):
    """Noisy point, and noisy flag if it is missing (`privot.mechanisms.additive_noise.NullableNoise`).

    Arguments:
        noise: Likelihood of the point.
        probabilities: P(the flag is right), P(the flag is wrong).
        stand_in: Point (d,) to which noise is added if the record is missing.
    """

    noise: NoiseForm
    probabilities: tuple[float, float]
    stand_in: tuple[float, ...]

    flagged = True


class CodeForm(Form):
    """Base of forms that are fitted by a distribution over codes; see the module for A and r."""

    ratio: float  # largest likelihood ratio r
    mean_square: float  # of `indicators`, over codes and over reports of uniform records

    learns_codes = True

    @abstractmethod
    def shares(self, answers: Answers) -> Array | scipy.sparse.csr_array:
        """Return the shares A (n, K) of answers (n, w)."""

    @abstractmethod
    def indicators(self, answers: Answers) -> Array:
        """Return unbiased estimates (n, K) of the indicator of each record's code."""


@dataclass(frozen=True)
class SupportForm(CodeForm):
    """Reports are sets S of codes, r times likelier for the codes v in the set: $A_{yv} = 1[v ∈ S]$.

    Arguments:
        num_values: Size K of the alphabet.
        ratio: Likelihood ratio r.
        probabilities: P(the true code is in the set), P(a given other code is in the set).
        size: Number of codes in every set.
    """

    num_values: int
    ratio: float
    probabilities: tuple[float, float]
    size: int

    @property
    def width(self) -> int:  # type: ignore[override]  # known of an instance
        """Number of codes in a set."""
        return self.size

    def num_answers(self, dimension: int = 1) -> int:
        return self.num_values

    def answers(self, reports: NDArray[Any]) -> Answers:
        """See `Form`: the codes of sets (n, w)."""
        return reports.astype(np.int32, copy=False)

    def shares(self, answers: Answers) -> scipy.sparse.csr_array:
        rows, places = np.nonzero(answers >= 0)
        entries = np.ones(rows.size), (rows, answers[rows, places])
        return scipy.sparse.csr_array(entries, shape=(len(answers), self.num_values))

    def indicators(self, answers: Answers) -> Array:
        """See `CodeForm`: (1[v ∈ S] − q)/(p − q), with (p, q) the `probabilities`."""
        p, q = self.probabilities
        contained: Array = self.shares(answers).toarray()
        return (contained - q) / (p - q)

    @property
    def mean_square(self) -> float:  # type: ignore[override]  # computed; the same for all sets
        return float(np.mean(self.indicators(np.arange(self.size, dtype=np.int32)[None]) ** 2))


@dataclass(frozen=True, eq=False)
class TableForm(CodeForm):
    """Table of the probabilities of finitely many reports, given each code.

    Arguments:
        likelihood: P(report | code), all > 0, (reports, K).
        first: Report of the first row: a number, or a code.
        step: Difference between the reports of consecutive rows.
        nullable: Whether reports end with a flag, which is 1 for the last row only.
    """

    likelihood: Array
    first: float = 0.0
    step: float = 1.0
    nullable: bool = False

    def rows(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """Return the table's row (n,) of each report (n, 1), or (n, 2) with a flag."""
        rows = np.rint((reports[:, 0] - self.first) / self.step).astype(np.int64)
        if self.nullable:
            rows[reports[:, -1] == 1] = len(self.likelihood) - 1
        return np.asarray(rows)

    def num_answers(self, dimension: int = 1) -> int:
        return len(self.likelihood)

    def answers(self, reports: NDArray[Any]) -> Answers:
        """See `Form`: the table's rows."""
        return _column(self.rows(reports))

    @cached_property
    def _ratios(self) -> Array:
        """Likelihoods (reports, K), divided by that of each report's least likely code."""
        ratios: Array = self.likelihood / self.likelihood.min(axis=1, keepdims=True)
        return ratios

    @cached_property
    def ratio(self) -> float:  # type: ignore[override]  # computed, of a frozen form
        """Largest likelihood ratio r of any report."""
        return float(self._ratios.max())

    def shares(self, answers: Answers) -> Array:
        rows = answers[:, 0]
        if self.ratio == 1.0:
            return np.zeros((len(rows), self.likelihood.shape[1]))
        return np.clip((self._ratios - 1) / (self.ratio - 1), 0.0, 1.0)[rows]

    def indicators(self, answers: Answers) -> Array:
        """See `CodeForm`: the table's left inverse with the least variance under uniform codes."""
        weights = 1 / np.sqrt(self.likelihood.mean(axis=1, keepdims=True))
        inverse: Array = np.linalg.pinv(self.likelihood * weights) * weights.T
        return inverse[:, answers[:, 0]].T

    @property
    def mean_square(self) -> float:  # type: ignore[override]  # computed, of a frozen form
        squares = self.indicators(np.arange(len(self.likelihood), dtype=np.int32)[:, None]) ** 2
        return float((self.likelihood.mean(axis=1) @ squares).mean())


@dataclass(frozen=True)
class WindowForm(Form):
    """Grid cells that are likelier inside a window around the record (`privot.mechanisms.window`).

    Each coordinate of a record has a cell j = 0 … N, at −1 + 2j/N in unit coordinates, and each
    coordinate of a report a cell −r … N + r. A report cell y has the probability `inside` if it is in
    the record's window, else `outside`. In a product, coordinates have these probabilities
    independently.

    Arguments:
        dimension: Number d of coordinates.
        steps: Number N of steps of the grid.
        radius: Radius r: the window is $‖y − x‖_2 ≤ r$, or $|y_i − x_i| ≤ r$ in a product.
        shape: `"ball"` or `"product"`.
        area: Set of the records: a box, a ball, or one number along a curve.
        inside: Probability of one cell in the window.
        outside: Probability of one cell outside.
        nullable: Whether reports (n, d+1) end with a flag, 1 if missing. With m the number of cells of a
            window, P(flag) is `inside` · m if the record is missing, else `outside` · m.
    """

    dimension: int
    steps: int
    radius: int
    shape: Literal["ball", "product"]
    area: Literal["box", "l1_ball", "l2_ball", "curve"]
    inside: float
    outside: float
    nullable: bool

    alone, one_report = True, True

    @property
    def flagged(self) -> bool:  # type: ignore[override]  # known of an instance
        return self.nullable

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Cells (m, d) of the window of cell 0; in a product, (m, 1) of one coordinate."""
        return window_offsets(self.dimension if self.shape == "ball" else 1, self.radius)

    def by_bins(self, column: Column) -> TableForm:
        """Tabulate the likelihood of all reports, averaged over the values of each bin of a column.

        The column holds numbers or dates. A missing value has its own code and its own report.
        """
        bins, domain, step = column.alphabet, column.domain, 2 / self.steps
        assert isinstance(bins, Bins)
        assert domain is not None
        reports = np.arange(-self.radius, self.steps + self.radius + 1)[:, None]
        by_bin = []  # probabilities (reports,) given each bin
        for low, high in pairwise(bins.edges):
            if bins.integer and high - low <= _MAX_VALUES:
                values = np.arange(low, high)
            else:
                values = low + (high - low) * (np.arange(_MAX_VALUES) + 0.5) / _MAX_VALUES
            units = (values - domain.center[0]) / domain.scale[0]
            cells, count = np.unique(np.rint((units + 1) / step), return_counts=True)
            by_cell = np.where(np.abs(reports - cells) <= self.radius, self.inside, self.outside)
            by_bin.append(by_cell @ (count / count.sum()))
        table = np.stack(by_bin, axis=1)
        if self.nullable:
            flag_if_missing = self.inside * len(self.offsets)
            other_if_missing = (1 - flag_if_missing) / len(table)
            # The last row is the flagged report, the last column the code of a missing value.
            table = np.pad(table, ((0, 1), (0, 1)), constant_values=other_if_missing)
            table[-1, :-1] = self.outside * len(self.offsets)
            table[-1, -1] = flag_if_missing
        return TableForm(table, -self.radius * step - 1, step, self.nullable)

    def cells(self, reports: Array) -> NDArray[np.int64]:
        """Return the cells (n, d), from −r to N + r, of reports in unit coordinates; ignore flags."""
        points = np.asarray(reports, np.float64)[:, : self.dimension]
        return np.rint((points + 1.0) * (self.steps / 2)).astype(np.int64)

    @property
    def shape_of_cells(self) -> tuple[int, ...]:
        """Number of report cells of every coordinate, margins included."""
        return (self.steps + 1 + 2 * self.radius,) * self.dimension

    def num_answers(self, dimension: int = 1) -> int:
        """See `Form`: the report cells, and a missing value."""
        return int(np.prod(self.shape_of_cells)) + self.nullable

    def answers(self, reports: NDArray[Any]) -> Answers:
        """See `Form`: the cells in C order, then a missing value, as the rows of `by_bins` are."""
        cells = self.cells(reports) + self.radius
        numbers = np.ravel_multi_index(tuple(cells.T), self.shape_of_cells)
        if self.nullable:
            numbers = np.where(reports[:, -1] == 1, self.num_answers() - 1, numbers)
        return _column(numbers)

    def points(self, answers: Answers) -> Array:
        numbers, missing = answers[:, 0], self.num_answers() - 1
        flags = (numbers == missing) & self.nullable
        cells = np.stack(np.unravel_index(np.where(flags, 0, numbers), self.shape_of_cells), axis=1)
        points = np.asarray((cells - self.radius) * (2 / self.steps) - 1.0, np.float64)
        points[flags] = 0.0
        return np.hstack([points, flags[:, None]]) if self.nullable else points


def _column(numbers: NDArray[Any]) -> Answers:
    """Return one-integer answers (n, 1) of numbers (n,)."""
    return np.asarray(numbers, np.int32)[:, None]
