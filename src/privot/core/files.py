"""Files that are whole or not there, the rule for every output of every command, and the state folder.

A full disk, or a kill in the middle, never costs what was there before: new content is written beside
its destination, flushed to the disk, and renamed over it; the rename is atomic, so a reader sees the old
file or the new one, never half of either. Where the destination is a link, what it leads to is replaced.

**Who may read it** is decided by whoever writes: what belongs to the holder of raw records is `secret`,
readable by its owner only from its first byte on; anything else gets the rights that the system gives
new files, whatever wrote the draft.

**What may be written** is decided before anything is computed (`claim_file`, `claim_folder`):

1. *Existing files stay*: an output that exists is refused, or with `force` replaced once the new one is
   whole. An empty folder is as good as none.
2. *An input is never an output*, even with `force`: not through links, not inside of a folder that is
   read, nor as a folder around what is read.
3. A folder is replaced only if it holds nothing else than such outputs do: whoever names their home
   keeps it. Neither takes a file the place of a folder, nor a folder that of a file.
4. The folder that it is to lie in is there, and may be written to; the suffix tells what is written.

**The state folder** is what a user account stores beside its ledgers, checkpoints and models, in
`$PRIVOT_STATE_DIR`, else `$XDG_STATE_HOME/privot`, else `~/.local/state/privot`, readable by its
owner alone:

    lock             held by one thread of one process at a time
    key              32 random bytes, made once
    ledgers/         a witness of every ledger: how much is spent, and the head of its chain
    accounts/        the runs on each set of records
    pipes/           reports that may not have gone through a pipe (`privot.randomizer.privatize`)

Nothing in it may leave: with the key, somebody could test whether a set of records is the one that was
used. A key that is gone is not made anew while it is needed: every run would pass for the first. A key
that others may read, or a folder that they may write to, is refused: rights are made so here, and
changed elsewhere. The lock is only as good as the file system: keep the state folder on a local disk.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from privot.core.errors import PrivotError

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]  # stands for "no such module"


@contextmanager
def replacing_file(path: str | Path, *, secret: bool = False) -> Iterator[Path]:
    """Yield a path to write to, which replaces `path` only if the block ends without an error."""
    path = Path(os.path.realpath(path))
    draft = beside(path)
    try:
        rights = create(draft, secret=secret)
        yield draft
        os.chmod(draft, rights)
        flush(draft)
        os.replace(draft, path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path, *, secret: bool = False) -> Iterator[Path]:
    """Yield a new folder to fill, which replaces `path` only if the block ends without an error.

    A folder cannot be replaced in one step: the old one is first set aside under a hidden name, and
    `recover_folder` brings it back if a kill hits between the two renames.
    """
    path = Path(os.path.realpath(path))
    draft = beside(path)
    previous = _previous(path)
    try:
        draft.mkdir(parents=True, mode=0o700 if secret else 0o777)
        yield draft
        for file in [file for file in draft.rglob("*") if file.is_file()]:
            if secret:
                os.chmod(file, 0o600)
            flush(file)
        recover_folder(path)
        if path.exists():
            if previous.exists():
                shutil.rmtree(previous)
            os.rename(path, previous)
        os.rename(draft, path)
        shutil.rmtree(previous, ignore_errors=True)
    except OSError as error:
        with suppress(OSError):
            recover_folder(path)
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def recover_folder(path: Path) -> None:
    """Finish what a kill between the two renames of `replacing_folder` left undone."""
    path = Path(os.path.realpath(path))
    previous = _previous(path)
    if previous.exists() and not path.exists():
        os.rename(previous, path)


def _previous(path: Path) -> Path:
    """Return the hidden name under which an old folder waits to be removed."""
    return path.with_name(f".{path.name}.previous")


def create(draft: Path, *, secret: bool) -> int:
    """Create an empty file and return its rights: its owner's alone, or those of any new file."""
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o666)
    try:
        return os.fstat(handle).st_mode & 0o777
    finally:
        os.close(handle)


def beside(path: Path) -> Path:
    """Return a new name for a draft of `path`, in the same folder."""
    # Same folder, hence same file system: a rename across file systems is not atomic.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")


def flush(file: Path) -> None:
    """Flush a file's content to the disk."""
    with open(file, "rb+") as handle:
        os.fsync(handle.fileno())


