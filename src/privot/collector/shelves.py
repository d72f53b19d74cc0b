"""Shelves: where shards of a release lie, a folder of this machine or any address that fsspec knows.

**Privacy review.** Post-processing: files of reports are written, read again, and replaced as a whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol
from urllib.parse import urlsplit

import fsspec

from privot.disk.state import flush_folder
from privot.errors import PrivotError
from privot.files import replacing_file


class Shelf(Protocol):
    """Where shards go."""

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A file to write, which is there durably and as a whole after the block."""
        ...

    def names(self) -> list[str]:
        """Names of all files, in order; none where there is no shelf yet."""
        ...

    def fetch(self, name: str, copy: Path) -> None:
        """Copy a file."""
        ...


@dataclass(frozen=True)
class FolderShelf:
    """A folder of this machine."""

    folder: Path

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """See `Shelf`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing_file(self.folder / name) as draft:
            yield draft
        flush_folder(self.folder)

    def names(self) -> list[str]:
        """See `Shelf`."""
        if not self.folder.is_dir():
            return []
        return sorted(file.name for file in self.folder.iterdir() if file.is_file())

    def fetch(self, name: str, copy: Path) -> None:
        """See `Shelf`."""
        shutil.copyfile(self.folder / name, copy)


@dataclass(frozen=True)
class AddressShelf:
    """An address of fsspec's: its stores put a file as a whole."""

    address: str

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """See `Shelf`."""
        with TemporaryDirectory(prefix="privot-") as work:
            draft = Path(work) / name
            draft.touch()
            yield draft
            with self._reached("written") as (files, root):
                files.makedirs(root, exist_ok=True)
                files.put_file(str(draft), f"{root}/{name}")

    def names(self) -> list[str]:
        """See `Shelf`."""
        with self._reached("read") as (files, root):
            if not files.isdir(root):
                return []
            return sorted(str(path).rpartition("/")[2] for path in files.ls(root, detail=False))

    def fetch(self, name: str, copy: Path) -> None:
        """See `Shelf`."""
        with self._reached("read") as (files, root):
            files.get_file(f"{root}/{name}", str(copy))

    @contextmanager
    def _reached(self, done: str) -> Iterator[tuple[fsspec.AbstractFileSystem, str]]:
        """The file system, and the path in it."""
        try:
            yield fsspec.core.url_to_fs(self.address)
        except (OSError, ImportError, ValueError) as error:
            said = type(error).__name__
            raise PrivotError(
                f"{self.address} cannot be {done} ({said}): check the address; nothing is lost"
            ) from None


def shelf_at(address: str) -> Shelf:
    """A folder by its path or `file://`; any other address by fsspec."""
    parts = urlsplit(address)
    if not parts.scheme:
        return FolderShelf(Path(address))
    if parts.scheme == "file":
        return FolderShelf(Path(parts.path))
    return AddressShelf(address.rstrip("/"))
