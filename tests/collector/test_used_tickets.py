"""What was used up stays so after a restart, and half an entry is cut off."""

import os

import pytest

from privot.collector.used_tickets import UsedTickets
from privot.errors import PrivotError


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
