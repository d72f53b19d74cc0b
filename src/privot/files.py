"""Writing files so that a full disk, or a kill in the middle, never costs what was there before.

New content is written beside its destination, flushed to the disk, and renamed over it; the rename
is atomic, so a reader sees the old file or the new one, never half of either.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privot.errors import PrivotError


@contextmanager
def replacing_file(path: str | Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` only if the block ends without an error.

    Raises:
        PrivotError: if the disk is full, the folder is missing or may not be written to.
    """
    path = Path(path)
    draft = beside(path)
    try:
        yield draft
        flush(draft)
        os.replace(draft, path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """A new folder to fill, which takes the place of `path` only if the block ends without an error.

    A folder cannot be replaced in one step: the old one is first set aside as `<name>.previous`, and
    [`recover_folder`][privot.files.recover_folder] brings it back if a kill hits between the two
    renames.
    """
    path = Path(path)
    draft = beside(path)
    previous = path.with_name(path.name + ".previous")
    try:
        draft.mkdir(parents=True)
        yield draft
        for file in draft.iterdir():
            flush(file)
        recover_folder(path)
        if path.exists():
            if previous.exists():
                shutil.rmtree(previous)
            os.rename(path, previous)
        os.rename(draft, path)
        shutil.rmtree(previous, ignore_errors=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def recover_folder(path: Path) -> None:
    """Finish what a kill between the two renames of `replacing_folder` left undone."""
    previous = path.with_name(path.name + ".previous")
    if previous.exists() and not path.exists():
        os.rename(previous, path)


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
