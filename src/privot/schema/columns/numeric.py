"""Numbers: in an interval, or in public bins of it."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from privot.errors import PrivotError
from privot.schema.columns.alphabet import Bins, Scale, choose_edges
from privot.schema.columns.codings import without_empty
from privot.schema.columns.column import Bounds
from privot.schema.columns.decimals import exact_text
from privot.schema.columns.equal_mass import equal_mass, roundest
from privot.schema.columns.number import NumberColumn
from privot.schema.columns.raw_values import Problem, read_numbers
from privot.schema.columns.steps import Steps
from privot.schema.domains.domain import Array, Box


class NumericColumn(NumberColumn):
    """One number between two public bounds; if values are steps apart, counted in these.

    Arguments:
        bounds: Smallest and largest value.
        integer: Whether only integers occur.
        decimals: How many decimals values have, if not all occur.
        step: How far apart values are, from the low bound on; in place of `decimals`.
        bins: How the number is coded: a number of equal bins, or their edges (the outer two are the
            bounds), or `"integers"` for a code each; ten bins by default.
        scale: `"linear"`, or `"log"` for what spreads over orders of magnitude: bins that are not
            declared by their edges are equal in ln x then.
        spikes: Values that many people share exactly, each with a code of its own.
        measured_in: The unit, for people: `"kg"`.
        nullable: Whether it may be missing.

    Examples:
        >>> column = NumericColumn(kind="numeric", bounds=(0, 2), step=0.25)
        >>> column.labels
        ('0', '0.25', '0.5', '0.75', '1', '1.25', '1.5', '1.75', '2')
    """

    kind: Literal["numeric"]
    bounds: Bounds
    integer: bool = False
    decimals: int | None = Field(default=None, ge=0, le=15)
    step: float | None = Field(default=None, gt=0)
    bins: int | tuple[float, ...] | Literal["integers"] | None = None
    scale: Scale = "linear"
    spikes: tuple[float, ...] = ()
    measured_in: str | None = None

    holds_numbers: ClassVar[bool] = True
    in_rules = "number"

    def title(self, name: str) -> str:
        """See `Column`."""
        return f"{name} ({self.measured_in})" if self.measured_in else name

    @cached_property
    def counted_in(self) -> Steps | None:
        """The steps that its numbers count; None if they are its values."""
        if self.decimals is not None:
            return Steps.to_decimals(self.decimals)
        return None if self.step is None else Steps.through(self.bounds[0], self.step)

    @property
    def value_step(self) -> float:
        """See `NumberColumn`."""
        return self.counted_in.size if self.counted_in else super().value_step

    @property
    def step_program(self) -> dict[str, Any]:
        """See `NumberColumn`."""
        steps = self.counted_in
        if steps is None:
            return super().step_program
        return {"seconds": None, "origin": steps.origin, "step": steps.size}

    @property
    def on_log_scale(self) -> bool:
        """See `NumberColumn`."""
        return self.scale == "log"

    @property
    def _whole(self) -> bool:
        return self.integer or self.counted_in is not None

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The bounds, in its numbers."""
        low, high = self.bounds
        steps = self.counted_in
        return (steps.exactly(low, "bound"), steps.exactly(high, "bound")) if steps else (low, high)

    @cached_property
    def domain(self) -> Box:
        """The interval of the bounds, in steps where values are some apart."""
        return Box((self._ends[0],), (self._ends[1],))

    def equal_bins(self, bins: int | None) -> tuple[float, ...]:
        """See `NumberColumn`."""
        shift = self.counted_in.origin / self.counted_in.size if self.counted_in else 0.0
        return choose_edges(*self._ends, self._whole, bins, self.scale, shift)

    @cached_property
    def alphabet(self) -> Bins:
        """Bins, spikes, and the missing value."""
        steps, spikes = self.counted_in, tuple(sorted(self.spikes))
        if isinstance(self.bins, tuple):
            edges = self._declared_edges(self.bins)
        elif self.bins == "integers":
            if not self.integer:
                raise PrivotError("bins 'integers' need integer = true: declare it, or other bins")
            edges = self.equal_bins(int(self._ends[1]) - int(self._ends[0]) + 1)
        else:
            edges = self.equal_bins(self.bins)
        if steps:
            spikes = tuple(steps.exactly(spike, "spike") for spike in spikes)
        return Bins(edges, spikes, self._whole, self.nullable)

    def _declared_edges(self, bins: tuple[float, ...]) -> tuple[float, ...]:
        """Edges of declared bins; steps begin where values are not below the edge."""
        if not bins or (bins[0], bins[-1]) != self.bounds:
            raise PrivotError(
                f"bins {list(bins)} do not begin and end with the bounds "
                f"{list(self.bounds)}: give all edges, the bounds included"
            )
        steps, inner = self.counted_in, bins[1:-1]
        if steps:
            inner = tuple(float(math.ceil(steps.place(edge))) for edge in inner)
        return (self._ends[0], *inner, self._ends[1] + self._whole)

    def labels_in(self, coding: Bins) -> tuple[str, ...]:
        """See `CodedColumn`; of steps, the values."""
        steps = self.counted_in
        if steps is None:
            return coding.labels
        return coding.labels_by(lambda count: exact_text(float(steps.value(np.array(count)))))

    def read(self, name: str, table: pa.Table) -> tuple[Array, list[Problem]]:
        """Numbers (n,), NaN where missing."""
        numbers, problems = read_numbers(table.column(name), name, self.nullable)
        return self.counted_in.count(numbers) if self.counted_in else numbers, problems

    def in_values(self, points: Array) -> Array:
        """See `PointColumn`."""
        return self.counted_in.between(points) if self.counted_in else points

    def _number_of(self, value: object) -> float | None:
        if isinstance(value, bool) or not isinstance(value, str | int | float | np.number):
            return None
        try:
            number = float(value)
        except ValueError:
            return None
        return self.counted_in.place(number) if self.counted_in else number

    def _bins_of(self, numbers: Array, num_codes: int) -> dict[str, object]:
        steps, (low, high) = self.counted_in, self.bounds
        values = steps.value(numbers) if steps else numbers
        inner, found = equal_mass(values, num_codes, self.integer, roundest)
        spikes = sorted({*self.spikes, *found})
        edges = self._declared_edges((low, *inner, high))
        if self._whole:
            kept = without_empty(edges, [steps.place(s) if steps else s for s in spikes])[1:-1]
        else:  # a mass at the bound, too small for a spike, stays in the last bin
            kept = [edge for edge in inner if edge < high]
        inner = [edge for edge, place in zip(inner, edges[1:-1], strict=True) if place in kept]
        return {"bins": [low, *inner, high], "spikes": spikes, "scale": "linear"}

    def round_between(self, low: float, high: float) -> float:
        """See `NumberColumn`: the one of fewest digits; of steps, the one nearest to it."""
        steps = self.counted_in
        if steps is None:
            return roundest(low, high)
        ends = steps.value(np.array([low, high]))
        return steps.place(roundest(*map(float, ends)))

    def _write(self, numbers: Array) -> pa.Array:
        absent = np.isnan(numbers)
        if self.counted_in:
            numbers = self.counted_in.value(np.rint(numbers))
        if not self.integer:
            return pa.array(numbers, mask=absent)
        return pa.array(np.where(absent, 0, numbers).astype(np.int64), mask=absent)

    def _make_up(self, numbers: Array) -> pa.Array:
        if steps := self.counted_in:
            numbers = steps.origin + numbers * steps.size
        return pa.array(numbers, mask=np.isnan(numbers))

    @model_validator(mode="after")
    def _check(self) -> Self:
        Box((self.bounds[0],), (self.bounds[1],))  # building it checks the bounds
        if self.integer and any(bound != round(bound) for bound in self.bounds):
            raise PrivotError(f"bounds {list(self.bounds)} of an integer column: give integers")
        if self.decimals is not None and (self.integer or self.step is not None):
            raise PrivotError(
                f"decimals {self.decimals} beside {'integer' if self.integer else 'step'}: declare one "
                "of them"
            )
        if self.integer and self.step is not None and self.step != round(self.step):
            raise PrivotError(f"step {self.step:g} of an integer column: give an integer")
        if self.scale == "log" and self.bounds[0] <= 0:
            raise PrivotError(
                f"scale 'log' needs a low bound above 0, which is {self.bounds[0]:g}: give the least "
                'amount that matters, smaller ones count as it; or declare scale = "linear"'
            )
        _ = self.domain, self.alphabet
        return self
