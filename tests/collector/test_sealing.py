"""What was accepted becomes a release, once, at any address, whatever broke off in between."""

import json
import shutil

import fsspec
import pytest

from campaign_reports import CAMPAIGN, RANDOMIZER, ids_of, made, resealed, rows
from privot import Release
from privot.collector import sealing
from privot.collector.arrivals import Campaign
from privot.collector.collecting import collect
from privot.collector.folder import FolderStore
from privot.collector.sealing import AddressStorage, FolderStorage, seal, storage_at
from privot.collector.waves import sealed_waves
from privot.core.errors import PrivotError
from privot.device import Report
from privot.waves import Panel


def held(folder):
    return set(Release.load(folder).table.column("report_id").to_pylist())


def test_the_release_is_that_of_the_accepted_reports(opened, tmp_path):
    store, reports = opened(), made(3000)
    for start in range(0, 3000, 500):
        store.append(*rows(reports[start : start + 500]))
    done = seal(store, CAMPAIGN, FolderStorage(tmp_path / "release"))
    assert (done.rows, done.quarantined, done.total) == (3000, 0, 3000)
    assert seal(store, CAMPAIGN, FolderStorage(tmp_path / "release")) is None
    release = Release.load(tmp_path / "release")
    assert release.table.equals(collect(reports, RANDOMIZER).release.table)
    assert release.randomizer == RANDOMIZER
    store.close()


def test_a_new_folder_of_releases_may_be_read_as_any_other(opened, tmp_path):
    """Only the copies beside a release are for the collector's account alone."""
    store = opened()
    store.append(*rows(made(3)))
    seal(store, CAMPAIGN, FolderStorage(tmp_path / "out" / "release"))
    (tmp_path / "plain").mkdir()
    modes = {(tmp_path / name).stat().st_mode for name in ("out", "out/release", "plain")}
    assert len(modes) == 1
    store.close()


