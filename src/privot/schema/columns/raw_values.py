"""Raw values of one table column as numbers, moments and texts, and what is wrong with the others.

Values may be text, as in a CSV: text that says a number or a date is one. Every function returns the
values and the problems (which column, which rows, what kind of problem, and what to do); where there is
a problem, the value is missing.

Runs on the device, stores nothing and shows no value: errors end up in logs, bug reports and terminals
that others than the records' holders read, and a column and a row are enough for the holders to look.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.schema.domains import Array

# What tables write where a number or a date is missing.
_ABSENT = (
    "",
    *["NA", "N/A", "n/a", "#N/A", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "None", "NaT"],
)
_NUMBER = r"^[-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$|^[-+]?(?i:inf|infinity|nan)$"
_COMMA = r"^[-+]?[0-9][0-9.' ]*(,[0-9]+)+(\.[0-9]+)?$"
_DATE = r"^[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}"
_ZONE = r"[0-9](Z|[-+][0-9]{2}:?[0-9]{2})$"
_FILL = (
    "declare nullable = true in the schema, or fill or remove the row by a rule that does not look at "
    "other people's records"
)


@dataclass(frozen=True, eq=False)
class Problem:
    """One thing that is wrong in some rows of one table column.

    Arguments:
        column: Name of the table column.
        what: The kind of problem, as `"has no value"`.
        remedy: What to do about it.
        rows: Which rows, as a mask (n,).
    """

    column: str
    what: str
    remedy: str
    rows: NDArray[np.bool_] = field(repr=False)

    @property
    def words(self) -> str:
        """Column, kind and remedy."""
        return f"column {self.column!r} {self.what}: {self.remedy}"

    @property
    def first(self) -> int:
        """The first such row, counted from 0."""
        return int(np.flatnonzero(self.rows)[0])


class RecordError(PrivotError):
    """A record that cannot be used.

    Arguments:
        row: Of the table or of the whole source, counted from 0.
        words: What is wrong with it, and what to do.
        place: Where a person finds it; the row of the table by default.
    """

    def __init__(self, row: int, words: str, place: str | None = None) -> None:
        self.row, self.words = row, words
        super().__init__(f"{place or f'row {row + 1:,}'}: {words}")

    def after(self, rows: int) -> Self:
        """The same, of a source in which so many rows precede the table."""
        return type(self)(self.row + rows, self.words)

    def at(self, place: str) -> Self:
        """The same, with a place that a person finds."""
        return type(self)(self.row, self.words, place)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise what is wrong in the first row that has a problem."""
    for problem in sorted(problems, key=lambda problem: problem.first):
        raise RecordError(problem.first, problem.words)


def read_numbers(
    values: pa.ChunkedArray, name: str, nullable: bool = True
) -> tuple[Array, list[Problem]]:
    """Finite numbers (n,), NaN where missing."""
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
        what = "is infinite, or too large for a number"
        problems += _found((name, what, "give finite numbers only", infinite))
    else:
        numbers = np.full(len(values), np.nan)
        problems = _all(values, name, f"holds {kind}, not numbers", "give numbers only")
    return numbers, problems + missing(np.isnan(numbers), nullable, name, problems)


def read_moments(
    values: pa.ChunkedArray, name: str, nullable: bool = True
) -> tuple[pa.ChunkedArray, list[Problem]]:
    """Moments in microseconds, null where missing."""
    kind = values.type
    problems: list[Problem] = []
    if _is_text(kind):
        values, problems = _parse_moments(_texts(values), name)
    elif not (pa.types.is_temporal(kind) or pa.types.is_null(kind)) or pa.types.is_time(kind):
        remedy = "give dates or times, or text as 2024-05-31"
        problems = _all(values, name, f"holds {kind}, not dates", remedy)
        values = pa.nulls(len(values))
    moments = values.cast(pa.timestamp("us"), safe=False)
    absent = np.asarray(moments.is_null())
    return moments, problems + missing(absent, nullable, name, problems)


def read_texts(values: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, list[Problem]]:
    """Texts as they stand, null where missing."""
    try:
        return _texts(values), []
    except pa.ArrowException:
        what = f"holds {values.type}, not text"
        problems = _all(values, name, what, "give text, as in its categories")
        return pa.chunked_array([pa.nulls(len(values), pa.string())]), problems


def find_texts(values: pa.ChunkedArray, listed: Iterable[str]) -> NDArray[np.int32]:
    """The place (n,) of every text in a list, or −1.

    From the list's end on where there is no text: a null, or the empty field of a CSV, if not listed.
    """
    places = pc.index_in(values, value_set=pa.array([*listed, "", None], pa.string()))
    return np.asarray(pc.fill_null(places, -1).to_numpy())


def explain_unlisted(
    values: pa.ChunkedArray, name: str, categories: tuple[str, ...], unlisted: NDArray[np.bool_]
) -> list[Problem]:
    """Problems of texts that are none of the categories."""
    if not unlisted.any():
        return []
    trimmed = pc.utf8_trim_whitespace(values)
    spaced = unlisted & _mask(pc.is_in(trimmed, value_set=pa.array(categories)))
    folded = pa.array([category.lower() for category in categories])
    cased = unlisted & ~spaced & _mask(pc.is_in(pc.utf8_lower(trimmed), value_set=folded))
    return _found(
        (name, "has spaces around its category", "remove them", spaced),
        (name, "differs from a category by capitals", "write it as the schema does", cased),
        (
            name,
            f"is none of its {len(categories)} categories",
            "correct it, add it to the schema, or declare which category stands for others",
            unlisted & ~spaced & ~cased,
        ),
    )


