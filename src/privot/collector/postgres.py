"""Store in PostgreSQL, for several servers that receive reports of one campaign.

    privot_campaigns   number, fingerprint, length of a record
    privot_reports     campaign, id and digest (the key), sealing, report
    privot_sealings    campaign, number, rows of its shards once it is finished

A group is one transaction: COPY into a temporary table, then INSERT … ON CONFLICT DO NOTHING in the
order of ids and digests (so that servers cannot deadlock). The group is acknowledged after COMMIT with
`synchronous_commit`; a database that does not flush (`fsync = off`) is refused. If the connection is
lost before the acknowledgement, the senders send the group again, whether it was stored or not.

**Sealing** moves reports into shards of a release. One statement first marks all unsealed reports with
the number of the sealing. Then the marked reports are read, so that an interrupted sealing reads the
same ones again. Sealed reports stay in the table, because their ids must stay known. The server that
seals holds an advisory lock.

**Deleting** replaces all rows of an id by one tombstone: digest 0 (which no report has), an empty
report, and sealing −1 once no file of the release contains the report. Groups take a shared lock and
a deletion takes it exclusively, so a group is either committed before the deletion, which deletes its
reports, or sees the tombstones. The bytes of deleted rows remain in free space until VACUUM, in the
database's log, and in backups.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, LiteralString
from uuid import UUID

import numpy as np
import psycopg

from privot.collector import store
from privot.core.errors import PrivotError

TABLES = """
CREATE TABLE IF NOT EXISTS privot_campaigns (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint bytea UNIQUE NOT NULL,
    record_bytes integer NOT NULL
);
CREATE TABLE IF NOT EXISTS privot_reports (
    campaign integer NOT NULL,
    id uuid NOT NULL,
    digest bigint NOT NULL,
    sealing integer,
    report bytea NOT NULL,
    PRIMARY KEY (campaign, id, digest)
);
CREATE INDEX IF NOT EXISTS privot_unsealed ON privot_reports (campaign) WHERE sealing IS NULL;
CREATE TABLE IF NOT EXISTS privot_sealings (
    campaign integer NOT NULL REFERENCES privot_campaigns,
    number integer NOT NULL,
    shards integer[],
    PRIMARY KEY (campaign, number)
);
"""
ARRIVING = """
CREATE TEMPORARY TABLE IF NOT EXISTS privot_arriving
    (place integer, id uuid, digest bigint, report bytea) ON COMMIT DELETE ROWS
