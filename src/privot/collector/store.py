"""What a store of reports does, whichever engine it is.

A store keeps one campaign's records. **Whatever `append` has returned is durable**: it survives a kill
and a loss of power. A report is kept once, however often it comes; the same id with other content is
another report (`privot.collector.store`), so that nobody can strike out or replace one by its id,
before or after it came. Files of strangers are counted alike (`privot.collector.collecting`).

**Sealing** takes what is stored into shards of a release. It is begun and finished, and in between any
number of times broken off: a store remembers what it had begun, and gives the same records again, so
that each lands in one shard. Ids stay known.

**Deleting** (`privot.collector.sealing`) takes all reports of an id, and leaves the id alone, which
stays refused whatever comes with it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privot.collector.payloads import waves_of_hours
from privot.core.errors import PrivotError
from privot.waves import Panel
from privot.wire.report import FINGERPRINT_BYTES, ID_BYTES

# Known ids: which reports a store has, in 24 bytes a report, asked many at a time.
#
# A report is its id and its digest (`privot.collector.store`): of one id there may be several, of
# which all but one are forged, and each counts. A table of such entries with open addressing: an
# entry's place is a hash of it, or the next free one. It is at most three quarters full, so that 10⁷
# reports take 400 MB, and is rebuilt at each start. The hash is keyed by random words of the process,
# for senders choose ids and contents, and could otherwise choose such as crowd one place.
#
# **Deleted ids** have a table of their own, whose places are hashes of the id alone: an entry's id is
# looked up there first, for a deleted id is refused with any content. (If places of reports were
# hashes of ids alone, many contents of one id would crowd one place.)


NEW, DUPLICATE, DELETED = 0, 1, 2
# Stands for the digest of a report that was deleted, of which only the id is known.
TOMBSTONE = np.uint64(2**64 - 1)
Statuses = NDArray[np.uint8]
_LEAST = 2**12


class KnownIds:
    """The ids of a store, and digests of what their reports said.

    Arguments:
        expected: How many there will soon be.
    """

    def __init__(self, expected: int = 0) -> None:
        # Odd, for the hash multiplies by them.
        self._key = np.array([secrets.randbits(64) | 1 for _ in range(2)], np.uint64)
        self._table = np.zeros((_capacity(expected), 3), np.uint64)
        self._deleted = np.zeros((1, 3), np.uint64)
        self.count = 0

    def claim(self, entries: Words) -> tuple[Statuses, NDArray[np.int64]]:
        """Enter what is new: each entry's status (n,), and the places taken (n,), −1 where none was.

        Of equal entries among them, the first is the one that is new. An entry of a deleted id is
        deleted, whatever its digest.
        """
        if (needed := _capacity(self.count + len(entries))) > len(self._table):
            self._rebuild(needed)
        statuses = np.empty(len(entries), np.uint8)
        places = np.empty(len(entries), np.int64)
        _claim(self._table, self._deleted, entries, self._key, statuses, places)
        self.count += int((statuses == NEW).sum())
        return statuses, places

    def forget(self, places: NDArray[np.int64]) -> None:
        """Undo the last `claim`, whose reports were not stored after all."""
        taken = places[places >= 0]
        self._table[taken] = 0
        self.count -= len(taken)

    def held(self) -> Words:
        """Words of the ids (n, 2) of all reports, each id once, in no order."""
        return _ids_in(self._set_of(self._table[self._table[:, 2] != 0, :2]))

    def reports(self, ids: Words) -> NDArray[np.int64]:
        """How many reports each of these ids (n, 2) has (n,); several, if all but one are forged."""
        wanted = self._set_of(ids)
        counts = np.zeros(len(wanted), np.int64)
        _count(self._table, wanted, self._key, counts)
        return counts[self._find(wanted, ids)]

    def deleted(self, ids: Words) -> NDArray[np.bool_]:
        """Which of these ids (n, 2) are of deleted reports (n,)."""
        return np.asarray(self._deleted[self._find(self._deleted, ids), 2] != 0)

    def bury(self, ids: Words) -> None:
        """Mark ids (n, 2) as deleted, known or not, and forget all that is known of their reports."""
        self._deleted = self._set_of(np.concatenate([_ids_in(self._deleted), ids]))
        if self.count:
            self._rebuild(len(self._table))

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self._table.nbytes)

    def _rebuild(self, capacity: int) -> None:
        """Move what is not deleted to another table."""
        table = np.zeros((capacity, 3), np.uint64)
        self.count = int(_move(self._table, table, self._deleted, self._key))
        self._table = table

    def _set_of(self, ids: Words) -> Words:
        """A table of ids, each once."""
        table = np.zeros((_capacity(len(ids)), 3), np.uint64)
        self._find(table, ids, enter=True)
        return table

    def _find(self, table: Words, ids: Words, enter: bool = False) -> NDArray[np.int64]:
        """Places of ids in a table of ids (n,), a free one where it has not the id."""
        places = np.empty(len(ids), np.int64)
        _places(table, ids, self._key, enter, places)
        return places


def _capacity(count: int) -> int:
    return max(_LEAST, 1 << (count * 4 // 3).bit_length())


def _ids_in(table: Words) -> Words:
    return table[table[:, 2] != 0, :2]


@njit(cache=True, nogil=True)
def _at(
    table: Words, first: np.uint64, second: np.uint64, digest: np.uint64, key: Words
) -> np.uint64:
    """The place of an entry, or the free one that it would take."""
    mask = np.uint64(table.shape[0] - 1)
    mixed = (digest ^ key[1]) * key[0]
    mixed = (mixed ^ (mixed >> np.uint64(31)) ^ first) * key[1]
    mixed = (mixed ^ (mixed >> np.uint64(32)) ^ second) * key[0]
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    at = (mixed ^ (mixed >> np.uint64(32))) & mask
    while table[at, 2] and (
        table[at, 0] != first or table[at, 1] != second or table[at, 2] != digest
    ):
        at = (at + np.uint64(1)) & mask
    return at


@njit(cache=True, nogil=True)
def _claim(
    table: Words,
    deleted: Words,
    entries: Words,
    key: Words,
    statuses: Statuses,
    places: NDArray[np.int64],
) -> None:
    for row in range(entries.shape[0]):
        first, second, digest = entries[row, 0], entries[row, 1], entries[row, 2]
        places[row] = -1
        if deleted[_at(deleted, first, second, TOMBSTONE, key), 2]:
            statuses[row] = DELETED
            continue
        at = _at(table, first, second, digest, key)
        if table[at, 2]:
            statuses[row] = DUPLICATE
        else:
            table[at, 0], table[at, 1], table[at, 2] = first, second, digest
            statuses[row], places[row] = NEW, at


@njit(cache=True, nogil=True)
def _places(table: Words, ids: Words, key: Words, enter: bool, places: NDArray[np.int64]) -> None:
    for row in range(ids.shape[0]):
        at = _at(table, ids[row, 0], ids[row, 1], TOMBSTONE, key)
        if enter:
            table[at, 0], table[at, 1], table[at, 2] = ids[row, 0], ids[row, 1], TOMBSTONE
        places[row] = at


@njit(cache=True, nogil=True)
def _count(table: Words, wanted: Words, key: Words, counts: NDArray[np.int64]) -> None:
    for row in range(table.shape[0]):
        if table[row, 2]:
            at = _at(wanted, table[row, 0], table[row, 1], TOMBSTONE, key)
            if wanted[at, 2]:
                counts[at] += 1


@njit(cache=True, nogil=True)
def _move(table: Words, larger: Words, deleted: Words, key: Words) -> int:
    moved = 0
    for row in range(table.shape[0]):
        if (
            table[row, 2]
            and not deleted[_at(deleted, table[row, 0], table[row, 1], TOMBSTONE, key), 2]
        ):
            larger[_at(larger, table[row, 0], table[row, 1], table[row, 2], key)] = table[row]
            moved += 1
    return moved


# Records: reports of one campaign in their binary form, all of one length, as rows of bytes (n, L).
#
# The CRC-32 that each ends with tells damage. **What a report is** are its id and its payload, and of
# a campaign with a panel its wave: they are what a release has of it. A report that has all of them
# of another is a copy of it; one of the same id and another payload, or wave, is another report, and
# counts as one. So whoever knows somebody's id, and sends first, adds a report, as anybody can with
# an id of their own, and neither replaces nor strikes out that person's. The digest that tells
# contents apart is 64 bits of SHA-256: to have a report taken for a copy, somebody has to find a
# second payload of its digest.


Records = NDArray[np.uint8]
Words = NDArray[np.uint64]

ID_AT = 1 + FINGERPRINT_BYTES
PAYLOAD_AT = ID_AT + ID_BYTES + 4 + 1 + 4
CRC_BYTES = 4


def _crc_table() -> NDArray[np.uint32]:
    """Of the reflected polynomial of zlib."""
    table: NDArray[np.uint32] = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = np.where(table & 1, np.uint32(0xEDB88320), np.uint32(0))
        table = ((table >> 1) ^ odd).astype(np.uint32)
    return table


_CRC = _crc_table()


def sums_of(
    records: Records, waves: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.bool_], Words]:
    """Whether each record's checksum is right (n,), and entries (n, 3): its id and its digest.

    Entries are what is known of a report for ever: two words of its id, the highest byte first, and
    the digest of all but its time and checksum, which is neither 0 nor 2⁶⁴ − 1.

    Arguments:
        records: (n, L).
        waves: Of each (n,), where there is a panel; then a report is of its wave.
    """
    right = np.empty(len(records), np.bool_)
    entries = np.empty((len(records), 3), np.uint64)
    _sums(records, _CRC, right, entries)
    entries[:, 2] = _digests(records, waves)
    return right, entries


def _digests(records: Records, waves: NDArray[np.int64] | None) -> Words:
    timeless = np.delete(records, np.s_[ID_AT + ID_BYTES : ID_AT + ID_BYTES + 4], axis=1)
    held, width = timeless[:, :-CRC_BYTES].tobytes(), timeless.shape[1] - CRC_BYTES
    told = b"".join(
        hashlib.sha256(held[at : at + width] + wave).digest()[:8]
        for at, wave in zip(range(0, len(held), width), _told(waves, len(records)), strict=True)
    )
    # 0 is a free place, and ones are what is left of a deleted report's digest.
    lowest, highest = np.uint64(1), np.uint64(2**64 - 2)
    return np.clip(np.frombuffer(told, ">u8").astype(np.uint64), lowest, highest)


def _told(waves: NDArray[np.int64] | None, count: int) -> list[bytes]:
    if waves is None:
        return [b""] * count
    return [wave.to_bytes(8, "big", signed=True) for wave in waves.tolist()]


def same_head(records: Records, example: bytes) -> NDArray[np.bool_]:
    """Which records have version, fingerprint, extensions and length of payload of the example."""
    head = np.frombuffer(example, np.uint8)
    first, last = slice(0, ID_AT), slice(ID_AT + ID_BYTES + 4, PAYLOAD_AT)
    same = (records[:, first] == head[first]).all(axis=1)
    return np.asarray(same & (records[:, last] == head[last]).all(axis=1))


def hours_of(records: Records) -> NDArray[np.int64]:
    """The time of each record (n,), in steps of the program."""
    words = np.ascontiguousarray(records[:, ID_AT + ID_BYTES : ID_AT + ID_BYTES + 4])
    return words.view(">u4")[:, 0].astype(np.int64)


@dataclass(frozen=True)
class Form:
    """What all records of a campaign have in common.

    Arguments:
        example: One of them.
        panel: Schedule of repeated reports, if there is one: then a report is of its wave.
    """

    example: bytes
    panel: Panel | None = None

    @property
    def record_bytes(self) -> int:
        """Length of each record."""
        return len(self.example)

    @property
    def header(self) -> bytes:
        """Fingerprint and record length, by which a store knows its campaign."""
        fingerprint = self.example[1 : 1 + FINGERPRINT_BYTES]
        return fingerprint + self.record_bytes.to_bytes(4, "big")

    def sums_of(self, records: Records) -> tuple[NDArray[np.bool_], Words]:
        """Whether each record is whole and of the campaign (n,), and its id and digest (n, 3)."""
        waves = None if self.panel is None else waves_of_hours(self.panel, hours_of(records))
        right, entries = sums_of(records, waves)
        return right & same_head(records, self.example), entries


@njit(cache=True, nogil=True)
def _sums(
    records: Records, table: NDArray[np.uint32], right: NDArray[np.bool_], entries: Words
) -> None:
    end = records.shape[1] - CRC_BYTES
    for row in range(records.shape[0]):
        record = records[row]
        crc = np.uint32(0xFFFFFFFF)
        for at in range(end):
            byte = record[at]
            crc = table[(crc ^ byte) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        crc ^= np.uint32(0xFFFFFFFF)
        told = np.uint32(0)
        for at in range(end, end + CRC_BYTES):
            told = (told << np.uint32(8)) | np.uint32(record[at])
        right[row] = crc == told
        for word in range(2):
            value = np.uint64(0)
            for at in range(ID_AT + 8 * word, ID_AT + 8 * word + 8):
                value = (value << np.uint64(8)) | np.uint64(record[at])
            entries[row, word] = value


class StoreFull(PrivotError):  # noqa: N818 (a state, not a fault)
    """There is no room: nothing of the group was stored, and a later one may be."""


class StoreStopped(PrivotError):  # noqa: N818 (a state, not a fault)
    """The store can no longer promise anything, or cannot now: nothing more is acknowledged."""


def shards_missing(found: int, made: int) -> PrivotError:
    """Refuses to call deleted what may be in shards that nobody has seen."""
    return PrivotError(
        f"the release has {found} shards and the store made {made}, so deleted reports may be in those "
        "that are missing: give --release as `privot serve` has it"
    )


@dataclass(frozen=True)
class Batch:
    """What one sealing takes.

    Arguments:
        number: Of the sealing, from 0.
        reports: How many it takes, about.
        shards: Rows of the shards that there are already.
    """

    number: int
    reports: int
    shards: tuple[int, ...]


class Store(Protocol):
    """One campaign's reports."""

    @property
    def count(self) -> int:
        """How many reports were accepted and not deleted, sealed ones included."""

    def disk_bytes(self) -> int:
        """What they take on the disk, as far as the store knows."""

    def append(self, records: Records, entries: Words) -> Statuses:
        """Store what is new, durably; each one's status, in their order.

        Raises:
            StoreFull: if nothing was stored for want of room.
            StoreStopped: if nothing can be promised.
        """

    def begin_sealing(self) -> Batch | None:
        """Set aside all that is not sealed, or what a sealing that broke off had; None if nothing."""

    def taken(self, batch: Batch) -> Iterator[Records]:
        """The records of a sealing that was begun, piece by piece."""

    def finish_sealing(self, batch: Batch, rows: list[int]) -> None:
        """Its records are in new shards of so many rows, which are durable."""

    def delete(self, ids: Sequence[bytes] | None) -> int:
        """Forget reports of these ids, or all, but for the ids; how many. Durable and all or none.

        Raises:
            PrivotError: if one is of no report, stored or deleted.
        """

    def to_erase(self) -> frozenset[bytes]:
        """Ids of deleted reports that files of the release may still hold."""

    def finish_erasing(self, rows: list[int]) -> None:
        """No file of the release holds them; its shards have so many rows, broken off ones too."""

    def close(self) -> None:
        """Let go of files and connections."""
