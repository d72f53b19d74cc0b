"""What tells that records are the same as before, wherever they are now: a hash of all their bytes.

It depends on raw records, and belongs to whoever holds these.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

_CHUNK_BYTES = 2**20


def content_of(files: Iterable[str]) -> str:
    """A hash of files' bytes, one after the other, whatever they are called."""
    whole = hashlib.sha256()
    for file in files:
        with open(file, "rb") as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                whole.update(chunk)
    return whole.hexdigest()


class HashedStream(io.RawIOBase):
    """A stream of bytes that knows what has come through it.

    Arguments:
        opened: Gives the stream when the first byte is read; it is not closed here.
    """

    def __init__(self, opened: Callable[[], BinaryIO]) -> None:
        self._open, self._hash = opened, hashlib.sha256()

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes."""
        data = self._open().read(len(buffer))
        buffer[: len(data)] = data
        self._hash.update(data)
        return len(data)

    def content(self) -> str:
        """As `content_of` a file that holds what was read."""
        return self._hash.hexdigest()