"""
# Returns the places of new reports among those that arrive; of equal reports, the first is new.
INSERT = """
WITH stored AS (
    INSERT INTO privot_reports (campaign, id, digest, report)
    SELECT %(campaign)s, id, digest, report FROM (
        SELECT DISTINCT ON (id, digest) id, digest, report FROM privot_arriving AS arriving
        WHERE NOT EXISTS (
            SELECT FROM privot_reports AS gone
            WHERE gone.campaign = %(campaign)s AND gone.id = arriving.id AND gone.digest = 0
        )
        ORDER BY id, digest, place
    ) AS firsts ORDER BY id, digest
    ON CONFLICT DO NOTHING RETURNING id, digest
)
SELECT place FROM (
    SELECT id, digest, min(place) AS place FROM privot_arriving GROUP BY id, digest
) AS firsts JOIN stored USING (id, digest)
"""
DELETED_PLACES = """
SELECT place FROM privot_arriving JOIN privot_reports AS held USING (id)
WHERE held.campaign = %(campaign)s AND held.digest = 0
"""
KNOWN = "SELECT DISTINCT id FROM privot_reports WHERE campaign = %s AND id = ANY(%s)"
# A tombstone has the last sealing of its id, if any, since a file of the release may contain the report.
DELETE = """
WITH gone AS (
    DELETE FROM privot_reports
    WHERE campaign = %(campaign)s AND digest <> 0 AND (%(all)s OR id = ANY(%(ids)s::uuid[]))
    RETURNING id, sealing
), buried AS (
    INSERT INTO privot_reports (campaign, id, digest, sealing, report)
    SELECT %(campaign)s, id, 0, max(coalesce(sealing, -1)), '' FROM gone GROUP BY id
)
SELECT count(*) FROM gone
"""
COUNT = "SELECT count(*) FROM privot_reports WHERE campaign = %s AND digest <> 0"
SEALINGS = "SELECT number, shards FROM privot_sealings WHERE campaign = %s ORDER BY number"
SET_SHARDS = "UPDATE privot_sealings SET shards = %s WHERE campaign = %s AND number = %s"
TO_ERASE = "SELECT id FROM privot_reports WHERE campaign = %s AND digest = 0 AND sealing >= 0"

# Keys of advisory locks: "priv", "seal" and "dele" in ASCII.
_TABLE_LOCK, _SEAL_LOCK, _DELETE_LOCK = 0x70726976, 0x7365616C, 0x64656C65
_COPY_HEAD, _COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_PIECE_ROWS = 2**14  # reports that are read at a time


class SealedElsewhere(PrivotError):  # noqa: N818 (a state, not a fault)
    """Error while another server of the campaign holds the lock on sealing, until it stops."""


class PostgresStore(store.Store):
    """Store of one campaign's reports in PostgreSQL.

    Arguments:
        address: Address of the database, `postgresql://…`.
        format: Format of the campaign's records.

    Raises:
        PrivotError: if the database cannot be reached, or does not flush transactions (`fsync = off`).
    """

    def __init__(self, address: str, format: store.RecordFormat) -> None:
        self._address, self._format = address, format
        self._lock = threading.Lock()
        self._connection: psycopg.Connection | None = None
        self._sealer: psycopg.Connection | None = None
        self._campaign, self._count = 0, 0
        try:
            self._connected()
        except psycopg.Error as error:
            raise PrivotError(
                f"--store: the database cannot be used ({' '.join(str(error).split())}): check its "
                "address and rights"
            ) from None

    @property
    def count(self) -> int:
        """Number of reports, except those that other servers stored since this one started."""
        return self._count

    def disk_bytes(self) -> int:
        with suppress(psycopg.Error), psycopg.connect(self._address, autocommit=True) as connection:
            return int(_one(connection, "SELECT pg_total_relation_size('privot_reports')"))
        return 0

    def append(self, records: store.Records) -> store.Statuses:
        valid, entries = self._format.validate(records)
        statuses = np.full(len(records), store.INVALID, np.uint8)
        with self._lock:
            try:
                connection = self._connected()
                with connection.transaction():
                    statuses[valid] = self._insert(connection, records[valid], entries[valid])
            except (psycopg.errors.DiskFull, psycopg.errors.InsufficientResources):
                raise store.StoreFull("the collector's disk is full: send it again later") from None
            except psycopg.Error:
                if self._connection is not None:
                    self._connection.close()
                raise store.StoreStopped(
                    "the collector's database cannot be reached: send it again later"
                ) from None
            self._count += int((statuses == store.NEW).sum())
            return statuses

    def begin_sealing(self) -> store.Sealing | None:
        connection = self._sealing_connection()
        sealings = connection.execute(SEALINGS, (self._campaign,)).fetchall()
        if sealings and sealings[-1][1] is None:  # the last sealing was interrupted
            number = sealings.pop()[0]
        else:
            number = len(sealings)
            with connection.transaction():
                marked = connection.execute(
                    "UPDATE privot_reports SET sealing = %s WHERE campaign = %s AND sealing IS NULL",
                    (number, self._campaign),
                ).rowcount
                if not marked:
                    return None
                connection.execute(
                    "INSERT INTO privot_sealings VALUES (%s, %s, NULL)", (self._campaign, number)
                )
        reports = int(_one(connection, COUNT + " AND sealing = %s", (self._campaign, number)))
        return store.Sealing(
            number, reports, tuple(rows for _, shards in sealings for rows in shards)
        )

    def taken(self, sealing: store.Sealing) -> Iterator[store.Records]:
        connection = self._sealing_connection()
        with connection.transaction(), connection.cursor("privot_taken", binary=True) as cursor:
            cursor.execute(
                "SELECT report FROM privot_reports "
                "WHERE campaign = %s AND sealing = %s AND digest <> 0",
                (self._campaign, sealing.number),
            )
            while rows := cursor.fetchmany(_PIECE_ROWS):
                data = b"".join(report for (report,) in rows)
                yield np.frombuffer(data, np.uint8).reshape(len(rows), self._format.record_bytes)

    def finish_sealing(self, sealing: store.Sealing, rows: list[int]) -> None:
        values = (rows, self._campaign, sealing.number)
        self._sealing_connection().execute(SET_SHARDS, values)

    def delete(self, ids: Sequence[bytes] | None) -> int:
        connection = self._sealing_connection()
        with connection.transaction():
            lock = "SELECT pg_advisory_xact_lock(%s, %s)"
            connection.execute(lock, (_DELETE_LOCK, self._campaign))
            uuids = [UUID(bytes=report_id) for report_id in ids or ()]
            if ids is not None:
                known = {uuid for (uuid,) in connection.execute(KNOWN, (self._campaign, uuids))}
                unknown = [uuid for uuid in uuids if uuid not in known]
                if unknown:
                    raise PrivotError(f"no report has the id {unknown[0].hex}: nothing was deleted")
            values = {"campaign": self._campaign, "all": ids is None, "ids": uuids}
            count = int(_one(connection, DELETE, values))
        with self._lock:
            self._count -= count
        return count

    def to_erase(self) -> frozenset[bytes]:
        rows = self._sealing_connection().execute(TO_ERASE, (self._campaign,))
        return frozenset(uuid.bytes for (uuid,) in rows)

    def finish_erasing(self, rows: list[int]) -> None:
        connection = self._sealing_connection()
        with connection.transaction():
            sealings = connection.execute(SEALINGS, (self._campaign,)).fetchall()
            counts = [(number, len(shards)) for number, shards in sealings if shards is not None]
            num_shards = sum(count for _, count in counts)
            if len(rows) < num_shards:
                raise store.shards_missing(len(rows), num_shards)
            start = 0
            for number, count in counts:
                end = start + count
                connection.execute(SET_SHARDS, (rows[start:end], self._campaign, number))
                start = end
            connection.execute(
                "UPDATE privot_reports SET sealing = -1 "
                "WHERE campaign = %s AND digest = 0 AND sealing >= 0",
                (self._campaign,),
            )

    def close(self) -> None:
        with self._lock:
            for connection in (self._connection, self._sealer):
                if connection is not None:
                    connection.close()

    def _connected(self) -> psycopg.Connection:
        """Return the connection for appending; open a new one, and check `fsync`, if there is none."""
        if self._connection is None or self._connection.closed:
            connection = psycopg.connect(self._address, autocommit=True)
            if not _one(connection, "SELECT current_setting('fsync')::boolean"):
                connection.close()
                raise PrivotError(
                    "--store: the database runs with fsync = off, and would lose what was acknowledged: "
                    "turn it on"
                )
            connection.execute("SET synchronous_commit = on")
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            with connection.transaction():
                # Two servers that start at once would both find no tables.
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_TABLE_LOCK,))
                connection.execute("SET LOCAL client_min_messages = warning")
                connection.execute(TABLES)
            connection.execute(ARRIVING)
            self._campaign = self._campaign_number(connection)
            self._count = int(_one(connection, COUNT, (self._campaign,)))
            self._connection = connection
        return self._connection

    def _campaign_number(self, connection: psycopg.Connection) -> int:
        """Return the campaign's number; add the campaign if it is new."""
        connection.execute(
            "INSERT INTO privot_campaigns (fingerprint, record_bytes) VALUES (%s, %s) "
            "ON CONFLICT DO NOTHING",
            (self._format.fingerprint, self._format.record_bytes),
        )
        find = "SELECT number FROM privot_campaigns WHERE fingerprint = %s"
        return int(_one(connection, find, (self._format.fingerprint,)))

    def _insert(
        self, connection: psycopg.Connection, records: store.Records, entries: store.Words
    ) -> store.Statuses:
        """Insert new reports in the current transaction, and return the status of each."""
        rows = np.zeros(len(records), _copied_row(records.shape[1]))
        rows["fields"], rows["place"] = 4, np.arange(len(records))
        rows["id"], rows["digest"], rows["report"] = entries[:, :2], entries[:, 2], records
        for name in ("place", "id", "digest", "report"):
            rows[f"{name}_bytes"] = rows.dtype[name].itemsize
        with connection.cursor().copy("COPY privot_arriving FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(_COPY_HEAD + rows.tobytes() + _COPY_END)
        # After this lock, every statement sees all deletions that were committed before it.
        shared_lock = "SELECT pg_advisory_xact_lock_shared(%s, %s)"
        connection.execute(shared_lock, (_DELETE_LOCK, self._campaign))
        statuses = np.full(len(records), store.DUPLICATE, np.uint8)
        campaign = {"campaign": self._campaign}
        statuses[[place for (place,) in connection.execute(DELETED_PLACES, campaign)]] = (
            store.DELETED
        )
        statuses[[place for (place,) in connection.execute(INSERT, campaign)]] = store.NEW
        return statuses

    def _sealing_connection(self) -> psycopg.Connection:
        """Return a second connection, which holds the lock on sealing until it is closed."""
        if self._sealer is None or self._sealer.closed:
            connection = psycopg.connect(self._address, autocommit=True)
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            try_lock = "SELECT pg_try_advisory_lock(%s, %s)"
            if not _one(connection, try_lock, (_SEAL_LOCK, self._campaign)):
                connection.close()
                raise SealedElsewhere("another server seals this campaign: stop that one first")
            self._sealer = connection
        return self._sealer


def _copied_row(record_bytes: int) -> np.dtype:
    """Return the type of a row in PostgreSQL's binary COPY, in which its length precedes each field."""
    return np.dtype(
        [
            *(("fields", ">i2"), ("place_bytes", ">i4"), ("place", ">i4")),
            *(("id_bytes", ">i4"), ("id", ">u8", 2), ("digest_bytes", ">i4"), ("digest", ">u8")),
            *(("report_bytes", ">i4"), ("report", "u1", record_bytes)),
        ]
    )


def _one(
    connection: psycopg.Connection,
    query: LiteralString,
    values: tuple[object, ...] | dict[str, object] = (),
) -> Any:
    """Return the only value of a query's only row."""
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return row[0]
