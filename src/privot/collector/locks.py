"""A lock that one process holds for as long as it lives, however it ends."""

from __future__ import annotations

import os
from pathlib import Path

from privot.errors import PrivotError

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]  # stands for "no such module"


def locked(path: Path) -> int:
    """A handle that holds the lock for as long as it is open.

    Raises:
        PrivotError: if somebody else does.
    """
    if fcntl is None:
        raise PrivotError(
            "this system has no file locks that a store knows: use POSIX, or PostgreSQL"
        )
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise PrivotError(
            f"{path.parent} is served by another process: stop that one, or name another folder"
        ) from None
    return handle
