"""The folder survives kills, losses of power and full disks, and says in one line what was wrong."""

import errno
import os
import random
import resource
import shutil
import signal
import sqlite3
import zlib

import numpy as np
import pytest

from campaign_reports import CAMPAIGN, made, rows
from privot.collector.folder import FolderStore
from privot.collector.store import DUPLICATE, NEW, RecordFormat, StoreFull, StoreStopped
from privot.core.errors import PrivotError


def opened(folder, *more):
    return FolderStore(folder, CAMPAIGN.format, *more)


def copied(source, folder):
    """The files of a store that is open, as a kill leaves them: database and log."""
    folder.mkdir()
    for name in ("reports.db", "reports.db-wal"):
        shutil.copy(source / name, folder / name)
    return folder


def torn(rng, before, after, path):
    """A file between two states, block by block, of a length between theirs."""
    size = rng.randint(*sorted((len(before), len(after))))
    with open(path, "wb") as file:
        for at in range(0, size, 64):
            data = (before, after)[rng.random() < 0.5][at : at + 64]
            file.write(data.ljust(min(64, size - at), b"\0"))


def require_whole(folder, acknowledged, sent):
    """All that was acknowledged is there, each once, and nothing that was never sent."""
    final = opened(folder)
    assert (final.append(*rows(acknowledged)) == DUPLICATE).all()
    batch = final.begin_sealing()
    held = [row.tobytes() for records in final.taken(batch) for row in records]
    assert len(held) == len(set(held)) == final.count
    assert set(acknowledged) <= set(held) <= set(sent)
    final.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_loses_nothing_that_was_acknowledged(tmp_path, seed):
    """Of a group on its way, any blocks are on the disk: in the log, or once that is whole, beyond."""
    rng = random.Random(seed)
    reports, acknowledged = made(420, seed), []
    for start in range(0, 400, 100):
        store = opened(tmp_path / "s")
        store._connection.execute(f"PRAGMA wal_autocheckpoint = {rng.randrange(1, 12)}")
        known = store.append(*rows(acknowledged)) if acknowledged else np.zeros(0)
        assert (known == DUPLICATE).all()
        at, stop = start, start + rng.randrange(100)
        while at < stop:
            size = rng.randrange(1, 30)
            store.append(*rows(reports[at : min(400, at + size)]))
            acknowledged += reports[at : min(400, at + size)]
            at += size
        files = [tmp_path / "s" / name for name in ("reports.db", "reports.db-wal")]
        before = [file.read_bytes() if file.exists() else b"" for file in files]
        # Reading a file drops the process's locks on it, which nothing else in this test needs.
        store.append(*rows(reports[400 + start // 20 : 405 + start // 20]))
        after = [file.read_bytes() for file in files]
        store.close()
        checkpoint = rng.random() < 0.5  # the log is flushed before a byte of it is moved
        torn(rng, before[0], after[0] if checkpoint else before[0], files[0])
        torn(rng, after[1] if checkpoint else before[1], after[1], files[1])
    require_whole(tmp_path / "s", acknowledged, reports)


@pytest.mark.parametrize("seed", range(8))
def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path, seed):
    rng, reports = random.Random(seed), made(20_000, seed)
    read, write = os.pipe()
    if not (child := os.fork()):
        store, at = opened(tmp_path / "s"), 0
        while at < len(reports):
            size = rng.choice([1, 30, 500])
            store.append(*rows(reports[at : at + size]))
            at += size
            os.write(write, min(at, len(reports)).to_bytes(4, "big"))
        os._exit(0)
    os.close(write)
    stop, ends = rng.randrange(1, 60), []
    with os.fdopen(read, "rb") as pipe:
        while len(ends) < stop and (data := pipe.read(4)):
            ends.append(int.from_bytes(data, "big"))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while data := pipe.read(4):
            ends.append(int.from_bytes(data, "big"))
    require_whole(tmp_path / "s", reports[: ends[-1]], reports)


def test_every_commit_is_flushed(tmp_path):
    store = opened(tmp_path)
    for name, value in (("synchronous", 2), ("journal_mode", "wal"), ("locking_mode", "exclusive")):
        assert store._connection.execute(f"PRAGMA {name}").fetchone() == (value,)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    store.close()


def test_a_log_of_a_killed_process_is_made_durable_at_the_start(tmp_path):
    """It may be in the machine's memory alone, and copies of it are acknowledged."""
    store = opened(tmp_path / "s")
    store.append(*rows(made(10)))
    again = opened(copied(tmp_path / "s", tmp_path / "killed"))
    assert again.count == 10
    assert (tmp_path / "killed" / "reports.db-wal").stat().st_size == 0
    again.close()
    store.close()


def test_a_second_server_is_refused(tmp_path):
    store = opened(tmp_path)
    with pytest.raises(PrivotError, match="served by another process"):
        opened(tmp_path)
    if not (child := os.fork()):  # the refused one has not let go of the lock
        try:
            opened(tmp_path)
        except PrivotError as error:
            os._exit(0 if "served by another process" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.close()
    opened(tmp_path).close()


def test_a_full_disk_acknowledges_nothing_and_goes_on_when_there_is_room(tmp_path):
    reports = made(3000)
    store = opened(tmp_path)
    store.append(*rows(reports[:10]))
    store._connection.execute("PRAGMA max_page_count = 10")
    with pytest.raises(StoreFull, match="full: send it again later"):
        store.append(*rows(reports[5:]))
    assert store.append(*rows(reports[:10])).tolist() == [DUPLICATE] * 10  # needs no room
    assert store.count == 10
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert store.append(*rows(reports[5:])).tolist() == [DUPLICATE] * 5 + [NEW] * 2990
    store.close()
    store = opened(tmp_path)
    assert store.count == 3000
    store.close()


class FailingFlush:
    """A connection whose commits are written and not flushed."""

    def __init__(self, connection):
        self.connection = connection

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def execute(self, query, *given):
        if query == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error
        return self.connection.execute(query, *given)


class OutOfMemory(FailingFlush):
    """A connection where SQLite finds no memory, for which Python has no sqlite3.Error."""

    def executemany(self, *given):
        raise MemoryError


@pytest.mark.parametrize("failing", ["flush", "write", "memory"])
def test_a_disk_that_fails_stops_the_store_until_it_is_opened_again(tmp_path, failing):
    reports, lines = made(3000), []
    store = opened(tmp_path, lines.append)
    store.append(*rows(reports[:10]))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if failing != "write":
        kind = FailingFlush if failing == "flush" else OutOfMemory
        store._connection = kind(store._connection)
    else:
        size = max(file.stat().st_size for file in tmp_path.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, limits[1]))
    try:
        for _ in range(2):
            with pytest.raises(StoreStopped, match="send it again later"):
                store.append(*rows(reports[10:]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with pytest.raises(StoreStopped):  # what a failed flush lost is not known
        store.append(*rows(reports[:10]))
    with pytest.raises(StoreStopped):
        store.begin_sealing()
    assert store.stopped.endswith("send it again later")
    assert len(lines) == 1
    assert "nothing that was acknowledged is lost" in lines[0]
    store.close()
    again = opened(tmp_path)
    assert again.append(*rows(reports)).tolist() == [DUPLICATE] * 10 + [NEW] * 2990
    again.close()


def test_space_of_sealed_records_returns_to_the_disk(tmp_path):
    reports = made(20_000)
    store = opened(tmp_path)
    for start in range(0, 20_000, 500):
        store.append(*rows(reports[start : start + 500]))
    store.close()
    full = (tmp_path / "reports.db").stat().st_size
    assert full > 20_000 * len(reports[0])
    store = opened(tmp_path)
    assert store.count == 20_000
    batch = store.begin_sealing()
    assert batch.reports == 20_000
    store.finish_sealing(batch, [20_000])
    store.close()
    assert 24 * 20_000 < (tmp_path / "reports.db").stat().st_size < full / 2


def test_a_large_group_is_many_rows_and_any_number_of_small_ones_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("privot.collector.folder._GROUP_BYTES", 1000)
    monkeypatch.setattr("privot.collector.folder._PIECE_BYTES", 5000)
    reports = made(400)
    store = opened(tmp_path)
    store.append(*rows(reports[:200]))
    for report in reports[200:]:
        store.append(*rows([report]))
    assert store._connection.execute("SELECT count(*) FROM groups").fetchone()[0] > 210
    store.close()
    store = opened(tmp_path)
    assert [r.tobytes() for t in store.taken(store.begin_sealing()) for r in t] == reports
    store.close()


def test_a_kill_between_the_steps_of_a_sealing_doubles_nothing(tmp_path):
    """Whatever was on the disk after any step, the store is opened with each report once."""
    reports = made(60)
    store = opened(tmp_path / "s")
    store.append(*rows(reports))
    folders = [copied(tmp_path / "s", tmp_path / "0")]
    batch = store.begin_sealing()
    folders.append(copied(tmp_path / "s", tmp_path / "1"))
    step = []

    def keep(statement):
        folders.append(copied(tmp_path / "s", tmp_path / f"step {len(step)}"))
        step.append(statement)

    store._connection.set_trace_callback(keep)
    store.finish_sealing(batch, [60])
    store._connection.set_trace_callback(None)
    folders.append(copied(tmp_path / "s", tmp_path / "2"))
    store.close()
    assert len(step) > 5
    sealings = []
    for folder in folders:
        again = opened(folder)
        assert again.count == 60
        assert (again.append(*rows(reports)) == DUPLICATE).all()
        sealings.append(again.begin_sealing())
        again.close()
    assert sealings == [batch] * (len(folders) - 1) + [None]


def test_a_damaged_record_is_left_out_and_the_others_are_not(tmp_path):
    reports = made(20)
    store = opened(tmp_path)
    store.append(*rows(reports))
    store.close()
    path = tmp_path / "reports.db"
    data = path.read_bytes()
    at = data.index(reports[7]) + 50
    path.write_bytes(data[:at] + b"????" + data[at + 4 :])
    lines = []
    store = opened(tmp_path, lines.append)
    assert lines == ["reports.db: 1 records are damaged, and left out"]
    batch = store.begin_sealing()
    held = [row.tobytes() for records in store.taken(batch) for row in records]
    assert held == reports[:7] + reports[8:]
    assert store.append(*rows(reports[6:8])).tolist() == [DUPLICATE, NEW]
    store.close()


def test_what_is_damaged_beyond_a_power_loss_is_refused(tmp_path):
    reports = made(2000)
    store = opened(tmp_path / "s")
    store.append(*rows(reports[:1000]))
    store.finish_sealing(store.begin_sealing(), [1000])
    store.append(*rows(reports[1000:]))
    store.close()

    def damaged(change):
        folder = shutil.copytree(tmp_path / "s", tmp_path / "damaged")
        change(folder / "reports.db")
        with pytest.raises(PrivotError) as caught:
            opened(folder)
        shutil.rmtree(folder)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def changed(query, *given):
        def change(path):
            connection = sqlite3.connect(path)
            connection.execute(query, given)
            connection.commit()
            connection.close()

        return change

    _, found = CAMPAIGN.format.validate(*rows(reports[:1000]))
    entries = b"".join(sorted(each.astype(">u8").tobytes() for each in found))

    def flipped(path):
        data = path.read_bytes()
        at = data.index(entries[2400:2500])
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])

    assert "restore it" in damaged(flipped)
    assert "restore it" in damaged(lambda path: os.truncate(path, 8192))
    assert "restore it" in damaged(lambda path: path.write_bytes(b"{" * 8192))
    assert "restore it" in damaged(changed("DROP TABLE campaign"))
    twice = "INSERT INTO groups (data) SELECT data FROM groups"
    assert "has a report twice: restore it; if people report in waves" in damaged(changed(twice))
    again = "INSERT INTO sealed_ids (data, crc) VALUES (?, ?)"
    assert "restore it" in damaged(changed(again, entries[:24], zlib.crc32(entries[:24])))
    assert "upgrade" in damaged(changed("PRAGMA user_version = 2"))
    example = CAMPAIGN.format.example
    other = RecordFormat(example[:1] + bytes(32) + example[33:])
    with pytest.raises(PrivotError, match="another campaign"):
        FolderStore(tmp_path / "s", other)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "s").write_text("")
    with pytest.raises(PrivotError, match=os.strerror(errno.EEXIST)):
        opened(tmp_path / "s")
