"""Parsing of one table column's raw values as numbers, times and texts, with a list of problems.

Values may be text, as in a CSV, which is parsed as numbers or dates. The functions `read_…` return
(values, problems); a value with a problem is missing, and a missing value is a problem unless the column
is `nullable`. Values on a grid, such as prices to the cent, are represented by integers (`Steps`).

This code runs on the device and stores nothing. Errors name column and row but show no value, because
logs, bug reports and terminals may be read by others than the holders of the records.
"""

import datetime as dt
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.schema.columns.alphabet import exact_text
from privot.schema.domains import Array

# Texts that stand for a missing number or date.
_ABSENT = (
    "",
    *["NA", "N/A", "n/a", "#N/A", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "None", "NaT"],
)
_NUMBER = r"^[-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$|^[-+]?(?i:inf|infinity|nan)$"
_COMMA = r"^[-+]?[0-9][0-9.' ]*(,[0-9]+)+(\.[0-9]+)?$"
_DATE = r"^[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}"
_ZONE = r":[0-9.:]+(Z|[-+][0-9]{2}:?[0-9]{2})$"
_FILL = (
    "declare nullable = true in the schema, or fill or remove the row by a rule that does not look at "
    "other people's records"
)
_CORRECT = "correct it, add it to the schema, or declare which category stands for others"
_NO_COMMA = "write a decimal point, and nothing between thousands"
_ISO = "%Y-%m-%d"
_TIME_CODES = "YmdHMS"  # of strftime, from the coarsest


class RecordError(PrivotError):
    """A record that cannot be used.

    Arguments:
        row: Row of the table or of the whole source, counted from 0.
        problem: The problem and its remedy.
        place: Location in the message; by default, the row of the table.
    """

    def __init__(self, row: int, problem: str, place: str | None = None) -> None:
        self.row, self.problem = row, problem
        super().__init__(f"{place or f'row {row + 1:,}'}: {problem}")

    def after(self, rows: int) -> Self:
        """Return the same error for a source in which `rows` rows precede the table."""
        return type(self)(self.row + rows, self.problem)

    def at(self, place: str) -> Self:
        """Return the same error with another location in the message."""
        return type(self)(self.row, self.problem, place)


@dataclass(frozen=True, eq=False)
class Problem:
    """One kind of problem in some rows of one table column."""

    column: str  # name of the table column
    fault: str  # the problem as a predicate, such as `"has no value"`
    remedy: str  # what to do about it
    # Mask (n,) of the rows that have the problem, at least one.
    rows: NDArray[np.bool_] = field(repr=False)

    def error(self, rows_before: int = 0) -> RecordError:
        """Return the error for its first row, in a source with `rows_before` rows before the table."""
        message = f"column {self.column!r} {self.fault}: {self.remedy}"
        return RecordError(rows_before + self.first_row, message)

    @property
    def first_row(self) -> int:
        """First row that has the problem, counted from 0."""
        return int(np.flatnonzero(self.rows)[0])


def refuse(problems: Iterable[Problem]) -> None:
    """Raise a RecordError for the first row that has a problem, if there is one."""
    earliest = min(problems, key=lambda problem: problem.first_row, default=None)
    if earliest is not None:
        raise earliest.error()


def read_numbers(
    values: pa.ChunkedArray, name: str, nullable: bool = True
) -> tuple[Array, list[Problem]]:
    """Return (finite numbers (n,), NaN where missing; problems)."""
    problems: list[Problem] = []
    if pa.types.is_null(values.type):
        values = values.cast(pa.float64())
    if _is_text(values.type):
        values, problems = _parse_numbers(_texts(values), name)
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = np.asarray(values.cast(pa.float64(), safe=False).to_numpy())
        infinite = np.isinf(numbers)
        numbers = np.where(infinite, np.nan, numbers) if infinite.any() else numbers
        fault = "is infinite, or too large for a number"
        problems += _existing_problems(name, (fault, "give finite numbers only", infinite))
    else:
        numbers = np.full(len(values), np.nan)
        problems = _problem_of_all(values, name, "numbers", "give numbers only")
    return numbers, problems + missing_values(np.isnan(numbers), nullable, name, problems)


def date_pattern(form: str, finest: str = "d") -> tuple[str, str]:
    """Return a pattern of dates in a format of strftime, and the replacement that writes ISO 8601.

    Examples:
        >>> date_pattern("%d/%m/%Y")
        ('([0-9]{2})/([0-9]{2})/([0-9]{4})', '\\\\3-\\\\2-\\\\1T00:00:00')

    Raises:
        PrivotError: unless the format has %Y, %m, %d and all codes to the finest one, each once.
    """
    codes = re.findall("%(.?)", form)
    needed = _TIME_CODES[: _TIME_CODES.index(finest) + 1]
    parts = {code: f"\\{1 + codes.index(code)}" if code in codes else "00" for code in _TIME_CODES}
    once = sorted(codes) == sorted({*codes} & {*_TIME_CODES})
    if not once or not {*needed} <= {*codes} or form.startswith("%Y-%d"):
        raise PrivotError(
            f"format {form!r} cannot be used: give %{', %'.join(needed)}, each once and in an order "
            "that does not look like 2024-05-31, as in %d/%m/%Y"
        )
    pattern = re.escape(form).replace("%Y", "([0-9]{4})")
    pattern = re.sub("%.", "([0-9]{2})", pattern)
    return pattern, "{Y}-{m}-{d}T{H}:{M}:{S}".format(**parts)