def missing(
    absent: NDArray[np.bool_], nullable: bool, name: str, problems: list[Problem]
) -> list[Problem]:
    """The problem of values that are absent for no other problem, where none may be."""
    if nullable:
        return []
    for problem in problems:
        absent = absent & ~problem.rows
    return _found((name, "has no value", _FILL, absent))


def _parse_numbers(texts: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, list[Problem]]:
    texts = _present(texts)
    try:
        return texts.cast(pa.float64()), []
    except pa.ArrowException:
        pass
    good = pc.match_substring_regex(texts, _NUMBER)
    bad = _mask(pc.invert(good))
    comma = bad & _mask(pc.match_substring_regex(texts, _COMMA))
    date = bad & ~comma & _mask(pc.match_substring_regex(texts, _DATE))
    numbers = pc.if_else(pa.array(bad), None, texts).cast(pa.float64())
    return numbers, _found(
        (
            name,
            "has a number with a comma",
            "write a decimal point, and nothing between thousands",
            comma,
        ),
        (name, "has a date, not a number", "correct it, or declare a datetime column", date),
        (name, "has text, not a number", "write numbers as -12.5 or 3e4", bad & ~comma & ~date),
    )


def _parse_moments(texts: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, list[Problem]]:
    texts, kind = _present(texts), pa.timestamp("us")
    try:
        return texts.cast(kind), []
    except pa.ArrowException:
        pass
    different = pc.unique(texts.drop_null())
    impossible = pa.array([text for text in different if not _is_moment(text)], texts.type)
    bad = _mask(pc.is_in(texts, value_set=impossible))
    zone = bad & _mask(pc.match_substring_regex(texts, _ZONE))
    date = bad & ~zone & _mask(pc.match_substring_regex(texts, _DATE))
    return pc.if_else(pa.array(bad), None, texts).cast(kind), _found(
        (name, "has a time with a zone", "write times in UTC, without an offset", zone),
        (
            name,
            "has a date in another format, or one that no calendar has",
            "write dates as 2024-05-31",
            date,
        ),
        (name, "has text, not a date", "write dates as 2024-05-31", bad & ~zone & ~date),
    )


def _is_moment(text: pa.Scalar) -> bool:
    try:
        text.cast(pa.timestamp("us"))
    except pa.ArrowException:
        return False
    return True


def _present(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts without spaces around them, null where they say that a value is missing."""
    texts = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.is_in(texts, value_set=pa.array(_ABSENT)), None, texts)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _texts(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return values.cast(pa.string())


def _mask(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(values, False).to_numpy(), np.bool_)


def _all(values: pa.ChunkedArray, name: str, what: str, remedy: str) -> list[Problem]:
    """A problem of every value that there is."""
    return _found((name, what, remedy, _mask(values.is_valid())))


def _found(*candidates: tuple[str, str, str, NDArray[np.bool_]]) -> list[Problem]:
    """The problems that some row has."""
    return [Problem(*candidate) for candidate in candidates if candidate[3].any()]


_MAX_STEPS = 2**48
_EXTRA_DECIMALS = 3  # decimals more of what lies between steps
_STEP_DECIMALS = 6  # decimals of a step: values off by less lie on it


@dataclass(frozen=True)
class Steps:
    """Numbers that are whole steps apart, $x = o + k s$: prices to the cent, doses to half a gram.

    A column of them is one of integers k, as a date is one of days. Bins hold whole steps, and what is
    written is the decimal that a person would write.

    Arguments:
        origin: The number o, at step 0.
        size: The step s.
        digits: Decimals of such numbers.

    Examples:
        >>> cents = Steps.to_decimals(2)
        >>> cents.count(np.array([0.07, 1.28])).round().tolist()
        [7.0, 128.0]
        >>> cents.value(np.array([7.0, 30.0])).tolist()
        [0.07, 0.3]
    """

    origin: float
    size: float
    digits: int

    @classmethod
    def to_decimals(cls, decimals: int) -> Steps:
        """Numbers of some decimals."""
        return cls(0.0, 10.0**-decimals, decimals)

    @classmethod
    def through(cls, low: float, size: float) -> Steps:
        """Numbers that are whole steps from `low`; 0 is step 0 where it is one of them."""
        digits = max(_decimals(low), _decimals(size))
        origin = round(low - size * math.floor(round(low / size, _STEP_DECIMALS)), digits)
        return cls(origin, size, digits)

    def count(self, values: Array) -> Array:
        """Steps of values, not rounded."""
        return np.asarray((values - self.origin) / self.size)

    def value(self, counts: Array) -> Array:
        """Values of steps, rounded to their decimals."""
        return np.asarray(np.round(self.origin + counts * self.size, self.digits))

    def between(self, counts: Array) -> Array:
        """Values of counts that need not be whole: means, or centers of bins."""
        return np.asarray(np.round(self.origin + counts * self.size, self.digits + _EXTRA_DECIMALS))

    def place(self, value: float) -> float:
        """Return the place of a value among the steps; on one, if it is off by a rounding."""
        return round((value - self.origin) / self.size, _STEP_DECIMALS)

    def exactly(self, value: float, what: str) -> float:
        """The whole step that a declared value is.

        Raises:
            PrivotError: if it is none, or more than can be counted.
        """
        count = self.place(value)
        if count != round(count):
            raise PrivotError(
                f"{what} {value:.15g} lies between the values that occur, which are {self.size:.15g} "
                f"apart: correct it, or the decimals or step"
            )
        if abs(count) > _MAX_STEPS:
            raise PrivotError(
                f"{what} {value:.15g} has too many steps of {self.size:.15g}: give larger ones"
            )
        return count


def _decimals(number: float) -> int:
    """Count the decimals that a number is written with.

    >>> [_decimals(x) for x in (100.0, 0.25, 1e-6)]
    [0, 2, 6]
    """
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return max(0, -int(exponent))
