"""Atomic writes of files and folders, the rules for the outputs of all commands, and the state folder.

**Writes are atomic** (`replacing_file`, `replacing_folder`, `write_json`). A full disk or a killed
process never destroys an existing file: new content is written to a draft in the destination's folder,
flushed to the disk, and renamed over the destination. The rename is atomic, so a reader sees the old
file or the new one. If the destination is a link, its target is replaced.

**Permissions.** A `secret` file, which only the holder of raw records may read, is readable by its owner
alone from its first byte on. Any other file gets the system's default permissions for new files,
whatever permissions the draft has.

**Outputs are checked before anything is computed** (`claim_file`, `claim_folder`):

1. An output that exists, other than an empty folder, is refused; `force` replaces it at the end.
2. An output must not be an input, contain one, or lie in one, even through links or with `force`.
3. A folder is replaced only if the command could have written every file in it, judged by name, so that
   no home folder is deleted by mistake. A file does not replace a folder, nor a folder a file.
4. The parent folder exists and is writable; the suffix determines the format.

**The state folder** of a user account is `$PRIVOT_STATE_DIR`, else `$XDG_STATE_HOME/privot`, else
`~/.local/state/privot`, readable by its owner alone, and contains

    lock             file lock, held by one thread of one process at a time
    key              32 random bytes, made once
    ledgers/         a witness of every ledger: how much is spent, and the head of its chain
    accounts/        the runs on each set of records
    pipes/           reports that may not have gone through a pipe (`privot.randomizer.privatize`)

The folder must stay secret: with the key, anybody can test whether a guessed set of records was used.
A key that others may read, or a folder that they may write to, is refused. A lost key is not replaced
while accounts exist, because every run would then count as the first on its records. File locks are
reliable on local disks only.
"""

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from privot.core.errors import PrivotError, printable

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]  # its users test for None


def read_text(path: str | Path, noun: str) -> str:
    """Return the text of a UTF-8 file; raise a PrivotError that names it by `noun` and path."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PrivotError(f"{noun} {printable(str(path))} cannot be read: {error}") from None


@contextmanager
def replacing_file(path: str | Path, *, secret: bool = False) -> Iterator[Path]:
    """Yield an empty draft to write to, which replaces `path` if the block ends without an error."""
    path = Path(os.path.realpath(path))
    draft = draft_path(path)
    try:
        permissions = create(draft, secret=secret)
        yield draft
        os.chmod(draft, permissions)
        flush(draft)
        os.replace(draft, path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        draft.unlink(missing_ok=True)


def write_file(path: str | Path, content: str | bytes, *, secret: bool = False) -> None:
    """Write a whole file, text in UTF-8; an existing file survives any failure."""
    with replacing_file(path, secret=secret) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing_folder(path: str | Path, *, secret: bool = False) -> Iterator[Path]:
    """Yield a draft of a folder to fill, which replaces `path` if the block ends without an error.

    A folder cannot be replaced in one step: the old one is first renamed to a hidden name, and
    `recover_folder` restores it if the process is killed between the two renames.
    """
    path = Path(os.path.realpath(path))
    draft = draft_path(path)
    previous = _previous(path)
    try:
        draft.mkdir(parents=True, mode=0o700 if secret else 0o777)
        yield draft
        for file in list(draft.rglob("*")):
            if file.is_file():
                if secret:
                    os.chmod(file, 0o600)
                flush(file)
        recover_folder(path)
        if path.exists():
            if previous.exists():
                shutil.rmtree(previous)
            os.rename(path, previous)
        os.rename(draft, path)
        if secret:  # so that what is stored and acknowledged later is not lost with the name
            flush_folder(path.parent)
        shutil.rmtree(previous, ignore_errors=True)
    except OSError as error:
        with suppress(OSError):
            recover_folder(path)
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def recover_folder(path: Path) -> None:
    """Restore the old folder if `replacing_folder` was killed between its two renames."""
    path = Path(os.path.realpath(path))
    previous = _previous(path)
    if previous.exists() and not path.exists():
        os.rename(previous, path)


def _previous(path: Path) -> Path:
    """Return the hidden path to which `replacing_folder` moves the old folder."""
    return path.with_name(f".{path.name}.previous")


def create(path: Path, *, secret: bool) -> int:
    """Create an empty file, readable by its owner alone if `secret`; return its permission bits."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o666)
    try:
        return os.fstat(handle).st_mode & 0o777
    finally:
        os.close(handle)


