"""Sealing of stored records into shards of a release, deletion, and where both are stored.

- `Shelf`: the folder or fsspec address of a release. `open_store`: the store of an address.
- `delete_reports` and `erase`: deletion by ids.
- `seal`: sealing. `write_shuffled`: a shuffler's batch of sealed reports (`privot.collector.analyst`).

A sealing takes all records of a store and decodes them into rows. Impossible ones go to
`quarantine-000000.csv`, the rest, ordered by ids (which are uniform coins: in random order,
`privot.randomizer.publishing`), into Parquet shards; then the manifest is replaced, which names all
shards so far. Shards are written to a folder, or to any address of fsspec. With a panel, each shard is
of one wave, named in it (`privot.collector.payloads`, which has the privacy review of that).

**Once.** A sealing that breaks off is done again by the next one, first of all, with the same
records: the order is theirs, so shards have the same rows under the same names, and no manifest
names a row twice. A reader finds the old manifest or the new one.

**Privacy review.** Post-processing of reports: files are written, read again, and replaced as a whole.
The sealing of a report reveals its time of arrival, up to the time between sealings; within one the
order reveals nothing. Give readers who must not know it the output of `privot collect` for the
release, which is in one random order.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import secrets
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

from privot.collector.arrivals import Campaign, ShuffledCampaign
from privot.collector.folder import FolderStore
from privot.collector.payloads import wave_metadata
from privot.collector.postgres import PostgresStore
from privot.collector.store import CRC_BYTES, ID_AT, PAYLOAD_AT, Records, Store
from privot.core.errors import PrivotError
from privot.core.files import flush_folder, replacing_file
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
from privot.wire.report import ID_BYTES, write_batch


class Shelf(Protocol):
    """Storage of a release's files."""

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Provide a draft, which becomes a durable whole file after the block."""
        ...

    def names(self) -> list[str]:
        """Return names of all files, sorted; none if the storage does not exist yet."""
        ...

    def fetch(self, name: str, copy: Path) -> None:
        """Copy a file to a local path."""
        ...


@dataclass(frozen=True)
class FolderShelf:
    """Release in a local folder."""

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
    """Release at an fsspec address, whose stores replace files as a whole."""

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
        """Provide the file system and the path in it."""
        try:
            yield fsspec.core.url_to_fs(self.address)
        except (OSError, ImportError, ValueError) as error:
            said = type(error).__name__
            raise PrivotError(
                f"{self.address} cannot be {done} ({said}): check the address; nothing is lost"
            ) from None


def shelf_at(address: str) -> Shelf:
    """Return a folder for a path or `file://`, and an fsspec address for any other scheme."""
    parts = urlsplit(address)
    if not parts.scheme:
        return FolderShelf(Path(address))
    if parts.scheme == "file":
        return FolderShelf(Path(parts.path))
    return AddressShelf(address.rstrip("/"))


_POSTGRES = ("postgresql://", "postgres://")


def open_store(
    address: str, campaign: Campaign, log: Callable[[str], None] = lambda line: None
) -> Store:
    """Open the store of a campaign.

    Arguments:
        address: A folder, or `postgresql://user@host/database`.
        campaign: The campaign; each has a subfolder of its own, or its rows in the tables.
        log: Callback for operator messages.

    Raises:
        PrivotError: if it cannot be opened, or another process has it.
    """
    if address.startswith(_POSTGRES):
        return PostgresStore(address, campaign.form)
    if "://" in address:
        raise PrivotError(f"--store {address} is not known: give a folder, or postgresql://…")
    folder = Path(address) / campaign.fingerprint
    return FolderStore(folder, campaign.form, log)


def release_address(address: str, release: str | None, fingerprint: str) -> str:
    """Return the address of a campaign's shards: below `release`, if given, else in the store's folder.

    Raises:
        PrivotError: if it is not given, and the store is no folder.
    """
    if release is not None:
        return f"{release.rstrip('/')}/{fingerprint}"
    if "://" in address:
        raise PrivotError(
            "--release is missing, for a database stores no shards: give a folder or an address"
        )
    return str(Path(address) / fingerprint / "release")


def ids_of_texts(texts: Sequence[str]) -> list[bytes]:
    """Return the distinct ids of texts of 32 hexadecimal digits.

    Raises:
        PrivotError: if a text is no id.
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
    """Delete reports from a store, the shards of its release and its quarantine; return their number.

    A report is deleted when the store has written its **tombstone** (`Store.delete`), durably: from
    then on it is neither counted nor sealed, and its id is refused, so that a copy that arrives later
    is not accepted. A tombstone is the id alone: no content, no digest of it, no time. Where several
    reports have one id, all but one of them forged, all are deleted, for nothing shows which is genuine.
    Then the files of the release are replaced, each as a whole, by files without them (`erase`), and
    the store notes that this is done. Broken off at any point, each report is either as before, or is
    deleted once `erase` is run again: by the next deletion, by the next sealing, and so by a collector
    that is started again.

    **Limits.** What was learned or published of the report stays: a fitted model, a copy of the
    release, a status page. Each of these retains the report's ε, for every reader and for ever; that
    is the guarantee, and a deletion adds nothing to it. Backups, snapshots and a database's log may
    contain old files.

    **Privacy review.** Adjacency and guarantee are those of the reports: deleting is post-processing
    that depends on ids alone, which are coins. A comparison of the release before and after shows
    which report was deleted, as its earlier copy does. The list of tombstones reveals that a person
    took part and requested deletion; the collector has it, and nobody else.

    Arguments:
        store: The store that accepted them; no other process may seal it meanwhile.
        shelf: Storage of its release.
        ids: Ids of 16 bytes each; None for all reports of the campaign.

    Raises:
        PrivotError: if one is of no report, and then nothing is deleted. One that was deleted before
            is no fault, and is not counted again.
    """
    count = store.delete(ids)
    erase(store, shelf)
    return count


