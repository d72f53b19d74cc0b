"""Columns of numbers and of dates, reported as points of an interval or as codes of public bins.

**The column's numbers** are floats that represent its values: the values themselves, or counts of
steps, such as cents of an amount or days of a date.
"""

import datetime as dt
import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.random import Generator
from pydantic import BeforeValidator, Field, model_validator

from privot.core.errors import PrivotError
from privot.schema.columns.alphabet import (
    Bins,
    Codes,
    Scale,
    choose_edges,
    num_fine_bins,
    refine,
    roundest,
    standard_codings,
    without_empty,
)
from privot.schema.columns.column import RANGE, BoundedColumn, Bounds, CodedColumn, TableColumns
from privot.schema.columns.raw_values import Problem, Steps, date_pattern, read_numbers, read_times
from privot.schema.domains import Array, Box, from_unit

_SPIKE = 1 / 12  # share of a model's draws above which a number is a spike
_TYPICAL = (0.05, 0.5, 0.95)  # levels of the quantiles that are typical numbers
_FAR = 1000.0  # distance of test values beyond the bounds, in widths of the interval


class NumberColumn(BoundedColumn):
    """Base of columns of one number or date between two bounds."""

    is_number: ClassVar[bool] = True
    bounds: tuple[float | str, float | str]
    bins: object
    typical: tuple[float | str, ...] | None = None

    @property
    @abstractmethod
    def domain(self) -> Box:
        """Interval of the bounds, in the column's numbers."""

    @property
    @abstractmethod
    def alphabet(self) -> Bins:
        """Bins, spikes, and the missing value."""

    @cached_property
    def codings(self) -> tuple[Bins, ...]:
        """The alphabet; if no bins are declared and integers share bins, all `standard_codings`."""
        alphabet, log = self.alphabet, self.on_log_scale
        num_integers = alphabet.edges[-1] - alphabet.edges[0] if alphabet.integer else math.inf
        if self.bins is not None or alphabet.num_bins == num_integers:
            return (alphabet,)
        if self.typical is not None:  # `standard_codings` rounds the edges of integers
            fine = self.equal_bins(num_fine_bins(True), rounded=False)
            return standard_codings(alphabet, fine, True, zero=False)
        fine = self.equal_bins(int(min(num_integers, num_fine_bins(log))))
        return standard_codings(alphabet, fine, log, zero=self.step_seconds is None)

    @property
    def on_log_scale(self) -> bool:
        """Whether its equal bins are equal in ln x."""
        return False

    @cached_property
    def atoms(self) -> tuple[Bins, Codes]:
        return refine(self.codings)

    @property
    def declares_codes(self) -> bool:
        """Whether bins or spikes are declared."""
        return self.bins is not None or bool(self.alphabet.spikes)

    @property
    @abstractmethod
    def counted_in(self) -> object:
        """Unit of the column's numbers; columns of one unit have equal numbers for equal values."""

    @property
    def _is_whole(self) -> bool:
        """Whether the column's numbers are integers: values, or counts of steps."""
        return True

    @property
    def _log_shift(self) -> float:
        """Number that is added to the column's numbers on a log scale."""
        return 0.0

    def equal_bins(self, bins: int | None, rounded: bool = True) -> tuple[float, ...]:
        """Return the edges of `bins` bins by `choose_edges`, or of a default number of them if None.

        Edges of integers are integers, unless `rounded` is False, which needs typical numbers.
        """
        (low,), (high,), declared = self.domain.lower, self.domain.upper, self.typical or ()
        typical = [n for value in declared if (n := self._number_of(value)) is not None]
        inside = [number for number in sorted(set(typical)) if low <= number <= high]
        if inside != typical or len(typical) < len(declared):
            raise PrivotError(
                f"typical {list(declared)} does not increase within the bounds {list(self.bounds)}: "
                "give the two ends between which most people are expected, and a median if known"
            )
        if typical and not rounded:
            high, typical[-1] = high + self._is_whole, typical[-1] + self._is_whole
        scale: Scale = "log" if self.on_log_scale else "linear"
        whole = self._is_whole and rounded
        return choose_edges(low, high, whole, bins, scale, self._log_shift, tuple(typical) or None)

    @property
    def step_seconds(self) -> int | None:
        """Seconds per step if the column's numbers are time steps since 1970, else None."""
        return None

    @property
    def value_step(self) -> float:
        """Difference of neighboring values, in the units of `in_values`; 0 if any number may occur."""
        return float(self.alphabet.integer)

    @property
    def step_program(self) -> dict[str, Any]:
        """Fields of a device's program that convert a value to the column's number."""
        return {"seconds": self.step_seconds}

    def code_program(self, name: str, codings: Sequence[Any]) -> dict[str, Any]:
        edges = [list(bins.edges) for bins in codings]
        encoding: dict[str, Any] = {"take": "bin", "columns": [name], "edges": edges}
        encoding |= {"spikes": list(self.alphabet.spikes), "integer": self.alphabet.integer}
        return encoding | {"nullable": self.nullable} | self.step_program | self.clip_program

    def point_program(self, name: str) -> dict[str, Any] | None:
        encoding = super().point_program(name)
        return encoding and encoding | self.step_program

    def limits(self, axis: int) -> str:
        return " to ".join(str(bound).removesuffix(".0") for bound in self.bounds)

    def common_values(self, name: str, others: Sequence[CodedColumn]) -> TableColumns:
        """Return the edges and spikes of all declarations, and numbers between them."""
        columns = [self, *(cast("NumberColumn", other) for other in others)]
        if len({(column.counted_in, column.alphabet.integer) for column in columns}) > 1:
            raise PrivotError(
                f"column {name!r} holds integers in one release and numbers in another, or counts them "
                "in other steps: fit the releases apart"
            )
        atoms = [column.atoms[0] for column in columns]
        cuts = np.unique([cut for bins in atoms for cut in (*bins.edges, *bins.spikes)])
        numbers = np.unique([*cuts, *(cuts[1:] + cuts[:-1]) / 2])
        if self.alphabet.integer:
            near = np.concatenate([cuts - 1, cuts, cuts + 1])
            numbers = np.unique(near[(near >= cuts[0]) & (near < cuts[-1])])
        return {name: self._make_up(np.append(numbers, [np.nan] * self.nullable))}

    def find_code(self, name: str, value: object) -> int:
        """See `CodedColumn`; a number or date within the bounds may be given instead of a label."""
        is_label = value is None or value in self.labels
        number = None if is_label else self._number_of(value)
        if number is None:
            return super().find_code(name, value)
        if not self.domain.lower[0] <= number <= self.domain.upper[0]:
            raise PrivotError(
                f"where gives column {name!r} the value {value!r}: its bounds are {self.bounds[0]} and "
                f"{self.bounds[1]}"
            )
        return int(self.alphabet.encode(np.array([number]))[0])

    def find_codes(self, name: str, value: object) -> list[int]:
        """See `CodedColumn`; a range, `"30..40"`, must intersect the bounds."""
        if not isinstance(value, str) or RANGE not in value or value in self.labels:
            return super().find_codes(name, value)
        low, high = (self._number_of(end) for end in value.split(RANGE, 1))
        bins, largest = self.alphabet, self.domain.upper[0]
        if low is None or high is None or low > min(high, largest) or high < bins.edges[0]:
            raise PrivotError(
                f"where gives column {name!r} the range {value!r}: write LOW..HIGH, within the bounds "
                f"{self.bounds[0]} and {self.bounds[1]}"
            )
        below, above = np.array(bins.edges[:-1]), np.array(bins.edges[1:])
        codes = np.flatnonzero((below <= high) & (above - bins.integer >= low)).tolist()
        spikes = enumerate(bins.spikes, start=bins.num_bins)
        return codes + [code for code, spike in spikes if low <= spike <= high]

    @abstractmethod
    def _number_of(self, value: object) -> float | None:
        """Return the column's number for a value, or for its text; None for any other object."""

    @abstractmethod
    def round_between(self, low: float, high: float) -> float:
        """Return the number from `low` to `high` that is easiest to read."""

    @abstractmethod
    def _write(self, numbers: Array) -> pa.Array:
        """Convert the column's numbers (n,) to table values; NaN becomes null."""

    @abstractmethod
    def _make_up(self, numbers: Array) -> pa.Array:
        """Convert numbers (n,), which may lie between steps or beyond the bounds, to table values."""

    def encode_points(self, name: str, table: pa.Table) -> Array:
        return self.accept(name, table)[:, None]

    def _write_points(self, name: str, points: Array) -> TableColumns:
        return self.decode_numbers(name, points[:, 0])

    def decode_numbers(self, name: str, numbers: Array) -> TableColumns:
        """Return the table column of numbers (n,) within the bounds; NaN is missing."""
        return {name: self._write(np.rint(numbers) if self.alphabet.integer else numbers)}

    def make_up_points(self, name: str, units: Array) -> TableColumns:
        units = units.clip(-1, 1) if self.out_of_bounds == "refuse" else units
        return {name: self._make_up(from_unit(self.domain, units)[:, 0])}

    def refined(self, name: str, drawn: pa.Table, rarest: float = 0.0) -> Self:
        """See `CodedColumn`; a number in more than a twelfth of the records becomes a spike.

        Typical numbers are the quantiles .05, .5 and .95 of the others, each moved by at most a share of
        .01 to a number that is easy to read.

        **Privacy review.** A function of a model's draws (post-processing of private reports), so as
        private as the model. It must not be used on raw values: typical numbers would reveal them.
        """
        fields, numbers = self.model_dump(), self.read(name, drawn)[0]
        low, high = self.domain.lower[0], self.domain.upper[0]
        distinct, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
        spikes = distinct[counts > _SPIKE * counts.sum()] if "spikes" in fields else distinct[:0]
        others = numbers[~np.isnan(numbers) & ~np.isin(numbers, spikes)]
        if not len(others) or (self._is_whole and (np.diff(self.alphabet.edges) == 1).all()):
            return self
        around = [np.quantile(others, [level - 0.01, level + 0.01]) for level in _TYPICAL]
        readable = np.array([self.round_between(*ends.tolist()) for ends in around]).clip(low, high)
        typical, new_spikes = (
            self.decode_numbers(name, found)[name].unique().to_pylist()
            for found in (readable, spikes)
        )
        fields |= {"bins": None, "typical": typical if len(typical) > 1 else None}
        if new_spikes:
            fields["spikes"] = sorted({*fields["spikes"], *new_spikes})
        return self.model_validate(fields)

    def encode_codes(self, name: str, table: pa.Table) -> Codes:
        """Return raw values as codes (n,) of the alphabet; numbers beyond the bounds are clipped."""
        return self.alphabet.encode(self.accept(name, table))

    def encode_atoms(self, name: str, table: pa.Table) -> Codes:
        return self.atoms[0].encode(self.accept(name, table))

    def decode_codes(self, name: str, codes: Codes, rng: Generator) -> TableColumns:
        return {name: self._write(self.alphabet.decode(codes, rng))}

    def decode_atoms(self, name: str, atoms: Codes, rng: Generator) -> TableColumns:
        return {name: self._write(self.atoms[0].decode(atoms, rng))}

    def make_up_codes(self, name: str, coding: Any, codes: Codes, rng: Generator) -> TableColumns:
        """See `CodedColumn`: half of the numbers of an outer bin lie far beyond bounds that clip."""
        if self.out_of_bounds == "refuse":
            return {name: self._make_up(coding.decode(codes, rng))}
        return {name: self._make_up(decode_far(coding, codes, rng))}


