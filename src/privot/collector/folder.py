"""The store in a folder, for one machine and one process: segments, known ids, and what was sealed.

    lock                    held by the process that serves
    state.json              what was sealed, and what is being sealed; replaced as a whole
    segment-000000.reports  records in the order of their arrival (`privot.collector.segments`)
    ids-000000.bin          ids and digests of a sealing, 24 bytes a report
    deleted.bin             ids of deleted reports (`privot.collector.folder`)

**Append.** Ids are claimed in memory, what is new is written behind the segment and flushed, and
only then does `append` return. If it cannot be written, the claims are undone; if it is unknown
whether it was flushed (a failed flush may have dropped it, and says so once), the store stops:
whoever serves it starts again, from what the disk holds.

**Sealing.** `state.json` first names the segments that are taken; then shards and ids are written, and
`state.json` names the next segment as the first one that is not sealed: from then on the segments are
removed. Broken off before, all is done again with the same segments, into shards of the same names.

**Delete.** `deleted.bin` is replaced; then segments and ids are, without what was deleted. Broken off
between, the next start goes on.

**Start.** Ids of sealed reports are read; segments are read whole, every record's checksum looked
at, what a power loss left behind is cut off and told; and segments are flushed, for what a killed
process wrote may be in the machine's memory alone.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privot.collector.segments import (
    HEADER_BYTES,
    Disk,
    Form,
    Segment,
    begun,
    recover_segment,
    whole_records,
)
from privot.collector.store import (
    DELETED,
    NEW,
    TOMBSTONE,
    Batch,
    KnownIds,
    Records,
    Statuses,
    StoreFull,
    StoreStopped,
    Words,
    locked,
    shards_missing,
)
from privot.core.errors import PrivotError
from privot.core.files import cannot_write, replacing_file
from privot.core.state import flush_folder, write_down
from privot.waves import Panel
from privot.wire.report import ID_BYTES

# What a folder's store has sealed, and what it is sealing: one small file, replaced as a whole.


_FORMAT = 1


@dataclass(frozen=True)
class SealedSoFar:
    """What was sealed.

    Arguments:
        ids: Of each sealing, how many reports it took, and the CRC-32 of its file of ids.
        shards: Rows of the shards that were made of them.
        first: The first segment that is not sealed.
        sealing: The first segment that is not being sealed either; `first` if nothing is.
        erased: How many of the deleted reports, in order, are in no file of the release any more.
    """

    ids: tuple[tuple[int, int], ...] = ()
    shards: tuple[int, ...] = ()
    first: int = 0
    sealing: int = 0
    erased: int = 0

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a file; nothing, if there is none.

        Raises:
            PrivotError: if it is damaged, or from a newer version.
        """
        if not path.exists():
            return cls()
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            version = fields.pop("format")
            ids = tuple((int(rows), int(crc)) for rows, crc in fields.pop("ids"))
            found = cls(ids, tuple(fields.pop("shards")), **fields)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            version, found = None, cls()
        if version != _FORMAT:
            damaged = "is damaged: restore it" if version is None else "is newer: upgrade privot"
            raise PrivotError(f"{path} {damaged}")
        return found

    def write(self, path: Path) -> None:
        """Replace the file, durably."""
        write_down(path, {"format": _FORMAT} | asdict(self))


# Tombstones of a folder's store: the ids of deleted reports, and how its other files forget the rest.
#
#     deleted.bin    `PVTD`, version 1, ids of 16 bytes in order of their deletion, CRC-32 of it all
#
# The file is replaced as a whole, which is the moment of deletion. Segments are replaced without the
# records; in files of sealed ids a deleted report's digest is replaced by ones, for a digest of few
# possible contents would tell which it was. `state.json` holds the checksum of each such file, and is
# replaced first: a file is whole if it has that checksum as it is, or once its digests are replaced.


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


_SEGMENT_BYTES = 2**28
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_STATE, _LOCK, _DELETED = "state.json", "lock", "deleted.bin"


