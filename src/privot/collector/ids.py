r"""Known ids: which reports a store has, in 24 bytes a report, asked many at a time.

A report is its id and its digest (`privot.collector.records`): of one id there may be several, of which
all but one are forged, and each counts. A table of such entries with open addressing: an entry's place
is a hash of it, or the next free one. It is at most three quarters full, so that 10⁷ reports take 400
MB, and is rebuilt at each start. The hash is keyed by random words of the process, for senders choose
their ids, and could otherwise choose such as crowd one place.
"""

from __future__ import annotations

import secrets

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privot.collector.records import Words

NEW, DUPLICATE = 0, 1
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
        self.count = 0

    def claim(self, entries: Words) -> tuple[Statuses, NDArray[np.int64]]:
        """Enter what is new: each entry's status (n,), and the places taken (n,), −1 where none was.

        Of equal entries among them, the first is the one that is new.
        """
        if (needed := _capacity(self.count + len(entries))) > len(self._table):
            larger = np.zeros((needed, 3), np.uint64)
            _move(self._table, larger, self._key)
            self._table = larger
        statuses = np.empty(len(entries), np.uint8)
        places = np.empty(len(entries), np.int64)
        _claim(self._table, entries, self._key, statuses, places)
        self.count += int((statuses == NEW).sum())
        return statuses, places

    def forget(self, places: NDArray[np.int64]) -> None:
        """Undo the last `claim`, whose reports were not stored after all."""
        taken = places[places >= 0]
        self._table[taken] = 0
        self.count -= len(taken)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self._table.nbytes)


def _capacity(count: int) -> int:
    return max(_LEAST, 1 << (count * 4 // 3).bit_length())


@njit(cache=True, nogil=True)
def _place(
    first: np.uint64, second: np.uint64, digest: np.uint64, key: Words, mask: np.uint64
) -> np.uint64:
    mixed = (digest ^ key[1]) * key[0]
    mixed = (mixed ^ (mixed >> np.uint64(31)) ^ first) * key[1]
    mixed = (mixed ^ (mixed >> np.uint64(32)) ^ second) * key[0]
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(32))) & mask


@njit(cache=True, nogil=True)
def _claim(
    table: Words, entries: Words, key: Words, statuses: Statuses, places: NDArray[np.int64]
) -> None:
    mask = np.uint64(table.shape[0] - 1)
    for row in range(entries.shape[0]):
        first, second, digest = entries[row, 0], entries[row, 1], entries[row, 2]
        at = _place(first, second, digest, key, mask)
        places[row] = -1
        while True:
            if table[at, 2] == 0:
                table[at, 0], table[at, 1], table[at, 2] = first, second, digest
                statuses[row], places[row] = NEW, at
                break
            if table[at, 0] == first and table[at, 1] == second and table[at, 2] == digest:
                statuses[row] = DUPLICATE
                break
            at = (at + np.uint64(1)) & mask


@njit(cache=True, nogil=True)
def _move(table: Words, larger: Words, key: Words) -> None:
    mask = np.uint64(larger.shape[0] - 1)
    for row in range(table.shape[0]):
        if table[row, 2]:
            at = _place(table[row, 0], table[row, 1], table[row, 2], key, mask)
            while larger[at, 2]:
                at = (at + np.uint64(1)) & mask
            larger[at] = table[row]
