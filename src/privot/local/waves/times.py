"""Times of waves: numbers, or dates, which are counted in days."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np

from privot.errors import PrivotError
from privot.schema import Array

Time = float | int | str | date
_FIRST = date(1970, 1, 1)


def read_time(time: Time) -> tuple[float, bool]:
    """A time as a number, and whether it is a date.

    Raises:
        PrivotError: for anything else than a finite number, a date, or the text of one.

    Examples:
        >>> read_time("1970-01-08"), read_time("2.5"), read_time(3)
        ((7.0, True), (2.5, False), (3.0, False))
    """
    if isinstance(time, date):
        return float(date(time.year, time.month, time.day).toordinal() - _FIRST.toordinal()), True
    try:
        number = float(time)
    except (TypeError, ValueError):
        try:
            return read_time(date.fromisoformat(str(time)))
        except ValueError:
            number = math.nan
    if not math.isfinite(number):
        raise PrivotError(f"time {time!r} is no time: give a number, or a date as 2026-01-31")
    return number, False


def read_times(times: Sequence[Time], count: int) -> tuple[Array, bool]:
    """Times of so many waves, and whether they are dates.

    Raises:
        PrivotError: if there are more or fewer, numbers and dates, or some that do not increase.
    """
    found = [read_time(each) for each in times]
    if len(found) != count:
        raise PrivotError(f"times has {len(found)} for {count} waves: give one for each wave")
    if len({dated for _, dated in found}) > 1:
        raise PrivotError("times are numbers and dates: give one or the other")
    numbers = np.array([number for number, _ in found])
    if (wrong := np.flatnonzero(np.diff(numbers) <= 0)).size:
        later = times[int(wrong[0]) + 1]
        raise PrivotError(f"time {later} is not after the one before it: give waves in their order")
    return numbers, found[0][1]


def in_words(time: float, dated: bool) -> str:
    """A time as it was given.

    Examples:
        >>> in_words(7.0, True), in_words(7.0, False)
        ('1970-01-08', '7')
    """
    return (_FIRST + timedelta(days=math.floor(time))).isoformat() if dated else f"{time:g}"
