"""Sealing: records become shards of a release, in random order, that `privot fit` reads.

A sealing takes all that a store holds, reads it as rows, puts what no device writes into
`quarantine-000000.csv`, and the rest, ordered by ids (which are uniform coins: in random order,
`privot.randomizer.publishing`), into Parquet shards; then the manifest is replaced, which
names all shards so far. Shards are written to a folder, or to any address that fsspec knows. Of a
campaign with a panel each shard is of one wave, and says so (`privot.collector.payloads`,
which has the privacy review of that).

**Once.** A sealing that breaks off is done again by the next one, first of all, with the same
records: the order is theirs, so shards have the same rows under the same names, and no manifest
names a row twice. A reader finds the old manifest or the new one.

**Privacy review.** Post-processing of reports. Which sealing a report was in says when it came, as
roughly as sealings are far apart; within one the order says nothing. Who must not know it gets what
`privot collect` makes of the release, which is in one random order.
"""

from __future__ import annotations

import base64
import csv
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol
from urllib.parse import urlsplit

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privot.collector.arrivals import Campaign
from privot.collector.folder import FolderStore
from privot.collector.payloads import wave_metadata
from privot.collector.postgres import PostgresStore
from privot.collector.store import CRC_BYTES, ID_AT, PAYLOAD_AT, Records, Store
from privot.core.errors import PrivotError
from privot.core.files import replacing_file
from privot.core.state import flush_folder
from privot.randomizer.publishing import reordered, write_scattered
from privot.randomizer.reports.rows import (
    ID_TYPE,
    MANIFEST,
    METADATA_KEY,
    REPORT_ID,
    manifest_text,
    shard_name,
    write_reports,
)
from privot.wire.report import ID_BYTES

# Shelves: where shards of a release lie, a folder of this machine or any address that fsspec knows.
#
# **Privacy review.** Post-processing: files of reports are written, read again, and replaced as a
# whole.


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


# Which engine keeps a campaign's reports: a folder, or PostgreSQL, chosen by the address.


_POSTGRES = ("postgresql://", "postgres://")


def open_store(
    address: str, campaign: Campaign, told: Callable[[str], None] = lambda line: None
) -> Store:
    """The store of a campaign at an address.

    Arguments:
        address: A folder, or `postgresql://user@host/database`.
        campaign: Whose reports; each has a folder of its own in the folder, or its rows in the tables.
        told: Takes lines for people.

    Raises:
        PrivotError: if it cannot be opened, or another process has it.
    """
    if address.startswith(_POSTGRES):
        return PostgresStore(address, campaign.example)
    if "://" in address:
        raise PrivotError(f"--store {address} is not known: give a folder, or postgresql://…")
    folder = Path(address) / campaign.fingerprint
    return FolderStore(folder, campaign.example, told, panel=campaign.panel)


def release_address(address: str, release: str | None, fingerprint: str) -> str:
    """Where a campaign's shards go: below `release`, if it is said, else in the store's folder.

    Raises:
        PrivotError: if it is not said, and the store is no folder.
    """
    if release is not None:
        return f"{release.rstrip('/')}/{fingerprint}"
    if "://" in address:
        raise PrivotError(
            "--release is missing, for a database keeps no shards: give a folder or an address"
        )
    return str(Path(address) / fingerprint / "release")


