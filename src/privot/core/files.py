"""Files that are whole or not there, and the rule for every output of every command.

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
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

from privot.core.errors import PrivotError


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
        suffixes: Of names that it can have; any without.
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
