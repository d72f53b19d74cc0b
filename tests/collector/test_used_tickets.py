"""What was used up stays so after a restart, and half an entry is cut off."""

import os

import pytest

from privot.collector.admission import UsedTickets
from privot.core.errors import PrivotError


def test_uses_survive_and_damage_is_refused(tmp_path):
    path = tmp_path / "used"
    used = UsedTickets(path)
    for nonce, until in ((b"a" * 16, 5), (b"b" * 16, 9), (b"a" * 16, 5)):
        used.use(nonce, until)
    with pytest.raises(PrivotError, match="another process"):
        UsedTickets(path)
    used.close()
    os.truncate(path, path.stat().st_size - 3)
    used = UsedTickets(path)
    assert used.seen == {b"a" * 16: (5, 1), b"b" * 16: (9, 1)}
    used.forget(5)
    used.close()
    used = UsedTickets(path)
    assert (used.seen, used.latest) == ({b"b" * 16: (9, 1)}, 5)
    used.close()
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(PrivotError, match="restore it"):
        UsedTickets(path)


def test_a_use_that_cannot_be_flushed_is_not_counted_and_damages_nothing(tmp_path, monkeypatch):
    path = tmp_path / "used"
    used = UsedTickets(path)
    used.use(b"a" * 16, 5)
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(OSError, match="full"):
            used.use(b"b" * 16, 9)
    used.use(b"c" * 16, 9)
    used.close()
    used = UsedTickets(path)
    assert used.seen == {b"a" * 16: (5, 1), b"c" * 16: (9, 1)}
    used.close()
