"""Dates and times, which are numbers of steps since 1970."""

from __future__ import annotations

import datetime as dt
from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, model_validator

from privot.errors import PrivotError
from privot.schema.columns.alphabet import Bins, choose_edges
from privot.schema.columns.equal_mass import equal_mass
from privot.schema.columns.number import NumberColumn
from privot.schema.columns.raw_values import Problem, read_moments
from privot.schema.domains.domain import Array, Box

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
