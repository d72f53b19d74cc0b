"""What a folder's store has sealed, and what it is sealing: one small file, replaced as a whole."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from privot.disk.state import write_down
from privot.errors import PrivotError

_FORMAT = 1


@dataclass(frozen=True)
class SealedSoFar:
    """What was sealed.

    Arguments:
        ids: Of each sealing, how many reports it took, and the CRC-32 of its file of ids.
        shards: Rows of the shards that were made of them.
        first: The first segment that is not sealed.
        sealing: The first segment that is not being sealed either; `first` if nothing is.
        erased: How many of the deleted reports, in order, are in no file of the release any more.
    """

    ids: tuple[tuple[int, int], ...] = ()
    shards: tuple[int, ...] = ()
    first: int = 0
    sealing: int = 0
    erased: int = 0

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a file; nothing, if there is none.

        Raises:
            PrivotError: if it is damaged, or from a newer version.
        """
        if not path.exists():
            return cls()
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            version = fields.pop("format")
            ids = tuple((int(rows), int(crc)) for rows, crc in fields.pop("ids"))
            found = cls(ids, tuple(fields.pop("shards")), **fields)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            version, found = None, cls()
        if version != _FORMAT:
            damaged = "is damaged: restore it" if version is None else "is newer: upgrade privot"
            raise PrivotError(f"{path} {damaged}")
        return found

    def write(self, path: Path) -> None:
        """Replace the file, durably."""
        write_down(path, {"format": _FORMAT} | asdict(self))
