r"""Known ids: which reports a store has, in 24 bytes a report, asked many at a time.

A report is its id and its digest (`privot.collector.records`): of one id there may be several, of which
all but one are forged, and each counts. A table of such entries with open addressing: an entry's place
is a hash of it, or the next free one. It is at most three quarters full, so that 10⁷ reports take 400
MB, and is rebuilt at each start. The hash is keyed by random words of the process, for senders choose
ids and contents, and could otherwise choose such as crowd one place.

**Deleted ids** have a table of their own, whose places are hashes of the id alone: an entry's id is
looked up there first, for a deleted id is refused with any content. (If places of reports were hashes of
ids alone, many contents of one id would crowd one place.)
"""

from __future__ import annotations

import secrets

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privot.collector.records import Words

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
