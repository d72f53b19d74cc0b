r"""Forms of channels: all that a curator needs of a mechanism to learn from its reports, in numbers.

A form says what likelihood $f(y | x)$ reports have, up to a factor that is the report's own. What is
learned is a point for forms of noise, whose cost has a slope in x, and for the others a distribution
p over the codes v of the column's alphabet, whose cost is

$$ −\ln \sum_v p(v) f(y | v) = −\ln \big( 1 + (r−1) \sum_v p(v) A_{yv} \big) − \ln c(y), \qquad
f(y | v) = c(y) (1 + (r−1) A_{yv}), \quad 0 ≤ A_{yv} ≤ 1 ≤ r . $$

`privot.local` computes the costs on tensors, and counts reports by their A; a mechanism that states one
of these forms is learned from without a line there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
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

_MOST_PLACES = 4096


@dataclass(frozen=True)
class Form:
    """How reports depend on what is learned: see the module."""

    learns_codes: ClassVar[bool] = False  # a distribution over codes, rather than a point
    flagged: ClassVar[bool] = False  # points that may be missing
    alone: ClassVar[bool] = False  # learned only where it is all that is reported


@dataclass(frozen=True)
class NoiseForm(Form):
    """Points y of cost ‖x − y‖₁/b, ‖x − y‖₂/b or ‖x − y‖₂²/(2σ²), b or σ being the `scale`."""

    distance: Literal["manhattan", "euclidean", "squared_euclidean"]
    scale: float


@dataclass(frozen=True)
class FlaggedForm(Form):
    """A noisy point and a flag: a mixture of two cases (`mechanisms.additive.nullable_noise`).

    Arguments:
        noise: That of the point.
        probabilities: P(the flag tells the truth), P(it does not).
        stand_in: The point (d,) that noise is added to where the record is missing.
    """

    noise: NoiseForm
    probabilities: tuple[float, float]
    stand_in: tuple[float, ...]

    flagged = True


class CodeForm(Form):
    """Reports of codes, or from which codes are learned."""

    ratio: float  # r

    learns_codes = True

    @abstractmethod
    def shares(self, reports: NDArray[Any]) -> Array | scipy.sparse.csr_array:
        """A (n, K) of reports as a curator reads them, which may repeat."""

    @abstractmethod
    def indicators(self, reports: NDArray[Any]) -> Array:
        """Numbers (n, K) whose mean over the reports of a code is 1 at that code, 0 elsewhere."""


@dataclass(frozen=True)
class SupportForm(CodeForm):
    """Sets of codes: r times likelier for the codes v in the set, $A_{yv} = 1[v ∈ S]$.

    Arguments:
        num_values: Size K of the alphabet.
        ratio: r.
        probabilities: P(the true code is in the set), P(a given other one is).
        size: Codes in every set; None where every code is in by itself.
    """

    num_values: int
    ratio: float
    probabilities: tuple[float, float]
    size: int | None

    def shares(self, reports: NDArray[Any]) -> scipy.sparse.csr_array:
        """A (n, K) of reported sets (n, w), padded with −1."""
        rows, places = np.nonzero(reports >= 0)
        shape = (len(reports), self.num_values)
        return scipy.sparse.csr_array(
            (np.ones(rows.size), (rows, reports[rows, places])), shape=shape
        )

    def indicators(self, reports: NDArray[Any]) -> Array:
        """(1[v ∈ S] − q)/(p − q)."""
        own, other = self.probabilities
        held: Array = self.shares(reports).toarray()
        return (held - other) / (own - other)


def codes_of_bits(bits: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The codes (n, w) whose bits (n, K) are set, padded with −1 to the longest."""
    count = np.count_nonzero(bits, axis=1)
    out = np.full((len(bits), int(count.max(initial=0))), -1, np.int32)
    rows, codes = np.nonzero(bits)
    starts = np.concatenate([[0], np.cumsum(count)[:-1]])
    out[rows, np.arange(rows.size) - starts[rows]] = codes
    return out