# Deleting reports by their ids: from the store, the shards of its release, and its quarantine.
#
# A report is deleted when the store has written its **tombstone** (`Store.delete`), durably: from
# then on it is neither counted nor sealed, and its id is refused, so that a copy which comes again is
# not taken. A tombstone is the id alone: no content, no digest of it, no time. Where several reports
# have one id, all but one of them forged, all are deleted, for nobody can tell which one is the
# person's. Then the files of the release are replaced, each as a whole, by files without them
# (`erase`), and the store notes that this is done. Broken off at any point, each report is either
# there as before, or is deleted once `erase` is run again: by the next deletion, by the next sealing,
# and so by a collector that is started again.
#
# **What it does not do.** What was learned or published of the report stays: a model that was fitted,
# a copy of the release, a status page. Each of these keeps the report's ε, whoever reads it and for
# ever; that is the guarantee, and a deletion adds nothing to it. Backups, snapshots and a database's
# log may hold old files.
#
# **Privacy review.** Adjacency and guarantee are those of the reports: deleting is post-processing
# that depends on ids alone, which are coins. Who compares a release before and after sees which
# report was deleted, as anybody does who had it before. The list of tombstones says that somebody
# took part and asked to be deleted; the collector has it, and nobody else.


def ids_of_texts(texts: Sequence[str]) -> list[bytes]:
    """Ids of their 32 hexadecimal digits, each once.

    Raises:
        PrivotError: if one is none.
    """
    found = []
    for text in texts:
        try:
            found.append(bytes.fromhex(text))
        except ValueError:
            found.append(b"")
        if len(found[-1]) != ID_BYTES or len(text) != 2 * ID_BYTES:
            raise PrivotError(f"id {text!r} is no report's: give its 32 hexadecimal digits")
    return [*dict.fromkeys(found)]


def delete_reports(store: Store, shelf: Shelf, ids: Sequence[bytes] | None = None) -> int:
    """Delete reports from a store and from its release; how many.

    Arguments:
        store: That took them; nobody else seals it meanwhile.
        shelf: Of its release.
        ids: Of 16 bytes each; all reports of the campaign for None.

    Raises:
        PrivotError: if one is of no report, and then nothing is deleted. One that was deleted before
            is no fault, and is not counted again.
    """
    count = store.delete(ids)
    erase(store, shelf)
    return count


def erase(store: Store, shelf: Shelf) -> None:
    """Replace all files of a release that hold reports which the store has deleted."""
    deleted = store.to_erase()
    if not deleted:
        return
    rows: list[int] = []
    with TemporaryDirectory(prefix="privot-") as work:
        copy = Path(work) / "file"
        for name in (names := shelf.names()):
            if name.startswith("shard-") and name.endswith(".parquet"):
                shelf.fetch(name, copy)
                rows.append(_erase_shard(shelf, name, copy, deleted))
            elif name.startswith("quarantine-") and name.endswith(".csv"):
                shelf.fetch(name, copy)
                _erase_quarantine(shelf, name, copy, deleted)
        if MANIFEST in names:
            shelf.fetch(MANIFEST, copy)
            named = copy.read_text(encoding="utf-8").count('"file"')
            with shelf.writing(MANIFEST) as draft:
                draft.write_text(manifest_text(rows[:named]), encoding="utf-8")
    store.finish_erasing(rows)


def _erase_shard(shelf: Shelf, name: str, copy: Path, deleted: frozenset[bytes]) -> int:
    """A shard without these reports; its rows."""
    ids = pa.array(deleted, ID_TYPE)
    if not (
        n := pc.sum(pc.is_in(pq.read_table(copy, columns=[REPORT_ID])[REPORT_ID], ids)).as_py()
    ):
        return int(pq.read_metadata(copy).num_rows)
    table = pq.read_table(copy)
    more = dict(table.schema.metadata)
    made_by = more.pop(METADATA_KEY).decode()
    left = table.filter(pc.invert(pc.is_in(table[REPORT_ID], ids))).replace_schema_metadata(None)
    with shelf.writing(name) as draft:
        rows = write_reports(draft, [left], made_by, more)
    assert rows == table.num_rows - n
    return rows


