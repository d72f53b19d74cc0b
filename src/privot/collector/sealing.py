"""Sealing of stored records into shards of a release, and deletion of reports.

- `seal` makes shards of all stored records. `write_shuffled` makes a shuffler's batch, whose reports are
  *sealed* in another sense: they are encrypted to the analyst (`privot.collector.analyst`).
- `delete_reports` deletes reports by their ids.
- `ReleaseStorage` is the place of a release, a folder or an fsspec address. `open_store` opens a store.

A sealing takes all records of a store and decodes them into rows. Impossible ones are written to
`quarantine-000000.csv`. The others are sorted by id and written to Parquet shards; ids are uniform
random words, so this is a random order (`privot.randomizer.publishing`). Finally the manifest, which
names all shards so far, is replaced. With a panel, each shard is of one wave, named in its metadata
(`privot.collector.waves` has the privacy review).

**Counts** of a shard's reports are written beside it if at most half of the reports are distinct. The
shard contains their hash, so that counts of other reports are never read
(`privot.randomizer.reports.counts`). A sealing writes a shard before its counts, and a deletion the
counts before the shard. So after an interruption at any point, each file with a deleted report is
written again. Working copies that a killed process left are removed (`_work_folder`).

**Exactly once.** The next sealing first repeats an interrupted one with the same records. The order
depends only on the records, so the shards have the same rows and the same names, and no manifest names
a row twice. A reader finds the old manifest or the new one.

**Privacy review.** Post-processing of reports: files are written, read again, and replaced as a whole.
The sealing in which a report appears reveals its time of arrival, up to the interval between sealings;
the order within a sealing reveals nothing. For readers who must not know it, `privot collect` writes
the release in one random order.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privot.collector.arrivals import Campaign, ShuffledCampaign
from privot.collector.folder import FolderStore
from privot.collector.postgres import PostgresStore
from privot.collector.store import CRC_BYTES, ID_AT, PAYLOAD_AT, Records, Store
from privot.collector.waves import wave_metadata
from privot.core.errors import PrivotError
from privot.core.files import cannot_write, flush_folder, replacing_file, state_folder, write_file
from privot.randomizer.publishing import in_random_order, write_buckets
from privot.randomizer.randomizer import Randomizer
from privot.randomizer.reports.counts import count, is_counted
from privot.randomizer.reports.rows import (
    COUNTS_KEY,
    ID_TYPE,
    MANIFEST,
    REPORT_ID,
    counts_name,
    manifest_text,
    shard_name,
    write_reports,
)
from privot.tables.files import METADATA_KEY
from privot.wire.report import ID_BYTES, write_batch

_SHARD_ROWS, _SHARD_BYTES = 2**20, 2**28  # maximum of a shard
_BUCKET_BYTES = 2**25  # approximate size of a bucket's records, which are sorted in memory


@dataclass(frozen=True)
class Sealed:
    """Result of a sealing."""

    rows: int  # number of reports in the new shards
    quarantined: int  # number of reports that no device can have drawn
    total: int  # number of reports in all shards so far


def seal(store: Store, campaign: Campaign, storage: ReleaseStorage) -> Sealed | None:
    """Move all stored records into shards; return None if there are no new records.

    An interrupted deletion is finished first.

    Raises:
        PrivotError, OSError: if the store or the storage fails; all records then remain stored.
    """
    erase(store, storage)
    batch = store.begin_sealing()
    if batch is None:
        return None
    with _work_folder(storage) as work:
        num_buckets = 1 + batch.reports * campaign.format.record_bytes // _BUCKET_BYTES
        quarantine = work / "quarantine.csv"
        parts, quarantined = _write_parts(store.taken(batch), campaign, num_buckets, quarantine)
        if quarantined:
            with storage.writing(f"quarantine-{batch.number:06d}.csv") as draft:
                shutil.copyfile(quarantine, draft)
        rows: list[int] = []  # of each new shard
        shard_rows = max(1, min(_SHARD_ROWS, _SHARD_BYTES // campaign.format.record_bytes))
        made_by, panel = campaign.randomizer.to_json(), campaign.format.panel
        num_named = _num_named(storage, work / "file")
        for wave, files in sorted(parts.items()):
            metadata = {} if panel is None else wave_metadata(panel, wave)
            for table in in_random_order(files, num_buckets, shard_rows):
                number, counts = len(batch.shards) + len(rows), _counts(campaign, table)
                name, shard_metadata = shard_name(number), metadata | _hash_metadata(counts)
                if number < num_named:  # after an interruption, it has these reports already
                    storage.fetch(name, work / "file")
                    ids = pq.read_table(work / "file", columns=[REPORT_ID])[REPORT_ID]
                    if not ids.equals(table[REPORT_ID]):
                        raise PrivotError(f"{name} has other reports: restore the newest store")
                with storage.writing(name) as draft:
                    rows.append(write_reports(draft, [table], made_by, shard_metadata))
                if counts:
                    with storage.writing(counts_name(name)) as draft:
                        draft.write_bytes(counts)
        if rows:
            store.to_erase()  # fails if the connection broke: then another server may seal meanwhile
            with storage.writing(MANIFEST) as draft:
                draft.write_text(manifest_text([*batch.shards, *rows]), encoding="utf-8")
    store.finish_sealing(batch, rows)
    return Sealed(sum(rows), quarantined, sum(batch.shards) + sum(rows))


def _counts(campaign: Campaign, table: pa.Table) -> bytes:
    """Return the counts of a shard's reports in binary form; empty if they are not written."""
    if campaign.format.panel is not None or not is_counted(campaign.randomizer):
        return b""
    counts = count(table, campaign.randomizer)
    return counts.to_bytes() if 2 * counts.distinct <= len(table) else b""