class FolderStore:
    """Reports of one campaign in a folder.

    Arguments:
        folder: Where; made if it is not there.
        example: One report's bytes, which tell fingerprint and length.
        told: Takes lines for people.
        disk: How segments are written.
        panel: In which people report again, if they do.

    Raises:
        PrivotError: if another process serves it, or something in it is damaged beyond what a power loss
            does.
    """

    def __init__(
        self,
        folder: Path,
        example: bytes,
        told: Callable[[str], None] = lambda line: None,
        disk: Disk | None = None,
        panel: Panel | None = None,
    ) -> None:
        self.folder, self._form = folder, Form(example, panel)
        self._disk, self._told = disk or Disk(), told
        self._alone, self._stopped = threading.Lock(), ""
        self._number: int
        self._segment: Segment
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            flush_folder(folder.parent)
            self._lock = locked(folder / _LOCK)
            try:
                self._state = SealedSoFar.read(folder / _STATE)
                self._deleted = read_tombstones(folder / _DELETED)
                self._recover()
            except BaseException:
                os.close(self._lock)
                raise
        except OSError as error:
            raise cannot_write(folder, error) from None

    @property
    def count(self) -> int:
        """See `Store`."""
        return self._known.count

    def disk_bytes(self) -> int:
        """See `Store`."""
        with suppress(FileNotFoundError):
            return sum(file.stat().st_size for file in self.folder.iterdir() if file.is_file())
        return 0

    def append(self, records: Records, entries: Words) -> Statuses:
        """See `Store`."""
        with self._alone:
            if self._stopped:
                raise StoreStopped(self._stopped)
            statuses, places = self._known.claim(entries)
            new = statuses == NEW
            if not new.any():
                return statuses
            try:
                self._write(records[new].tobytes())
            except (StoreFull, StoreStopped):
                self._known.forget(places)
                raise
            return statuses

    def begin_sealing(self) -> Batch | None:
        """See `Store`."""
        with self._alone:
            if self._state.sealing == self._state.first:
                if self._segment.size > HEADER_BYTES:
                    self._roll()
                if self._number == self._state.first:
                    return None
                self._put(replace(self._state, sealing=self._number))
            taken = range(self._state.first, self._state.sealing)
            sizes = [self._path(number).stat().st_size - HEADER_BYTES for number in taken]
            reports = sum(sizes) // self._form.record_bytes
            return Batch(len(self._state.ids), reports, self._state.shards)

    def taken(self, batch: Batch) -> Iterator[Records]:
        """See `Store`."""
        for number in range(self._state.first, self._state.sealing):
            for records, _ in whole_records(self._path(number), self._form):
                yield records

    def finish_sealing(self, batch: Batch, rows: list[int]) -> None:
        """See `Store`."""
        segments = range(self._state.first, self._state.sealing)
        paths = [self._path(number) for number in segments]
        count, crc = write_sealed_ids(self._ids(batch.number), paths, self._form)
        with self._alone:
            self._put(
                replace(
                    self._state,
                    ids=(*self._state.ids, (count, crc)),
                    shards=(*batch.shards, *rows),
                    first=self._state.sealing,
                )
            )
        for number in segments:
            self._path(number).unlink()

    def delete(self, ids: Sequence[bytes] | None) -> int:
        """See `Store`."""
        with self._alone:
            if self._stopped:
                raise StoreStopped(self._stopped)
            words = self._known.held() if ids is None else words_of([*dict.fromkeys(ids)])
            buried, before = self._known.deleted(words), self._known.count
            for each in bytes_of(words[~buried & (self._known.reports(words) == 0)]):
                raise PrivotError(f"no report has the id {each.hex()}: nothing was deleted")
            if len(new := words[~buried]):
                if self._segment.size > HEADER_BYTES:
                    self._roll()
                deleted = np.concatenate([self._deleted, new])
                write_tombstones(self.folder / _DELETED, deleted)
                self._deleted = deleted
                self._known.bury(new)
            for number in range(self._state.first, self._number):
                drop_records(self._path(number), self._form, self._known)
            self._mask_ids()
            return before - self._known.count

    def to_erase(self) -> frozenset[bytes]:
        """See `Store`."""
        return frozenset(bytes_of(self._deleted[self._state.erased :]))

    def finish_erasing(self, rows: list[int]) -> None:
        """See `Store`."""
        with self._alone:
            count = len(self._state.shards)
            if len(rows) < count:
                raise shards_missing(len(rows), count)
            erased = len(self._deleted)
            self._put(replace(self._state, shards=tuple(rows[:count]), erased=erased))

    def close(self) -> None:
        """See `Store`."""
        with self._alone:
            if not self._stopped:
                self._stopped = "the store was closed: start the server again"
                self._segment.close()
                os.close(self._lock)

    def _write(self, data: bytes) -> None:
        """Make data durable."""
        try:
            if (
                self._segment.size > HEADER_BYTES
                and self._segment.size + len(data) > _SEGMENT_BYTES
            ):
                self._roll()
            durable = self._segment.size
            self._segment.append(data)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise StoreFull("the collector's disk is full: send it again later") from None
            raise self._stop(error) from None
        try:
            self._segment.flush(durable)
        except OSError as error:
            raise self._stop(error) from None

    def _stop(self, error: OSError) -> StoreStopped:
        self._told(
            f"{self.folder} cannot be written ({error.strerror or error}): see to the disk, then start "
            "again; nothing that was acknowledged is lost"
        )
        self._stopped = "the collector's disk failed: send it again later"
        return StoreStopped(self._stopped)

    def _roll(self) -> None:
        """Go on in a new segment."""
        following = Segment(self._path(self._number + 1), self._form, self._disk)
        self._segment.close()
        self._segment, self._number = following, self._number + 1

    def _recover(self) -> None:
        state = self._state
        numbers = sorted(int(p.stem[-6:]) for p in self.folder.glob("segment-*.reports"))
        for number in [n for n in numbers if n < state.first]:  # a kill came before
            self._path(number).unlink()
        left = [n for n in numbers if n >= state.first and begun(self._path(n), self._form)]
        stored = sum(self._path(n).stat().st_size for n in left) // self._form.record_bytes
        self._known = KnownIds(sum(rows for rows, _ in state.ids) + stored)
        self._known.bury(self._deleted)
        for number, (rows, crc) in enumerate(state.ids):
            self._read_ids(number, rows, crc)
        for number in left:
            recover_segment(self._path(number), self._form, self._known, self._told)
            drop_records(self._path(number), self._form, self._known)
        self._mask_ids()
        self._known.claim(np.empty((0, 3), np.uint64))  # compiles, before anybody waits
        self._number = max([state.first - 1, state.sealing - 1, *left]) + 1
        self._segment = Segment(self._path(self._number), self._form, self._disk)

    def _read_ids(self, number: int, rows: int, expected: int) -> None:
        found = claim_sealed_ids(self._ids(number), self._known)
        if found.rows != rows or expected not in (found.crc, found.masked):
            raise PrivotError(
                f"{self._ids(number)} is damaged or gone, and with it what is known of sealed "
                "reports: restore it"
            )

    def _mask_ids(self) -> None:
        """Have files of sealed ids forget what was deleted; the state's checksums change first."""
        for number, (rows, _) in enumerate(self._state.ids):
            if (data := masked_ids(self._ids(number), self._known)) is not None:
                ids = [*self._state.ids]
                ids[number] = rows, zlib.crc32(data)
                self._put(replace(self._state, ids=tuple(ids)))
                with replacing_file(self._ids(number), secret=True) as draft:
                    draft.write_bytes(data)
                flush_folder(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / f"segment-{number:06d}.reports"

    def _ids(self, number: int) -> Path:
        return self.folder / f"ids-{number:06d}.bin"

    def _put(self, state: SealedSoFar) -> None:
        state.write(self.folder / _STATE)
        self._state = state
