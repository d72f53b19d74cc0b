r"""A journal: lines that only ever grow, each on the disk before anything that follows from it is seen.

One file of a device, its owner's alone. A line is JSON and a seal, 16 digits of the SHA-256 of the seal
before and the JSON, so that a line that was changed, moved or taken out is found. Lines are appended
and flushed under a lock of all threads and processes; the folder is flushed with the first.

*A kill at any moment.* A line without its end was not flushed, so nobody has seen what it holds: it is
cut off, if it can be the beginning of one. A whole line may be in the machine's memory alone, where a
kill came between its writing and its flush: what is read is flushed before anything follows from it. Any
other damage, or another file, is refused and left as it is, and never taken for an empty journal.

What cannot be detected: an older copy of the whole file in its place, and last whole lines cut off.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privot.errors import PrivotError, printable

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]  # stands for "no such module"

_SEAL = 16
# The beginning of a line; or room that a file got, and no content before the power was lost.
_BEGUN = re.compile(rb"[0-9a-f]{1,16}|[0-9a-f]{16} (\{[^\n]*)?|\0+", re.DOTALL)


@dataclass
class Journal:
    """A journal's lines, while nobody else can append.

    Arguments:
        path: The file, for refusals.
        lines: Content, as JSON gives it back.
    """

    path: Path
    lines: list[dict[str, Any]]
    _handle: int
    _seal: str = field(default="0" * _SEAL)

    def append(self, line: dict[str, Any]) -> None:
        """One more line, on the disk when this returns.

        Raises:
            PrivotError: if it cannot be written; then nothing was.
        """
        if not self.lines:
            _flush_folder(self.path.parent)
        text, seal = _sealed(self._seal, line)
        whole = os.lseek(self._handle, 0, os.SEEK_END)
        try:
            written = os.write(self._handle, text)
            if written != len(text):
                raise OSError(28, "no space left")
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, whole)
            raise _cannot(self.path, "written", error) from None
        self.lines.append(line)
        self._seal = seal


@contextmanager
def holding(path: Path) -> Iterator[Journal]:
    """The journal at a path, made if it is not there, while no other thread or process holds it.

    Raises:
        PrivotError: if it cannot be read or written, or was damaged.
    """
    if fcntl is None:
        raise PrivotError("this system has no file locks that a ledger knows: use POSIX")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            journal = _read(path, handle)
        except BaseException:
            os.close(handle)
            raise
    except OSError as error:
        raise _cannot(path, "opened", error) from None
    try:
        yield journal
    finally:
        # A process forked meanwhile has the handle as well: closing would not let go of it.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _read(path: Path, handle: int) -> Journal:
    data = b""
    while block := os.pread(handle, 2**20, len(data)):
        data += block
    whole = data.rfind(b"\n") + 1
    seal, lines = "0" * _SEAL, []
    for number, text in enumerate(data[:whole].splitlines(), 1):
        try:
            line = json.loads(text[_SEAL + 1 :])
        except ValueError:
            line = None
        expected, after = _sealed(seal, line) if isinstance(line, dict) else (b"", "")
        if expected != text + b"\n":
            raise _damaged(path, number)
        seal = after
        lines.append(line)
    if whole < len(data):
        if not _BEGUN.fullmatch(data, whole):
            raise _damaged(path, len(lines) + 1)
        os.ftruncate(handle, whole)
    if lines:
        os.fsync(handle)
    return Journal(path, lines, handle, seal)


def _damaged(path: Path, number: int) -> PrivotError:
    return PrivotError(
        f"line {number} of {printable(str(path))} is damaged or no ledger's: restore the file; "
        "without it, what was reported in the last waves may be drawn a second time"
    )


def _sealed(before: str, line: dict[str, Any]) -> tuple[bytes, str]:
    text = json.dumps(line, sort_keys=True)
    seal = hashlib.sha256((before + text).encode()).hexdigest()[:_SEAL]
    return f"{seal} {text}\n".encode(), seal


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cannot(path: Path, what: str, error: OSError) -> PrivotError:
    words = f"{printable(str(path))} cannot be {what} ({error.strerror or error})"
    return PrivotError(f"{words}: give a file in a folder on a local disk, with room")