def _hash_metadata(counts: bytes) -> dict[bytes, bytes]:
    """Return the metadata of a shard with the hash of its counts; empty if there are none."""
    return {COUNTS_KEY: hashlib.sha256(counts).hexdigest().encode()} if counts else {}


def _write_parts(
    pieces: Iterator[Records], campaign: Campaign, num_buckets: int, quarantine: Path
) -> tuple[dict[int, list[Path]], int]:
    """Decode records; write possible reports to files with buckets by id, and the others to a CSV.

    Returns:
        Paths of the files of each wave, which are beside the CSV, and the number of records in the CSV.
    """
    parts: dict[int, list[Path]] = {}
    quarantined = 0
    with open(quarantine, "w", newline="", encoding="utf-8") as out:
        lines = csv.writer(out)
        lines.writerow(["reason", "report"])
        for wave, records in _by_wave(pieces, campaign):
            ids, payloads = records[:, ID_AT : ID_AT + ID_BYTES], records[:, PAYLOAD_AT:-CRC_BYTES]
            rows, reasons = campaign.payloads.rows(ids, payloads)  # None for a possible report
            if wave < 0:  # stored before the campaign had its panel
                reasons = ["it is of no wave of the campaign's panel"] * len(records)
                rows = rows.slice(0, 0)
            for record, reason in zip(records, reasons, strict=True):
                if reason is not None:
                    lines.writerow([reason, base64.b64encode(record.tobytes()).decode()])
                    quarantined += 1
            if len(rows):
                files = parts.setdefault(wave, [])
                files.append(quarantine.with_name(f"part-{wave}-{len(files):06d}.arrow"))
                write_buckets(files[-1], [rows], num_buckets)
    return parts, quarantined


def _by_wave(pieces: Iterator[Records], campaign: Campaign) -> Iterator[tuple[int, Records]]:
    """Yield each wave's number with its records; all are of wave 0 if there is no panel."""
    for records in pieces:
        waves = campaign.format.waves_of(records)
        for wave in np.unique(waves).tolist():
            yield wave, records[waves == wave]