def read_times(
    values: pa.ChunkedArray, name: str, nullable: bool = True, form: str | None = None
) -> tuple[pa.ChunkedArray, list[Problem]]:
    """Return (times (n,) in microseconds, null where missing; problems).

    Texts are in ISO 8601, or in a format of strftime, `form`.
    """
    kind = values.type
    problems: list[Problem] = []
    if _is_text(kind):
        values, problems = _parse_times(_texts(values), name, form)
    elif not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_null(kind)):
        remedy = "give dates or times, or text as 2024-05-31"
        problems = _problem_of_all(values, name, "dates", remedy)
        values = pa.nulls(len(values))
    times = values.cast(pa.timestamp("us"), safe=False)
    return times, problems + missing_values(np.asarray(times.is_null()), nullable, name, problems)


def read_texts(values: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, list[Problem]]:
    """Return (unchanged texts (n,), null where missing; problems)."""
    try:
        return _texts(values), []
    except pa.ArrowException:
        problems = _problem_of_all(values, name, "text", "give text, as in its categories")
        return pa.chunked_array([pa.nulls(len(values), pa.string())]), problems


def find_texts(values: pa.ChunkedArray, listed: Iterable[str]) -> NDArray[np.int32]:
    """Return the index (n,) of every text in a list, or −1.

    The index of a null, or of an empty field that is not listed, is at or beyond the end of the list.
    """
    indices = pc.index_in(values, value_set=pa.array([*listed, "", None], pa.string()))
    return np.asarray(pc.fill_null(indices, -1).to_numpy())


def explain_unlisted(
    values: pa.ChunkedArray, name: str, categories: tuple[str, ...], unlisted: NDArray[np.bool_]
) -> list[Problem]:
    """Return the problems of the rows of `unlisted` (n,), whose texts are none of the categories."""
    if not unlisted.any():
        return []
    trimmed = pc.utf8_trim_whitespace(values)
    spaced = unlisted & _mask(pc.is_in(trimmed, value_set=pa.array(categories)))
    lower = pa.array([category.lower() for category in categories])
    cased = unlisted & ~spaced & _mask(pc.is_in(pc.utf8_lower(trimmed), value_set=lower))
    return _existing_problems(
        name,
        ("has spaces around its category", "remove them", spaced),
        ("differs from a category by capitals", "write it as the schema does", cased),
        (f"is none of its {len(categories)} categories", _CORRECT, unlisted & ~spaced & ~cased),
    )


def missing_values(
    absent: NDArray[np.bool_], nullable: bool, name: str, problems: list[Problem]
) -> list[Problem]:
    """Return the problem of absent values (n,) that have no other problem, unless `nullable`."""
    if nullable:
        return []
    for problem in problems:
        absent = absent & ~problem.rows
    return _existing_problems(name, ("has no value", _FILL, absent))


def _parse_numbers(texts: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, list[Problem]]:
    """Return (numbers (n,), null where a text is missing or no number; problems)."""
    texts = _null_if_missing(texts)
    try:
        return texts.cast(pa.float64()), []
    except pa.ArrowException:
        pass
    bad = _mask(pc.invert(pc.match_substring_regex(texts, _NUMBER)))
    comma = bad & _mask(pc.match_substring_regex(texts, _COMMA))
    date = bad & ~comma & _mask(pc.match_substring_regex(texts, _DATE))
    numbers = pc.if_else(pa.array(bad), None, texts).cast(pa.float64())
    return numbers, _existing_problems(
        name,
        ("has a number with a comma", _NO_COMMA, comma),
        ("has a date, not a number", "correct it, or declare a datetime column", date),
        ("has text, not a number", "write numbers as -12.5 or 3e4", bad & ~comma & ~date),
    )


def _parse_times(
    texts: pa.ChunkedArray, name: str, form: str | None
) -> tuple[pa.ChunkedArray, list[Problem]]:
    """Return (times (n,), null where a text is missing or no time; problems)."""
    texts, kind = _null_if_missing(texts), pa.timestamp("us")
    if form:
        pattern, iso = date_pattern(form)
        texts = pc.replace_substring_regex(texts, f"^{pattern}$", iso)
    try:
        return texts.cast(kind), []
    except pa.ArrowException:
        pass
    distinct = pc.unique(texts.drop_null())
    impossible = pa.array([text for text in distinct if not _is_time(text)], texts.type)
    bad = _mask(pc.is_in(texts, value_set=impossible))
    zone = bad & _mask(pc.match_substring_regex(texts, _ZONE))
    date = bad & ~zone & _mask(pc.match_substring_regex(texts, _DATE))
    remedy = f"write dates as {dt.datetime(2024, 5, 31, 12).strftime(form or _ISO)}"
    return pc.if_else(pa.array(bad), None, texts).cast(kind), _existing_problems(
        name,
        ("has a time with a zone", "write times in UTC, without an offset", zone),
        ("has a date in another format, or one that no calendar has", remedy, date),
        ("has text, not a date", remedy, bad & ~zone & ~date),
    )


