"""Segments: files that records are only ever added to, and what a loss of power leaves of them.

| bytes | what |
|---|---|
| 4 | `PVTS` |
| 1 | version: 1 |
| 32 | fingerprint of the randomizer |
| 4 | L, the length of a record |
| 4 | CRC-32 of these |
| 19 | zeros |
| n · L | records |

The header is flushed, and the folder, before the first record is written. A group of records is one
write and one flush; a power loss in between leaves any of its bytes, in any order. Every record
ends with its checksum, and all have one length, so whole records are found whatever lies between
them: what comes after the last whole one is cut off, for nothing of it was ever acknowledged.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privot.collector.payloads import waves_of_hours
from privot.collector.store import (
    DELETED,
    NEW,
    KnownIds,
    Records,
    Words,
    hours_of,
    same_head,
    sums_of,
)
from privot.core.errors import PrivotError
from privot.core.files import flush
from privot.core.state import flush_folder
from privot.waves import Panel
from privot.wire.report import FINGERPRINT_BYTES

HEADER_BYTES = 64
_HEAD = struct.Struct(f">4sB{FINGERPRINT_BYTES}sI")
_MAGIC, _VERSION = b"PVTS", 1
_PIECE_BYTES = 2**24


class Disk:
    """How segments are written; what replaces it in tests loses what was not flushed."""

    def open(self, path: Path) -> int:
        """A handle of a file, made if it is not there."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, handle: int, data: bytes, at: int) -> None:
        """All of the data at a place."""
        left = memoryview(data)
        while left:
            done = os.pwrite(handle, left, at)
            left, at = left[done:], at + done

    def flush(self, handle: int) -> None:
        """Returns when the disk holds what was written."""
        getattr(os, "fdatasync", os.fsync)(handle)

    def cut(self, handle: int, size: int) -> None:
        """Forget what is beyond."""
        os.ftruncate(handle, size)

    def close(self, handle: int) -> None:
        """No more."""
        os.close(handle)


class Piece(NamedTuple):
    """A part of a segment.

    Arguments:
        start: Number of its first record.
        records: All (n, L).
        entries: Their ids and digests (n, 3).
        right: Which of them are whole (n,).
    """

    start: int
    records: Records
    entries: Words
    right: NDArray[np.bool_]


@dataclass(frozen=True)
class Form:
    """What all records of a campaign have in common.

    Arguments:
        example: One of them.
        panel: In which people report again, if they do: then a report is of its wave.
    """

    example: bytes
    panel: Panel | None = None

    @property
    def record_bytes(self) -> int:
        """L."""
        return len(self.example)

    def sums_of(self, records: Records) -> tuple[NDArray[np.bool_], Words]:
        """Whether each record is whole, and what is known of it for ever."""
        waves = None if self.panel is None else waves_of_hours(self.panel, hours_of(records))
        return sums_of(records, waves)

    @property
    def header(self) -> bytes:
        """What a segment begins with."""
        fingerprint = self.example[1 : 1 + FINGERPRINT_BYTES]
        head = _HEAD.pack(_MAGIC, _VERSION, fingerprint, self.record_bytes)
        return (head + struct.pack(">I", zlib.crc32(head))).ljust(HEADER_BYTES, b"\0")


class Segment:
    """A segment that is added to.

    Arguments:
        path: Where; made if there is none.
        form: Of its records.
        disk: How it is written.
    """

    def __init__(self, path: Path, form: Form, disk: Disk) -> None:
        self._disk = disk
        self._handle = disk.open(path)
        disk.write(self._handle, form.header, 0)
        disk.flush(self._handle)
        flush_folder(path.parent)
        self.size = HEADER_BYTES

    def append(self, data: bytes) -> None:
        """Write behind what is there; not yet durable.

        Raises:
            OSError: if not all of it could be written; what was is cut off.
        """
        try:
            self._disk.write(self._handle, data, self.size)
        except OSError:
            self._disk.cut(self._handle, self.size)
            raise
        self.size += len(data)

    def flush(self, durable: int) -> None:
        """Make it durable.

        Arguments:
            durable: How much of it is already.

        Raises:
            OSError: if that cannot be known. What may be in memory alone is cut off, for it would be
                taken for durable when it is read again.
        """
        try:
            self._disk.flush(self._handle)
        except OSError:
            self.size = durable
            self._disk.cut(self._handle, durable)
            raise

    def close(self) -> None:
        """No more is added."""
        self._disk.close(self._handle)


def begun(path: Path, form: Form) -> bool:
    """Whether a file is a segment; if a power loss came before its header was there, it is removed.

    Raises:
        PrivotError: if it is one of another campaign, or is damaged.
    """
    with open(path, "rb") as file:
        head = file.read(HEADER_BYTES)
    if head == form.header:
        return True
    if path.stat().st_size <= HEADER_BYTES:
        path.unlink()
        return False
    raise PrivotError(f"{path} is damaged, or of another campaign: restore it, or move it away")


def scan(path: Path, form: Form) -> Iterator[Piece]:
    """All of a segment that has the length of a record, piece by piece."""
    length = form.record_bytes
    rows = max(1, _PIECE_BYTES // length)
    start = 0
    with open(path, "rb") as file:
        file.seek(HEADER_BYTES)
        while data := file.read(rows * length):
            count = len(data) // length
            records = np.frombuffer(data, np.uint8, count * length).reshape(count, length)
            right, entries = form.sums_of(records)
            yield Piece(start, records, entries, right & same_head(records, form.example))
            start += count


def whole_records(path: Path, form: Form) -> Iterator[tuple[Records, Words]]:
    """A segment's records, and their ids and digests."""
    for piece in scan(path, form):
        yield piece.records[piece.right], piece.entries[piece.right]


def recover_segment(path: Path, form: Form, known: KnownIds, told: Callable[[str], None]) -> None:
    """Enter a segment's reports, and cut off what a power loss left behind the last whole one."""
    whole = good = 0
    for piece in scan(path, form):
        statuses, _ = known.claim(piece.entries[piece.right])
        if not np.isin(statuses, (NEW, DELETED)).all():
            waves = "" if form.panel else ", or people report again: give --panel"
            raise PrivotError(
                f"{path} has reports that are in the store already, it was copied: move it away{waves}"
            )
        rows = np.flatnonzero(piece.right)
        whole += len(rows)
        good = piece.start + int(rows[-1]) + 1 if len(rows) else good
    end = HEADER_BYTES + good * form.record_bytes
    if beyond := path.stat().st_size - end:
        told(f"{path.name}: {beyond:,} bytes of reports that were never acknowledged are cut off")
        os.truncate(path, end)
    if whole < good:
        told(f"{path.name}: {good - whole:,} records are damaged, and left out")
    flush(path)
