"""Payloads: a report's integers as bytes, of one width for all reports of a randomizer.

A number below n takes $b(n)$ bytes, as many as n − 1 needs, the highest first. A set of w of K cells
is w numbers in increasing order, or, where that is shorter, K bits, cell j being bit j mod 8 of byte
⌊j/8⌋. A payload holds the joint report, then the split reports:

- joint: the sheet's number, form · views + view; then its set, followed by zeros up to the width of the
  longest set of any sheet;
- split: where k of m columns are reported, m bits of which those are, as above; then the columns' fields
  in order, zeros where not reported. A code is a number; a set as above; a window's cell (one for each
  coordinate of a product) the number of the cell, one beyond the largest for a missing value; noisy
  integers are 64 bits, two's complement.

So the length of a payload says nothing, and two payloads are equal if and only if the reports are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privot.wire.draws import WindowGeometry

Program = Mapping[str, Any]


def number_bytes(bound: int) -> int:
    """b(n): bytes of a number 0 … bound−1."""
    return max(1, ((bound - 1).bit_length() + 7) // 8)


def set_bytes(cells: int, size: int) -> int:
    """Bytes of a set of `size` of `cells` cells."""
    return min(size * number_bytes(cells), (cells + 7) // 8)


def pack_number(number: int, bound: int) -> bytes:
    """A number 0 … bound−1."""
    return number.to_bytes(number_bytes(bound), "big")


def pack_bits(places: list[int], total: int) -> bytes:
    """`total` bits, of which these are on."""
    bits = bytearray((total + 7) // 8)
    for place in places:
        bits[place // 8] |= 1 << place % 8
    return bytes(bits)


def pack_set(chosen: list[int], cells: int) -> bytes:
    """A set of cells."""
    if len(chosen) * number_bytes(cells) <= (cells + 7) // 8:
        return b"".join(pack_number(cell, cells) for cell in chosen)
    return pack_bits(chosen, cells)


def joint_set_bytes(joint: Program) -> int:
    """Width of the longest set of any sheet: of those numbers of cells that some have."""
    return max(set_bytes(int(cells), each["size"]) for cells, each in joint["sets"].items())


def joint_sheets(joint: Program) -> int:
    """Number of sheets: forms in all views."""
    return len(joint["forms"]) * int(joint["views"])


def pack_joint(joint: Program, sheet: int, cells: int, chosen: list[int]) -> bytes:
    """A joint report."""
    sheets = joint_sheets(joint)
    held = pack_number(sheet, sheets) + pack_set(chosen, cells)
    return held.ljust(number_bytes(sheets) + joint_set_bytes(joint), b"\0")


def window_geometry(draw: Program) -> WindowGeometry:
    """The cells of a program's windows."""
    low = draw["steps"] // 2 if draw["non_negative"] else 0
    return WindowGeometry(draw["dimension"], draw["steps"], draw["radius"], draw["area"], low)


def field_bytes(draw: Program) -> int:
    """Width of a split report's field."""
    kind = draw["draw"]
    if kind == "response":
        return number_bytes(draw["values"])
    if kind == "subset":
        return set_bytes(draw["cells"], draw["size"])
    if kind == "window":
        numbers = window_geometry(draw).numbers + draw["nullable"]
        return int(draw["blocks"]) * number_bytes(numbers)
    return 8 * int(draw["dimension"])


def pack_field(draw: Program, answer: Any) -> bytes:
    """A split report's field."""
    kind = draw["draw"]
    if kind == "response":
        return pack_number(answer, draw["values"])
    if kind == "subset":
        return pack_set(answer, draw["cells"])
    if kind == "window":
        numbers = window_geometry(draw).numbers + draw["nullable"]
        return b"".join(pack_number(number, numbers) for number in answer)
    return b"".join(number.to_bytes(8, "big", signed=True) for number in answer)


def payload_bytes(program: Program) -> int:
    """Width of all payloads of a program."""
    width = 0
    if joint := program["joint"]:
        width += number_bytes(joint_sheets(joint)) + joint_set_bytes(joint)
    if split := program["split"]:
        total = len(split["reports"])
        width += (total + 7) // 8 if split["choose"] < total else 0
        width += sum(field_bytes(report["draw"]) for report in split["reports"])
    return width
