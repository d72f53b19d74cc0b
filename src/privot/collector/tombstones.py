"""Tombstones of a folder's store: the ids of deleted reports, and how its other files forget the rest.

    deleted.bin    `PVTD`, version 1, ids of 16 bytes in order of their deletion, CRC-32 of it all

The file is replaced as a whole, which is the moment of deletion. Segments are replaced without the
records; in files of sealed ids a deleted report's digest is replaced by ones, for a digest of few
possible contents would tell which it was. `state.json` holds the checksum of each such file, and is
replaced first: a file is whole if it has that checksum as it is, or once its digests are replaced.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privot.collector.ids import DELETED, TOMBSTONE, KnownIds
from privot.collector.records import Words
from privot.collector.segments import Form, whole_records
from privot.device.report import ID_BYTES
from privot.disk.state import flush_folder
from privot.errors import PrivotError
from privot.files import replacing_file

_HEAD = b"PVTD\x01"
_ENTRY_BYTES, _IDS_AT_ONCE = 24, 2**18


class SealedIds(NamedTuple):
    """What a file of sealed ids holds.

    Arguments:
        rows: How many; −1 if it cannot be read.
        crc: Its checksum.
        masked: Its checksum once digests of deleted reports are replaced.
    """

    rows: int
    crc: int
    masked: int


def words_of(ids: Sequence[bytes]) -> Words:
    """Ids as words (n, 2), the highest byte first."""
    return np.frombuffer(b"".join(ids), ">u8").reshape(-1, 2).astype(np.uint64)


def bytes_of(words: Words) -> list[bytes]:
    """Words (n, 2) as ids."""
    data = words.astype(">u8").tobytes()
    return [data[at : at + ID_BYTES] for at in range(0, len(data), ID_BYTES)]


def read_tombstones(path: Path) -> Words:
    """Ids of deleted reports (n, 2); none where there is no file.

    Raises:
        PrivotError: if it is damaged.
    """
    if not path.exists():
        return np.empty((0, 2), np.uint64)
    data = path.read_bytes()
    body, crc = data[:-4], data[-4:]
    size = len(body) - len(_HEAD)
    if body[: len(_HEAD)] != _HEAD or size % ID_BYTES or struct.pack(">I", zlib.crc32(body)) != crc:
        raise PrivotError(f"{path} is damaged, and with it which reports were deleted: restore it")
    return np.frombuffer(body, ">u8", offset=len(_HEAD)).reshape(-1, 2).astype(np.uint64)


def write_tombstones(path: Path, ids: Words) -> None:
    """Replace the file, durably."""
    body = _HEAD + ids.astype(">u8").tobytes()
    with replacing_file(path, secret=True) as draft:
        draft.write_bytes(body + struct.pack(">I", zlib.crc32(body)))
    flush_folder(path.parent)


def drop_records(path: Path, form: Form, known: KnownIds) -> None:
    """Replace a segment by one without records of deleted reports, if it has any."""
    if not any(_dead(known, entries).any() for _, entries in whole_records(path, form)):
        return
    with replacing_file(path, secret=True) as draft, open(draft, "wb") as out:
        out.write(form.header)
        for records, entries in whole_records(path, form):
            out.write(records[~_dead(known, entries)].tobytes())
    flush_folder(path.parent)


def write_sealed_ids(path: Path, segments: Sequence[Path], form: Form) -> tuple[int, int]:
    """Write ids and digests of all records of some segments, durably; how many, and their checksum."""
    count = crc = 0
    with replacing_file(path, secret=True) as draft, open(draft, "wb") as out:
        for segment in segments:
            for _, entries in whole_records(segment, form):
                data = entries.astype("<u8").tobytes()
                out.write(data)
                count, crc = count + len(entries), zlib.crc32(data, crc)
    flush_folder(path.parent)
    return count, crc


def claim_sealed_ids(path: Path, known: KnownIds) -> SealedIds:
    """Enter ids and digests of a file."""
    crc, masked, seen = 0, 0, 0
    try:
        with open(path, "rb") as file:
            while data := file.read(_IDS_AT_ONCE * _ENTRY_BYTES):
                entries = np.frombuffer(data, "<u8").reshape(-1, 3).astype(np.uint64)
                statuses, _ = known.claim(entries)
                entries[statuses == DELETED, 2] = TOMBSTONE
                crc, seen = zlib.crc32(data, crc), seen + len(entries)
                masked = zlib.crc32(entries.astype("<u8").tobytes(), masked)
    except (FileNotFoundError, ValueError):
        seen = -1
    return SealedIds(seen, crc, masked)


def masked_ids(path: Path, known: KnownIds) -> bytes | None:
    """What a file of sealed ids has to hold once reports are deleted; None if that is what it holds."""
    entries = np.fromfile(path, "<u8").reshape(-1, 3).astype(np.uint64)
    dead = _dead(known, entries) & (entries[:, 2] != TOMBSTONE)
    if not dead.any():
        return None
    entries[dead, 2] = TOMBSTONE
    return entries.astype("<u8").tobytes()


def _dead(known: KnownIds, entries: Words) -> NDArray[np.bool_]:
    return known.deleted(entries[:, :2])
