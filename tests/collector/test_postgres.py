"""PostgreSQL: several servers at once, connections that break, and a database that does not flush."""

import re
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import psycopg
import pytest

import postgres_server
from campaign_reports import CAMPAIGN, changed, made, resealed, rows
from privot import Release
from privot.collector import sealing
from privot.collector.app import Sealer, ServedCampaign
from privot.collector.postgres import PostgresStore
from privot.collector.sealing import storage_at
from privot.collector.store import DELETED, DUPLICATE, INVALID, NEW, RecordFormat, StoreStopped
from privot.core.errors import PrivotError
from privot.device import Report


def test_several_servers_accept_each_report_once(database):
    reports = made(2000)
    stores = [PostgresStore(database, CAMPAIGN.format) for _ in range(3)]
    found = [[] for _ in stores]

    def send(number):
        rng = np.random.default_rng(number)
        for start in range(0, 2000, 100):
            group = [reports[i] for i in start + rng.permutation(100)]
            found[number] += stores[number].append(*rows(group)).tolist()

    threads = [threading.Thread(target=send, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = np.array(found)
    assert (statuses == NEW).sum() == 2000
    assert (statuses == DUPLICATE).sum() == 4000
    for store in stores:
        store.close()
    assert PostgresStore(database, CAMPAIGN.format).count == 2000


def test_copies_and_other_contents_are_told_apart_across_servers(database):
    first, second = (PostgresStore(database, CAMPAIGN.format) for _ in range(2))
    reports = made(2)
    first.append(*rows(reports))
    assert second.append(*rows([changed(reports[0]), reports[1]])).tolist() == [NEW, DUPLICATE]
    assert first.append(*rows(reports)).tolist() == [DUPLICATE, DUPLICATE]


def waiting(database):
    """Whether a transaction waits for a lock."""
    found = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with psycopg.connect(database, autocommit=True) as other:
        return other.execute(found).fetchone()[0] > 0


def wait_for(database, thread):
    while thread.is_alive() and not waiting(database):
        time.sleep(0.01)
    return thread.is_alive()


def test_a_deletion_waits_for_a_copy_on_its_way_and_deletes_it(database, monkeypatch):
    first, second = (PostgresStore(database, CAMPAIGN.format) for _ in range(2))
    reports, stored, go_on = made(3), threading.Event(), threading.Event()
    first.append(*rows(reports))
    insert = first._insert

    def slow(*given):
        statuses = insert(*given)
        stored.set()
        go_on.wait()
        return statuses

    monkeypatch.setattr(first, "_insert", slow)
    sent, counts = [changed(reports[0]), made(1)[0]], []
    sender = threading.Thread(target=lambda: first.append(*rows(sent)))
    sender.start()
    stored.wait()
    gone = Report.from_bytes(reports[0]).id
    deleter = threading.Thread(target=lambda: counts.append(second.delete([gone])))
    deleter.start()
    waited = wait_for(database, deleter)
    go_on.set()
    sender.join()
    deleter.join()
    assert waited
    assert counts == [2]
    assert PostgresStore(database, CAMPAIGN.format).count == 3
    monkeypatch.undo()
    assert first.append(*rows([*sent, reports[0]])).tolist() == [DELETED, DUPLICATE, DELETED]


def test_a_copy_waits_for_a_deletion_on_its_way_and_is_refused(database):
    store, reports, found = PostgresStore(database, CAMPAIGN.format), made(3), []
    store.append(*rows(reports))
    other = PostgresStore(database, CAMPAIGN.format)
    connection = other._sealing_connection()
    sender = threading.Thread(target=lambda: found.extend(store.append(*rows(sent)).tolist()))
    sent = [changed(reports[0]), reports[0], reports[1]]
    with connection.transaction():  # that of the deletion is within it, so not yet committed
        assert other.delete([Report.from_bytes(reports[0]).id]) == 1
        sender.start()
        waited = wait_for(database, sender)
    sender.join()
    assert waited
    assert found == [DELETED, DELETED, DUPLICATE]
    assert PostgresStore(database, CAMPAIGN.format).count == 2


def test_a_connection_that_broke_acknowledges_nothing_and_is_made_again(database):
    store, reports = PostgresStore(database, CAMPAIGN.format), made(20)
    store.append(*rows(reports[:10]))
    with psycopg.connect(database, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    with pytest.raises(StoreStopped, match="send it again later"):
        store.append(*rows(reports[5:]))
    assert store.append(*rows(reports)).tolist() == [DUPLICATE] * 10 + [NEW] * 10
    assert store.count == 20


def test_campaigns_share_a_database_and_nothing_else(database):
    example = CAMPAIGN.format.example
    other = RecordFormat(example[:1] + bytes(32) + example[33:])
    first, second = PostgresStore(database, CAMPAIGN.format), PostgresStore(database, other)
    reports = made(5)
    others = [resealed(each[:1] + bytes(32) + each[33:]) for each in reports]
    assert first.append(*rows(reports)).tolist() == [NEW] * 5
    assert second.append(*rows(others)).tolist() == [NEW] * 5
    assert second.append(*rows(reports)).tolist() == [INVALID] * 5
    first.finish_sealing(first.begin_sealing(), [5])
    assert second.begin_sealing().reports == 5


def test_one_server_seals_at_a_time(database):
    first, second = (PostgresStore(database, CAMPAIGN.format) for _ in range(2))
    first.append(*rows(made(5)))
    batch = first.begin_sealing()
    with pytest.raises(PrivotError, match="another server seals"):
        second.begin_sealing()
    first.finish_sealing(batch, [5])
    first.close()
    second.append(*rows(made(3)))
    assert second.begin_sealing().shards == (5,)


def test_collectors_of_one_campaign_seal_in_turn_and_one_that_cannot_says_why(database, tmp_path):
    """The one that waits logs nothing; after its connections broke, the other one goes on sealing."""
    logs, sealers, reports = ([], []), [], made(9)
    for log in logs:
        store = PostgresStore(database, CAMPAIGN.format)
        writer = SimpleNamespace(store=store)  # what a sealer has of it
        sealers.append(
            Sealer(
                ServedCampaign(CAMPAIGN, writer),
                storage_at(str(tmp_path)),
                lambda line, log=log, **_: log.append(line),
            )
        )
        store.append(*rows(reports[:4]))
    for sealer in sealers * 2:
        sealer.seal()
    assert [len(log) for log in logs] == [1, 0]
    with psycopg.connect(database, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    sealers[0].seal()
    assert logs[0][1].startswith("not sealed, and nothing is lost")
    with suppress(StoreStopped):
        sealers[1].served.writer.store.append(*rows(reports))
    sealers[1].served.writer.store.append(*rows(reports))
    for sealer in reversed(sealers):
        sealer.seal()
    assert (len(logs[0]), len(logs[1])) == (2, 1)
    assert "9 in the release" in logs[1][0]


def test_a_server_that_lost_the_right_to_seal_names_no_older_list(database, tmp_path, monkeypatch):
    """Its connection breaks while it writes a shard, and another server finishes that and seals more."""
    first, second = (PostgresStore(database, CAMPAIGN.format) for _ in range(2))
    storage, reports, write = storage_at(str(tmp_path / "release")), made(20), sealing.write_reports

    def interrupted(*arguments):
        monkeypatch.undo()
        with psycopg.connect(database, autocommit=True) as other:
            pid = first._sealer.info.backend_pid
            other.execute("SELECT pg_terminate_backend(%s, 9000)", (pid,))
        assert sealing.seal(second, CAMPAIGN, storage).total == 10
        second.append(*rows(reports[10:]))
        assert sealing.seal(second, CAMPAIGN, storage).total == 20
        return write(*arguments)

    first.append(*rows(reports[:10]))
    monkeypatch.setattr(sealing, "write_reports", interrupted)
    with pytest.raises(psycopg.Error):
        sealing.seal(first, CAMPAIGN, storage)
    assert len(Release.load(tmp_path / "release")) == 20


def test_a_database_may_have_no_encoding(database):
    """Its driver then returns text as bytes."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE plain ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
    store = PostgresStore(re.sub(r"/\w+\?", "/plain?", database), CAMPAIGN.format)
    assert store.append(*rows(made(3))).tolist() == [NEW] * 3
    store.close()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP DATABASE plain")


def test_a_database_that_does_not_flush_is_refused(postgres_address):
    with postgres_server.server("-c", "fsync=off") as address:
        with pytest.raises(PrivotError, match="fsync = off"):
            PostgresStore(address, CAMPAIGN.format)