def cannot_write(path: Path, error: OSError) -> PrivotError:
    """Return the error to raise when the disk is full, or a folder may not be written to."""
    return PrivotError(f"{path} cannot be written ({error.strerror or error}); nothing was changed")


def claim_file(
    path: Path, *, inputs: Iterable[Path] = (), suffixes: tuple[str, ...] = (), force: bool = False
) -> None:
    """Refuse, by the rule of the module, a file that may not, or could not, be written.

    Arguments:
        path: The output.
        inputs: What the command reads.
        suffixes: Suffixes that its name can have; any by default.
        force: Whether one that exists is to be replaced.
    """
    if suffixes and not path.name.endswith(suffixes):
        raise PrivotError(f"{path} has an unknown format: use one of {', '.join(suffixes)}")
    require_place(path, inputs)
    if os.path.isdir(path):
        raise PrivotError(f"{path} is a folder: give -o the name of a file")
    if os.path.exists(path) and not os.path.isfile(path):
        raise PrivotError(f"{path} is no ordinary file: give -o another name")
    if os.path.exists(path) and not force:
        raise _exists(path)


def claim_folder(
    path: Path, holds: Iterable[str], *, inputs: Iterable[Path] = (), force: bool = False
) -> None:
    """Refuse, by the rule of the module, a folder that may not, or could not, be written.

    Arguments:
        path: The output.
        holds: Patterns of the names of all files that such a folder may hold.
        inputs: What the command reads.
        force: Whether one that exists is to be replaced.
    """
    require_place(path, inputs)
    recover_folder(path)
    if os.path.exists(path) and not os.path.isdir(path):
        raise PrivotError(f"{path} is a file: give -o the name of a folder")
    held = [file.relative_to(path) for file in path.rglob("*") if not file.is_dir()]
    if held and not force:
        raise _exists(path)
    for file in held:
        if not any(fnmatch(file.as_posix(), pattern) for pattern in holds):
            raise PrivotError(
                f"{path} holds {file}, which is not replaced: name another, or remove it yourself"
            )


def require_place(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse an output that is an input too, or whose folder cannot be written to."""
    if path.name in ("", ".."):
        raise PrivotError(f"-o {path} names nothing of its own: give a file or folder to write")
    for given in inputs:
        if _overlap(path, given):
            raise PrivotError(
                f"{path} is, holds, or lies in what is read, {given}: give -o another place"
            )
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        raise PrivotError(f"{path} cannot be written: {real.parent} is no folder; make it first")
    draft = beside(real)
    try:
        create(draft, secret=True)  # rights, quotas, read-only disks, long names: only trying tells
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _overlap(path: Path, given: Path) -> bool:
    if os.path.exists(path) and os.path.exists(given) and os.path.samefile(path, given):
        return True
    output, read = Path(os.path.realpath(path)), Path(os.path.realpath(given))
    return output == read or read in output.parents or output in read.parents


def _exists(path: Path) -> PrivotError:
    return PrivotError(f"{path} exists: give another -o, or --force to replace it")


@contextmanager
def holding_state() -> Iterator[Path]:
    """Yield the state folder, locked against other threads and processes."""
    folder = state_folder()
    try:
        for part in (folder, folder / "ledgers", folder / "accounts"):
            part.mkdir(parents=True, exist_ok=True, mode=0o700)
            _require_private(part, 0o022, "written to", 700)
        # A handle of its own each time: such locks keep threads apart as they do processes.
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
            # A process forked meanwhile has the handle as well: closing would not let go of it.
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def secret_key() -> bytes:
    """Return the key of this account's digests, made on first use."""
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
    """Write JSON to a file that its owner alone can read and that survives a loss of power."""
    with replacing_file(path, secret=True) as draft:
        _fill(draft, fields)
    flush_folder(path.parent)


@contextmanager
def writing_down(path: Path, fields: Any) -> Iterator[None]:
    """Write it before the block and rename it after: the block runs only if writing is possible."""
    with replacing_file(path, secret=True) as draft:
        _fill(draft, fields)
        flush(draft)
        yield
    flush_folder(path.parent)


def _fill(draft: Path, fields: Any) -> None:
    draft.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")


def flush_folder(folder: Path) -> None:
    """Make renames in a folder survive a loss of power, or refuse a file system that cannot."""
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
