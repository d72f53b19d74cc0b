"""The rule for every output of every command, applied before anything is computed.

1. **What exists is kept**: an output that is there is refused, and replaced where that was said
   (`force`), once the new one is whole (`privot.files`). An empty folder is as good as none.
2. **An input is never an output**, whatever was said: not through links, not inside of a folder that is
   read, nor as a folder around what is read.
3. A folder is replaced only if it holds nothing else than such outputs do: whoever names their home
   keeps it. Neither takes a file the place of a folder, nor a folder that of a file.
4. The folder that it is to lie in is there, and may be written to; the suffix tells what is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from privot.errors import PrivotError
from privot.files import beside, cannot_write, create, recover_folder


def claim_file(
    path: Path, *, inputs: Iterable[Path] = (), suffixes: tuple[str, ...] = (), force: bool = False
) -> None:
    """Refuse a file that may not, or could not, be written.

    Arguments:
        path: The output.
        inputs: What the command reads.
        suffixes: Of names that it can have; any without.
        force: Whether one that exists is to be replaced.

    Raises:
        PrivotError: by the rule of the module.
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
    """Refuse a folder that may not, or could not, be written.

    Arguments:
        path: The output.
        holds: Patterns of the names of all files that such a folder may hold.
        inputs: What the command reads.
        force: Whether one that exists is to be replaced.

    Raises:
        PrivotError: by the rule of the module.
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