def erase(store: Store, shelf: Shelf) -> None:
    """Replace all files of a release that contain reports which the store has deleted."""
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
    """Remove reports from a shard; return its number of rows."""
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
    """Remove reports from a quarantine file."""
    with open(copy, newline="", encoding="utf-8") as file:
        lines = [*csv.reader(file)]
    ids = [base64.b64decode(line[1])[ID_AT : ID_AT + ID_BYTES] for line in lines[1:]]
    left = [line for line, own in zip(lines[1:], ids, strict=True) if own not in deleted]
    if len(left) < len(lines) - 1:
        with shelf.writing(name) as draft, open(draft, "w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([*lines[:1], *left])


_SHARD_ROWS, _SHARD_BYTES = 2**20, 2**28
_BUCKET_BYTES = 2**25
_NO_WAVE = "it is of no wave of the campaign's panel"


@dataclass(frozen=True)
class Sealed:
    """Result of a sealing.

    Arguments:
        rows: Reports in its shards.
        quarantined: Reports that no device can have drawn.
        total: Reports in all shards so far.
    """

    rows: int
    quarantined: int
    total: int


def seal(store: Store, campaign: Campaign, shelf: Shelf) -> Sealed | None:
    """Move all stored records into shards; return None if there are no new ones.

    A deletion that broke off is finished first.
    """
    erase(store, shelf)
    batch = store.begin_sealing()
    if batch is None:
        return None
    with TemporaryDirectory(prefix="privot-") as work:
        buckets = 1 + batch.reports * campaign.form.record_bytes // _BUCKET_BYTES
        aside = Path(work) / "aside.csv"
        waves, quarantined = _parts(store.taken(batch), campaign, buckets, Path(work), aside)
        if quarantined:
            with shelf.writing(f"quarantine-{batch.number:06d}.csv") as draft:
                shutil.copyfile(aside, draft)
        rows: list[int] = []
        size = max(1, min(_SHARD_ROWS, _SHARD_BYTES // campaign.form.record_bytes))
        made_by, panel = campaign.randomizer.to_json(), campaign.form.panel
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


def write_shuffled(store: FolderStore, campaign: ShuffledCampaign, shelf: Shelf) -> int | None:
    """Move all stored sealed reports into one batch, in random order; None if they are too few.

    The batch is the file `batch-000000.sealed`, the next one `batch-000001.sealed`: sealed reports
    alone, each in one batch ever. Its order is that of a keyed hash, whose key is drawn from the
    operating system's entropy once a store, and written down before any batch: so a kill between the
    file and the store's note of it has the same file written again, to its byte, and nothing else.
    Then the store has of these reports their sorted hashes alone, and no order of arrival. All reports
    of a batch are in memory at once.

    Returns:
        The number of reports in the batch.

    Raises:
        PrivotError: if so many were damaged on the disk that fewer than the promise's people are left.
    """
    key = _order_key(store.folder / "order.key")
    batch = store.begin_sealing(campaign.people)
    if batch is None:
        return None
    records = np.concatenate([*store.taken(batch)])
    if len(records) < campaign.people:
        raise PrivotError(
            f"{store.folder} is damaged: {len(records):,} reports are left for a batch of "
            f"{campaign.people:,} or more, which stays closed; restore it"
        )
    sealed = [each.tobytes() for each in records[:, PAYLOAD_AT:-CRC_BYTES]]
    sealed.sort(key=lambda each: hashlib.blake2b(each, key=key).digest())
    with shelf.writing(f"batch-{batch.number:06d}.sealed") as draft:
        draft.write_bytes(write_batch(sealed))
    store.finish_sealing(batch, [len(sealed)])
    store.erase_log()
    return len(sealed)


def _order_key(path: Path) -> bytes:
    if not path.exists():
        with replacing_file(path, secret=True) as draft:
            draft.write_bytes(secrets.token_bytes(32))
        flush_folder(path.parent)
    return path.read_bytes()


def _parts(
    pieces: Iterator[Records], campaign: Campaign, buckets: int, work: Path, aside: Path
) -> tuple[dict[int, list[Path]], int]:
    """Write rows of all possible records to buckets, by wave, and the others to `aside`.

    Returns:
        Files of buckets by wave, and the number of the others.
    """
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
    """Split records by wave; all are of wave 0 where there is no panel."""
    for records in pieces:
        waves = campaign.form.waves_of(records)
        for wave in np.unique(waves).tolist():
            yield wave, records[waves == wave]