def write_shuffled(
    store: FolderStore, campaign: ShuffledCampaign, storage: ReleaseStorage
) -> int | None:
    """Move all stored encrypted reports into one batch, in random order.

    The first batch is the file `batch-000000.sealed`, the next one `batch-000001.sealed`. A report is in
    one batch only. Reports are sorted by a keyed hash, whose key is drawn from the operating system's
    entropy once per store, and written before any batch. So if an interruption prevents the store from
    recording the batch, the same file is written again, byte for byte. Of these reports the store then
    has only sorted ids and digests, and no order of arrival. A batch must fit in memory.

    Returns:
        The number of reports in the batch; None if there are fewer than the promise's people.

    Raises:
        PrivotError: if fewer records than the promise's people are undamaged, or the store is an older
            copy.
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
    sealed = [payload.tobytes() for payload in records[:, PAYLOAD_AT:-CRC_BYTES]]
    sealed.sort(key=lambda payload: hashlib.blake2b(payload, key=key).digest())
    content, name = write_batch(sealed), f"batch-{batch.number:06d}.sealed"
    with _work_folder(storage) as work:
        if name in storage.names():
            storage.fetch(name, copy := work / name)
            if copy.read_bytes() != content:
                raise PrivotError(
                    f"{name} is there with other reports: {store.folder} is an older copy, and would "
                    "put reports into two batches; restore the newest"
                )
        with storage.writing(name) as draft:
            draft.write_bytes(content)
    store.finish_sealing(batch, [len(sealed)])
    store.erase_log()
    return len(sealed)


def _order_key(path: Path) -> bytes:
    """Return the key of the hash that orders a batch; draw and write it if the file does not exist."""
    if not path.exists():
        write_file(path, secrets.token_bytes(32), secret=True)
        flush_folder(path.parent)
    return path.read_bytes()


def ids_of_texts(texts: Sequence[str]) -> list[bytes]:
    """Parse ids of 32 hexadecimal digits, and return the distinct ones in binary.

    Raises:
        PrivotError: if a text is no id.
    """
    for text in texts:
        if not re.fullmatch(f"[0-9a-fA-F]{{{2 * ID_BYTES}}}", text):
            raise PrivotError(f"id {text!r} is no report's: give its 32 hexadecimal digits")
    return [*dict.fromkeys(bytes.fromhex(text) for text in texts)]


def delete_reports(
    store: Store, storage: ReleaseStorage, ids: Sequence[bytes] | None = None
) -> int:
    """Delete reports from a store, the shards of its release and its quarantine; return their number.

    A report is deleted when the store has durably written its **tombstone** (`Store.delete`): from then
    on it is neither counted nor sealed, and its id is refused, so that no later copy is accepted. A
    tombstone contains only the id: no content, no digest, no time. If several reports have one id, all
    but one are forged; all are deleted, because nothing shows which one is genuine. Then each file of
    the release is replaced by one without these reports (`erase`), and the store records that this is
    finished. After an interruption at any point, each report is either unchanged, or deleted once
    `erase` runs again, as it does in the next deletion and in the next sealing.

    **Limits.** What was computed from the report or published remains: a fitted model, a copy of the
    release, a status page. These are ε-private for the report, against every reader and for ever; a
    deletion adds nothing to this guarantee. Backups, snapshots and database logs may contain old files.

    **Privacy review.** Adjacency and guarantee are those of the reports: deleting is post-processing
    that depends only on ids, which are random. A comparison of the release before and after shows which
    report was deleted; whoever can compare has the report already. The list of tombstones reveals that a
    person took part and requested deletion; only the collector has it.

    Arguments:
        store: The store that accepted the reports; no other process may seal it meanwhile.
        storage: Storage of the store's release.
        ids: Ids of 16 bytes each; None for all reports of the campaign.

    Raises:
        PrivotError: if an id is of no report, stored or deleted before; then nothing is deleted.
    """
    count = store.delete(ids)
    erase(store, storage)
    return count


def erase(store: Store, storage: ReleaseStorage) -> None:
    """Remove the reports that the store has deleted from all files of its release."""
    deleted = store.to_erase()
    if not deleted:
        return
    rows: list[int] = []  # of each shard
    names = storage.names()
    with _work_folder(storage) as work:
        copy = work / "file"
        for name in names:
            if name.startswith("shard-") and name.endswith(".parquet"):
                storage.fetch(name, copy)
                has_counts = counts_name(name) in names
                rows.append(_erase_shard(storage, name, copy, deleted, has_counts))
            elif name.startswith("quarantine-") and name.endswith(".csv"):
                storage.fetch(name, copy)
                _erase_quarantine(storage, name, copy, deleted)
        if num_named := _num_named(storage, copy):
            with storage.writing(MANIFEST) as draft:
                draft.write_text(manifest_text(rows[:num_named]), encoding="utf-8")
    store.finish_erasing(rows)


def _num_named(storage: ReleaseStorage, copy: Path) -> int:
    """Return the number of shards in the manifest, the last of which an interrupted sealing may add."""
    if MANIFEST not in storage.names():
        return 0
    storage.fetch(MANIFEST, copy)
    try:
        return len(json.loads(copy.read_text(encoding="utf-8"))["shards"])
    except (ValueError, KeyError, TypeError):
        raise PrivotError(f"{MANIFEST} of the release is damaged: restore it") from None


@contextmanager
def _work_folder(storage: ReleaseStorage) -> Iterator[Path]:
    """Provide a folder for working copies; first remove those that a killed process left.

    Only one process uses it, because only one process seals a store at a time.
    """
    try:
        for abandoned in storage.drafts():
            abandoned.unlink()
        shutil.rmtree(storage.work, ignore_errors=True)
        # The state folder is the account's own; a folder of releases may be for others to read.
        mode = 0o777 if isinstance(storage, FolderStorage) else 0o700
        storage.work.parent.mkdir(mode, parents=True, exist_ok=True)
        storage.work.mkdir(mode=0o700)
    except OSError as error:
        raise cannot_write(storage.work, error) from None
    try:
        yield storage.work
    finally:
        shutil.rmtree(storage.work, ignore_errors=True)


def _erase_shard(
    storage: ReleaseStorage, name: str, copy: Path, deleted: frozenset[bytes], has_counts: bool
) -> int:
    """Remove reports from a shard and its counts, given a local copy; return the number of rows left."""
    shard_ids = pq.read_table(copy, columns=[REPORT_ID])[REPORT_ID]
    is_deleted = pc.is_in(shard_ids, pa.array(deleted, ID_TYPE))
    if not pc.any(is_deleted).as_py():
        return len(shard_ids)
    table = pq.read_table(copy)
    metadata = dict(table.schema.metadata)
    made_by = metadata.pop(METADATA_KEY).decode()
    remaining = table.filter(pc.invert(is_deleted)).replace_schema_metadata(None)
    metadata.pop(COUNTS_KEY, None)
    if has_counts:
        randomizer = Randomizer.from_json(made_by)
        counts = count(remaining, randomizer).to_bytes() if len(remaining) else b""
        with storage.writing(counts_name(name)) as draft:
            draft.write_bytes(counts)
        metadata |= _hash_metadata(counts)
    with storage.writing(name) as draft:
        return write_reports(draft, [remaining], made_by, metadata)


def _erase_quarantine(
    storage: ReleaseStorage, name: str, copy: Path, deleted: frozenset[bytes]
) -> None:
    """Remove reports from a quarantine file, given a local copy."""
    with open(copy, newline="", encoding="utf-8") as file:
        lines = [*csv.reader(file)]

    def is_deleted(line: list[str]) -> bool:
        return base64.b64decode(line[1])[ID_AT : ID_AT + ID_BYTES] in deleted

    header, *entries = lines
    remaining = [line for line in entries if not is_deleted(line)]
    if len(remaining) < len(entries):
        with storage.writing(name) as draft, open(draft, "w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([header, *remaining])


@dataclass(frozen=True)
class FolderStorage:
    """Storage of a release in a local folder; each file is written and copied as a whole."""

    folder: Path

    @property
    def work(self) -> Path:
        """Folder for copies of reports, beside the release."""
        return self.folder.with_name(f".{self.folder.name}.work")

    def drafts(self) -> list[Path]:
        """Return the drafts that a kill has left."""
        return [*self.folder.glob(".*.draft")]

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Provide a draft's path; after the block, the draft durably replaces the named file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing_file(self.folder / name) as draft:
            yield draft
        flush_folder(self.folder)

    def names(self) -> list[str]:
        """Return the sorted names of all files; empty if the storage does not exist yet."""
        if not self.folder.is_dir():
            return []
        return sorted(file.name for file in self.folder.iterdir() if file.is_file())

    def fetch(self, name: str, copy: Path) -> None:
        """Copy a file to a local path."""
        shutil.copyfile(self.folder / name, copy)


@dataclass(frozen=True)
class AddressStorage:
    """Storage of a release at an fsspec address, such as `s3://bucket/path`."""

    address: str

    @property
    def work(self) -> Path:
        """See `FolderStorage`: it is in the account's state folder, and named by the address."""
        return state_folder() / f"sealing-{hashlib.sha256(self.address.encode()).hexdigest()}"

    def drafts(self) -> list[Path]:
        """See `FolderStorage`: they are in `work`."""
        return []

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """See `FolderStorage`."""
        with TemporaryDirectory(dir=self.work) as work:
            draft = Path(work) / name
            draft.touch()
            yield draft
            with self._reached("written") as (files, root):
                files.makedirs(root, exist_ok=True)
                files.put_file(str(draft), f"{root}/{name}")

    def names(self) -> list[str]:
        """See `FolderStorage`."""
        with self._reached("read") as (files, root):
            if not files.isdir(root):
                return []
            return sorted(str(path).rpartition("/")[2] for path in files.ls(root, detail=False))

    def fetch(self, name: str, copy: Path) -> None:
        """See `FolderStorage`."""
        with self._reached("read") as (files, root):
            files.get_file(f"{root}/{name}", str(copy))

    @contextmanager
    def _reached(self, action: str) -> Iterator[tuple[fsspec.AbstractFileSystem, str]]:
        """Provide the file system and the path in it; `action` is a participle for error messages."""
        try:
            yield fsspec.core.url_to_fs(self.address)
        except (OSError, ImportError, ValueError) as error:
            kind = type(error).__name__
            raise PrivotError(
                f"{self.address} cannot be {action} ({kind}): check the address; nothing is lost"
            ) from None