def _is_time(text: pa.Scalar) -> bool:
    try:
        text.cast(pa.timestamp("us"))
    except pa.ArrowException:
        return False
    return True


def _null_if_missing(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Strip spaces around texts, and replace texts that stand for a missing value by null."""
    texts = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.is_in(texts, value_set=pa.array(_ABSENT)), None, texts)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _texts(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert values to texts; raise an Arrow exception if their type has no texts."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    texts = values.cast(pa.string())
    if pa.types.is_floating(values.type):  # a whole number is written as in a column of integers
        numbers = values.cast(pa.float64())
        whole = pc.and_(pc.equal(pc.trunc(numbers), numbers), pc.less(pc.abs(numbers), 2.0**53))
        texts = pc.if_else(whole, numbers.cast(pa.int64(), safe=False).cast(pa.string()), texts)
    return texts


def _mask(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return truth values as a mask, False for null."""
    return np.asarray(pc.fill_null(values, False).to_numpy(), np.bool_)


def _problem_of_all(values: pa.ChunkedArray, name: str, wanted: str, remedy: str) -> list[Problem]:
    """Return the problem of all rows without a null, whose type is not what is wanted."""
    what = f"holds {str(values.type).partition('<')[0]}, not {wanted}"  # without a struct's fields
    return _existing_problems(name, (what, remedy, _mask(values.is_valid())))


def _existing_problems(name: str, *candidates: tuple[str, str, NDArray[np.bool_]]) -> list[Problem]:
    """Return a column's problems, given as (fault, remedy, rows), that at least one row has."""
    return [Problem(name, fault, remedy, rows) for fault, remedy, rows in candidates if rows.any()]


_MAX_STEPS = 2**48
_EXTRA_DECIMALS = 3  # number of additional decimals of values between steps
_STEP_DECIMALS = 6  # number of decimals of a step count; a smaller difference is a rounding error


@dataclass(frozen=True)
class Steps:
    """Grid of values $x = o + k s$ with integers k, such as prices to the cent.

    A column of such values is represented by the step counts k, as dates are by days. Bins contain
    whole steps, and values are written as rounded decimals.

    Examples:
        >>> cents = Steps.to_decimals(2)
        >>> cents.count(np.array([0.07, 1.28])).round().tolist()
        [7.0, 128.0]
        >>> cents.value(np.array([7.0, 30.0])).tolist()
        [0.07, 0.3]
    """

    origin: float  # value o of step 0
    size: float  # step s
    digits: int  # number of decimals of the values

    @classmethod
    def to_decimals(cls, decimals: int) -> Self:
        """Return the grid of all numbers with at most `decimals` decimals."""
        return cls(0.0, 10.0**-decimals, decimals)

    @classmethod
    def through(cls, low: float, size: float) -> Self:
        """Return the grid of step `size` through `low`; 0 has step 0 if it is on the grid."""
        digits = max(_decimals(low), _decimals(size))
        origin = round(low - size * math.floor(round(low / size, _STEP_DECIMALS)), digits)
        return cls(origin, size, digits)

    def count(self, values: Array) -> Array:
        """Return the step counts (n,) of values (n,), not rounded."""
        return np.asarray((values - self.origin) / self.size)

    def value(self, counts: Array) -> Array:
        """Return the values (n,) of integer step counts (n,), rounded to the decimals of the grid."""
        return np.asarray(np.round(self.origin + counts * self.size, self.digits))

    def text(self, count: float) -> str:
        """Return the shortest text of the value of an integer step count."""
        return exact_text(float(self.value(np.array(count))))

    def value_between(self, counts: Array) -> Array:
        """Return the values (n,) of counts (n,) that are no integers, such as means."""
        return np.asarray(np.round(self.origin + counts * self.size, self.digits + _EXTRA_DECIMALS))

    error: ClassVar[float] = 10.0**-_STEP_DECIMALS  # of a value's count, at most

    def round_count(self, value: float) -> float:
        """Return the step count of a value, an integer if only rounding separates it from a step."""
        return round((value - self.origin) / self.size, _STEP_DECIMALS)

    def require_count(self, value: float, noun: str) -> float:
        """Return the step count of a declared value, which must be on the grid.

        Raises:
            PrivotError: if the value, which is called `noun`, is not on the grid or has too many steps.
        """
        count = self.round_count(value)
        if count != round(count):
            raise PrivotError(
                f"{noun} {value:.15g} lies between the values that occur, which are {self.size:.15g} "
                "apart: correct it, or the decimals or step"
            )
        if abs(count) > _MAX_STEPS:
            raise PrivotError(
                f"{noun} {value:.15g} has too many steps of {self.size:.15g}: give larger ones"
            )
        return count


def _decimals(number: float) -> int:
    """Return the number of decimals in a number's shortest text: 2 for 0.25, 0 for 100."""
    return max(0, -int(Decimal(repr(number)).normalize().as_tuple().exponent))
