"""Wire format of reports, their payloads, and batches, in bytes; of reports also in JSON.

All numbers have their highest byte first. A report, version 1:

| bytes | field |
|---|---|
| 1 | version: 1 |
| 32 | fingerprint of the randomizer |
| 16 | id: 128 random bits |
| 4 | time, in steps of the program's `time_step` seconds since 1970, rounded down |
| 1 | number of extensions; each: 1 byte its type, 2 bytes its length, its content |
| 4 | length of the payload |
| n | payload |
| 4 | CRC-32 (ISO 3309, as in zlib and PNG) of all bytes before |

A report with an extension of an unknown type is refused: version 1 knows none.

**Payloads** are the drawn integers of a report; all payloads of a randomizer have one length. A number
below n takes $b(n)$ bytes, as many as n − 1 needs and at least one. A set of w of K cells is written as
w increasing numbers or, if that is shorter, as K bits: cell j is bit j mod 8 of byte ⌊j/8⌋. A payload
contains the joint report, then the split reports:

- joint: the number of the *sheet*, form · (number of views) + view; a sheet is a form (a set of
  columns) with a view (the columns' codings). Then its set of cells, and zeros up to the longest set;
- split: if fewer than all m columns are reported, m bits that mark the reported ones, in the order
  above; then a field for each column, in the layout of its draw (`privot.wire.draws`), or zeros.

So the length of a payload reveals nothing, and payloads are equal if and only if the reports are.

**Batches.** A batch is the four bytes `PVTB`, a version byte, the number of reports (4 bytes), and the
reports, each preceded by its length (4 bytes).

**Privacy review.** Beside the payload a report contains the public randomizer's fingerprint, random
bits, and the hour of the report, which depends on when a person takes part and not on the record;
`docs/sharp_edges.md` discusses who can observe that hour. The checksum is a function of the rest.
"""

import base64
import binascii
import re
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from privot.core.errors import PrivotError

VERSION = 1
MAGIC = b"PVTB"
ID_BYTES, FINGERPRINT_BYTES = 16, 32
SEAL_BYTES = 65 + 16  # encapsulated key and tag of a report that is sealed to an analyst
MAX_PAYLOAD = 2**20  # bytes; schemas need far less

_HEAD = struct.Struct(">B32s16sIB")
_HEXADECIMAL = re.compile("[0-9a-f]*")
_BAD_TEXT = "a report's text is no hexadecimal or base64 of its length: send it as specified"
_FIELDS = ("version", "fingerprint", "id", "time", "extensions", "payload", "checksum")


