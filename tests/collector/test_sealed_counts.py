"""Counts beside shards are those of the reports that are there, after any kill and any deletion."""

import os
import shutil
import signal
from functools import partial

import pytest

from campaign_reports import CAMPAIGN, RANDOMIZER, changed, ids_of, made, rows
from collector.test_deleting import held, id_of
from collector.test_sealing import IN_WAVES, BrokenShelf, in_wave
from forked_commands import call
from privot import Counts, Release, count
from privot.collector import sealing
from privot.collector.folder import FolderStore
from privot.collector.sealing import FolderStorage, delete_reports, seal
from privot.core.errors import PrivotError
from privot.device import Report
from privot.randomizer.reports import counts


@pytest.fixture
def opened(tmp_path):
    """Opens the same folder; what is sealed does not depend on the store."""
    return lambda: FolderStore(tmp_path / "store", CAMPAIGN.format)


def few(number):
    """Reports of four payloads, so that counts are worth their file."""
    drawn = [Report.from_bytes(each) for each in made(4)]
    return [
        Report(each.fingerprint, os.urandom(16), each.time, each.payload).to_bytes()
        for each in (drawn[i % 4] for i in range(number))
    ]


def of_reports(folder):
    """The counts of all reports, read one by one."""
    return count(Release.load(folder).table, RANDOMIZER).to_bytes()


def files_of(folder):
    return {path.name: Counts.load(path) for path in sorted(folder.glob("*.counts"))}


