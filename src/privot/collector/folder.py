"""Store in a folder: one SQLite database, for one machine and one process.

| table | content |
|---|---|
| `campaign` | fingerprint and record length, number of sealings, last group of an unfinished one |
| `groups` | records in the order of their arrival, up to 1 MiB a row |
| `sealed_ids` | entries (id and digest, 24 bytes) of sealed reports, sorted, with a CRC-32 a row |
| `shards` | the number of rows of each shard |
| `deleted` | ids of deleted reports, and whether they are erased from the release |

**Append.** A hash table in memory (`KnownIds`) detects copies: an index of random ids in the database
would limit the rate to 20 000 reports a second, whereas a row for each group allows over a million. New
records are one transaction in WAL mode with `synchronous = FULL`, flushed before `append` returns. If
the disk is full, the new ids are removed from memory. After any other failure the state of the disk is
unknown, so the store stops; a restart reads what is on the disk.

**Sealing** moves records into shards of a release. `campaign.last` fixes the groups that it takes. One
transaction then records its shards and ids, and removes the groups. If interrupted before, it is
repeated on these groups.

**Delete.** One transaction adds tombstones, and removes records and digests (where few contents are
possible, a digest would reveal the content). Then VACUUM rebuilds the database and the log is truncated,
so that no file of the folder has a byte of a deleted report. If interrupted, the next start repeats it.

**Start.** The log is checkpointed, because what a killed process wrote may be in the machine's memory
only. All records are read and their checksums verified; damaged records are left out and logged.
"""

import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from privot.collector import store
from privot.core.errors import PrivotError
from privot.core.files import cannot_write, create, flush_folder
from privot.wire.report import ID_BYTES

_FORMAT = 1
_TABLES = """
CREATE TABLE campaign (header BLOB NOT NULL, sealings INTEGER NOT NULL, last INTEGER);
CREATE TABLE groups (number INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE sealed_ids (number INTEGER PRIMARY KEY, data BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE shards (number INTEGER PRIMARY KEY, length INTEGER NOT NULL);
CREATE TABLE deleted (number INTEGER PRIMARY KEY, ids BLOB NOT NULL, erased INTEGER NOT NULL)
"""
_REPLACE = {
    "groups": "UPDATE groups SET data = :data WHERE number = :number",
    "sealed_ids": "UPDATE sealed_ids SET data = :data, crc = :crc WHERE number = :number",
}
_GROUP_BYTES, _PIECE_BYTES = 2**20, 2**24  # of a row of `groups`; of rows that are read at a time
_LOG_BYTES = 2**24  # maximum size of the log after a checkpoint
_ENTRY_BYTES = 24  # an id of 16 bytes and a digest of 8
_ROW_ENTRIES = 2**16  # entries in a row of `sealed_ids`, at most
_MAX_NUMBER = 2**63 - 1  # SQLite's largest integer
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