def test_later_sealings_add_shards(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(sealing, "_SHARD_ROWS", 40)
    store, reports = opened(), made(250)
    store.append(*rows(reports[:100]))
    seal(store, CAMPAIGN, FolderStorage(tmp_path))
    assert held(tmp_path) == ids_of(reports[:100])
    store.append(*rows(reports))
    assert seal(store, CAMPAIGN, FolderStorage(tmp_path)).total == 250
    assert held(tmp_path) == ids_of(reports)
    shards = json.loads((tmp_path / "manifest.json").read_text())["shards"]
    assert [shard["rows"] for shard in shards] == [40, 40, 20, 40, 40, 40, 30]
    store.close()


def test_what_no_device_writes_is_put_in_quarantine(opened, tmp_path):
    store, reports = opened(), made(40)
    strange = resealed(reports[3][:58] + b"\xff" * (len(reports[3]) - 62) + reports[3][-4:])
    store.append(*rows([*reports[:3], strange, *reports[4:]]))
    done = seal(store, CAMPAIGN, FolderStorage(tmp_path))
    assert (done.rows, done.quarantined) == (39, 1)
    lines = (tmp_path / "quarantine-000000.csv").read_text().splitlines()
    assert lines[0] == "reason,report"
    assert "bytes that no device writes" in lines[1]
    assert held(tmp_path) == ids_of(reports) - ids_of([strange])
    assert seal(store, CAMPAIGN, FolderStorage(tmp_path)) is None
    store.close()


class BrokenShelf:
    """Breaks off at the n-th file."""

    def __init__(self, folder, after):
        self.shelf, self.left = FolderStorage(folder), after
        self.work, self.drafts = self.shelf.work, self.shelf.drafts

    def writing(self, name):
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")
        return self.shelf.writing(name)

    def names(self):
        return self.shelf.names()

    def fetch(self, name, copy):
        self.shelf.fetch(name, copy)


@pytest.mark.parametrize("after", range(4))
def test_a_sealing_that_breaks_off_is_done_again_and_doubles_nothing(
    opened, tmp_path, monkeypatch, after
):
    monkeypatch.setattr(sealing, "_SHARD_ROWS", 50)
    store, reports = opened(), made(190)
    store.append(*rows(reports[:60]))
    seal(store, CAMPAIGN, FolderStorage(tmp_path))
    store.append(*rows(reports[60:160]))
    if after < 3:
        with pytest.raises(OSError, match="Input"):
            seal(store, CAMPAIGN, BrokenShelf(tmp_path, after))
        assert held(tmp_path) == ids_of(reports[:60])  # a reader finds the old release
    else:
        # All files are written, and the store does not know.
        finish = store.finish_sealing
        monkeypatch.setattr(store, "finish_sealing", lambda *_: None)
        seal(store, CAMPAIGN, FolderStorage(tmp_path))
        monkeypatch.setattr(store, "finish_sealing", finish)
    store.append(*rows(reports[160:]))
    store.close()
    store = opened()
    while seal(store, CAMPAIGN, FolderStorage(tmp_path)):
        pass
    assert held(tmp_path) == ids_of(reports)
    assert len(Release.open(tmp_path)) == 190
    store.close()


def test_an_older_store_replaces_no_shard_of_a_newer_release(tmp_path):
    """What came after the backup was taken is in the release alone, and no device sends it again."""
    home, backup, reports = tmp_path / "store", tmp_path / "backup", made(30)
    storage = FolderStorage(tmp_path / "release")

    def receive(first, last):
        store = FolderStore(home, CAMPAIGN.format)
        store.append(*rows(reports[first:last]))
        return store

    receive(0, 10).close()
    shutil.copytree(home, backup)
    store = receive(10, 20)
    seal(store, CAMPAIGN, storage)
    store.close()
    shutil.rmtree(home)
    backup.rename(home)
    store = receive(20, 30)  # as many as the shard has, and other ones
    with pytest.raises(PrivotError, match="shard-000000.parquet has other reports"):
        seal(store, CAMPAIGN, storage)
    assert held(storage.folder) == ids_of(reports[:20])
    assert seal(store, CAMPAIGN, FolderStorage(tmp_path / "another")).rows == 20
    store.close()


def test_shards_go_to_any_address(opened, tmp_path):
    store, reports = opened(), made(100)
    store.append(*rows(reports))
    seal(store, CAMPAIGN, storage_at("memory://campaigns/one/"))
    files = fsspec.filesystem("memory")
    files.get("/campaigns/one", str(tmp_path / "copy"), recursive=True)
    assert held(tmp_path / "copy") == ids_of(reports)
    files.rm("/campaigns", recursive=True)
    store.close()


def test_an_address_that_cannot_be_written_loses_nothing(opened, tmp_path):
    store, reports = opened(), made(10)
    store.append(*rows(reports))
    with pytest.raises(PrivotError, match="cannot be read"):
        seal(store, CAMPAIGN, storage_at("nothing-of-this-kind://place"))
    shutil.rmtree(tmp_path / "r", ignore_errors=True)
    assert seal(store, CAMPAIGN, storage_at(f"file://{tmp_path}/r")).rows == 10
    assert held(tmp_path / "r") == ids_of(reports)
    assert storage_at(str(tmp_path)) == FolderStorage(tmp_path)
    assert storage_at("s3://a/b/") == AddressStorage("s3://a/b")
    store.close()


PANEL = Panel("people", window=3, start=7200, length=3600 * 24, seed="public", waves=6)
IN_WAVES = Campaign(CAMPAIGN.text, None, PANEL)


def in_wave(reports, wave):
    """The same, made in a wave."""
    hour = (PANEL.start + wave * PANEL.length) // 3600 + 5
    read = [Report.from_bytes(each) for each in reports]
    return [Report(each.fingerprint, each.id, hour, each.payload).to_bytes() for each in read]


def test_shards_of_a_panel_are_of_one_wave_each_and_say_which(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(sealing, "_SHARD_ROWS", 40)
    store, reports = opened(), made(160)
    sent = {wave: in_wave(reports[40 * wave : 40 * wave + 40], wave) for wave in range(4)}
    store.append(*rows([*sent[2], *sent[0], *sent[1][:30]]))
    seal(store, IN_WAVES, FolderStorage(tmp_path / "release"))
    store.append(*rows([*sent[3], *sent[1]]))
    assert seal(store, IN_WAVES, FolderStorage(tmp_path / "release")).total == 160
    assert held(tmp_path / "release") == ids_of(reports)
    found = sealed_waves(tmp_path / "release")
    assert found.panel == PANEL
    for wave, paths in found.shards.items():
        ids = [each for path in paths for each in Release.open(path).table["report_id"].to_pylist()]
        assert len(ids) == 40
        assert set(ids) == ids_of(sent[wave])
        assert all(Release.open(path).randomizer == RANDOMIZER for path in paths)
    store.close()


def test_what_was_stored_of_no_wave_is_put_in_quarantine(opened, tmp_path):
    store, reports = opened(), made(20)
    store.append(*rows([*in_wave(reports[:12], 1), *reports[12:]]))  # of today, beyond all waves
    done = seal(store, IN_WAVES, FolderStorage(tmp_path))
    assert (done.rows, done.quarantined) == (12, 8)
    aside = (tmp_path / "quarantine-000000.csv").read_text()
    assert aside.count("of no wave of the campaign's panel") == 8
    store.close()
