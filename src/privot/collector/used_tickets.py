"""Used tickets, in a file: one that was used up is so after a restart too.

Each use is one entry behind the others, flushed before any report that it admits is stored: its end
(4 bytes), its nonce (16), and the CRC-32 of both. A loss of power may leave half of the last entry, for
which nothing was stored: it is cut off. When there are too many, those that have ended are left out, and
an entry without a nonce says until when, so that a clock which is set back later revives none of them.

**Privacy review.** Nonces and ends, in the order of arrival; no report, and no time.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from privot.collector.locks import locked
from privot.disk.state import flush_folder
from privot.errors import PrivotError
from privot.files import replacing_file

NONCE_BYTES = 16
_ENTRY = struct.Struct(f">I{NONCE_BYTES}sI")


def _entry(nonce: bytes, until: int) -> bytes:
    head = struct.pack(f">I{NONCE_BYTES}s", until, nonce)
    return head + struct.pack(">I", zlib.crc32(head))


class UsedTickets:
    """How often each ticket was used.

    Arguments:
        path: Of the file; made if there is none.

    Raises:
        PrivotError: if it is damaged, or another process has it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.latest = path, 0
        self._handle = -1
        self.seen: dict[bytes, tuple[int, int]] = {}
        self._lock = locked(path.with_name(path.name + ".lock"))
        data = path.read_bytes() if path.exists() else b""
        for at in range(0, len(data), _ENTRY.size):
            part = data[at : at + _ENTRY.size]
            if len(part) < _ENTRY.size or zlib.crc32(part[:-4]) != int.from_bytes(part[-4:], "big"):
                if at + _ENTRY.size < len(data):
                    raise PrivotError(
                        f"{path} is damaged, and with it who was admitted: restore it"
                    )
                break
            until, nonce, _ = _ENTRY.unpack(part)
            if nonce.strip(b"\0"):
                self.seen[nonce] = until, self.seen.get(nonce, (0, 0))[1] + 1
            else:
                self.latest = max(self.latest, until)
        self.forget(self.latest)

    def use(self, nonce: bytes, until: int) -> None:
        """Count a use, durably.

        Raises:
            OSError: if it cannot be written; then it is not counted, and no part of it stays.
        """
        data, size = memoryview(_entry(nonce, until)), os.fstat(self._handle).st_size
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, size)
            raise
        self.seen[nonce] = until, self.seen.get(nonce, (0, 0))[1] + 1

    def forget(self, latest: int) -> None:
        """Leave out tickets that ended by then, for good."""
        self.latest = latest
        for old in [nonce for nonce, (end, _) in self.seen.items() if end <= latest]:
            del self.seen[old]
        with replacing_file(self._path, secret=True) as draft:
            uses = [_entry(n, end) * used for n, (end, used) in self.seen.items()]
            draft.write_bytes(_entry(bytes(NONCE_BYTES), latest) + b"".join(uses))
        flush_folder(self._path.parent)
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)
        os.close(self._lock)
