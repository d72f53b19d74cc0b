"""A lock ends with its process, however that ends, and no sooner."""

import os
import signal

import pytest

from privot.collector.admission import UsedTickets
from privot.core.errors import PrivotError


def test_another_process_is_refused_until_it_is_killed(tmp_path):
    read, write = os.pipe()
    if not (holder := os.fork()):
        UsedTickets(tmp_path / "used")
        os.write(write, b"held")
        signal.pause()
        os._exit(0)
    os.close(write)
    try:
        assert os.read(read, 4) == b"held"
        with pytest.raises(PrivotError, match="served by another process: stop that one"):
            UsedTickets(tmp_path / "used")
    finally:
        os.close(read)
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
    UsedTickets(tmp_path / "used").close()