def test_counts_of_a_folder_are_read_beside_the_shards(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(sealing, "_SHARD_ROWS", 40)
    monkeypatch.setattr(counts, "_MOST_PARTS", 2)
    store, reports = opened(), few(200)
    for start in (0, 100):
        store.append(*rows(reports[start : start + 100]))
        seal(store, CAMPAIGN, FolderStorage(tmp_path / "r"))
    store.close()
    exact = of_reports(tmp_path / "r")
    assert [len(each) for each in files_of(tmp_path / "r").values()] == [40, 40, 20] * 2
    read = []
    monkeypatch.setattr(counts, "_count_rows", read.append)
    assert count(tmp_path / "r").to_bytes() == exact
    assert not read


def test_shards_without_counts_are_counted_by_their_reports(opened, tmp_path):
    store, reports = opened(), [*few(60), *made(1)]
    for part in (reports[:60], reports[60:]):  # of one report, counts are no fewer
        store.append(*rows(part))
        seal(store, CAMPAIGN, FolderStorage(tmp_path / "r"))
    store.close()
    assert [*files_of(tmp_path / "r")] == ["shard-000000.counts"]
    assert count(tmp_path / "r").to_bytes() == of_reports(tmp_path / "r")


def test_counts_of_other_reports_are_not_read(opened, tmp_path):
    store, reports = opened(), few(120)
    for start in (0, 60):
        store.append(*rows(reports[start : start + 60]))
        seal(store, CAMPAIGN, FolderStorage(tmp_path / "r"))
    store.close()
    exact, first = of_reports(tmp_path / "r"), tmp_path / "r" / "shard-000000.counts"
    shutil.copy(tmp_path / "r" / "shard-000001.counts", first)
    assert count(tmp_path / "r").to_bytes() == exact
    first.write_bytes(b"")
    assert count(tmp_path / "r").to_bytes() == exact
    first.unlink()
    assert count(tmp_path / "r").to_bytes() == exact


def test_two_reports_under_one_id_both_count_and_a_copied_shard_is_refused(opened, tmp_path):
    """Whoever forges a report under a known id must not stop a fit."""
    store, reports = opened(), few(60)
    store.append(*rows(reports))
    seal(store, CAMPAIGN, FolderStorage(tmp_path / "r"))
    store.append(*rows([changed(reports[7]), *few(60)]))
    seal(store, CAMPAIGN, FolderStorage(tmp_path / "r"))
    store.close()
    assert len(files_of(tmp_path / "r")) == 2
    assert len(count(tmp_path / "r")) == 121
    for suffix in (".parquet", ".counts"):
        shutil.copy(*(tmp_path / "r" / f"shard-00000{n}{suffix}" for n in (0, 1)))
    with pytest.raises(PrivotError, match="it is there twice"):
        count(tmp_path / "r")


def test_waves_have_no_counts(opened, tmp_path):
    store = opened()
    store.append(*rows(in_wave(few(40), 1)))
    assert seal(store, IN_WAVES, FolderStorage(tmp_path / "r")).rows == 40
    store.close()
    assert not files_of(tmp_path / "r")


@pytest.mark.parametrize("after", range(6))
def test_a_deletion_that_breaks_off_leaves_no_counts_of_what_is_deleted(opened, tmp_path, after):
    store, reports = opened(), few(120)
    for start in (0, 60):
        store.append(*rows(reports[start : start + 60]))
        seal(store, CAMPAIGN, FolderStorage(tmp_path / "r"))
    gone = [id_of(reports[3]), id_of(reports[70])]
    if after < 5:
        with pytest.raises(OSError, match="Input"):
            delete_reports(store, BrokenShelf(tmp_path / "r", after), gone)
        assert count(tmp_path / "r").to_bytes() == of_reports(tmp_path / "r")
        sealing.erase(store, FolderStorage(tmp_path / "r"))
    else:
        delete_reports(store, FolderStorage(tmp_path / "r"), gone)
    store.close()
    assert [len(each) for each in files_of(tmp_path / "r").values()] == [59, 59]
    assert count(tmp_path / "r").to_bytes() == of_reports(tmp_path / "r")
    assert len(count(tmp_path / "r")) == 118


def test_a_shard_of_which_all_is_deleted_has_no_counts(opened, tmp_path):
    store, reports = opened(), few(120)
    for start in (0, 60):
        store.append(*rows(reports[start : start + 60]))
        seal(store, CAMPAIGN, FolderStorage(tmp_path / "r"))
    delete_reports(store, FolderStorage(tmp_path / "r"), [id_of(each) for each in reports[:60]])
    store.close()
    assert (tmp_path / "r" / "shard-000000.counts").read_bytes() == b""
    assert count(tmp_path / "r").to_bytes() == of_reports(tmp_path / "r")


def test_a_kill_before_any_file_of_a_sealing_loses_and_doubles_nothing(tmp_path):
    call(seal_with_a_kill_before_every_file, tmp_path)


def killed_before(file, done):
    """End the process before it replaces the file of this number."""
    left, replace = [file], os.replace

    def replaced(*paths):
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        replace(*paths)

    os.replace = replaced
    done()
    os._exit(0)


def seal_with_a_kill_before_every_file(folder):
    """A report is deleted after each kill, and is in no counts then."""
    reports = few(80)
    store = FolderStore(folder / "s", CAMPAIGN.format)
    store.append(*rows(reports[:40]))
    seal(store, CAMPAIGN, FolderStorage(folder / "s" / "r"))
    store.append(*rows(reports[40:]))
    store.close()
    for file in range(20):
        copy = shutil.copytree(folder / "s", folder / str(file))
        shelf = FolderStorage(copy / "r")
        if not (child := os.fork()):
            store = FolderStore(copy, CAMPAIGN.format)
            killed_before(file, partial(seal, store, CAMPAIGN, shelf))
        whole = not os.WIFSIGNALED(os.waitpid(child, 0)[1])
        assert count(copy / "r").to_bytes() == of_reports(copy / "r")
        store = FolderStore(copy, CAMPAIGN.format)
        delete_reports(store, shelf, [id_of(reports[50])])
        assert sum(map(len, files_of(copy / "r").values())) in (40, 79)
        gone, left = id_of(reports[50]), [path for path in copy.rglob("*") if path.is_file()]
        holding = [path.name for path in left if gone in path.read_bytes()]
        assert set(holding) <= {"reports.db", "reports.db-wal"}, holding  # which refuse it
        seal(store, CAMPAIGN, shelf)
        store.close()
        assert held(copy / "r") == ids_of(reports) - ids_of([reports[50]])
        assert [len(each) for each in files_of(copy / "r").values()] == [40, 39]
        assert count(copy / "r").to_bytes() == of_reports(copy / "r")
        if whole:
            break
    assert whole
    assert file == 3  # a shard, its counts, the manifest
