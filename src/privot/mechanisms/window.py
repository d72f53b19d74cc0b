r"""The window mechanism (square wave, disk): reports near the record are e^ε times likelier than others.

In unit coordinates, on a grid of N steps: a record of d coordinates is rounded to its cell x, and its
**window** $W(x) = \{y : ‖y − x‖_2 ≤ r\}$, r in cells, has the same number m of cells for all records,
inside the K report cells (`privot.mechanisms.window_cells`, which draws P in integers, with rounding
against ε). Then

$$ P(y | x) = a \text{ if } y ∈ W(x), \text{ else } b, \qquad a m + b (K − m) = 1, \quad a ≤ e^ε b, $$

so the likelihood ratio of any two records is at most $e^ε$. In one dimension this is the square wave,
in two the disk; as a `product`, each coordinate has a window of its own, and ε/d.

**Missing values** are one record more, whose window is one symbol of weight m, as if m more cells were
all written as the same symbol. Any two records still have windows of m among K + m cells.

**Curves.** A place on a known curve is its length along the curve, with a window of lengths.

**Privacy review.** Adjacency: any two records, missing or not. All random numbers are drawn for every
record, before the record is read; the record enters by one addition. The sampler sees a cell and nothing
else, so the guarantee is that of any two raw values. A value outside the domain is refused: columns
project.

The likelihood is constant in x inside the window, so it gives a point no gradient: a fit learns a
distribution over cells or bins.

References:
    Li, Wang, Lopuhaä-Zwakenberg, Škorić, Li, *Estimating numerical distributions under local
    differential privacy* (2020), for one coordinate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.mechanisms.forms import Form, WindowForm
from privot.mechanisms.mechanism import Mechanism
from privot.mechanisms.samplers import Integers
from privot.mechanisms.window_cells import Area, WindowCells, WindowMixture, window_plan
from privot.privacy.guarantees import PureDP
from privot.privacy.rounding import require_finite
from privot.privacy.shuffling import ReportLaw
from privot.schema import Column, Domain, Polyline
from privot.schema.columns.alphabet import Bins
from privot.schema.domains import Array, from_unit, to_unit

Shape = Literal["ball", "product"]

_MAX_EPSILON = 40.0
_CHUNK = 2**15


@dataclass(frozen=True)
class Window(Mechanism, kind="window"):
    """Bounded reports of points of one to three unit coordinates, in a box or a ball.

    Arguments:
        epsilon: Privacy loss of the whole report.
        dimension: Coordinates of a record.
        steps: N, a power of two.
        radius: r, in cells.
        shape: `"ball"`: one window; `"product"`: one for each coordinate.
        area: Where records lie; on a curve they are one number from −1 to 1.
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

    noise_word = "an estimate"

    def __post_init__(self) -> None:
        require_finite("epsilon", self.epsilon, positive=True)
        if not 2.0**-30 <= self.epsilon <= _MAX_EPSILON:
            raise PrivotError(f"epsilon is {self.epsilon!r}: give a number from 2^-30 to 40")
        if self.shape not in get_args(Shape):
            raise PrivotError(f"shape is {self.shape!r}: give one of {get_args(Shape)}")
        if self.shape == "product" and (self.area != "box" or self.nullable):
            raise PrivotError("shape is 'product': give a 'box' as area, and not nullable")
        if self.dimension not in (1, 2, 3):
            raise PrivotError(f"dimension is {self.dimension!r}: give 1, 2 or 3")
        _ = self._block  # checks the rest

    @classmethod
    def unfit(cls, column: Column) -> str:
        """Refuse many coordinates, and numbers with spikes: many records of one value."""
        domain, bins = column.domain, column.alphabet
        if domain is None or (isinstance(bins, Bins) and bins.spikes):
            return "it is for places and numbers without spikes: use 'laplace'"
        if _geometry(domain)[0] > 3 or domain.area is None:
            return "it is for at most 3 coordinates in a box or ball, and for curves: use 'laplace'"
        return ""

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Self:
        """Return the window for the column's domain."""
        assert column.domain is not None
        return cls.for_domain(column.domain, epsilon, nullable=column.nullable)

    @classmethod
    def for_domain(cls, domain: Domain, epsilon: float, *, nullable: bool = False) -> Self:
        """Return the window of `window_plan`, for an ε of at most 40."""
        d, area, non_negative = _geometry(domain)
        assert area
        steps, radius = window_plan(d, epsilon := min(epsilon, _MAX_EPSILON))
        return cls(epsilon, d, steps, radius, "ball", area, non_negative, nullable)

    def records(self, points: Array, domain: Domain) -> Array:
        """Return points, or places on a curve, and flags if they may be missing."""
        unit, missing = domain.unit, np.isnan(points).any(axis=1, keepdims=True)
        if isinstance(unit, Polyline):
            points = to_unit(unit.line, unit.along(np.where(missing, 0.0, points))).clip(-1.0, 1.0)
        return np.hstack([np.where(missing, 0.0, points), missing]) if self.nullable else points

    def report_domain(self, domain: Domain) -> Domain:
        """Return the domain itself, or the line of a curve's lengths."""
        return domain.line if isinstance(domain, Polyline) else domain

    def places(self, records: Array, domain: Domain) -> Array:
        """See `Mechanism`."""
        unit = domain.unit
        return unit.at(from_unit(unit.line, records)) if isinstance(unit, Polyline) else records

    def fits(self, column: Column) -> bool:
        """Return True if it is for the column's domain, and for its missing values if it has them."""
        if (domain := column.domain) is None or self.unfit(column):
            return False
        same = _geometry(domain) == (self.dimension, self.area, self.non_negative)
        return same and self.nullable == column.nullable

    @property
    def flagged(self) -> bool:
        """True if a value may be missing."""
        return self.nullable

    @cached_property
    def _block(self) -> WindowCells:
        """Cells of the coordinates that share a window: all, or one."""
        dimension = 1 if self.shape == "product" else self.dimension
        return WindowCells(dimension, self.steps, self.radius, self.area, self.non_negative)

    @cached_property
    def _mixture(self) -> WindowMixture:
        ball = self.shape == "ball"
        epsilon = self.epsilon if ball else math.nextafter(self.epsilon / self.dimension, 0.0)
        return WindowMixture(self._block, epsilon, self.nullable)

    @property
    def probabilities(self) -> tuple[float, float]:
        """P(report) of one cell inside the window, and of one outside."""
        return self._mixture.probabilities

    def form(self, column: Column) -> Form:
        """Return the likelihood by bins for a column of numbers, else `point_form`."""
        form = self.point_form(column)
        return form.by_bins(column) if column.is_number else form

    def point_form(self, column: Column) -> WindowForm:
        """Return the likelihood by cells."""
        size = self.dimension, self.steps, self.radius, self.shape, self.area
        return WindowForm(*size, *self.probabilities, self.nullable)

    def attenuation(self, waves: Array) -> Array:
        """Return a window's attenuation; a product's is the product over the coordinates of the wave."""
        blocks = waves.reshape(-1, self._block.dimension)
        share = np.where((blocks == 0).all(axis=1), 1.0, self._mixture.attenuation(blocks))
        return share.reshape(len(waves), -1).prod(axis=1)

    def privatize(self, x: Array) -> Array:
        """Draw reports in unit coordinates, on the grid; last axis d, or d+1 with a flag.

        Raises:
            PrivotError: if a value lies outside the domain or is not a number.
        """
        x = np.asarray(x, np.float64)
        rows = x.reshape(-1, x.shape[-1])
        out = np.empty_like(rows)
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            out[part] = self._privatize(rows[part])
        return out.reshape(x.shape)

    def _privatize(self, x: Array) -> Array:
        cells, d, missing = self._block, self.dimension, None
        if self.nullable:
            missing = x[:, d] == 1.0
            if not (missing | (x[:, d] == 0.0)).all():
                raise PrivotError("x has a flag that is neither 0 nor 1: mark what is missing")
        known = np.abs(x[:, :d]) <= 1
        own = self._cells(np.where(known, x[:, :d], 0.0)).reshape(-1, cells.dimension)
        if not known.all() or (cells.reached is not None and not cells.may_record(own).all()):
            raise PrivotError("x has a value outside its domain: project it to the domain")
        return self._points(self._mixture.report(cells.number(own), missing))

    def program(self, column: Column) -> dict[str, Any] | None:
        """Return the mixture's integers, for boxes and ℓ2 balls; else None."""
        blocks = {"blocks": self.dimension // self._block.dimension}
        return self._mixture.program | blocks if self.area in ("box", "l2_ball") else None

    def of_device(self, answers: NDArray[np.int64]) -> Array:
        """Return the points of cell numbers; numbers of no cell become impossible reports."""
        return self._points(np.where(answers > self._mixture.symbol, -1, answers).ravel())

    def _points(self, numbers: Integers) -> Array:
        return self._mixture.points(numbers).reshape(-1, self.dimension + self.nullable)

    def _cells(self, x: Array) -> Integers:
        """Return cells (…, windows, coordinates of each) of points in unit coordinates."""
        cells, each = self._block.of_units(x[..., : self.dimension]), self._block.dimension
        return cells.reshape(*cells.shape[:-1], self.dimension // each, each)

    def log_likelihood(self, y: Array, x: Array) -> Array:
        """Evaluate $\\ln P(y | x)$ of possible reports; of a missing one, of all its m cells."""
        y, x = np.asarray(y, np.float64), np.asarray(x, np.float64)
        gap = self._cells(y) - self._cells(x)
        inside, outside = np.log(self.probabilities)
        near = np.asarray((gap**2).sum(axis=-1) <= self.radius**2)
        if not self.nullable:
            return np.asarray(np.where(near, inside, outside).sum(axis=-1))
        flagged, missing = y[..., -1] == 1, x[..., -1] == 1
        same = np.where(flagged | missing, flagged & missing, near[..., 0])
        weight = np.where(flagged, math.log(len(self._block.window)), 0.0)
        return np.asarray(np.where(same, inside, outside) + weight)

    def probability_cells(
        self, reports: Array, x: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return the cells of the flag, if there is one, and of each coordinate, given those before."""
        present = np.ones(len(x), bool) if not self.nullable else x[:, -1] == 0
        places, records = (self._cells(points) for points in (reports, x))
        low, high = (
            ends.reshape(len(x), self.dimension)
            for ends in self._mixture.probability_cells(places, records, present[:, None])
        )
        if not self.nullable:
            return low, high
        flagged, (inside, outside) = reports[:, -1:] == 1, self.probabilities
        flag = np.where(present, outside, inside)[:, None] * len(self._block.window)
        low = np.hstack([np.where(flagged, 0.0, low), np.where(flagged, 0.0, flag)])
        return low, np.hstack([np.where(flagged, 1.0, high), np.where(flagged, flag, 1.0)])

    def impossible(self, reports: Array) -> NDArray[np.bool_]:
        """Find reports that are in no window, or whose flag is neither 0 nor 1."""
        finite = np.asarray((np.abs(reports) <= 2.0**32).all(axis=1))  # and no NaN
        reports = np.where(finite[:, None], reports, 0.0)
        reached = self._block.may_report(self._cells(reports)).all(axis=1)
        if self.nullable:
            points, flag = reports[:, : self.dimension], reports[:, -1]
            reached &= (flag == 0) | ((flag == 1) & (points == 0).all(axis=1))
        return ~(finite & reached)

    def to_grid(self, y: Array) -> Array:
        """Return the cells nearest to `y`."""
        y = np.asarray(y, np.float64)
        points = self._block.units(self._block.of_units(y[:, : self.dimension]))
        return np.hstack([points, y[:, self.dimension :]])

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        """Return ε between any two records."""
        return PureDP(self.epsilon)

    @property
    def report_law(self) -> ReportLaw | None:
        """See `Mechanism`: each cell supports the reports of its window; none is known of a product."""
        if self.shape == "product":
            return None
        return ReportLaw.of_sets(self.epsilon, len(self._block.window), self._mixture.total)

    @property
    def variance(self) -> float:
        """Largest variance, over all records, of a coordinate's affine unbiased estimate."""
        return self._mixture.variance()


def _geometry(domain: Domain) -> tuple[int, Area | None, bool]:
    """Return the number of coordinates, where they lie, and whether none is negative."""
    if domain.area == "curve":
        return 1, "curve", False
    return domain.dimension, domain.area, not domain.symmetric
