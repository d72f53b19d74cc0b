"""Payloads: the integers that a report draws, as bytes of one width for all reports of a randomizer.

A number below n takes $b(n)$ bytes, as many as n − 1 needs and at least one, the highest first. A
set of w of K cells is w numbers in increasing order, or, where that is shorter, K bits, cell j
being bit j mod 8 of byte ⌊j/8⌋. A payload holds the joint report, then the split reports:

- joint: the sheet's number, form · views + view; then its set, followed by zeros up to the width of
  the longest set of any sheet;
- split: where k of m columns are reported, m bits of which those are, as above; then a field for
  each column in order, in the layout of its draw (`privot.wire.draws`), zeros where it is not
  reported.

So the length of a payload says nothing, and two payloads are equal if and only if the reports are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from privot.wire.report import WireError


def number_bytes(bound: int) -> int:
    """Return b(n), the bytes of a number 0 … bound−1."""
    return max(1, ((bound - 1).bit_length() + 7) // 8)


def pack_bits(places: list[int], total: int) -> bytes:
    """Write `total` bits, of which these are on."""
    bits = bytearray((total + 7) // 8)
    for place in places:
        bits[place // 8] |= 1 << place % 8
    return bytes(bits)


class Layout(ABC):
    """Bytes of a split report's field, one form for each answer.

    Attributes:
        count: Number of integers in an answer.
    """

    count: int

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Bytes of a field."""

    @abstractmethod
    def pack(self, answer: list[int]) -> bytes:
        """Write what a draw returned."""

    @abstractmethod
    def unpack(self, data: bytes) -> list[int]:
        """Read what `pack` wrote.

        Raises:
            WireError: if no answer is written so.
        """


@dataclass(frozen=True)
class Numbers(Layout):
    """Numbers 0 … bound−1, at most 2^63, the highest byte first.

    Examples:
        >>> Numbers(bound=300, count=2).pack([1, 299]).hex()
        '0001012b'
    """

    bound: int
    count: int = 1

    @cached_property
    def width(self) -> int:
        """Bytes of each."""
        return number_bytes(self.bound)

    @cached_property
    def num_bytes(self) -> int:
        """Bytes of all."""
        return self.count * self.width

    def pack(self, answer: list[int]) -> bytes:
        """See `Layout`."""
        return b"".join([number.to_bytes(self.width, "big") for number in answer])

    def unpack(self, data: bytes) -> list[int]:
        """See `Layout`."""
        answer = _split(data, self.width)
        return answer if max(answer) < self.bound else _refuse()


@dataclass(frozen=True)
class CellSet(Layout):
    """A set of cells, in order: numbers, or bits where those are fewer bytes.

    Examples:
        >>> [CellSet(9, 2).pack([0, 8]).hex(), CellSet(9, 3).pack([0, 1, 8]).hex()]
        ['0008', '0301']
    """

    cells: int
    count: int

    @cached_property
    def width(self) -> int:
        """Bytes of each number; 0 where the set is bits."""
        bytes_each = number_bytes(self.cells)
        return bytes_each if self.count * bytes_each <= (self.cells + 7) // 8 else 0

    @cached_property
    def num_bytes(self) -> int:
        """Bytes of the set."""
        return self.count * self.width or (self.cells + 7) // 8

    def pack(self, answer: list[int]) -> bytes:
        """See `Layout`."""
        if not self.width:
            return pack_bits(answer, self.cells)
        return b"".join([cell.to_bytes(self.width, "big") for cell in answer])

    def unpack(self, data: bytes) -> list[int]:
        """See `Layout`."""
        if self.width:
            answer = _split(data, self.width)
        else:
            bits = int.from_bytes(data, "little")
            answer = [place for place in range(8 * len(data)) if bits >> place & 1]
        ordered = answer == sorted(set(answer)) and answer[-1:] < [self.cells]
        return answer if ordered and len(answer) == self.count else _refuse()


@dataclass(frozen=True)
class SignedIntegers(Layout):
    """Integers of 64 bits in two's complement."""

    count: int

    @property
    def num_bytes(self) -> int:
        """Bytes of all."""
        return 8 * self.count

    def pack(self, answer: list[int]) -> bytes:
        """See `Layout`."""
        return b"".join([number.to_bytes(8, "big", signed=True) for number in answer])

    def unpack(self, data: bytes) -> list[int]:
        """See `Layout`."""
        return [number - (number >> 63 << 64) for number in _split(data, 8)]


def _split(data: bytes, width: int) -> list[int]:
    return [int.from_bytes(data[at : at + width], "big") for at in range(0, len(data), width)]


def _refuse() -> list[int]:
    raise WireError("format", "a payload has bytes that no device writes: send it as it was made")