def draft_path(path: Path) -> Path:
    """Return a random path for a draft of `path`, in the same folder."""
    # The same folder is on the same file system: a rename across file systems is not atomic.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")


def flush(file: Path) -> None:
    """Flush a file's content to the disk."""
    with open(file, "rb+") as handle:
        os.fsync(handle.fileno())


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


def cannot_write(path: Path, error: OSError) -> PrivotError:
    """Return the error for a full disk, or a folder without permission to write."""
    return PrivotError(f"{path} cannot be written ({error.strerror or error}); nothing was changed")


def write_json(path: Path, fields: Any) -> None:
    """Write JSON values to a file, readable by its owner alone, and flush it to the disk."""
    write_file(path, _json_text(fields), secret=True)
    flush_folder(path.parent)


@contextmanager
def writing_json(path: Path, fields: Any) -> Iterator[None]:
    """Replace a JSON file after the block; if it cannot be written, raise before the block runs."""
    with replacing_file(path, secret=True) as draft:
        draft.write_text(_json_text(fields), encoding="utf-8")
        flush(draft)
        yield
    flush_folder(path.parent)


def _json_text(fields: Any) -> str:
    return json.dumps(fields, indent=1) + "\n"


def open_locked(path: Path, flags: int = 0, busy: str | None = None) -> int:
    """Open a file and lock it against other threads and processes.

    Arguments:
        path: Path on a local disk; a missing file is created, readable by its owner alone.
        flags: Further flags of `os.open`.
        busy: Message of the error if the file is locked already; None to wait until it is unlocked.

    Raises:
        OSError: if the file cannot be opened.
        PrivotError: if it cannot be locked.
    """
    if fcntl is None:
        raise PrivotError("this system has no file locks, which ledgers need: use Linux or macOS")
    # `flock` excludes other threads, too, if every thread opens the file itself.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
    except OSError as error:
        os.close(handle)
        raise PrivotError(
            busy
            or f"{path} cannot be locked ({error.strerror}): keep it on a local disk "
            "(PRIVOT_STATE_DIR moves the state folder)"
        ) from None
    return handle


def close_locked(handle: int) -> None:
    """Unlock and close a file that `open_locked` opened."""
    # A child process that was forked meanwhile shares the handle: closing it here would keep the lock.
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


# Outputs.


def claim_file(
    path: Path, *, inputs: Iterable[Path] = (), suffixes: tuple[str, ...] = (), force: bool = False
) -> None:
    """Raise PrivotError if writing a file would break a rule of this module, or is impossible.

    Arguments:
        path: The output.
        inputs: Files and folders that the command reads.
        suffixes: Allowed suffixes of the name; any by default.
        force: Whether to replace an existing file.
    """
    if suffixes and not path.name.endswith(suffixes):
        raise PrivotError(f"{path} has an unknown format: use one of {', '.join(suffixes)}")
    require_place(path, inputs)
    if os.path.isdir(path):
        raise PrivotError(f"{path} is a folder: give -o the name of a file")
    if os.path.exists(path) and not os.path.isfile(path):
        raise PrivotError(f"{path} is no ordinary file: give -o another name")
    if os.path.exists(path) and not force:
        raise _exists_error(path)


