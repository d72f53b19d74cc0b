"""The state folder of a user account: a secret key, witnesses of ledgers, and accounts of records.

It is `$PRIVOT_STATE_DIR`, else `$XDG_STATE_HOME/privot`, else `~/.local/state/privot`, readable by its
owner alone, and contains

    lock             file lock, held by one thread of one process at a time
    key              32 random bytes, made once
    ledgers/         a witness of every ledger: how much is spent, and the head of its chain
    accounts/        the runs on each set of records
    pipes/           reports that may not have gone through a pipe (`privot.randomizer.privatize`)

The folder must stay secret: with the key, anybody can test whether a guessed set of records was used.
A lost key is not replaced while accounts exist, because every run would then count as the first on its
records. A key that others may read, or a folder that they may write to, is refused. File locks are
reliable on local disks only: keep the state folder on one.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privot.core.errors import PrivotError
from privot.core.files import flush, replacing_file

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]  # stands for "no such module"


@contextmanager
def holding_state() -> Iterator[Path]:
    """Yield the state folder, locked against other threads and processes."""
    folder = state_folder()
    try:
        for part in (folder, folder / "ledgers", folder / "accounts"):
            part.mkdir(parents=True, exist_ok=True, mode=0o700)
            _require_private(part, 0o022, "written to", 700)
        # `flock` excludes threads, too, if each opens the file itself.
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PrivotError(
            f"{folder} cannot be written ({error.strerror}): set PRIVOT_STATE_DIR to a folder that "
            "stays and that this account may write to"
        ) from None
    try:
        _lock(handle, folder)
        try:
            yield folder
        finally:
            # A child forked meanwhile shares the handle: closing it here would not release the lock.
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def secret_key() -> bytes:
    """Return the 32-byte key of this account's digests; make it on first use."""
    with holding_state() as folder:
        path = folder / "key"
        if not path.exists():
            if any((folder / "accounts").iterdir()) or any((folder / "pipes").glob("*")):
                raise PrivotError(
                    f"{path} is gone, and with another nothing is found again: restore it, or move "
                    f"{folder} away, and with it all that is known of earlier runs"
                )
            with replacing_file(path, secret=True) as draft:
                draft.write_bytes(secrets.token_bytes(32))
            flush_folder(folder)
        _require_private(path, 0o077, "read or written", 600)
        key = path.read_bytes()
    if len(key) != 32:
        raise PrivotError(f"{path} is damaged: restore it; without it, no account is found again")
    return key


def write_down(path: Path, fields: Any) -> None:
    """Write JSON to a file, readable by its owner alone, and flush it to the disk."""
    with writing_down(path, fields):
        pass


@contextmanager
def writing_down(path: Path, fields: Any) -> Iterator[None]:
    """Write a draft of the file, run the block, then rename: without room, the block does not run."""
    with replacing_file(path, secret=True) as draft:
        draft.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
        flush(draft)
        yield
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Flush a folder's renames to the disk; raise PrivotError where the file system cannot."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise PrivotError(
            f"{folder} cannot be flushed to its disk ({error.strerror or error}), and what was just "
            "written there may be lost with the power: use a folder on a local disk"
        ) from None


def _require_private(path: Path, rights: int, what: str, mode: int) -> None:
    if path.stat().st_mode & rights:
        raise PrivotError(
            f"{path} may be {what} by others: if none of them has done so, `chmod {mode} {path}`"
        )


def _lock(handle: int, folder: Path) -> None:
    if fcntl is None:
        raise PrivotError("this system has no file locks that ledgers know: use POSIX")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        raise PrivotError(
            f"{folder} cannot be locked ({error.strerror}): set PRIVOT_STATE_DIR to a folder on a "
            "local disk"
        ) from None


def state_folder() -> Path:
    """Return the path of the state folder, without making it."""
    if given := os.environ.get("PRIVOT_STATE_DIR"):
        return Path(given).absolute()
    try:
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise PrivotError(
            "this account has no home folder: set PRIVOT_STATE_DIR to a folder that stays"
        ) from None
    return Path(home) / "privot"