def decode_far(bins: Bins, codes: Codes, rng: Generator) -> Array:
    """Decode codes (n,) to numbers (n,); half of the numbers of outer bins lie far beyond the bounds."""
    outside = rng.random(len(codes)) < 0.5
    numbers = bins.decode(codes, rng)
    low, high = bins.edges[0], bins.edges[-1]
    first, last = bins.encode(np.array([low, high]))
    numbers = np.where(outside & (codes == first), low - _FAR * (high - low), numbers)
    return np.where(outside & (codes == last), high + _FAR * (high - low), numbers)


class NumericColumn(NumberColumn):
    """Column of one number between two public bounds.

    With `decimals` or `step`, values lie on a grid (`Steps`), and the column's numbers count its steps.

    Arguments:
        bounds: Smallest and largest value.
        integer: Whether only integers occur.
        decimals: Number of decimals, if values are rounded.
        step: Difference of neighboring values, starting at the low bound; instead of `decimals`.
        bins: The number of equal bins, the edges (of which the outer two are the bounds), or
            `"integers"` for a code for each integer; ten bins by default.
        scale: `"linear"`, or `"log"` for values that span orders of magnitude: bins without declared
            edges are then equal in ln x.
        spikes: Values that many people share exactly, each with its own code.
        typical: Ends of the range in which most people are expected, by public knowledge, or its low
            end, median and high end: bins without declared edges are narrow within it, so that bounds
            may be wide. Values elsewhere are allowed.
        measured_in: Unit of measurement, shown in reports, such as `"kg"`.
        nullable: Whether a value may be missing.
        out_of_bounds: See `BoundedColumn`.

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
    typical: Bounds | tuple[float, float, float] | None = None
    measured_in: str | None = None

    holds_numbers: ClassVar[bool] = True
    in_rules = "number"

    def title(self, name: str) -> str:
        return f"{name} ({self.measured_in})" if self.measured_in else name

    @cached_property
    def counted_in(self) -> Steps | None:
        """Steps that the column's numbers count; None if its numbers are the values themselves."""
        if self.decimals is not None:
            return Steps.to_decimals(self.decimals)
        return None if self.step is None else Steps.through(self.bounds[0], self.step)

    @property
    def value_step(self) -> float:
        return self.counted_in.size if self.counted_in else super().value_step

    @property
    def _rounding_errors(self) -> Array:
        return super()._rounding_errors + (Steps.error if self.counted_in else 0.0)

    @property
    def step_program(self) -> dict[str, Any]:
        if (steps := self.counted_in) is None:
            return super().step_program
        return {"seconds": None, "origin": steps.origin, "step": steps.size}

    @property
    def on_log_scale(self) -> bool:
        return self.scale == "log"

    @property
    def _is_whole(self) -> bool:
        return self.integer or self.counted_in is not None

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Bounds, as the column's numbers."""
        steps, (low, high) = self.counted_in, self.bounds
        if steps is None:
            return low, high
        return steps.require_count(low, "bound"), steps.require_count(high, "bound")

    @cached_property
    def domain(self) -> Box:
        """Interval of the bounds, in steps if values are on a grid."""
        return Box((self._ends[0],), (self._ends[1],))

    @property
    def _log_shift(self) -> float:
        return self.counted_in.origin / self.counted_in.size if self.counted_in else 0.0

    @cached_property
    def alphabet(self) -> Bins:
        """Bins, spikes, and the missing value."""
        bins, steps, spikes = self.bins, self.counted_in, tuple(sorted(self.spikes))
        if bins == "integers":
            if not self.integer:
                raise PrivotError("bins 'integers' need integer = true: declare it, or other bins")
            bins = int(self._ends[1]) - int(self._ends[0]) + 1
        edges = self._edges_of(bins) if isinstance(bins, tuple) else self.equal_bins(bins)
        if steps:
            spikes = tuple(steps.require_count(spike, "spike") for spike in spikes)
        if self.typical and self._is_whole:
            edges = tuple(without_empty(edges, spikes))
        return Bins(edges, spikes, self._is_whole, self.nullable)

    def _edges_of(self, bins: tuple[float, ...]) -> tuple[float, ...]:
        """Return the edges of declared bins, each moved up to the next step if values are on a grid."""
        if not bins or (bins[0], bins[-1]) != self.bounds:
            raise PrivotError(
                f"bins {list(bins)} do not begin and end with the bounds "
                f"{list(self.bounds)}: give all edges, the bounds included"
            )
        steps, inner = self.counted_in, bins[1:-1]
        if steps:
            inner = tuple(float(math.ceil(steps.round_count(edge))) for edge in inner)
        return (self._ends[0], *inner, self._ends[1] + self._is_whole)

    def labels_in(self, coding: Bins) -> tuple[str, ...]:
        return coding.labels_by(self.counted_in.text) if self.counted_in else coding.labels

    def read(self, name: str, table: pa.Table) -> tuple[Array, list[Problem]]:
        """Return (the column's numbers (n,), NaN where missing; all problems of the raw values)."""
        numbers, problems = read_numbers(table.column(name), name, self.nullable)
        return self.counted_in.count(numbers) if self.counted_in else numbers, problems

    def in_values(self, points: Array) -> Array:
        return self.counted_in.value_between(points) if self.counted_in else points

    def _number_of(self, value: object) -> float | None:
        if isinstance(value, bool) or not isinstance(value, str | int | float | np.number):
            return None
        try:
            number = float(value)
        except ValueError:
            return None
        return self.counted_in.round_count(number) if self.counted_in else number

    def round_between(self, low: float, high: float) -> float:
        """Return the number whose value has the fewest digits, or the step nearest to this value."""
        if (steps := self.counted_in) is None:
            return roundest(low, high)
        return steps.round_count(roundest(*map(float, steps.value(np.array([low, high])))))

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
                'amount that matters, as smaller ones are clipped to it, or declare scale = "linear"'
            )
        _ = self.domain, self.alphabet
        return self


