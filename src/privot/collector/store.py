"""Records, known ids, and the protocol of stores.

- A **record** is a report in binary form, a row of an array of bytes (n, L); all records of a campaign
  have one length L. `RecordFormat` verifies records, and computes their ids and digests.
- `KnownIds` is the set of a store's ids and digests in memory.
- `Store` is the protocol. **When `append` returns, its records are durable**: they survive a kill and a
  loss of power. **Sealing** moves stored records into shards of a release. If it is interrupted, however
  often, a store repeats it with the same records, so that each record ends in one shard. Ids of sealed
  reports stay known. **Deletion** (`privot.collector.sealing`) removes all reports of an id. The store
  keeps the id alone, and refuses it with any content.

**Identity.** Two records are copies of one report if they have the same id and payload, and with a
panel the same wave; a release contains no other fields of a report. Copies count once, but records of
one id with different contents all count; `privot.collector.collecting` has the reason. Contents are
distinguished by 64 bits of SHA-256: to make a report count as a copy, an attacker has to find another
payload with the same digest.
"""

import hashlib
import secrets
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from privot.collector.waves import waves_of_hours
from privot.core.compiled import compiled, compiled_part
from privot.core.errors import PrivotError
from privot.waves import Panel
from privot.wire.report import FINGERPRINT_BYTES, ID_BYTES

Records = NDArray[np.uint8]
Words = NDArray[np.uint64]
Statuses = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Result = TypeVar("Result")  # of a function of a row
# Positions of fields in a record (`privot.wire.report`): version (1 byte), fingerprint, id, time (4),
# number of extensions (1), length of the payload (4), payload, CRC-32.
ID_AT = 1 + FINGERPRINT_BYTES
TIME_AT = ID_AT + ID_BYTES
PAYLOAD_AT = TIME_AT + 4 + 1 + 4
CRC_BYTES = 4


@dataclass(frozen=True)
class RecordFormat:
    """Binary format that all records of a campaign share."""

    example: bytes  # any record of the campaign
    # Schedule of repeated reports, if there is one; each record then belongs to a wave.
    panel: Panel | None = None

    @property
    def record_bytes(self) -> int:
        """Length L of each record, in bytes."""
        return len(self.example)

    @property
    def fingerprint(self) -> bytes:
        """Fingerprint of the campaign's randomizer."""
        return self.example[1:ID_AT]

    def waves_of(self, records: Records) -> NDArray[np.int64]:
        """Return the wave (n,) of each record: −1 outside of all waves, and 0 without a panel."""
        if self.panel is None:
            return np.zeros(len(records), np.int64)
        return waves_of_hours(self.panel, _integers(records[:, TIME_AT : TIME_AT + 4], ">u4")[:, 0])

    def validate(self, records: Records) -> tuple[Mask, Words]:
        """Return a mask (n,) of valid records, and the entries (n, 3) by which they are compared.

        A valid record has a correct checksum, and the example's version, fingerprint, extensions and
        payload length. An entry is the id as two words, the highest byte first, and a digest of the
        record without time and checksum, with the wave if there is a panel. Stores keep entries for
        ever, so the computation must not change. A digest is neither 0 nor 2⁶⁴ − 1.
        """
        same = records[:, :PAYLOAD_AT] == np.frombuffer(self.example, np.uint8)[:PAYLOAD_AT]
        same[:, ID_AT : TIME_AT + 4] = True  # ids and times may differ
        checksums = _of_rows(zlib.crc32, records[:, :-CRC_BYTES])
        stated = _integers(records[:, -CRC_BYTES:], ">u4")[:, 0]
        valid = same.all(axis=1) & (stated == np.array(checksums, np.uint32))
        parts = [records[:, :TIME_AT], records[:, TIME_AT + 4 : -CRC_BYTES]]
        if self.panel is not None:
            parts.append(self.waves_of(records).astype(">i8").view(np.uint8).reshape(-1, 8))
        digests = _of_rows(lambda row: hashlib.sha256(row).digest(), np.concatenate(parts, axis=1))
        first_words = np.frombuffer(b"".join(digests), ">u8").reshape(-1, 4)[:, 0].astype(np.uint64)
        # 0 marks a free place, and all ones a tombstone.
        marks = np.clip(first_words, np.uint64(1), TOMBSTONE - np.uint64(1))
        entries = np.column_stack([_integers(records[:, ID_AT:TIME_AT], ">u8"), marks])
        return valid, entries


def _of_rows(function: Callable[[bytes], Result], columns: Records) -> list[Result]:
    """Return the results of a function of the bytes of each row."""
    data, width = columns.tobytes(), columns.shape[1]
    return [function(data[at : at + width]) for at in range(0, len(data), width)]


