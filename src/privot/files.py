"""Writing files so that a full disk, or a kill in the middle, never costs what was there before.

New content is written beside its destination, flushed to the disk, and renamed over it; the rename
is atomic, so a reader sees the old file or the new one, never half of either. Where the destination is a
link, what it leads to is replaced.

**Who may read it** is decided by whoever writes: what belongs to the holder of raw records is `secret`,
readable by its owner only from its first byte on; anything else gets the rights that the system gives
new files, whatever wrote the draft.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from privot.errors import PrivotError


@contextmanager
def replacing_file(path: str | Path, *, secret: bool = False) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` only if the block ends without an error.

    Raises:
        PrivotError: if the disk is full, the folder is missing or may not be written to.
    """
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
    """A new folder to fill, which takes the place of `path` only if the block ends without an error.

    A folder cannot be replaced in one step: the old one is first set aside under a hidden name, and
    [`recover_folder`][privot.files.recover_folder] brings it back if a kill hits between the two
    renames.
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
    """Where an old folder waits; hidden, so that nothing a person calls so is ever removed."""
    return path.with_name(f".{path.name}.previous")


def create(draft: Path, *, secret: bool) -> int:
    """An empty file, and the rights it has: its owner's alone, or those of any new file."""
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o666)
    try:
        return os.fstat(handle).st_mode & 0o777
    finally:
        os.close(handle)


def beside(path: Path) -> Path:
    """A new name for a draft of `path`."""
    # Same folder, hence same file system: a rename across file systems is not atomic.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")


def flush(file: Path) -> None:
    """Have the disk hold a file's content before anything else is done."""
    with open(file, "rb+") as handle:
        os.fsync(handle.fileno())


def cannot_write(path: Path, error: OSError) -> PrivotError:
    """What to raise when the disk is full, or a folder may not be written to."""
    return PrivotError(f"{path} cannot be written ({error.strerror or error}); nothing was changed")
