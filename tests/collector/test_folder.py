"""The folder survives kills, losses of power and full disks, and says in one line what was wrong."""

import errno
import os
import random
import shutil

import numpy as np
import pytest

from campaign_reports import CAMPAIGN, made, rows
from privot.collector.folder import FolderStore
from privot.collector.segments import HEADER_BYTES, Disk
from privot.collector.store import DUPLICATE, NEW, StoreFull, StoreStopped
from privot.core.errors import PrivotError


class LossyDisk(Disk):
    """A disk that keeps what was not flushed in memory, of which a power loss leaves what it likes."""

    def __init__(self, rng):
        self.rng, self.unflushed, self.paths = rng, {}, {}

    def open(self, path):
        handle = super().open(path)
        self.paths[handle] = path
        self.unflushed.setdefault(handle, [])
        return handle

    def write(self, handle, data, at):
        self.unflushed[handle].append((at, bytes(data)))

    def flush(self, handle):
        for at, data in self.unflushed[handle]:
            super().write(handle, data, at)
        super().flush(handle)
        self.unflushed[handle] = []

    def lose_power(self):
        """Of every unflushed write, some blocks are on the disk; zeros or nothing where others were."""
        for handle, writes in self.unflushed.items():
            for at, data in writes:
                for start in range(0, len(data), 64):
                    if self.rng.random() < 0.5:
                        os.pwrite(handle, data[start : start + 64], at + start)
            os.close(handle)


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_loses_nothing_that_was_acknowledged(tmp_path, seed):
    rng = random.Random(seed)
    reports, acknowledged, told = made(420, seed), [], []
    for start in range(0, 400, 100):
        disk = LossyDisk(rng)
        store = FolderStore(tmp_path / "s", CAMPAIGN.example, told.append, disk)
        known = store.append(*rows(acknowledged)) if acknowledged else np.zeros(0)
        assert (known == DUPLICATE).all()
        at, stop = start, start + rng.randrange(100)
        while at < stop:
            size = rng.randrange(1, 30)
            store.append(*rows(reports[at : min(400, at + size)]))
            acknowledged += reports[at : min(400, at + size)]
            at += size
        # The power goes while a group is on its way: written, not flushed, nobody was told.
        first = 400 + start // 20
        store._segment.append(b"".join(reports[first : first + 5]))
        disk.lose_power()
        os.close(store._lock)
    final = FolderStore(tmp_path / "s", CAMPAIGN.example)
    assert (final.append(*rows(acknowledged)) == DUPLICATE).all()
    batch = final.begin_sealing()
    held = [row.tobytes() for records in final.taken(batch) for row in records]
    assert len(held) == len(set(held)) == final.count
    assert set(acknowledged) <= set(held) <= set(reports)
    assert all("never acknowledged" in line or "damaged" in line for line in told)
    final.close()


def test_a_torn_tail_is_cut_off_and_told(tmp_path):
    reports = made(10)
    store = FolderStore(tmp_path, CAMPAIGN.example)
    store.append(*rows(reports))
    store.close()
    (path,) = tmp_path.glob("*.reports")
    with open(path, "ab") as file:
        file.write(made(1)[0][:-7])
    told = []
    store = FolderStore(tmp_path, CAMPAIGN.example, told.append)
    assert told == [
        f"{path.name}: {len(reports[0]) - 7} bytes of reports that were never acknowledged are cut off"
    ]
    assert path.stat().st_size == HEADER_BYTES + 10 * len(reports[0])
    assert store.append(*rows(reports)).tolist() == [DUPLICATE] * 10


def test_a_second_server_is_refused(tmp_path):
    store = FolderStore(tmp_path, CAMPAIGN.example)
    with pytest.raises(PrivotError, match="served by another process"):
        FolderStore(tmp_path, CAMPAIGN.example)
    store.close()
    FolderStore(tmp_path, CAMPAIGN.example).close()


