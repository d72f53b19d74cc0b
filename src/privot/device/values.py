"""Values: what a record holds, as the integers and unit coordinates that a program draws from.

The same few operations on 64-bit floats, in the same order, in every implementation: differences,
quotients, products, square roots (which IEEE 754 rounds correctly) and halves rounded to even.

**Privacy review.** Runs on the device. Refusals name a column and never a value, and happen before
anything is drawn or sent; values outside their bounds are projected.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any

from privot.errors import PrivotError

_INSIDE = 1.0 - 2.0**-40
_PULL = 1e-5
_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?", re.ASCII)
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

Take = Mapping[str, Any]
Record = Mapping[str, Any]


def codes_of(take: Take, record: Record) -> list[int]:
    """A value's code in every coding of its column, for programs that draw codes."""
    return _CODES[take["take"]](take, record)


def units_of(take: Take, record: Record) -> list[float] | None:
    """A value's unit coordinates, projected to the domain; None where it is missing."""
    point = []
    for name in take["columns"]:
        number = _number(name, record, take)
        if number is None:
            return None
        point.append(number)
    return _project_units(take["domain"], point)


def round_even(number: float) -> int:
    """The nearest integer, halves to even."""
    return round(number)


def _missing(name: str, code: int | None) -> int:
    if code is None:
        raise PrivotError(f"column {name!r} has no value: give one, or a schema that allows none")
    return code


def _category(take: Take, record: Record) -> list[int]:
    (name,) = take["columns"]
    value = record.get(name)
    if value is None or (value == "" and "" not in take["values"]):
        return [_missing(name, take["missing"])]
    if not isinstance(value, str):
        raise PrivotError(f"column {name!r} holds no text: give one of its categories")
    if value in take["values"]:
        return [int(take["values"].index(value))]
    if take["other"] is None:
        raise PrivotError(f"column {name!r} is none of its {len(take['values'])} categories")
    return [int(take["other"])]


def _boolean(take: Take, record: Record) -> list[int]:
    (name,) = take["columns"]
    value = record.get(name)
    if value is None:
        return [_missing(name, take["missing"])]
    if not isinstance(value, bool):
        raise PrivotError(f"column {name!r} is neither true nor false")
    return [int(value)]


def _bin(take: Take, record: Record) -> list[int]:
    (name,) = take["columns"]
    number = _number(name, record, take)
    return [_bin_of(take, edges, number) for edges in take["edges"]]


def _bin_of(take: Take, edges: list[float], number: float | None) -> int:
    spikes = take["spikes"]
    if number is None:
        return len(edges) - 1 + len(spikes)
    largest = edges[-1] - 1 if take["integer"] else edges[-1]
    number = min(max(number, edges[0]), largest)
    if take["integer"]:
        number = float(round_even(number))
    if number in spikes:
        return len(edges) - 1 + int(spikes.index(number))
    return min(bisect_right(edges, number) - 1, len(edges) - 2)


def _cell(take: Take, record: Record) -> list[int]:
    units = units_of({**take, "nullable": take["missing"] is not None}, record)
    if units is None:
        return [_missing(take["columns"][0], take["missing"])]
    code = _flat_cell(take, units)
    if code < 0:
        code = _flat_cell(take, [u * (1 - _PULL) for u in units])
    return [max(code, 0)]  # a code is never below 0, whatever program says so


def _flat_cell(take: Take, units: list[float]) -> int:
    side, codes, flat = take["side"], take["codes"], 0
    for u in units:
        place = math.floor((u + 1) * (side / 2))
        flat = flat * side + min(max(place, 0), side - 1)
    return flat if codes is None else int(codes[flat])


_CODES: dict[str, Callable[[Take, Record], list[int]]] = {
    "category": _category,
    "boolean": _boolean,
    "bin": _bin,
    "cell": _cell,
}


def _number(name: str, record: Record, take: Take) -> float | None:
    """A finite number, perhaps in steps, or steps of some seconds since 1970; None where missing."""
    seconds = take.get("seconds")
    value = record.get(name)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        if not take["nullable"]:
            _missing(name, None)
        return None
    if seconds is not None:
        return float(_seconds(name, value) // seconds)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PrivotError(f"column {name!r} holds no number")
    if not abs(value) < 2.0**1023:
        raise PrivotError(f"column {name!r} is infinite, or too large for a number")
    return (value - take["origin"]) / take["step"] if "step" in take else float(value)


def _seconds(name: str, value: object) -> int:
    """Seconds since 1970 of a date or a time without an offset, as ISO 8601 writes it."""
    match = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise PrivotError(f"column {name!r} holds no date: write it as 2024-05-31 or …T12:00:00")
    year, month, day, *time = (int(part or 0) for part in match.groups())
    hour, minute, second = time
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    most = _LENGTHS[month - 1] + (leap and month == 2) if 1 <= month <= 12 else 0
    if year < 1 or not 1 <= day <= most or hour > 23 or minute > 59 or second > 59:
        raise PrivotError(f"column {name!r} holds a date that no calendar has")
    before = year - 1
    days = 365 * before + before // 4 - before // 100 + before // 400 - 719_162
    days += sum(_LENGTHS[: month - 1]) + (leap and month > 2) + day - 1
    return 86_400 * days + 3600 * hour + 60 * minute + second


def _project_units(domain: Mapping[str, Any], point: list[float]) -> list[float]:
    """Unit coordinates of the domain's point that a point is projected to."""
    if domain["area"] == "box":
        units = []
        for x, low, high in zip(point, domain["lower"], domain["upper"], strict=True):
            center, scale = (low + high) / 2, (high - low) / 2
            inside = min(max(x, low), high)
            units.append(min(max((inside - center) / scale, -1.0), 1.0))
        return units
    radius, non_negative = domain["radius"], domain["non_negative"]
    inside = _project_ball(point, radius, non_negative)
    return _project_ball([x / radius for x in inside], 1.0, non_negative)


def _project_ball(point: list[float], radius: float, non_negative: bool) -> list[float]:
    if non_negative:
        point = [max(x, 0.0) for x in point]
    largest = max(*(abs(x) for x in point), radius * 2.0**-60)
    direction = [x / largest for x in point]
    square = 0.0
    for x in direction:
        square += x * x
    length = math.sqrt(square)
    if not length > radius / largest:
        return point
    return [x / length * (radius * _INSIDE) for x in direction]
