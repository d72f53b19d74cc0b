r"""Records: reports of one campaign in their binary form, all of one length, as rows of bytes (n, L).

The CRC-32 that each ends with tells damage. **What a report is** are its id and its payload, and of a
campaign with a panel its wave: they are what a release has of it. A report that has all of them of
another is a copy of it; one of the same id and another payload, or wave, is another report, and counts
as one. So whoever knows somebody's id, and sends first, adds a report, as anybody can with an id of
their own, and neither replaces nor strikes out that person's. The digest that tells contents apart is
64 bits of SHA-256: to have a report taken for a copy, somebody has to find a second payload of its
digest.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privot.device.report import FINGERPRINT_BYTES, ID_BYTES

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