ReleaseStorage = FolderStorage | AddressStorage


def storage_at(address: str) -> ReleaseStorage:
    """Return the storage at an address: a folder for a path or `file://…`, otherwise fsspec's."""
    parts = urlsplit(address)
    if parts.scheme in ("", "file"):
        return FolderStorage(Path(parts.path if parts.scheme else address))
    return AddressStorage(address.rstrip("/"))


def release_address(address: str, release: str | None, fingerprint: str) -> str:
    """Return the address of a campaign's shards: in `release`, if given, else in the store's folder.

    Arguments:
        address: Address of the store, as for `open_store`.
        release: Folder or fsspec address with a folder for each campaign.
        fingerprint: Fingerprint of the campaign's randomizer.

    Raises:
        PrivotError: if `release` is None and the store is no folder.
    """
    if release is not None:
        return f"{release.rstrip('/')}/{fingerprint}"
    if "://" in address:
        raise PrivotError(
            "--release is missing, for a database stores no shards: give a folder or an address"
        )
    return str(Path(address) / fingerprint / "release")


def open_store(
    address: str, campaign: Campaign, log: Callable[[str], None] = lambda line: None
) -> Store:
    """Open the store of a campaign.

    Arguments:
        address: A folder, or `postgresql://user@host/database`.
        campaign: The campaign. Each campaign has its own subfolder, or its own rows in the tables.
        log: Callback for operator messages.

    Raises:
        PrivotError: if the store cannot be opened, or another process uses it.
    """
    if address.startswith(("postgresql://", "postgres://")):
        return PostgresStore(address, campaign.format)
    if "://" in address:
        raise PrivotError(f"--store {address} is not known: give a folder, or postgresql://…")
    return FolderStore(Path(address) / campaign.fingerprint, campaign.format, log)