class WireError(PrivotError):
    """Error for bytes that are not a valid report.

    Arguments:
        reason: One word, by which receivers count errors.
        message: Message with the remedy.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, str(self))


@dataclass(frozen=True)
class Report:
    """A report, as a device sends it.

    Arguments:
        fingerprint: SHA-256 of the randomizer, 32 bytes.
        id: 16 random bytes.
        time: Number of the program's time steps since 1970, below 2^32.
        payload: Drawn answers as bytes.

    >>> report = Report(bytes(32), bytes(16), time=0, payload=b"drawn")
    >>> len(report.to_bytes()), Report.from_bytes(report.to_bytes()) == report
    (67, True)
    """

    fingerprint: bytes
    id: bytes
    time: int
    payload: bytes

    def to_bytes(self) -> bytes:
        """Return the binary form."""
        head = _HEAD.pack(VERSION, self.fingerprint, self.id, self.time, 0)
        content = head + struct.pack(">I", len(self.payload)) + self.payload
        return content + struct.pack(">I", zlib.crc32(content))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the binary form.

        Raises:
            WireError: if it is truncated, damaged, or of another version.
        """
        if len(data) < _HEAD.size + 8:
            raise WireError("length", f"a report has {len(data)} bytes: it was cut, send it again")
        version, fingerprint, identity, time, extensions = _HEAD.unpack_from(data)
        if version != VERSION:
            raise WireError("version", f"a report has version {version}: this reads {VERSION}")
        if zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "big"):
            raise WireError("checksum", "a report was damaged on its way: send it again")
        if extensions:
            raise WireError("extension", "a report has an extension: version 1 knows none")
        length = int.from_bytes(data[_HEAD.size : _HEAD.size + 4], "big")
        payload = data[_HEAD.size + 4 : -4]
        if len(payload) != length:
            raise WireError(
                "length",
                f"a payload has {len(payload)} bytes and says {length}: send it as it was made",
            )
        return cls(fingerprint, identity, time, payload)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: the same content, ids in hexadecimal and the payload in base64."""
        return {
            "version": VERSION,
            "fingerprint": self.fingerprint.hex(),
            "id": self.id.hex(),
            "time": self.time,
            "extensions": [],
            "payload": base64.b64encode(self.payload).decode(),
            "checksum": self.to_bytes()[-4:].hex(),
        }

    @classmethod
    def from_json(cls, fields: object) -> Self:
        """Read the JSON form; raise a WireError if the fields are not as specified."""
        if not isinstance(fields, Mapping) or sorted(fields) != sorted(_FIELDS):
            raise WireError(
                "format", f"a report is no object of {', '.join(_FIELDS)}: send it as specified"
            )
        if fields["version"] != VERSION or type(fields["version"]) is not int:
            raise WireError("version", f"a report has another version: this reads {VERSION}")
        if fields["extensions"] != []:
            raise WireError("extension", "a report has an extension: version 1 knows none")
        if type(fields["time"]) is not int or not 0 <= fields["time"] < 2**32:
            raise WireError("format", "a report's time is no whole number of 32 bits: send hours")
        report = cls(
            _hexadecimal(fields["fingerprint"], FINGERPRINT_BYTES),
            _hexadecimal(fields["id"], ID_BYTES),
            fields["time"],
            _base64(fields["payload"]),
        )
        if report.to_bytes()[-4:] != _hexadecimal(fields["checksum"], 4):
            raise WireError("checksum", "a report was damaged on its way: send it again")
        return report


def write_batch(reports: Iterable[Report | bytes]) -> bytes:
    r"""Write reports, objects or their bytes, as one batch.

    >>> report = Report(bytes(32), bytes(16), time=0, payload=b"drawn")
    >>> write_batch([report, report])[:9]
    b'PVTB\x01\x00\x00\x00\x02'
    """
    written = [report if isinstance(report, bytes) else report.to_bytes() for report in reports]
    framed = b"".join(struct.pack(">I", len(data)) + data for data in written)
    return batch_head(len(written)) + framed


def batch_head(count: int) -> bytes:
    """Return the first bytes of a batch, before its reports."""
    return MAGIC + struct.pack(">BI", VERSION, count)


def read_batch(data: bytes) -> Iterator[bytes]:
    """Return an iterator over the bytes of each report of a batch.

    Raises:
        WireError: at the call, if the batch is truncated or invalid.

    >>> report = Report(bytes(32), bytes(16), time=0, payload=b"drawn")
    >>> [Report.from_bytes(data) == report for data in read_batch(write_batch([report, report]))]
    [True, True]
    """
    head = len(MAGIC) + 5
    if len(data) < head or data[:4] != MAGIC:
        raise WireError("format", "the batch does not begin with PVTB: send it as specified")
    version, count = struct.unpack_from(">BI", data, 4)
    if version != VERSION:
        raise WireError("version", f"the batch has version {version}: this reads {VERSION}")
    places, end = [], head
    for _ in range(count):
        start = end + 4
        end = start + int.from_bytes(data[end:start], "big")
        if start > len(data) or end > len(data):
            raise WireError("length", "the batch was cut short: send it again")
        places.append((start, end))
    if end != len(data):
        raise WireError("length", "the batch is longer than its reports: send it as it was made")
    return (data[start:end] for start, end in places)


def _hexadecimal(text: object, count: int) -> bytes:
    """Return the `count` bytes that a text writes in hexadecimal digits."""
    # `bytes.fromhex` skips blanks, and would accept a shorter id.
    if isinstance(text, str) and len(text) == 2 * count and _HEXADECIMAL.fullmatch(text):
        return bytes.fromhex(text)
    raise WireError("format", _BAD_TEXT)


def _base64(text: object) -> bytes:
    """Return the bytes that a text writes in base64."""
    try:
        data = base64.b64decode(text, validate=True)  # type: ignore[arg-type]  # refused below
    except (binascii.Error, TypeError, ValueError):
        raise WireError("format", _BAD_TEXT) from None
    # Unused bits after the last byte must be 0, because others could mark a report.
    if base64.b64encode(data).decode() != text:
        raise WireError("format", _BAD_TEXT)
    return data


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