_SECONDS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_FINEST = {"day": "d", "hour": "H", "minute": "M", "second": "S"}  # codes of strftime
_EPOCH = dt.datetime(1970, 1, 1)
_LAST_SECOND = 9e12  # of test values, since 1970; its microseconds fit into 64-bit integers


def _as_text(moment: object) -> object:
    """Return a date or time object as text, anything else unchanged."""
    return moment.isoformat() if isinstance(moment, dt.date) else moment


# Date or time: text in ISO 8601, or an object, which the parser of TOML returns.
Moment = Annotated[str, BeforeValidator(_as_text)]


class DatetimeColumn(NumberColumn):
    """Column of a date, or a time to the hour, minute or second, between two public bounds.

    The column's numbers count steps of the resolution since 1970.

    Arguments:
        bounds: First and last date or time, in UTC without an offset.
        resolution: `"day"`, `"hour"`, `"minute"` or `"second"`, to which times are rounded down.
        bins: The number of equal bins, or the edges; ten bins by default.
        typical: First and last date of a range in which most are expected, and its median between them
            if known, as for a `NumericColumn`.
        format: Format of strftime, such as `"%d/%m/%Y"`, of texts in tables of records and samples.
        nullable: Whether a value may be missing.
        out_of_bounds: See `BoundedColumn`.

    Examples:
        >>> day = DatetimeColumn(kind="datetime", bounds=("1970-01-01", "1970-12-31"))
        >>> day.number("1970-02-01")
        31.0
    """

    kind: Literal["datetime"]
    bounds: tuple[Moment, Moment]
    resolution: Literal["day", "hour", "minute", "second"] = "day"
    bins: int | tuple[Moment, ...] | None = None
    typical: tuple[Moment, Moment] | tuple[Moment, Moment, Moment] | None = None
    format: str | None = None

    in_rules = "date"

    @property
    def step_seconds(self) -> int:
        return _SECONDS[self.resolution]

    @property
    def counted_in(self) -> str:
        return self.resolution

    @property
    def step_program(self) -> dict[str, Any]:
        return super().step_program | ({"format": self.format} if self.format else {})

    def number(self, moment: str) -> float:
        """Return the number of steps from 1970 to a date or time in ISO 8601, rounded down."""
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
        """Return the date or time of a number of steps since 1970."""
        time = _EPOCH + dt.timedelta(seconds=number * self.step_seconds)
        return (time.date() if self.resolution == "day" else time).isoformat()

    @cached_property
    def domain(self) -> Box:
        """Interval of the bounds, in steps of the resolution since 1970."""
        low, high = (self.number(bound) for bound in self.bounds)
        return Box((low,), (high,))

    @cached_property
    def alphabet(self) -> Bins:
        if not isinstance(self.bins, tuple):
            return Bins(self.equal_bins(self.bins), (), integer=True, nullable=self.nullable)
        edges = [self.number(moment) for moment in self.bins]
        if not edges or (edges[0], edges[-1]) != (*self.domain.lower, *self.domain.upper):
            raise PrivotError(
                "bins do not begin and end with the bounds: give all edges, bounds included"
            )
        edges[-1] += 1
        return Bins(tuple(edges), (), integer=True, nullable=self.nullable)

    def labels_in(self, coding: Bins) -> tuple[str, ...]:
        """Return the labels of all codes of a coding: the first and last date or time of each bin."""
        return coding.labels_by(self.moment)

    def read(self, name: str, table: pa.Table) -> tuple[Array, list[Problem]]:
        times, problems = read_times(table.column(name), name, self.nullable, self.format)
        microseconds = pc.fill_null(times.cast(pa.int64()), 0).to_numpy()
        steps = (microseconds // (1_000_000 * self.step_seconds)).astype(np.float64)
        return np.where(np.asarray(times.is_null()), np.nan, steps), problems

    def _number_of(self, value: object) -> float | None:
        moment = _as_text(value)
        try:
            return self.number(moment) if isinstance(moment, str) else None
        except PrivotError:
            return None

    def round_between(self, low: float, high: float) -> float:
        """Return the first day of a year or of a month in the interval, or else the middle."""
        last = pa.array([int(high * self.step_seconds)]).cast(pa.timestamp("s"))
        for unit in ("year", "month"):
            first = pc.floor_temporal(last, unit=unit)
            number = first[0].cast(pa.int64()).as_py() / self.step_seconds
            if number >= low:
                return float(number)
        return (low + high) / 2

    def _write(self, numbers: Array) -> pa.Array:
        absent = np.isnan(numbers)
        integers = pa.array(np.where(absent, 0, numbers).astype(np.int64), mask=absent)
        if self.resolution == "day":
            return integers.cast(pa.int32()).cast(pa.date32())
        return pc.multiply(integers, self.step_seconds).cast(pa.timestamp("s"))

    def in_format(self, name: str, table: pa.Table) -> pa.Table:
        if self.format is None:
            return table
        texts = pc.strftime(table.column(name).cast(pa.timestamp("s")), self.format)
        return table.set_column(table.column_names.index(name), name, texts)

    def _make_up(self, numbers: Array) -> pa.Array:
        absent, last = np.isnan(numbers), _LAST_SECOND // self.step_seconds
        steps = np.clip(np.rint(np.where(absent, 0.0, numbers)), -last, last).astype(np.int64)
        return pa.array(steps * self.step_seconds, mask=absent).cast(pa.timestamp("s"))

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.domain, self.alphabet  # building them checks bounds and bins
        if self.format is not None:
            date_pattern(self.format, _FINEST[self.resolution])
        return self
