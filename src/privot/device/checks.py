r"""Checks of a program: a device runs one only if the proofs of its draws apply to it.

A fingerprint says that a text was not altered; it says nothing of what is in it. So whatever a proof
needs is looked at before a program is run:

- every code that a column takes is below the number of codes that its draws are for;
- windows have at most three coordinates, and N is a power of two, so that N/2 is a whole number. The
  cell x of unit coordinates u has $‖2x − N‖_2 ≤ N ‖u‖_2 + \sqrt d$ (rounding moves each coordinate by
  half a cell), which the report cells' $N + 2$ covers for $\sqrt d < 2$ only, and floats need the rest
  (`privot.device.exact`);
- a missing value has a code or a symbol of its own, and one payload as long as all others;
- uniform integers are drawn below bounds of at most 2^64: beyond, `below` would never end.

**Privacy review.** Reads a program, which is public, and no record.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from privot.core.errors import PrivotError
from privot.wire.payload import Program

# Sealed texts: a randomizer's JSON as it was published, by the fingerprint that is its last field.


_MARK = ',"fingerprint":"'


def read_sealed(text: str) -> tuple[bytes, dict[str, Any]]:
    """The fingerprint, 32 bytes, and the fields of a randomizer's JSON.

    Raises:
        PrivotError: if it was altered, or is no object.
    """
    body, mark, rest = text.strip().rpartition(_MARK)
    found = hashlib.sha256((body + "}").encode()).hexdigest()
    if not mark or rest != found + '"}':
        raise PrivotError("the randomizer was altered: fetch it again from who published it")
    try:
        fields = json.loads(body + "}")
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise PrivotError("the randomizer is not readable: fetch it again from who published it")
    return bytes.fromhex(found), fields


VERSION = 2
WORDS = 2**64
_HEXADECIMAL = re.compile(r"[0-9a-f]{1,400}")
_MOST_CELLS, _MOST_WINDOW_CELLS, _MOST_VALUES = 2**24, 2**26, 2**31
_MOST_FORMS, _MOST_SHEETS = 2**16, 2**20
_MOST_STEPS, _MOST_RADIUS = 2**16, 2**18
_SMALLEST, _LARGEST = 2.0**-500, 2.0**500


def require_program(held: object) -> Program:
    """A program whose draws have the laws that are proved of them; any other is refused.

    Raises:
        PrivotError: naming the field, its value, and what it must be.
    """
    program = _fields("program", held, "columns", "joint", "split")
    _need(program.get("version") == VERSION, "version", program.get("version"), str(VERSION))
    _whole("time_step", program.get("time_step"), 1, 2**32)
    columns = _fields("columns", program["columns"])
    unread = _items("unread", program.get("unread", []), 0)
    _need(all(isinstance(name, str) for name in unread), "unread", unread, "a list of names")
    codes = {name: _take(name, take) for name, take in columns.items()}
    joint, split = program["joint"], program["split"]
    _need(bool(joint or split), "joint and split", None, "reports, at least one of them")
    if joint:
        _joint(joint, codes)
    if split:
        split = _fields("split", split, "choose", "reports")
        reports = _items("reports", split["reports"])
        _whole("choose", split["choose"], 1, len(reports))
        for each in reports:
            each = _fields("reports", each, "column", "draw")
            name = each["column"]
            _need(isinstance(name, str) and name in columns, "column", name, "one of its columns")
            _draw(f"column {name!r}", _fields("draw", each["draw"]), columns[name], codes[name])
    return program


def hexadecimal(where: str, text: object, least: int, most: int) -> int:
    """A whole number in lower-case hexadecimal digits, from `least` to `most`."""
    digits = isinstance(text, str) and _HEXADECIMAL.fullmatch(text)
    number = int(str(text), 16) if digits else least - 1
    wanted = f"hexadecimal digits of a number from {least} to {most:x} (hexadecimal)"
    _need(least <= number <= most, where, text, wanted)
    return number


def _need(holds: bool, where: str, value: object, wanted: str) -> None:
    if not holds:
        raise PrivotError(
            f"the randomizer's program has {where} {value!r:.60}, which must be {wanted}: nothing is "
            "drawn by it, calibrate it again"
        )


def _fields(where: str, held: object, *names: str) -> Mapping[str, Any]:
    whole = isinstance(held, dict) and all(name in held for name in names)
    _need(whole, where, held, f"an object with {', '.join(names) or 'its fields'}")
    return held  # type: ignore[return-value]  # it is a dict, or refused


def _items(where: str, held: object, least: int = 1) -> list[Any]:
    _need(isinstance(held, list) and len(held) >= least, where, held, f"a list of {least} or more")
    return held  # type: ignore[return-value]  # it is a list, or refused


def _whole(where: str, value: object, least: int, most: int) -> int:
    wanted = f"a whole number from {least} to {most}"
    _need(type(value) is int and least <= value <= most, where, value, wanted)
    return value  # type: ignore[return-value]  # it is an int, or refused


def _number(where: str, value: object, least: float = -_LARGEST, most: float = _LARGEST) -> float:
    fits = type(value) in (int, float) and least <= value <= most  # type: ignore[operator]
    _need(fits, where, value, f"a number from {least:.3g} to {most:.3g}")
    return float(value)  # type: ignore[arg-type]  # it is a number, or refused


def _take(name: str, held: object) -> list[int]:
    """How many codes a column takes in each of its codings; none of points."""
    where = f"column {name!r}"
    take = _fields(where, held, "take", "columns")
    kind, parts = take["take"], _items(where, take["columns"])
    _need(all(isinstance(part, str) for part in parts), where, parts, "names of a record's values")
    if kind == "cell":
        return [_cells(where, take, len(parts))]
    if kind == "point":
        _counted(where, take)
        _domain(where, take.get("domain"), len(parts))
        _need("step" not in take or len(parts) == 1, where, take, "one number, if in steps")
        return []
    _need(len(parts) == 1, where, parts, "one name")
    if kind == "boolean":
        return [_listed(where, take, 2)]
    if kind == "category":
        values = _items(where, take.get("values"))
        _need(all(isinstance(value, str) for value in values), where, values, "texts")
        return [_listed(where, take, len(values))]
    _need(kind == "bin", where, kind, "category, boolean, bin, cell or point")
    return _bins(where, take)


def _listed(where: str, take: Mapping[str, Any], count: int) -> int:
    for place in ("other", "missing"):
        if take.get(place) is not None:
            count = max(count, 1 + _whole(f"{where}, {place}", take[place], 0, _MOST_VALUES - 1))
    return count


def _bins(where: str, take: Mapping[str, Any]) -> list[int]:
    spikes = _items(where, take.get("spikes"), 0)
    for spike in spikes:
        _number(f"{where}, spikes", spike)
    _counted(where, take)
    integer, counts = take.get("integer"), []
    _need(isinstance(integer, bool), f"{where}, integer", integer, "true or false")
    for each in _items(where, take.get("edges")):
        edges = [_number(f"{where}, edges", edge) for edge in _items(where, each, 2)]
        rising = all(low < high for low, high in pairwise(edges))
        whole = not integer or (edges[0].is_integer() and edges[-1].is_integer())
        _need(rising and whole, f"{where}, edges", each, "increasing, whole ends of whole numbers")
        counts.append(len(edges) - 1 + len(spikes) + bool(take["nullable"]))
    return counts


def _cells(where: str, take: Mapping[str, Any], dimension: int) -> int:
    _domain(where, take.get("domain"), dimension)
    side = _whole(f"{where}, side", take.get("side"), 1, _MOST_CELLS)
    codes, cells = take.get("codes"), side ** min(dimension, 30)
    _need(cells <= _MOST_CELLS, f"{where}, side", side, f"less: at most {_MOST_CELLS} cells")
    count = cells
    if codes is not None:
        _need(len(_items(where, codes)) == cells, f"{where}, codes", codes, "one for each cell")
        count = max(1 + _whole(f"{where}, codes", code, -1, cells - 1) for code in codes)
    return _listed(where, {"missing": take.get("missing")}, max(count, 1))


def _counted(where: str, take: Mapping[str, Any]) -> None:
    nullable = take.get("nullable")
    _need(isinstance(nullable, bool), f"{where}, nullable", nullable, "true or false")
    if take.get("seconds") is not None:
        _whole(f"{where}, seconds", take["seconds"], 1, 2**32)
    if "step" in take:
        _number(f"{where}, step", take["step"], _SMALLEST)
        _number(f"{where}, origin", take.get("origin"))


def _domain(where: str, held: object, dimension: int) -> None:
    domain = _fields(f"{where}, domain", held, "area")
    if domain["area"] == "l2_ball":
        _number(f"{where}, radius", domain.get("radius"), _SMALLEST)
        part = domain.get("non_negative")
        _need(isinstance(part, bool), f"{where}, non_negative", part, "true or false")
        return
    _need(domain["area"] == "box", f"{where}, area", domain["area"], "box or l2_ball")
    lower, upper = (_items(f"{where}, bounds", domain.get(end)) for end in ("lower", "upper"))
    _need(len(lower) == len(upper) == dimension, f"{where}, bounds", lower, "one a coordinate")
    for low, high in zip(lower, upper, strict=True):
        width = _number(f"{where}, upper", high) - _number(f"{where}, lower", low)
        _need(width >= _SMALLEST, f"{where}, bounds", [low, high], "the smaller first")


def _joint(held: object, codes: Mapping[str, list[int]]) -> None:
    names = ("columns", "sizes", "views", "forms", "weights", "sets")
    joint = _fields("joint", held, *names)
    columns, sizes = _items("columns", joint["columns"]), _items("sizes", joint["sizes"])
    forms, weights = _items("forms", joint["forms"]), _items("weights", joint["weights"])
    _need(len(sizes) == len(columns), "sizes", sizes, "one list a column")
    _need(len(weights) == len(forms) <= _MOST_FORMS, "weights", weights, "one a form")
    for name, each in zip(columns, sizes, strict=True):
        where = f"sizes of column {name!r}"
        _need(isinstance(name, str) and bool(codes.get(name)), "column", name, "one that has codes")
        _need(len(_items(where, each)) == len(codes[name]), where, each, "one a coding")
        for size, least in zip(each, codes[name], strict=True):
            _whole(where, size, max(2, least), _MOST_CELLS)
    total = sum(_whole("weights", weight, 1, _MOST_VALUES - 1) for weight in weights)
    _whole("sum of weights", total, 1, _MOST_VALUES - 1)
    views = _whole("views", joint["views"], 1, _MOST_SHEETS // len(forms))
    sets = _fields("sets", joint["sets"])
    for form in forms:
        places = _items("forms", form)
        whole = all(type(place) is int and 0 <= place < len(columns) for place in places)
        _need(
            whole and len(set(places)) == len(places), "forms", form, "different columns' indices"
        )
    for cells in sheet_cells(sizes, forms, views):
        _need(
            cells <= _MOST_CELLS and str(cells) in sets,
            "sets",
            sorted(sets),
            f"also of {cells} cells",
        )
        _subset("sets", cells, _fields("sets", sets[str(cells)]))
    _need(
        {*sets} <= {str(n) for n in sheet_cells(sizes, forms, views)},
        "sets",
        [*sets],
        "of its sheets",
    )


def sheet_cells(sizes: list[list[int]], forms: list[list[int]], views: int) -> set[int]:
    """Numbers of cells that sheets have: every form in every view."""
    found = set()
    for form in forms:
        periods = math.lcm(*(len(sizes[column]) for column in form))
        for view in range(min(views, periods)):
            found.add(math.prod(sizes[c][view % len(sizes[c])] for c in form))
    return found


def _subset(where: str, cells: int, law: Mapping[str, Any]) -> None:
    _whole(f"{where}, size", law.get("size"), 1, cells - 1)
    hexadecimal(f"{where}, out", law.get("out"), 1, WORDS - 1)


def _draw(where: str, draw: Mapping[str, Any], take: Mapping[str, Any], codes: list[int]) -> None:
    kind = draw.get("draw")
    if kind in ("response", "subset"):
        _need(len(codes) == 1, f"{where}, draw", kind, "one for points, or of one coding")
        name, most = ("values", _MOST_VALUES) if kind == "response" else ("cells", _MOST_CELLS)
        count = _whole(f"{where}, {name}", draw.get(name), max(2, codes[0]), most)
        if kind == "subset":
            _subset(where, count, draw)
        else:
            hexadecimal(f"{where}, slot", draw.get("slot"), 1, (WORDS - 1) // (count - 1))
        return
    _need(kind in ("window", "laplace") and not codes, f"{where}, draw", kind, "one for its values")
    dimension = _whole(f"{where}, dimension", draw.get("dimension"), 1, len(take["columns"]))
    if kind == "window":
        _window(where, draw, take, dimension)
        return
    _need(not take["nullable"], f"{where}, nullable", True, "false for Laplace noise")
    _need(dimension == len(take["columns"]), f"{where}, dimension", dimension, "all coordinates")
    _whole(f"{where}, grid_bits", draw.get("grid_bits"), 0, 40)
    parts = _items(f"{where}, ratio", draw.get("ratio"))
    _need(len(parts) == 2, f"{where}, ratio", parts, "two numbers")
    a = hexadecimal(f"{where}, ratio", parts[0], 1, 2**53)
    b = hexadecimal(f"{where}, ratio", parts[1], 1, 2**1100)
    _need(a <= b * 2**40, f"{where}, ratio", parts, "at most 2^40")


def _window(where: str, draw: Mapping[str, Any], take: Mapping[str, Any], dimension: int) -> None:
    domain, blocks = take["domain"], _whole(f"{where}, blocks", draw.get("blocks"), 1, 2**16)
    _whole(f"{where}, dimension", dimension, 1, 3)
    _need(blocks * dimension == len(take["columns"]), f"{where}, blocks", blocks, "all coordinates")
    steps = _whole(f"{where}, steps", draw.get("steps"), 2, _MOST_STEPS)
    _need(steps & (steps - 1) == 0, f"{where}, steps", steps, "a power of two")
    radius = _whole(f"{where}, radius", draw.get("radius"), 0, _MOST_RADIUS)
    cells = (steps + 2 * radius + 1) ** dimension
    _need(cells <= _MOST_WINDOW_CELLS, f"{where}, radius", radius, "less: too many cells")
    _need(draw.get("area") == domain["area"], f"{where}, area", draw.get("area"), "its domain's")
    part = domain.get("non_negative", False)
    _need(
        draw.get("non_negative") is part,
        f"{where}, non_negative",
        draw.get("non_negative"),
        "its domain's",
    )
    nullable = draw.get("nullable")
    fits = nullable is take["nullable"] and not (nullable and blocks > 1)
    _need(fits, f"{where}, nullable", nullable, "its column's, and false in several blocks")
    hexadecimal(f"{where}, anywhere", draw.get("anywhere"), 1, WORDS)