def _integers(columns: Records, kind: str) -> NDArray[Any]:
    """Return the integers (n, k) of a type that the rows contain, one after another."""
    return np.ascontiguousarray(columns).view(kind)


NEW, DUPLICATE, DELETED, INVALID = 0, 1, 2, 255  # statuses of records
TOMBSTONE = np.uint64(2**64 - 1)  # in place of the digest, in tables of ids alone
_MIN_CAPACITY = 2**12


class KnownIds:
    """Hash table of a store's reports: ids and digests of contents, 24 bytes an entry.

    An id may have several digests (all but one forged), and each counts. The table uses open addressing
    with linear probing: the place of an entry is a hash of id and digest, or the next free place. It is
    at most three quarters full, so that 10⁷ reports take 400 MB, and is rebuilt at each start. The hash
    is keyed by random words of the process, because senders could otherwise choose entries that collide.

    **Deleted ids** are in a separate table, hashed by the id alone, and are looked up first, since a
    deleted id is refused with any content. (If the first table were hashed by the id alone, many
    contents of one id would collide.)

    Arguments:
        expected: Number of reports to make room for.
    """

    def __init__(self, expected: int = 0) -> None:
        # Odd, so that multiplication by them loses no bits.
        self._key = np.array([secrets.randbits(64) | 1 for _ in range(2)], np.uint64)
        self._table = np.zeros((_capacity(expected), 3), np.uint64)
        self._deleted = np.zeros((1, 3), np.uint64)
        self.count = 0

    def add(self, entries: Words) -> tuple[Statuses, NDArray[np.int64]]:
        """Add new entries; return each entry's status (n,) and its place in the table (n,).

        The first of equal entries is `NEW`, the others are `DUPLICATE`; an entry with a deleted id is
        `DELETED`, whatever its digest. The place is −1 unless the entry is new.
        """
        needed = _capacity(self.count + len(entries))
        if needed > len(self._table):
            self._rebuild(needed)
        statuses = np.empty(len(entries), np.uint8)
        places = np.empty(len(entries), np.int64)
        _claim(self._table, self._deleted, entries, self._key, statuses, places)
        self.count += int((statuses == NEW).sum())
        return statuses, places

    def forget(self, places: NDArray[np.int64]) -> None:
        """Undo the last `add`, whose reports were not stored."""
        taken = places[places >= 0]
        self._table[taken] = 0
        self.count -= len(taken)

    def ids(self) -> Words:
        """Return the distinct ids of all reports as words (n, 2), in arbitrary order."""
        return _ids_in(self._set_of(_ids_in(self._table)))

    def reports(self, ids: Words) -> NDArray[np.int64]:
        """Return the number of reports (n,) of each id (n, 2), forged ones included."""
        wanted = self._set_of(ids)
        counts = np.zeros(len(wanted), np.int64)
        _count(self._table, wanted, self._key, counts)
        return counts[self._find(wanted, ids)]

    def deleted(self, ids: Words) -> NDArray[np.bool_]:
        """Return a mask (n,) of the ids (n, 2) that are deleted."""
        return np.asarray(self._deleted[self._find(self._deleted, ids), 2] != 0)

    def mark_deleted(self, ids: Words) -> None:
        """Mark ids (n, 2) as deleted, whether known or not, and remove their entries."""
        self._deleted = self._set_of(np.concatenate([_ids_in(self._deleted), ids]))
        if self.count:
            self._rebuild(len(self._table))

    def _rebuild(self, capacity: int) -> None:
        """Move entries that are not deleted to a new table."""
        table = np.zeros((capacity, 3), np.uint64)
        self.count = int(_move(self._table, table, self._deleted, self._key))
        self._table = table

    def _set_of(self, ids: Words) -> Words:
        """Return a table of distinct ids."""
        table = np.zeros((_capacity(len(ids)), 3), np.uint64)
        self._find(table, ids, enter=True)
        return table

    def _find(self, table: Words, ids: Words, enter: bool = False) -> NDArray[np.int64]:
        """Return the place (n,) of each id in a table of ids; a free place if the id is not in it."""
        places = np.empty(len(ids), np.int64)
        _places(table, ids, self._key, enter, places)
        return places


