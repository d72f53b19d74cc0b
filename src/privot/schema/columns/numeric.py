"""Numbers: in an interval, or in public bins of it."""

from __future__ import annotations

import datetime as dt
import math
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, Field, model_validator

from privot.core.errors import PrivotError
from privot.schema.columns.alphabet import Bins, Scale, choose_edges, exact_text
from privot.schema.columns.column import Bounds
from privot.schema.columns.number import NumberColumn, Steps, equal_mass, roundest, without_empty
from privot.schema.columns.raw_values import Problem, read_moments, read_numbers
from privot.schema.domains import Array, Box


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
            retained = without_empty(edges, [steps.place(s) if steps else s for s in spikes])[1:-1]
        else:  # a mass at the bound, too small for a spike, stays in the last bin
            retained = [edge for edge in inner if edge < high]
        inner = [edge for edge, place in zip(inner, edges[1:-1], strict=True) if place in retained]
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


# Dates and times, which are numbers of steps since 1970.


_SECONDS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_EPOCH = dt.datetime(1970, 1, 1)
_LAST_SECOND = 9e12  # microseconds since 1970 are 64-bit integers


def _as_text(moment: object) -> object:
    return moment.isoformat() if isinstance(moment, dt.date) else moment


# A date or a time in ISO 8601; TOML's own dates are welcome.
Moment = Annotated[str, BeforeValidator(_as_text)]


class DatetimeColumn(NumberColumn):
    """A date, or a time to the hour, minute or second, between two public bounds; coded like a number.

    Its numbers are steps of the resolution since 1970.

    Arguments:
        bounds: First and last moment, dates or times without an offset (they are UTC).
        resolution: `"day"`, `"hour"`, `"minute"` or `"second"`: how exact moments are.
        bins: A number of equal bins, or their edges; ten bins by default.
        nullable: Whether it may be missing.

    Examples:
        >>> day = DatetimeColumn(kind="datetime", bounds=("1970-01-01", "1970-12-31"))
        >>> day.number("1970-02-01")
        31.0
    """

    kind: Literal["datetime"]
    bounds: tuple[Moment, Moment]
    resolution: Literal["day", "hour", "minute", "second"] = "day"
    bins: int | tuple[Moment, ...] | None = None

    in_rules = "date"

    @property
    def step_seconds(self) -> int:
        """Seconds in one step of the resolution."""
        return _SECONDS[self.resolution]

    @property
    def counted_in(self) -> str:
        """See `NumberColumn`."""
        return self.resolution

    def equal_bins(self, bins: int | None) -> tuple[float, ...]:
        """See `NumberColumn`."""
        low, high = (self.number(bound) for bound in self.bounds)
        return choose_edges(low, high, True, bins)

    def number(self, moment: str) -> float:
        """Steps of the resolution since 1970, rounded down."""
        try:
            time = dt.datetime.fromisoformat(moment)
        except ValueError:
            raise PrivotError(
                f"{moment!r} is not a date: write it as 2024-05-31 or 2024-05-31T12:00:00"
            ) from None
        if time.tzinfo is not None:
            time = time.astimezone(dt.UTC).replace(tzinfo=None)
        return float((time - _EPOCH) // dt.timedelta(seconds=self.step_seconds))

    def moment(self, number: float) -> str:
        """The date or time of a number of steps since 1970."""
        time = _EPOCH + dt.timedelta(seconds=number * self.step_seconds)
        return (time.date() if self.resolution == "day" else time).isoformat()

    @cached_property
    def domain(self) -> Box:
        """The interval of the bounds, in steps of the resolution since 1970."""
        return Box((self.number(self.bounds[0]),), (self.number(self.bounds[1]),))

    @cached_property
    def alphabet(self) -> Bins:
        """Bins of steps since 1970, and the missing value."""
        if isinstance(self.bins, tuple):
            low, high = (self.number(bound) for bound in self.bounds)
            inner = [self.number(moment) for moment in self.bins]
            if not inner or (inner[0], inner[-1]) != (low, high):
                raise PrivotError(
                    "bins do not begin and end with the bounds: give all edges, bounds included"
                )
            edges = (*inner[:-1], high + 1)
        else:
            edges = self.equal_bins(self.bins)
        return Bins(edges, (), integer=True, nullable=self.nullable)

    def labels_in(self, coding: Bins) -> tuple[str, ...]:
        """See `CodedColumn`: the first and the last moment of each bin."""
        return coding.labels_by(self.moment)

    def read(self, name: str, table: pa.Table) -> tuple[Array, list[Problem]]:
        """Steps of the resolution since 1970 (n,), NaN where missing."""
        moments, problems = read_moments(table.column(name), name, self.nullable)
        whole = pc.fill_null(moments.cast(pa.int64()), 0).to_numpy()
        steps = (whole // (1_000_000 * self.step_seconds)).astype(np.float64)
        return np.where(np.asarray(moments.is_null()), np.nan, steps), problems

    def _number_of(self, value: object) -> float | None:
        moment = _as_text(value)
        try:
            return self.number(moment) if isinstance(moment, str) else None
        except PrivotError:
            return None

    def _bins_of(self, numbers: Array, num_codes: int) -> dict[str, object]:
        inner, _ = equal_mass(numbers, num_codes, True, self.round_between)
        return {"bins": [self.bounds[0], *map(self.moment, inner), self.bounds[1]]}

    def round_between(self, low: float, high: float) -> float:
        """See `NumberColumn`: the first of a year, of a month, or else the middle."""
        last = pa.array([int(high * self.step_seconds)]).cast(pa.timestamp("s"))
        for unit in ("year", "month"):
            first = pc.floor_temporal(last, unit=unit)
            begun = first[0].cast(pa.int64()).as_py() / self.step_seconds
            if begun >= low:
                return float(begun)
        return (low + high) / 2

    def _write(self, numbers: Array) -> pa.Array:
        absent = np.isnan(numbers)
        whole = pa.array(np.where(absent, 0, numbers).astype(np.int64), mask=absent)
        if self.resolution == "day":
            return whole.cast(pa.int32()).cast(pa.date32())
        return pc.multiply(whole, self.step_seconds).cast(pa.timestamp("s"))

    def _make_up(self, numbers: Array) -> pa.Array:
        absent, most = np.isnan(numbers), _LAST_SECOND // self.step_seconds
        steps = np.clip(np.rint(np.where(absent, 0.0, numbers)), -most, most).astype(np.int64)
        return pa.array(steps * self.step_seconds, mask=absent).cast(pa.timestamp("s"))

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain, self.alphabet  # building them checks bounds and bins
        return self