def _erase_quarantine(shelf: Shelf, name: str, copy: Path, deleted: frozenset[bytes]) -> None:
    """Reports that no device writes, without these."""
    with open(copy, newline="", encoding="utf-8") as file:
        lines = [*csv.reader(file)]
    left = [*_others(lines[1:], deleted)]
    if len(left) < len(lines) - 1:
        with shelf.writing(name) as draft, open(draft, "w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([*lines[:1], *left])


def _others(lines: Sequence[list[str]], deleted: frozenset[bytes]) -> Iterator[list[str]]:
    for line in lines:
        if base64.b64decode(line[1])[ID_AT : ID_AT + ID_BYTES] not in deleted:
            yield line


_SHARD_ROWS, _SHARD_BYTES = 2**20, 2**28
_BUCKET_BYTES = 2**25
_NO_WAVE = "it is of no wave of the campaign's panel"


@dataclass(frozen=True)
class Sealed:
    """What a sealing did.

    Arguments:
        rows: Reports in its shards.
        quarantined: Reports that no device writes.
        total: Reports in all shards by now.
    """

    rows: int
    quarantined: int
    total: int


def seal(store: Store, campaign: Campaign, shelf: Shelf) -> Sealed | None:
    """Move all that is stored into shards; None if there is nothing new.

    A deletion that broke off is finished first.
    """
    erase(store, shelf)
    batch = store.begin_sealing()
    if batch is None:
        return None
    with TemporaryDirectory(prefix="privot-") as work:
        buckets = 1 + batch.reports * campaign.record_bytes // _BUCKET_BYTES
        aside = Path(work) / "aside.csv"
        waves, quarantined = _parts(store.taken(batch), campaign, buckets, Path(work), aside)
        if quarantined:
            with shelf.writing(f"quarantine-{batch.number:06d}.csv") as draft:
                shutil.copyfile(aside, draft)
        rows: list[int] = []
        size = max(1, min(_SHARD_ROWS, _SHARD_BYTES // campaign.record_bytes))
        made_by, panel = campaign.randomizer.to_json(), campaign.panel
        for wave, parts in sorted(waves.items()):
            more = None if panel is None else wave_metadata(panel, wave)
            for table in reordered(parts, buckets, size):
                with shelf.writing(shard_name(len(batch.shards) + len(rows))) as draft:
                    rows.append(write_reports(draft, [table], made_by, more))
    if rows:
        with shelf.writing(MANIFEST) as draft:
            draft.write_text(manifest_text([*batch.shards, *rows]), encoding="utf-8")
    store.finish_sealing(batch, rows)
    return Sealed(sum(rows), quarantined, sum(batch.shards) + sum(rows))


def _parts(
    pieces: Iterator[Records], campaign: Campaign, buckets: int, work: Path, aside: Path
) -> tuple[dict[int, list[Path]], int]:
    """By wave, rows of all records that can be, in buckets; and how many cannot, put aside."""
    parts: dict[int, list[Path]] = {}
    quarantined = 0
    with open(aside, "w", newline="", encoding="utf-8") as out:
        lines = csv.writer(out)
        lines.writerow(["reason", "report"])
        for wave, records in _by_wave(pieces, campaign):
            ids, payloads = records[:, ID_AT : ID_AT + ID_BYTES], records[:, PAYLOAD_AT:-CRC_BYTES]
            rows, against = campaign.payloads.rows(ids, payloads)
            if wave < 0:  # stored before the campaign had its panel
                against, rows = [_NO_WAVE] * len(records), rows.slice(0, 0)
            for row in np.flatnonzero([words is not None for words in against]).tolist():
                lines.writerow([against[row], base64.b64encode(records[row].tobytes()).decode()])
                quarantined += 1
            if len(rows):
                own = parts.setdefault(wave, [])
                own.append(work / f"part-{wave}-{len(own):06d}.arrow")
                write_scattered(own[-1], [rows], buckets)
    return parts, quarantined


def _by_wave(pieces: Iterator[Records], campaign: Campaign) -> Iterator[tuple[int, Records]]:
    """Records of one wave each; all of wave 0 where there is no panel."""
    for records in pieces:
        waves = campaign.waves_of(records)
        for wave in np.unique(waves).tolist():
            yield wave, records[waves == wave]