@dataclass(frozen=True, eq=False)
class TableForm(CodeForm):
    """Finitely many reports, and the probability of each, whatever the code.

    Arguments:
        likelihood: P(report | code), all > 0, (reports, K).
        first: The first report, as a curator reads it: a number, or a code.
        step: From one report to the next.
        nullable: Whether reports end with a flag, 1 of the last report of all.
    """

    likelihood: Array
    first: float = 0.0
    step: float = 1.0
    nullable: bool = False

    @classmethod
    def over_bins(
        cls,
        likelihood: Callable[[Array, Array], Array],
        reports: Array,
        grid: float,
        column: Column,
    ) -> TableForm:
        """That of a mechanism of numbers: likelihoods are means over what the column's bins decode to.

        Arguments:
            likelihood: $f(y | x)$ of reports (n, 1) and records (m, 1) that broadcast to (n, m).
            reports: All of them (n,), evenly spaced, in unit coordinates.
            grid: Of the records, from −1 on; those between are rounded.
            column: Of numbers or dates, in bins.
        """
        bins, domain = column.alphabet, column.domain
        assert isinstance(bins, Bins)
        assert domain is not None
        columns = []
        for low, high in pairwise(bins.edges):
            places = (_within(low, high, bins.integer) - domain.center[0]) / domain.scale[0]
            cells, count = np.unique(np.rint((places + 1) / grid), return_counts=True)
            f = likelihood(reports[:, None, None], (cells * grid - 1)[:, None])
            columns.append(f @ (count / count.sum()))
        return cls(np.stack(columns, axis=1), float(reports[0]), float(reports[1] - reports[0]))

    def with_missing(self, told: float, given: float) -> TableForm:
        """The same beside a missing value: one code and one report more, the last ones.

        Arguments:
            told: P(the report is "missing" | it is missing).
            given: P(the report is "missing" | it is not).
        """
        others = (1 - told) / len(self.likelihood)
        table = np.pad(self.likelihood, ((0, 1), (0, 1)), constant_values=others)
        table[-1] = given
        table[-1, -1] = told
        return replace(self, likelihood=table, nullable=True)

    def rows(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """Numbers (n,) of reports (n, 1), or (n, 2) with a flag."""
        rows = np.rint((reports[:, 0] - self.first) / self.step).astype(np.int64)
        return (
            np.where(reports[:, -1] == 1, len(self.likelihood) - 1, rows) if self.nullable else rows
        )

    @cached_property
    def _least(self) -> Array:
        return self.likelihood.min(axis=1, keepdims=True)

    @cached_property
    def ratio(self) -> float:  # type: ignore[override]  # computed, of a frozen form
        """r: the largest of all likelihood ratios."""
        return float((self.likelihood / self._least).max())

    def shares(self, reports: NDArray[Any]) -> Array:
        """A (n, K) of reports (n, 1)."""
        rows = self.rows(reports)
        if self.ratio == 1.0:
            return np.zeros((len(rows), self.likelihood.shape[1]))
        share = (self.likelihood / self._least - 1) / (self.ratio - 1)
        return np.clip(share, 0.0, 1.0)[rows]

    def indicators(self, reports: NDArray[Any]) -> Array:
        """The left inverse of the table that has least variance where every code is as likely."""
        weights = 1 / np.sqrt(self.likelihood.mean(axis=1, keepdims=True))
        inverse: Array = np.linalg.pinv(self.likelihood * weights) * weights.T
        return inverse[:, self.rows(reports)].T


@dataclass(frozen=True)
class WindowForm(Form):
    """Windows on a grid (`privot.mechanisms.windows`): what is learned is a law of record cells.

    Record cells are j ∈ 0 … N a coordinate, at −1 + 2j/N in unit coordinates; report cells −r … N + r.
    A report cell y has the probability `inside` if it is in the record's window, and else `outside`;
    of a product each coordinate has, by itself.

    Arguments:
        dimension: Coordinates d.
        steps: N.
        radius: r; the window is $‖y − x‖_2 ≤ r$, or $|y_i − x_i| ≤ r$ of a product.
        shape: `"ball"` or `"product"`.
        area: Where records lie: all of the box, a ball, or a curve, of which a number says how far
            along.
        inside: P(one cell of the window).
        outside: P(one cell outside of it).
        nullable: Whether reports (n, d+1) say at the end that they are missing. That one symbol has as
            much weight as a window's cells: `inside` m if the record is missing, else `outside` m.
    """

    dimension: int
    steps: int
    radius: int
    shape: Literal["ball", "product"]
    area: Literal["box", "l1_ball", "l2_ball", "curve"]
    inside: float
    outside: float
    nullable: bool

    alone = True

    @property
    def flagged(self) -> bool:  # type: ignore[override]  # known of an instance
        """Whether points may be missing."""
        return self.nullable

    @property
    def reach(self) -> int:
        """Report cells beyond the record cells, on each side of a coordinate."""
        return self.radius

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The cells (m, d) of the window of 0; of a product, those (m, 1) of one coordinate's."""
        return window_offsets(self.dimension if self.shape == "ball" else 1, self.radius)

    def by_bins(self, column: Column) -> TableForm:
        """Of numbers in bins: all reports by the column's codes."""
        cells = np.arange(-self.radius, self.steps + self.radius + 1.0)

        def likelihood(y: Array, x: Array) -> Array:
            near = np.abs(y - x) <= self.radius * (2 / self.steps)  # both on the grid
            return np.where(near, self.inside, self.outside)[..., 0]

        form = TableForm.over_bins(likelihood, cells * (2 / self.steps) - 1, 2 / self.steps, column)
        weight = 2 * self.radius + 1
        told, given = weight * self.inside, weight * self.outside
        return form.with_missing(told, given) if self.nullable else form

    def cells(self, reports: Array) -> NDArray[np.int64]:
        """Report cells (n, d), each −r … N + r, of reports in unit coordinates; flags are left out."""
        points = np.asarray(reports, np.float64)[:, : self.dimension]
        return np.rint((points + 1.0) * (self.steps / 2)).astype(np.int64)


def _within(low: float, high: float, integer: bool) -> Array:
    """What a bin decodes to, in order: all its integers, or as many numbers as tell no difference."""
    if integer and high - low <= _MOST_PLACES:
        return np.arange(low, high)
    return low + (high - low) * (np.arange(_MOST_PLACES) + 0.5) / _MOST_PLACES
