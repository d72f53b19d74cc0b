r"""The window mechanism (square wave, disk): reports near the record are e^ε times as likely as others.

A record of d unit coordinates is rounded to its cell x on a grid of N steps. Its **window** is
$W(x) = \{y : ‖y − x‖_2 ≤ r\}$, with the radius r in cells. The windows of all records have the same
number m of cells, and lie inside a set of K report cells. A report y has the probability

$$ P(y | x) = a \text{ if } y ∈ W(x), \text{ else } b, \qquad a m + b (K − m) = 1, \quad a ≤ e^ε b, $$

so the likelihood ratio of any two records is at most $e^ε$. In one dimension this is the square wave,
in two the disk. In a `product`, each coordinate has its own window, at ε/d.
`privot.mechanisms.window_cells` draws with integers, whose rounding never increases ε.

**Missing values** are one additional record, whose window consists of m additional cells that all have
the same report. So every record has a window of m among K + m cells.

**Curves.** A point of a known curve is represented by its arc length, and windows contain arc lengths.

**Privacy review.** Adjacency: any two records, missing or not. All random numbers are drawn for every
record, before the record is read; the record enters by one addition. The sampler receives only the
record's cell, so the guarantee holds for any two raw values. A value outside the domain is refused:
columns must project it.

Inside the window the likelihood is constant in x, so it has no gradient. A fit therefore estimates a
distribution over cells or bins.

References:
    Li, Wang, Lopuhaä-Zwakenberg, Škorić, Li, *Estimating numerical distributions under local
    differential privacy* (2020), for one coordinate.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError, hold_count, require_choice, require_finite
from privot.mechanisms.forms import Form, WindowForm
from privot.mechanisms.mechanism import Mechanism
from privot.mechanisms.samplers import Integers
from privot.mechanisms.window_cells import Area, WindowCells, WindowMixture, window_plan
from privot.privacy.distributed import ReportLaw
from privot.privacy.guarantees import PureDP
from privot.privacy.rounding import percent_at_least, percent_at_most
from privot.schema import Column, Domain, Polyline
from privot.schema.columns.alphabet import Bins
from privot.schema.domains import Array, from_unit, to_unit

Shape = Literal["ball", "product"]

_MAX_EPSILON = 40.0  # beyond, hardly any of the 2^64 words lead outside the window
_CHUNK = 2**15  # reports drawn at once


def _geometry(domain: Domain) -> tuple[int, Area | None, bool]:
    """Return records' number of coordinates and area, and whether no coordinate is negative."""
    if domain.area == "curve":
        return 1, "curve", False  # a record is an arc length
    return domain.dimension, domain.area, not domain.symmetric