class FailingDisk(Disk):
    """Fails as it is told to."""

    failing = ""
    number = errno.ENOSPC

    def write(self, handle, data, at):
        if self.failing == "write" and at > 0:
            super().write(handle, data[: len(data) // 2], at)
            raise OSError(self.number, os.strerror(self.number))
        super().write(handle, data, at)

    def flush(self, handle):
        if self.failing == "flush":
            raise OSError(self.number, os.strerror(self.number))
        super().flush(handle)


def test_a_full_disk_acknowledges_nothing_and_goes_on_when_there_is_room(tmp_path):
    disk, reports = FailingDisk(), made(30)
    store = FolderStore(tmp_path, CAMPAIGN.example, disk=disk)
    store.append(*rows(reports[:10]))
    disk.failing = "write"
    with pytest.raises(StoreFull, match="full: send it again later"):
        store.append(*rows(reports[5:20]))
    assert store.append(*rows(reports[:10])).tolist() == [DUPLICATE] * 10  # needs no room
    disk.failing = ""
    assert store.append(*rows(reports[5:20])).tolist() == [DUPLICATE] * 5 + [NEW] * 10
    store.close()
    assert FolderStore(tmp_path, CAMPAIGN.example).count == 20


@pytest.mark.parametrize(
    ("failing", "number"), [("flush", errno.EIO), ("flush", errno.ENOSPC), ("write", errno.EIO)]
)
def test_a_disk_that_fails_stops_the_store_until_it_is_opened_again(tmp_path, failing, number):
    disk, reports, told = FailingDisk(), made(30), []
    disk.number = number
    store = FolderStore(tmp_path, CAMPAIGN.example, told.append, disk)
    store.append(*rows(reports[:10]))
    disk.failing = failing
    for _ in range(2):
        with pytest.raises(StoreStopped, match="send it again later"):
            store.append(*rows(reports[10:20]))
    disk.failing = ""
    with pytest.raises(StoreStopped):  # what a failed flush lost is not known
        store.append(*rows(reports[:10]))
    assert len(told) == 1
    os.close(store._lock)
    again = FolderStore(tmp_path, CAMPAIGN.example)
    assert again.append(*rows(reports[:20])).tolist() == [DUPLICATE] * 10 + [NEW] * 10


def test_segments_roll_and_are_removed_once_sealed(tmp_path, monkeypatch):
    monkeypatch.setattr("privot.collector.folder._SEGMENT_BYTES", 1000)
    reports = made(100)
    store = FolderStore(tmp_path, CAMPAIGN.example)
    for start in range(0, 100, 5):
        store.append(*rows(reports[start : start + 5]))
    assert len(list(tmp_path.glob("*.reports"))) > 5
    store.close()
    store = FolderStore(tmp_path, CAMPAIGN.example)
    assert store.count == 100
    batch = store.begin_sealing()
    assert batch.reports == 100
    store.finish_sealing(batch, [100])
    assert len(list(tmp_path.glob("*.reports"))) == 1
    assert (tmp_path / "ids-000000.bin").stat().st_size == 2400


def test_a_kill_between_the_steps_of_a_sealing_doubles_nothing(tmp_path):
    """Whatever was on the disk after any step, the store is opened with each report once."""
    reports = made(60)
    store = FolderStore(tmp_path / "s", CAMPAIGN.example)
    store.append(*rows(reports))
    steps = [shutil.copytree(tmp_path / "s", tmp_path / "0")]
    batch = store.begin_sealing()
    steps.append(shutil.copytree(tmp_path / "s", tmp_path / "1"))
    store.finish_sealing(batch, [60])
    whole = shutil.copytree(tmp_path / "s", tmp_path / "2")
    steps.append(whole)
    # Ids written and the state not; state written and the segment not yet removed.
    shutil.copy(whole / "ids-000000.bin", shutil.copytree(steps[1], tmp_path / "3"))
    shutil.copy(steps[0] / "segment-000000.reports", shutil.copytree(whole, tmp_path / "4"))
    for folder in [*steps, tmp_path / "3", tmp_path / "4"]:
        again = FolderStore(folder, CAMPAIGN.example)
        assert again.count == 60
        assert (again.append(*rows(reports)) == DUPLICATE).all()
        again.close()


def test_what_is_damaged_beyond_a_power_loss_is_refused(tmp_path):
    reports = made(20)
    store = FolderStore(tmp_path / "s", CAMPAIGN.example)
    store.append(*rows(reports[:10]))
    store.finish_sealing(store.begin_sealing(), [10])
    store.append(*rows(reports[10:]))
    store.close()

    def damaged(change):
        folder = shutil.copytree(tmp_path / "s", tmp_path / "damaged", dirs_exist_ok=False)
        change(folder)
        with pytest.raises(PrivotError) as caught:
            FolderStore(folder, CAMPAIGN.example)
        shutil.rmtree(folder)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "restore it" in damaged(lambda f: (f / "ids-000000.bin").unlink())
    assert "restore it" in damaged(lambda f: os.truncate(f / "ids-000000.bin", 100))
    assert "restore it" in damaged(lambda f: (f / "state.json").write_text("{"))
    copied = "segment-000001.reports", "segment-000002.reports"
    assert "copied" in damaged(lambda f: shutil.copy(f / copied[0], f / copied[1]))
    other = CAMPAIGN.example[:1] + bytes(32) + CAMPAIGN.example[33:]
    with pytest.raises(PrivotError, match="another campaign"):
        FolderStore(tmp_path / "s", other)