def claim_folder(
    path: Path, patterns: Iterable[str], *, inputs: Iterable[Path] = (), force: bool = False
) -> None:
    """Raise PrivotError if writing a folder would break a rule of this module, or is impossible.

    `patterns` match the paths of all files that the command writes in the folder. `claim_file` describes
    the other arguments.
    """
    require_place(path, inputs)
    recover_folder(path)
    if os.path.exists(path) and not os.path.isdir(path):
        raise PrivotError(f"{path} is a file: give -o the name of a folder")
    existing = [file.relative_to(path) for file in path.rglob("*") if not file.is_dir()]
    if existing and not force:
        raise _exists_error(path)
    for file in existing:
        if not any(fnmatch(file.as_posix(), pattern) for pattern in patterns):
            raise PrivotError(
                f"{path} holds {file}, which is not replaced: name another, or remove it yourself"
            )


def require_place(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise PrivotError if an output overlaps an input, or its folder is not writable."""
    if path.name in ("", ".."):
        raise PrivotError(f"-o {path} has no name: give a file or folder to write")
    for source in inputs:
        if _overlap(path, source):
            raise PrivotError(f"{path} overlaps the input {source}: give -o another place")
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        raise PrivotError(f"{path} cannot be written: {real.parent} is no folder; make it first")
    draft = draft_path(real)
    try:
        create(draft, secret=True)  # only an attempt tests permissions, quota, disk and long names
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _overlap(output: Path, source: Path) -> bool:
    """Return whether two paths are one file, or one contains the other."""
    if os.path.exists(output) and os.path.exists(source) and os.path.samefile(output, source):
        return True
    output, source = Path(os.path.realpath(output)), Path(os.path.realpath(source))
    return output == source or source in output.parents or output in source.parents


def _exists_error(path: Path) -> PrivotError:
    return PrivotError(f"{path} exists: give another -o, or --force to replace it")


# The state folder.


def state_folder() -> Path:
    """Return the path of the state folder, which may not exist."""
    if given := os.environ.get("PRIVOT_STATE_DIR"):
        return Path(given).absolute()
    try:
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise PrivotError(
            "this account has no home folder: set PRIVOT_STATE_DIR to a folder that stays"
        ) from None
    return Path(home) / "privot"


@contextmanager
def holding_state() -> Iterator[Path]:
    """Create the state folder if needed, lock it against other threads and processes, and yield it."""
    folder = state_folder()
    try:
        for part in (folder, folder / "ledgers", folder / "accounts"):
            part.mkdir(parents=True, exist_ok=True, mode=0o700)
            _require_private(part, 0o022, "written to", "700")
        handle = open_locked(folder / "lock")
    except OSError as error:
        raise PrivotError(
            f"{folder} cannot be written ({error.strerror}): set PRIVOT_STATE_DIR to a folder that "
            "stays and that this account may write to"
        ) from None
    try:
        yield folder
    finally:
        close_locked(handle)


def secret_key() -> bytes:
    """Return the 32-byte key of this account's digests, created on first use but never replaced."""
    with holding_state() as folder:
        path = folder / "key"
        if not path.exists():
            if any((folder / "accounts").iterdir()) or any((folder / "pipes").glob("*")):
                raise PrivotError(
                    f"{path} is gone, and a new key would not find earlier accounts: restore it, "
                    f"or move {folder} away, with all accounts"
                )
            with replacing_file(path, secret=True) as draft:
                draft.write_bytes(secrets.token_bytes(32))
            flush_folder(folder)
        _require_private(path, 0o077, "read or written", "600")
        key = path.read_bytes()
    if len(key) != 32:
        raise PrivotError(f"{path} is damaged: restore it; without it, no account is found again")
    return key


def _require_private(path: Path, forbidden: int, access: str, remedy: str) -> None:
    """Raise PrivotError if others have a permission bit of `forbidden`, which allows `access`."""
    if path.stat().st_mode & forbidden:
        raise PrivotError(
            f"{path} may be {access} by others: if none of them has done so, `chmod {remedy} {path}`"
        )