def _capacity(count: int) -> int:
    """Return the size of a table for `count` entries: a power of two, at most three quarters full."""
    return max(_MIN_CAPACITY, 1 << (count * 4 // 3).bit_length())


def _ids_in(table: Words) -> Words:
    """Return the ids (n, 2) of the entries of a table."""
    return table[table[:, 2] != 0, :2]


@compiled_part
def _place(
    table: Words, first: np.uint64, second: np.uint64, digest: np.uint64, key: Words
) -> np.uint64:
    """Return the place of an entry, or the free one that it would take.

    Multiplications by odd words, and shifts by about half a word, mix the id and the digest, so that
    each of their bits changes the low bits, which are the place. The last factor is 2⁶⁴ / golden ratio
    (Fibonacci hashing).
    """
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


@compiled
def _claim(
    table: Words,
    deleted: Words,
    entries: Words,
    key: Words,
    statuses: Statuses,
    places: NDArray[np.int64],
) -> None:
    """Enter new entries into the table, and write each one's status and place (`KnownIds.add`)."""
    for row in range(entries.shape[0]):
        first, second, digest = entries[row, 0], entries[row, 1], entries[row, 2]
        places[row] = -1
        if deleted[_place(deleted, first, second, TOMBSTONE, key), 2]:
            statuses[row] = DELETED
            continue
        at = _place(table, first, second, digest, key)
        if table[at, 2]:
            statuses[row] = DUPLICATE
        else:
            table[at, 0], table[at, 1], table[at, 2] = first, second, digest
            statuses[row], places[row] = NEW, at


@compiled
def _places(table: Words, ids: Words, key: Words, enter: bool, places: NDArray[np.int64]) -> None:
    """Write the place of each id in a table of ids alone; with `enter`, enter them."""
    for row in range(ids.shape[0]):
        at = _place(table, ids[row, 0], ids[row, 1], TOMBSTONE, key)
        if enter:
            table[at, 0], table[at, 1], table[at, 2] = ids[row, 0], ids[row, 1], TOMBSTONE
        places[row] = at


@compiled
def _count(table: Words, wanted: Words, key: Words, counts: NDArray[np.int64]) -> None:
    """Count the entries of each wanted id, at the id's place in the table `wanted`."""
    for row in range(table.shape[0]):
        if table[row, 2]:
            at = _place(wanted, table[row, 0], table[row, 1], TOMBSTONE, key)
            if wanted[at, 2]:
                counts[at] += 1


@compiled
def _move(table: Words, larger: Words, deleted: Words, key: Words) -> int:
    """Enter the entries of a table whose ids are not deleted into an empty one; return their number."""
    moved = 0
    for row in range(table.shape[0]):
        first, second, digest = table[row, 0], table[row, 1], table[row, 2]
        if digest and not deleted[_place(deleted, first, second, TOMBSTONE, key), 2]:
            at = _place(larger, first, second, digest, key)
            larger[at, 0], larger[at, 1], larger[at, 2] = first, second, digest
            moved += 1
    return moved


class StoreFull(PrivotError):  # noqa: N818 (a state, not a fault)
    """The disk is full: no record of the group was stored, and the sender may try again later."""


class StoreStopped(PrivotError):  # noqa: N818 (a state, not a fault)
    """The store cannot make records durable, at present or until it is opened again."""


def shards_missing(found: int, made: int) -> PrivotError:
    """Return the error of an erasure that misses shards, which may contain deleted reports."""
    return PrivotError(
        f"the release has {found} shards and the store made {made}, so deleted reports may be in those "
        "that are missing: give --release as `privot serve` has it"
    )


@dataclass(frozen=True)
class Sealing:
    """A sealing that has begun, whose records are still in the store."""

    number: int  # number of the sealing, from 0
    reports: int  # approximate number of records
    shards: tuple[int, ...]  # number of rows of each shard of earlier sealings


class Store(Protocol):
    """Protocol of stores: durable reports of one campaign."""

    @property
    def count(self) -> int:
        """Number of reports that were accepted and not deleted, sealed ones included."""

    def disk_bytes(self) -> int:
        """Return the size of the reports on the disk in bytes; 0 if it is unknown."""

    def append(self, records: Records) -> Statuses:
        """Verify records (n, L), and store new ones durably; return the status of each (n,).

        Raises:
            StoreFull: if the disk is full; nothing was stored.
            StoreStopped: if nothing can be made durable.
        """

    def begin_sealing(self) -> Sealing | None:
        """Begin a sealing of all unsealed records (None if none), or repeat an interrupted one."""

    def taken(self, sealing: Sealing) -> Iterator[Records]:
        """Yield the records of a sealing that has begun, in arrays (n, L)."""

    def finish_sealing(self, sealing: Sealing, rows: list[int]) -> None:
        """Record that the sealing's records are in new durable shards with `rows` rows each."""

    def delete(self, ids: Sequence[bytes] | None) -> int:
        """Delete the reports of ids (16 bytes each) durably, or all if None; return their number.

        Raises:
            PrivotError: if no report, stored or deleted, has one of the ids; then nothing is deleted.
        """

    def to_erase(self) -> frozenset[bytes]:
        """Return ids of deleted reports that files of the release may still contain."""

    def finish_erasing(self, rows: list[int]) -> None:
        """Record that no file of the release contains deleted reports, and the rows of each shard."""

    def close(self) -> None:
        """Close files and connections."""
