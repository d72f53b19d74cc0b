r"""Records: reports of one campaign in their binary form, all of one length, as rows of bytes (n, L).

Each has two fingerprints of its content: the CRC-32 that it ends with, which tells damage, and a
64-bit digest (FNV-1a), which tells a copy from another report of the same id. The digest keeps out
accidents and not adversaries; who finds a second content of one digest for their own id is told
"duplicate" rather than "conflict", and the first report stays in either case.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privot.device.report import FINGERPRINT_BYTES, ID_BYTES

Records = NDArray[np.uint8]
Words = NDArray[np.uint64]

ID_AT = 1 + FINGERPRINT_BYTES
PAYLOAD_AT = ID_AT + ID_BYTES + 4 + 1 + 4
CRC_BYTES = 4
_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


def _crc_table() -> NDArray[np.uint32]:
    """Of the reflected polynomial of zlib."""
    table: NDArray[np.uint32] = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = np.where(table & 1, np.uint32(0xEDB88320), np.uint32(0))
        table = ((table >> 1) ^ odd).astype(np.uint32)
    return table


_CRC = _crc_table()


def sums_of(records: Records) -> tuple[NDArray[np.bool_], Words]:
    """Whether each record's checksum is right (n,), and entries (n, 3): its id and its digest.

    Entries are what is known of a report for ever: two words of its id, the highest byte first, and
    its digest, which is never 0.
    """
    right = np.empty(len(records), np.bool_)
    entries = np.empty((len(records), 3), np.uint64)
    _sums(records, _CRC, right, entries)
    return right, entries


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
        digest = _OFFSET
        for at in range(end):
            byte = record[at]
            crc = table[(crc ^ byte) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
            digest = (digest ^ np.uint64(byte)) * _PRIME
        crc ^= np.uint32(0xFFFFFFFF)
        told = np.uint32(0)
        for at in range(end, end + CRC_BYTES):
            told = (told << np.uint32(8)) | np.uint32(record[at])
            digest = (digest ^ np.uint64(record[at])) * _PRIME
        right[row] = crc == told
        for word in range(2):
            value = np.uint64(0)
            for at in range(ID_AT + 8 * word, ID_AT + 8 * word + 8):
                value = (value << np.uint64(8)) | np.uint64(record[at])
            entries[row, word] = value
        entries[row, 2] = digest if digest else np.uint64(1)
