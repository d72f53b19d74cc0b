"""Deleting reports by their ids: from the store, the shards of its release, and its quarantine.

A report is deleted when the store has written its **tombstone** (`Store.delete`), durably: from then on
it is neither counted nor sealed, and its id is refused, so that a copy which comes again is not taken.
A tombstone is the id alone: no content, no digest of it, no time. Where several reports have one id, all
but one of them forged, all are deleted, for nobody can tell which one is the person's. Then the files of
the release are replaced, each as a whole, by files without them (`erase`), and the store notes that this
is done.
Broken off at any point, each report is either there as before, or is deleted once `erase` is run again:
by the next deletion, by the next sealing, and so by a collector that is started again.

**What it does not do.** What was learned or published of the report stays: a model that was fitted, a
copy of the release, a status page. Each of these keeps the report's ε, whoever reads it and for ever;
that is the guarantee, and a deletion adds nothing to it. Backups, snapshots and a database's log may
hold old files.

**Privacy review.** Adjacency and guarantee are those of the reports: deleting is post-processing that
depends on ids alone, which are coins. Who compares a release before and after sees which report was
deleted, as anybody does who had it before. The list of tombstones says that somebody took part and
asked to be deleted; the collector has it, and nobody else.
"""

from __future__ import annotations

import base64
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privot.collector.records import ID_AT
from privot.collector.shelves import Shelf
from privot.collector.store import Store
from privot.device.report import ID_BYTES
from privot.errors import PrivotError
from privot.release.reports.ids import ID_TYPE, REPORT_ID
from privot.release.reports.rows import MANIFEST, METADATA_KEY, manifest_text, write_reports


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
