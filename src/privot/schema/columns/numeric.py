"""Numbers, and dates as numbers: in an interval, or in public bins of it."""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from functools import cached_property
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, model_validator

from privot.errors import PrivotError
from privot.schema.columns.alphabet import Bins, Codes, choose_edges
from privot.schema.columns.column import Bounds, CodedColumn, PointColumn
from privot.schema.columns.raw_values import Problem, read_moments, read_numbers
from privot.schema.domains.domain import Array, Box, from_unit

_DAY = 86_400
_EPOCH = dt.datetime(1970, 1, 1)
_LAST_SECOND = 9e12  # microseconds since 1970 are 64-bit integers
_FAR = 1000.0  # widths of the interval that made-up values leave


def _as_text(moment: object) -> object:
    return moment.isoformat() if isinstance(moment, dt.date) else moment


# A date or a time in ISO 8601; TOML's own dates are welcome.
Moment = Annotated[str, BeforeValidator(_as_text)]


class _NumberColumn(PointColumn, CodedColumn):
    """A column whose values are numbers between two bounds, whatever they are in a table."""

    is_number: ClassVar[bool] = True
    bins: object

    @property
    @abstractmethod
    def alphabet(self) -> Bins:
        """Bins, spikes, and the missing value."""

    @property
    def declares_codes(self) -> bool:
        """Whether bins or spikes are declared."""
        return self.bins is not None or bool(self.alphabet.spikes)

    @abstractmethod
    def _write(self, numbers: Array) -> pa.Array:
        """Numbers as the table would hold them, NaN as null."""

    @abstractmethod
    def _make_up(self, numbers: Array) -> pa.Array:
        """Numbers, however large and whether rounded or not, as a table could hold them."""

    def encode_points(self, name: str, table: pa.Table) -> Array:
        """See `PointColumn`."""
        return self.accept(name, table)[:, None]

    def _write_points(self, name: str, points: Array) -> dict[str, pa.Array]:
        numbers = points[:, 0]
        return {name: self._write(np.rint(numbers) if self.alphabet.integer else numbers)}

    def make_up_points(self, name: str, units: Array) -> dict[str, pa.Array]:
        """See `PointColumn`."""
        return {name: self._make_up(from_unit(self.domain, units)[:, 0])}

    def encode_codes(self, name: str, table: pa.Table) -> Codes:
        """See `CodedColumn`; what lies beyond the bounds is in an outer bin."""
        return self.alphabet.encode(self.accept(name, table))

    def decode_codes(
        self, name: str, codes: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`."""
        return {name: self._write(self.alphabet.decode(codes, rng))}

    def make_up_codes(
        self, name: str, codes: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`: half of an outer bin's lie far beyond the bounds."""
        outside = rng.random(len(codes)) < 0.5
        numbers = self.alphabet.decode(codes, rng)
        ends = np.array([self.alphabet.edges[0], self.alphabet.edges[-1]])
        for end, code, beyond in zip(ends, self.alphabet.encode(ends), (-_FAR, _FAR), strict=True):
            far = end + beyond * (ends[1] - ends[0])
            numbers = np.where(outside & (codes == code), far, numbers)
        return {name: self._make_up(numbers)}


class NumericColumn(_NumberColumn):
    """One number between two public bounds.

    Arguments:
        bounds: Smallest and largest value.
        integer: Whether only integers occur.
        bins: How the number is coded: a number of equal bins, or their edges (the outer two are the
            bounds), or `"integers"` for a code each; ten bins by default.
        spikes: Values that many people share exactly, each with a code of its own.
        nullable: Whether it may be missing.
    """

    kind: Literal["numeric"]
    bounds: Bounds
    integer: bool = False
    bins: int | tuple[float, ...] | Literal["integers"] | None = None
    spikes: tuple[float, ...] = ()

    holds_numbers: ClassVar[bool] = True

    @cached_property
    def domain(self) -> Box:
        """The interval of the bounds."""
        return Box((self.bounds[0],), (self.bounds[1],))

    @cached_property
    def alphabet(self) -> Bins:
        """Bins, spikes, and the missing value."""
        low, high = self.bounds
        if isinstance(self.bins, tuple):
            if not self.bins or (self.bins[0], self.bins[-1]) != self.bounds:
                raise PrivotError(
                    f"bins {list(self.bins)} do not begin and end with the bounds "
                    f"{list(self.bounds)}: give all edges, the bounds included"
                )
            last = high + 1 if self.integer else high
            edges = (*self.bins[:-1], last)
        elif self.bins == "integers":
            if not self.integer:
                raise PrivotError("bins 'integers' need integer = true: declare it, or other bins")
            edges = choose_edges(low, high, True, int(high) - int(low) + 1)
        else:
            edges = choose_edges(low, high, self.integer, self.bins)
        return Bins(edges, tuple(sorted(self.spikes)), self.integer, self.nullable)

    def read(self, name: str, table: pa.Table) -> tuple[Array, list[Problem]]:
        """Numbers (n,), NaN where missing."""
        return read_numbers(table.column(name), name, self.nullable)

    def _write(self, numbers: Array) -> pa.Array:
        absent = np.isnan(numbers)
        if not self.integer:
            return pa.array(numbers, mask=absent)
        return pa.array(np.where(absent, 0, numbers).astype(np.int64), mask=absent)

    def _make_up(self, numbers: Array) -> pa.Array:
        return pa.array(numbers, mask=np.isnan(numbers))

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain  # building it checks the bounds
        if self.integer and any(bound != round(bound) for bound in self.bounds):
            raise PrivotError(f"bounds {list(self.bounds)} of an integer column: give integers")
        _ = self.alphabet
        return self


class DatetimeColumn(_NumberColumn):
    """A date, or a time to the second, between two public bounds; coded in bins like a number.

    Its numbers are steps of the resolution since 1970.

    Arguments:
        bounds: First and last moment, dates or times without an offset (they are UTC).
        resolution: `"day"` or `"second"`.
        bins: A number of equal bins, or their edges; ten bins by default.
        nullable: Whether it may be missing.
    """

    kind: Literal["datetime"]
    bounds: tuple[Moment, Moment]
    resolution: Literal["day", "second"] = "day"
    bins: int | tuple[Moment, ...] | None = None

    @property
    def unit(self) -> int:
        """Seconds in one step of the resolution."""
        return _DAY if self.resolution == "day" else 1

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
        return float((time - _EPOCH) // dt.timedelta(seconds=self.unit))

    def moment(self, number: float) -> str:
        """The date or time of a number of steps since 1970."""
        time = _EPOCH + dt.timedelta(seconds=number * self.unit)
        return (time.date() if self.resolution == "day" else time).isoformat()

    @cached_property
    def domain(self) -> Box:
        """The interval of the bounds, in steps of the resolution since 1970."""
        return Box((self.number(self.bounds[0]),), (self.number(self.bounds[1]),))

    @cached_property
    def alphabet(self) -> Bins:
        """Bins of steps since 1970, and the missing value."""
        low, high = (self.number(bound) for bound in self.bounds)
        if isinstance(self.bins, tuple):
            inner = [self.number(moment) for moment in self.bins]
            if not inner or (inner[0], inner[-1]) != (low, high):
                raise PrivotError(
                    "bins do not begin and end with the bounds: give all edges, bounds included"
                )
            edges = (*inner[:-1], high + 1)
        else:
            edges = choose_edges(low, high, True, self.bins)
        return Bins(edges, (), integer=True, nullable=self.nullable)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for every code: the first and the last moment of each bin."""
        edges = self.alphabet.edges
        bins = tuple(
            f"{self.moment(low)} to {self.moment(high - 1)}" for low, high in pairwise(edges)
        )
        return bins + self.alphabet.labels[len(bins) :]

    def read(self, name: str, table: pa.Table) -> tuple[Array, list[Problem]]:
        """Steps of the resolution since 1970 (n,), NaN where missing."""
        moments, problems = read_moments(table.column(name), name, self.nullable)
        whole = pc.fill_null(moments.cast(pa.int64()), 0).to_numpy()
        steps = (whole // (1_000_000 * self.unit)).astype(np.float64)
        return np.where(np.asarray(moments.is_null()), np.nan, steps), problems

    def _write(self, numbers: Array) -> pa.Array:
        absent = np.isnan(numbers)
        whole = pa.array(np.where(absent, 0, numbers).astype(np.int64), mask=absent)
        if self.resolution == "day":
            return whole.cast(pa.int32()).cast(pa.date32())
        return whole.cast(pa.timestamp("s"))

    def _make_up(self, numbers: Array) -> pa.Array:
        absent, most = np.isnan(numbers), _LAST_SECOND // self.unit
        steps = np.clip(np.rint(np.where(absent, 0.0, numbers)), -most, most).astype(np.int64)
        return pa.array(steps * self.unit, mask=absent).cast(pa.timestamp("s"))

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain, self.alphabet  # building them checks bounds and bins
        return self