class FolderStore(store.Store):
    """Store of one campaign's reports in a folder.

    Arguments:
        folder: Folder of the database; created if it does not exist.
        format: Format of the campaign's records.
        log: Callback for operator messages.

    Raises:
        PrivotError: if another process serves the folder, or its content is damaged more than a loss of
            power can explain.
    """

    def __init__(
        self,
        folder: Path,
        format: store.RecordFormat,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.folder, self._format, self._log = folder, format, log
        self._path = folder / "reports.db"
        self._lock, self.stopped, self._serving = threading.RLock(), "", False
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            flush_folder(folder.parent)
            # Only if it is missing: closing another handle of the file would drop this process's locks.
            if not self._path.exists():
                create(self._path, secret=True)
            flush_folder(folder)
        except OSError as error:
            raise cannot_write(folder, error) from None
        self._connection = sqlite3.connect(
            self._path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare()
            self._recover()
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.Error):
                raise self._not_opened(error) from None
            raise
        self._serving = True

    @property
    def count(self) -> int:
        return self._known.count

    def disk_bytes(self) -> int:
        with suppress(FileNotFoundError):
            return sum(file.stat().st_size for file in self.folder.iterdir() if file.is_file())
        return 0

    def append(self, records: store.Records) -> store.Statuses:
        valid, entries = self._format.validate(records)
        statuses, places = np.full(len(records), store.INVALID, np.uint8), np.empty(0, np.int64)
        size = max(1, _GROUP_BYTES // self._format.record_bytes)  # number of records in a group
        with self._lock:
            try:
                # Ids without records would be acknowledged: after any other failure nothing is answered.
                with self._transaction() as connection:
                    statuses[valid], places = self._known.add(entries[valid])
                    new = records[statuses == store.NEW]
                    parts = (new[row : row + size] for row in range(0, len(new), size))
                    groups = [(part.tobytes(),) for part in parts]
                    connection.executemany("INSERT INTO groups (data) VALUES (?)", groups)
            except store.StoreFull:
                self._known.forget(places)
                raise
            return statuses

    def begin_sealing(self, least: int = 1) -> store.Sealing | None:
        """Begin a sealing as `Store` does, unless it would have fewer than `least` records."""
        with self._transaction() as connection:
            number, last = _row(connection, "SELECT sealings, last FROM campaign")
            if last is None:  # no sealing was interrupted
                (last,) = _row(connection, "SELECT max(number) FROM groups")
                num_sealed = _data_bytes(connection, "sealed_ids") // _ENTRY_BYTES
                if last is None or self._known.count - num_sealed < least:
                    return None
                connection.execute("UPDATE campaign SET last = ?", (last,))
            reports = _data_bytes(connection, "groups", last) // self._format.record_bytes
            shards = connection.execute("SELECT length FROM shards ORDER BY number")
            return store.Sealing(number, reports, tuple(length for (length,) in shards))

    def taken(self, sealing: store.Sealing) -> Iterator[store.Records]:
        with self._transaction() as connection:
            (last,) = _row(connection, "SELECT last FROM campaign")
        for groups in self._rows("groups", last):
            yield self._undamaged(groups)[0]

    def finish_sealing(self, sealing: store.Sealing, rows: list[int]) -> None:
        pieces = self.taken(sealing)
        entries = np.concatenate([self._format.validate(records)[1] for records in pieces])
        entries = entries[np.lexsort(entries.T[::-1])]  # sorted: the order of arrival is not stored
        parts = [
            entries[start : start + _ROW_ENTRIES].astype(">u8").tobytes()
            for start in range(0, len(entries), _ROW_ENTRIES)
        ]
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO sealed_ids (data, crc) VALUES (?, ?)",
                [(data, zlib.crc32(data)) for data in parts],
            )
            connection.executemany("INSERT INTO shards (length) VALUES (?)", [(n,) for n in rows])
            connection.execute("DELETE FROM groups WHERE number <= (SELECT last FROM campaign)")
            connection.execute("UPDATE campaign SET sealings = sealings + 1, last = NULL")

    def delete(self, ids: Sequence[bytes] | None) -> int:
        with self._lock:
            self._require_open()
            words = self._known.ids() if ids is None else _words_of(b"".join(dict.fromkeys(ids)))
            already_deleted, count_before = self._known.deleted(words), self._known.count
            unknown = _ids_of(words[~already_deleted & (self._known.reports(words) == 0)])
            if unknown:
                raise PrivotError(f"no report has the id {unknown[0].hex()}: nothing was deleted")
            new = words[~already_deleted]
            if len(new):
                with self._transaction() as connection:
                    connection.execute(
                        "INSERT INTO deleted (ids, erased) VALUES (?, 0)", (b"".join(_ids_of(new)),)
                    )
                    deleted = store.KnownIds()
                    deleted.mark_deleted(new)
                    self._remove("groups", self._format.record_bytes, store.ID_AT, deleted)
                    self._remove("sealed_ids", _ENTRY_BYTES, 0, deleted)
                self._known.mark_deleted(new)
            self._erase_free_space()
            return count_before - self._known.count

    def to_erase(self) -> frozenset[bytes]:
        with self._transaction() as connection:
            rows = connection.execute("SELECT ids FROM deleted WHERE NOT erased").fetchall()
        return frozenset(_ids_of(_words_of(b"".join(ids for (ids,) in rows))))

    def finish_erasing(self, rows: list[int]) -> None:
        with self._transaction() as connection:
            (count,) = _row(connection, "SELECT count(*) FROM shards")
            if len(rows) < count:
                raise store.shards_missing(len(rows), count)
            connection.executemany(
                "UPDATE shards SET length = ? WHERE number = ?",
                [(length, number) for number, length in enumerate(rows[:count], start=1)],
            )
            connection.execute("UPDATE deleted SET erased = 1")

    def close(self) -> None:
        with self._lock:
            self.stopped = self.stopped or "the store was closed: start the server again"
            self._connection.close()

    def erase_log(self) -> None:
        """Remove the log, which holds sealed records in the order of their arrival."""
        with self._lock:
            self._require_open()
            try:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                raise self._failed(error) from None

    def _prepare(self) -> None:
        """Lock the database, make the content of its log durable, and create missing tables."""
        connection = self._connection
        connection.execute("PRAGMA auto_vacuum = FULL")  # sealing returns its space to the disk
        connection.execute("PRAGMA secure_delete = ON")  # else pages keep sealed records in order
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        header = self._format.fingerprint + self._format.record_bytes.to_bytes(4, "big")
        (version,) = _row(connection, "PRAGMA user_version")
        if version > _FORMAT:
            raise PrivotError(f"{self._path} is newer: upgrade privot")
        if version == 0:
            with self._transaction():
                for statement in _TABLES.split(";"):
                    connection.execute(statement)
                connection.execute("INSERT INTO campaign VALUES (?, 0, NULL)", (header,))
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
        if _row(connection, "SELECT header FROM campaign")[0] != header:
            raise PrivotError(f"{self._path} is of another campaign: restore it, or move it away")

    def _recover(self) -> None:
        """Read all ids and records into memory, and finish an interrupted deletion."""
        num_records = _data_bytes(self._connection, "groups") // self._format.record_bytes
        num_sealed = _data_bytes(self._connection, "sealed_ids") // _ENTRY_BYTES
        self._known = store.KnownIds(num_records + num_sealed)
        deleted = self._connection.execute("SELECT ids FROM deleted").fetchall()
        self._known.mark_deleted(_words_of(b"".join(ids for (ids,) in deleted)))
        for data, crc in self._connection.execute("SELECT data, crc FROM sealed_ids"):
            entries = np.frombuffer(data, ">u8").reshape(-1, 3).astype(np.uint64)
            if zlib.crc32(data) != crc or (self._known.add(entries)[0] != store.NEW).any():
                raise self._damaged()
        damaged = 0
        for groups in self._rows("groups"):
            undamaged, entries, count = self._undamaged(groups)
            damaged += count - len(undamaged)
            if (self._known.add(entries)[0] != store.NEW).any():
                waves = "" if self._format.panel else "; if people report in waves, give --panel"
                raise PrivotError(f"{self._path} has a report twice: restore it{waves}")
        if damaged:
            self._log(f"{self._path.name}: {damaged:,} records are damaged, and left out")
        self._known.add(np.empty((0, 3), np.uint64))  # compiles before the first request
        self._erase_free_space()

    def _rows(self, table: str, last: int = _MAX_NUMBER) -> Iterator[list[tuple[int, bytes]]]:
        """Yield the rows of a table up to number `last`, about 16 MiB at a time.

        The store is unlocked in between, so that it can append meanwhile.
        """
        query = f"SELECT number, data FROM {table} WHERE number > ? AND number <= ? ORDER BY number"
        after = -1
        while True:
            rows: list[tuple[int, bytes]] = []
            size = 0
            with self._transaction() as connection:
                cursor = connection.execute(query, (after, last))
                while size < _PIECE_BYTES and (row := cursor.fetchone()):
                    rows.append(row)
                    size += len(row[1])
                cursor.close()
            if not rows:
                return
            yield rows
            after = rows[-1][0]

    def _undamaged(self, groups: list[tuple[int, bytes]]) -> tuple[store.Records, store.Words, int]:
        """Return the undamaged records of groups, their entries, and the number of all records."""
        records = _byte_rows(b"".join(data for _, data in groups), self._format.record_bytes)
        valid, entries = self._format.validate(records)
        return records[valid], entries[valid], len(records)

    def _remove(self, table: str, width: int, id_at: int, deleted: store.KnownIds) -> None:
        """Remove entries of deleted ids from a table: `width` bytes each, with the id at `id_at`."""
        for rows in self._rows(table):
            for number, data in rows:
                entries = _byte_rows(data, width)
                ids = entries[:, id_at : id_at + ID_BYTES]
                is_deleted = deleted.deleted(_words_of(ids.tobytes()))
                if is_deleted.any():
                    remaining = entries[~is_deleted].tobytes()
                    values = {"number": number, "data": remaining, "crc": zlib.crc32(remaining)}
                    self._connection.execute(_REPLACE[table], values)

    def _erase_free_space(self) -> None:
        """Rebuild the database if its free space may hold bytes of deleted reports."""
        if not self.to_erase():
            return
        try:
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            self.stopped = (
                f"{self._path} may hold bytes of deleted reports, for it cannot be rebuilt ({error}): "
                "make room on the disk and for temporary files, and start again"
            )
            raise store.StoreStopped(self.stopped) from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction that is durable after the block; a nested one joins the outer one.

        Raises:
            StoreFull: if the disk is full; nothing was changed.
            StoreStopped: if the disk fails, or has failed before.
        """
        with self._lock:
            self._require_open()
            if self._connection.in_transaction:
                yield self._connection
                return
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                # Python has a MemoryError where SQLite has no memory.
                if isinstance(error, sqlite3.Error | MemoryError) and self._serving:
                    raise self._failed(error) from None
                raise

    def _require_open(self) -> None:
        if self.stopped:
            raise store.StoreStopped(self.stopped)

    def _failed(self, error: sqlite3.Error | MemoryError) -> store.StoreFull | store.StoreStopped:
        if _code(error) == sqlite3.SQLITE_FULL:
            return store.StoreFull("the collector's disk is full: send it again later")
        self._log(
            f"{self.folder} cannot be written ({str(error) or 'no memory'}): repair that, then start "
            "again; nothing that was acknowledged is lost"
        )
        self.stopped = "the collector's disk or memory failed: send it again later"
        return store.StoreStopped(self.stopped)

    def _not_opened(self, error: sqlite3.Error) -> PrivotError:
        if _code(error) == sqlite3.SQLITE_BUSY:
            return PrivotError(
                f"{self.folder} is served by another process: stop that one, name another folder, or "
                "give both a database (--store postgresql://…), which several may serve"
            )
        if _code(error) in _DAMAGED:
            return self._damaged()
        return PrivotError(f"{self.folder} cannot be written ({error}); nothing was changed")

    def _damaged(self) -> PrivotError:
        return PrivotError(f"{self._path} is damaged, and reports are lost with it: restore it")


def _code(error: Exception) -> int:
    """Return SQLite's primary result code of an error."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _row(connection: sqlite3.Connection, query: str, *values: int) -> tuple:
    """Return the single row of a query."""
    row: tuple = connection.execute(query, values).fetchone()
    return row


def _data_bytes(connection: sqlite3.Connection, table: str, last: int = _MAX_NUMBER) -> int:
    """Return the length of the data in the rows of a table up to number `last`."""
    query = f"SELECT total(length(data)) FROM {table} WHERE number <= ?"
    return int(_row(connection, query, last)[0])


def _byte_rows(data: bytes, width: int) -> store.Records:
    return np.frombuffer(data, np.uint8).reshape(-1, width)


def _words_of(ids: bytes) -> store.Words:
    """Return ids, which follow one another, as words (n, 2), the highest byte first."""
    return np.frombuffer(ids, ">u8").reshape(-1, 2).astype(np.uint64)


def _ids_of(words: store.Words) -> list[bytes]:
    """Return the ids of words (n, 2)."""
    data = words.astype(">u8").tobytes()
    return [data[start : start + ID_BYTES] for start in range(0, len(data), ID_BYTES)]