@dataclass(frozen=True)
class Window(Mechanism, kind="window"):
    """Window mechanism for points of one to three unit coordinates, in a box or a ball.

    Arguments:
        epsilon: Privacy loss of the whole report.
        dimension: Number d of coordinates of a record.
        steps: Number N of steps of the grid, a power of two.
        radius: Radius r of the window, in cells.
        shape: `"ball"` for one window, `"product"` for one window for each coordinate.
        area: Set of the records; a record on a curve is one number from −1 to 1.
        non_negative: Whether records have no negative coordinate.
        nullable: Whether records may be missing; records and reports are then (n, d+1).

    Examples:
        >>> from privot.schema import Box
        >>> mechanism = Window.for_domain(Box((0.0,), (100.0,)), epsilon=1.0)
        >>> mechanism.radius / mechanism.steps  # the window's share of the interval, on each side
        0.255859375
    """

    epsilon: float
    dimension: int
    steps: int
    radius: int
    shape: Shape = "ball"
    area: Area = "box"
    non_negative: bool = False
    nullable: bool = False

    noise_word = "as an estimate,"

    def __post_init__(self) -> None:
        require_finite("epsilon", self.epsilon, positive=True)
        if not 2.0**-30 <= self.epsilon <= _MAX_EPSILON:
            raise PrivotError(f"epsilon is {self.epsilon!r}: give a number from 2^-30 to 40")
        require_choice("shape", self.shape, get_args(Shape))
        if self.shape == "product" and (self.area != "box" or self.nullable):
            raise PrivotError("shape is 'product': give a 'box' as area, and not nullable")
        hold_count(self, "dimension", 3)
        for name in ("steps", "radius"):  # as `WindowCells` checks and converts them
            object.__setattr__(self, name, getattr(self._grid, name))

    @classmethod
    def unfit(cls, column: Column) -> str:
        """See `Mechanism`: not for more than 3 coordinates, nor for numbers with spikes."""
        domain, bins = column.domain, column.alphabet
        if domain is None or (isinstance(bins, Bins) and bins.spikes):
            return "it is for places and numbers without spikes: use 'laplace'"
        dimension, area, _ = _geometry(domain)
        if dimension > 3 or area is None:
            return "it is for at most 3 coordinates in a box or ball, and for curves: use 'laplace'"
        return ""

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Self:
        assert column.domain is not None
        return cls.for_domain(column.domain, epsilon, nullable=column.nullable)

    @classmethod
    def for_domain(cls, domain: Domain, epsilon: float, *, nullable: bool = False) -> Self:
        """Return the window of `window_plan` for a domain, at min(ε, 40)."""
        d, area, non_negative = _geometry(domain)
        assert area is not None
        epsilon = min(epsilon, _MAX_EPSILON)
        steps, radius = window_plan(d, epsilon)
        return cls(epsilon, d, steps, radius, "ball", area, non_negative, nullable)

    def records(self, points: Array, domain: Domain) -> Array:
        """See `Mechanism`: points, or arc lengths on a curve, and flags if they may be missing."""
        unit, missing = domain.unit, np.isnan(points).any(axis=1, keepdims=True)
        if isinstance(unit, Polyline):
            points = to_unit(unit.line, unit.along(np.where(missing, 0.0, points))).clip(-1.0, 1.0)
        return np.hstack([np.where(missing, 0.0, points), missing]) if self.nullable else points

    def report_domain(self, domain: Domain) -> Domain:
        return domain.line if isinstance(domain, Polyline) else domain

    def places(self, records: Array, domain: Domain) -> Array:
        unit = domain.unit
        return unit.at(from_unit(unit.line, records)) if isinstance(unit, Polyline) else records

    def fits(self, column: Column) -> bool:
        if column.domain is None or self.unfit(column):
            return False
        geometry = (self.dimension, self.area, self.non_negative)
        return geometry == _geometry(column.domain) and self.nullable == column.nullable

    @property
    def flagged(self) -> bool:
        return self.nullable

    @cached_property
    def _grid(self) -> WindowCells:
        """Cells of the coordinates that share a window: all d in a ball, one in a product."""
        dimension = 1 if self.shape == "product" else self.dimension
        return WindowCells(dimension, self.steps, self.radius, self.area, self.non_negative)

    @cached_property
    def _mixture(self) -> WindowMixture:
        """Sampler of one window; in a product, each window has ε/d, rounded down."""
        ball = self.shape == "ball"
        epsilon = self.epsilon if ball else math.nextafter(self.epsilon / self.dimension, 0.0)
        return WindowMixture(self._grid, epsilon, self.nullable)

    @property
    def probabilities(self) -> tuple[float, float]:
        """Probabilities a and b of one cell inside the window, and of one outside."""
        return self._mixture.probabilities

    def form(self, column: Column) -> Form:
        """See `Mechanism`: the likelihood given a bin if the column holds numbers, else given a cell."""
        form = self.point_form(column)
        return form.by_bins(column) if column.is_number else form

    def point_form(self, column: Column) -> WindowForm:
        inside, outside = self.probabilities
        d, steps, radius = self.dimension, self.steps, self.radius
        return WindowForm(d, steps, radius, self.shape, self.area, inside, outside, self.nullable)

    def expected(self, column: Column) -> dict[str, Any]:
        """Describe an estimate's error; the report itself is in the window with probability `keep`."""
        noise, keep = super().expected(column), self.probabilities[0] * self._grid.window_size
        near, sure = percent_at_least(self.radius / self.steps, 2), percent_at_most(keep)
        words = f"within {near} of the range from the truth with probability {sure}"
        return noise | {"keep": keep, "in_words": f"{words}; {noise['in_words']}"}

    def attenuation(self, frequencies: Array) -> Array:
        """See `Mechanism`: in a product, the product of the factors of all windows."""
        by_window = frequencies.reshape(-1, self._grid.dimension)
        factors = np.where((by_window == 0).all(axis=1), 1.0, self._mixture.attenuation(by_window))
        return factors.reshape(len(frequencies), -1).prod(axis=1)

    def privatize(self, x: Array) -> Array:
        """Draw reports (…, d), or (…, d+1) with a flag, on the grid in unit coordinates.

        Raises:
            PrivotError: if a value lies outside the domain or is not a number, or a flag not 0 or 1.
        """
        x = np.asarray(x, np.float64)
        rows = x.reshape(-1, x.shape[-1])
        out = np.empty_like(rows)
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            out[part] = self._privatize(rows[part])
        return out.reshape(x.shape)

    def _privatize(self, x: Array) -> Array:
        """Draw reports of records (n, d), or (n, d+1) with a flag."""
        cells, points, missing = self._grid, x[:, : self.dimension], None
        if self.nullable:
            flags = x[:, self.dimension]
            missing = flags == 1.0
            if not (missing | (flags == 0.0)).all():
                raise PrivotError("x has a flag that is neither 0 nor 1: give 1 if missing")
        in_box = np.abs(points) <= 1  # False for NaN
        records = self._cells(np.where(in_box, points, 0.0)).reshape(-1, cells.dimension)
        if not in_box.all() or not (cells.is_box or cells.is_record_cell(records).all()):
            raise PrivotError("x has a value outside its domain: project it to the domain")
        return self._points(self._mixture.report(cells.number(records), missing))

    def program(self, column: Column) -> dict[str, Any] | None:
        """See `Mechanism`: for boxes and ℓ2 balls only."""
        if self.area not in ("box", "l2_ball"):
            return None
        return self._mixture.program | {"blocks": self.dimension // self._grid.dimension}

    def of_device(self, answers: NDArray[np.int64]) -> Array:
        """See `Mechanism`: the points of cell numbers; invalid numbers become −1, of no report cell."""
        return self._points(np.where(answers > self._mixture.symbol, -1, answers).ravel())

    def _points(self, numbers: Integers) -> Array:
        """Return the reports (n, d), or (n, d+1) with a flag, of cell numbers (n · windows,)."""
        return self._mixture.points(numbers).reshape(-1, self.dimension + self.nullable)

    def _cells(self, x: Array) -> Integers:
        """Return the cells (…, windows, coordinates of a window) of points (…, d)."""
        cells, per_window = self._grid.nearest(x[..., : self.dimension]), self._grid.dimension
        return cells.reshape(*cells.shape[:-1], self.dimension // per_window, per_window)

    def log_likelihood(self, y: Array, x: Array) -> Array:
        """See `Mechanism`: of possible reports; a flagged report is any of m cells."""
        y, x = np.asarray(y, np.float64), np.asarray(x, np.float64)
        offset = self._cells(y) - self._cells(x)
        log_inside, log_outside = np.log(self.probabilities)
        near = np.asarray((offset**2).sum(axis=-1) <= self.radius**2)
        if not self.nullable:
            return np.asarray(np.where(near, log_inside, log_outside).sum(axis=-1))
        flagged, missing = y[..., -1] == 1, x[..., -1] == 1
        in_window = np.where(flagged | missing, flagged & missing, near[..., 0])
        log_cells = np.where(flagged, math.log(self._grid.window_size), 0.0)
        return np.asarray(np.where(in_window, log_inside, log_outside) + log_cells)

    def probability_cells(
        self, reports: Array, x: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """See `Mechanism`: cells of the flag, if there is one, then of each coordinate."""
        present = np.ones(len(x), bool) if not self.nullable else x[:, -1] == 0
        cells, records = self._cells(reports), self._cells(x)
        ends = self._mixture.probability_cells(cells, records, present[:, None])
        low, high = (end.reshape(len(x), self.dimension) for end in ends)
        if not self.nullable:
            return low, high
        flagged, (inside, outside) = reports[:, -1:] == 1, self.probabilities
        p_flag = np.where(present, outside, inside)[:, None] * self._grid.window_size
        low = np.hstack([np.where(flagged, 0.0, low), np.where(flagged, 0.0, p_flag)])
        return low, np.hstack([np.where(flagged, 1.0, high), np.where(flagged, p_flag, 1.0)])

    def impossible(self, reports: Array) -> NDArray[np.bool_]:
        """See `Mechanism`: reports outside the report cells, or with a flag other than 0 or 1."""
        bounded = np.asarray((np.abs(reports) <= 2.0**32).all(axis=1))  # False for NaN
        reports = np.where(bounded[:, None], reports, 0.0)
        possible = self._grid.is_report_cell(self._cells(reports)).all(axis=1)
        if self.nullable:
            points, flag = reports[:, : self.dimension], reports[:, -1]
            possible &= (flag == 0) | ((flag == 1) & (points == 0).all(axis=1))
        return ~(bounded & possible)

    def to_grid(self, y: Array) -> Array:
        y = np.asarray(y, np.float64)
        points = self._grid.units(self._grid.nearest(y[:, : self.dimension]))
        return np.hstack([points, y[:, self.dimension :]])

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        return PureDP(self.epsilon)

    @property
    def report_law(self) -> ReportLaw | None:
        if self.shape == "product":
            return None
        return ReportLaw.of_sets(self.epsilon, self._grid.window_size, self._mixture.total)

    @property
    def variance(self) -> float:
        """Largest variance, over all records, of the affine unbiased estimate of a coordinate."""
        return self._mixture.variance()
