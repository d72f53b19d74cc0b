"""A lock ends with its process, however that ends, and no sooner."""

import os
import subprocess
import sys

import pytest

from privot.collector.admission import locked
from privot.core.errors import PrivotError

_HOLD = "import sys; from privot.collector.admission import locked; from pathlib import Path; "
_HOLD += "locked(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"


def test_another_process_is_refused_until_it_is_killed(tmp_path):
    command = [sys.executable, "-c", _HOLD, tmp_path / "lock"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=os.environ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(PrivotError, match="served by another process: stop that one"):
            locked(tmp_path / "lock")
        holder.kill()
        holder.wait()
        os.close(locked(tmp_path / "lock"))
