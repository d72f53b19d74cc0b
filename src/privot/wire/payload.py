"""Payloads: the drawn integers of a report as bytes; all payloads of a randomizer have one length.

A number below n takes $b(n)$ bytes, as many as n − 1 needs and at least one, the highest first. A set
of w of K cells is written as w increasing numbers or, if that is shorter, as K bits: cell j is bit
j mod 8 of byte ⌊j/8⌋. A payload contains the joint report, then the split reports:

- joint: the number of the *sheet*, form · (number of views) + view; a sheet is a form (a set of
  columns) with a view (the columns' codings). Then its set of cells, and zeros up to the longest set;
- split: if fewer than all m columns are reported, m bits that mark the reported ones, in the order
  above; then a field for each column, in the layout of its draw (`privot.wire.draws`), or zeros.

So the length of a payload reveals nothing, and payloads are equal if and only if the reports are.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from privot.wire.report import WireError


def number_bytes(bound: int) -> int:
    """Return b(n), the number of bytes of a number 0 … bound−1."""
    return max(1, ((bound - 1).bit_length() + 7) // 8)


def pack_bits(places: list[int], total: int) -> bytes:
    """Write `total` bits, of which those at `places` are 1; the lowest bit of a byte comes first."""
    bits = bytearray((total + 7) // 8)
    for place in places:
        bits[place // 8] |= 1 << place % 8
    return bytes(bits)


class Layout(ABC):
    """Base of encodings of a draw's answers as bytes; each answer has exactly one encoding.

    Attributes:
        count: Number of integers in an answer.
    """

    count: int

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Number of bytes of an answer."""

    @abstractmethod
    def pack(self, answer: list[int]) -> bytes:
        """Write an answer as bytes."""

    @abstractmethod
    def unpack(self, data: bytes) -> list[int]:
        """Read an answer from its bytes.

        Raises:
            WireError: if the bytes are not the encoding of an answer.
        """


@dataclass(frozen=True)
class Numbers(Layout):
    """`count` numbers 0 … bound−1, at most 2^63, the highest byte first.

    >>> Numbers(bound=300, count=2).pack([1, 299]).hex()
    '0001012b'
    """

    bound: int
    count: int = 1

    @cached_property
    def width(self) -> int:
        """Number of bytes of each number."""
        return number_bytes(self.bound)

    @cached_property
    def num_bytes(self) -> int:
        return self.count * self.width

    def pack(self, answer: list[int]) -> bytes:
        return _join(answer, self.width)

    def unpack(self, data: bytes) -> list[int]:
        _require_valid(len(data) == self.num_bytes)
        answer = _split(data, self.width)
        _require_valid(max(answer) < self.bound)
        return answer


@dataclass(frozen=True)
class CellSet(Layout):
    """A set of `count` of the cells 0 … cells−1: increasing numbers, or bits if these take fewer bytes.

    >>> [CellSet(9, 2).pack([0, 8]).hex(), CellSet(9, 3).pack([0, 1, 8]).hex()]
    ['0008', '0301']
    """

    cells: int
    count: int

    @cached_property
    def width(self) -> int:
        """Number of bytes of each number; 0 if the set is written as bits."""
        bytes_each = number_bytes(self.cells)
        return bytes_each if self.num_bytes == self.count * bytes_each else 0

    @cached_property
    def num_bytes(self) -> int:
        return min(self.count * number_bytes(self.cells), (self.cells + 7) // 8)

    def pack(self, answer: list[int]) -> bytes:
        return _join(answer, self.width) if self.width else pack_bits(answer, self.cells)

    def unpack(self, data: bytes) -> list[int]:
        _require_valid(len(data) == self.num_bytes)
        if self.width:
            answer = _split(data, self.width)
        else:
            bits = int.from_bytes(data, "little")
            answer = [place for place in range(8 * len(data)) if bits >> place & 1]
        _require_valid(len(answer) == self.count and answer == sorted(set(answer)))
        _require_valid(all(cell < self.cells for cell in answer))
        return answer


@dataclass(frozen=True)
class SignedIntegers(Layout):
    """`count` integers of 64 bits in two's complement, the highest byte first."""

    count: int

    @property
    def num_bytes(self) -> int:
        return 8 * self.count

    def pack(self, answer: list[int]) -> bytes:
        return b"".join([number.to_bytes(8, "big", signed=True) for number in answer])

    def unpack(self, data: bytes) -> list[int]:
        _require_valid(len(data) == self.num_bytes)
        return [number - (number >> 63 << 64) for number in _split(data, 8)]  # two's complement


def _join(numbers: list[int], width: int) -> bytes:
    return b"".join([number.to_bytes(width, "big") for number in numbers])


def _split(data: bytes, width: int) -> list[int]:
    return [int.from_bytes(data[at : at + width], "big") for at in range(0, len(data), width)]


def _require_valid(valid: bool) -> None:
    if not valid:
        message = "a payload has bytes that no device writes: send it as it was made"
        raise WireError("format", message)
