"""Tombstones are read as they were written, and a damaged file is refused."""

import numpy as np
import pytest

from privot.collector.folder import (
    bytes_of,
    claim_sealed_ids,
    masked_ids,
    read_tombstones,
    words_of,
    write_tombstones,
)
from privot.collector.store import DELETED, DUPLICATE, TOMBSTONE, KnownIds
from privot.core.errors import PrivotError


def test_tombstones_survive_and_damage_is_refused(tmp_path):
    path, ids = tmp_path / "deleted.bin", [bytes(range(16)), b"\xff" * 16]
    assert bytes_of(read_tombstones(path)) == []
    write_tombstones(path, words_of(ids))
    assert bytes_of(read_tombstones(path)) == ids
    for data in (path.read_bytes()[:-1], b"x" + path.read_bytes()[1:], b""):
        path.write_bytes(data)
        with pytest.raises(PrivotError, match="restore it"):
            read_tombstones(path)


def test_a_file_of_sealed_ids_is_masked_once(tmp_path):
    path, entries = tmp_path / "ids.bin", np.arange(1, 31, dtype=np.uint64).reshape(10, 3)
    path.write_bytes(entries.astype("<u8").tobytes())
    known = KnownIds()
    known.bury(entries[3:4, :2])
    found = claim_sealed_ids(path, known)
    assert found.rows == 10
    assert found.crc != found.masked
    assert known.claim(entries)[0].tolist() == [DUPLICATE] * 3 + [DELETED] + [DUPLICATE] * 6
    assert known.deleted(entries[3:5, :2]).tolist() == [True, False]
    path.write_bytes(masked_ids(path, known))
    assert np.fromfile(path, "<u8").reshape(-1, 3)[3].tolist() == [10, 11, TOMBSTONE]
    again = claim_sealed_ids(path, known)
    assert again.crc == again.masked == found.masked
    assert masked_ids(path, known) is None
