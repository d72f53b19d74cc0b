"""Batches from disk: every report once an epoch, in an order that the seed fixes, from any step on."""

import numpy as np
import pytest
import torch

from numbered_people import RANDOMIZER, people
from privot import FitSettings, Randomizer, Release, Schema, fit
from privot.errors import PrivotError
from privot.local.generators import minibatches as module
from privot.local.generators.minibatches import FromDisk, FromMemory, minibatches
from privot.local.likelihood.cost import LikelihoodCost
from privot.release.reports import rows as report_table

CPU = torch.device("cpu")
NUM, SIZE, ROW_BYTES = 2600, 50, 8 + 16


@pytest.fixture
def release(tmp_path, monkeypatch):
    monkeypatch.setattr(report_table, "_ROW_GROUP", 100)
    RANDOMIZER.privatize(people(0, NUM), keep_order=True).save(tmp_path / "release.parquet")
    return Release.load(tmp_path / "release.parquet")


def from_disk(release, seed=0, size=SIZE, window_bytes=ROW_BYTES * 600):
    return FromDisk(release, LikelihoodCost(RANDOMIZER), size, seed, CPU, window_bytes)


def people_of(batch):
    units = batch.values["person"][:, 0].double()
    return np.rint((units.numpy() + 1) * 500_000).astype(int)


def draw(batches, number):
    return [people_of(batches.draw(None)) for _ in range(number)]


def test_an_epoch_has_every_report_once(release):
    drawn = draw(from_disk(release), 2 * NUM // SIZE)
    first, second = (np.concatenate(half) for half in (drawn[:52], drawn[52:]))
    for epoch in (first, second):
        assert np.array_equal(np.sort(epoch), np.arange(NUM))
    assert not np.array_equal(first, second)


def test_a_batch_mixes_row_groups_that_are_far_apart(release):
    batch = draw(from_disk(release), 1)[0]
    assert len({person // 100 for person in batch}) >= 4
    assert batch.max() - batch.min() > 1000


def test_the_seed_decides_and_any_step_can_be_gone_to(release):
    whole = draw(from_disk(release, seed=3), 130)
    assert np.array_equal(draw(from_disk(release, seed=3), 130), whole)
    assert not np.array_equal(draw(from_disk(release, seed=4), 130), whole)
    for step in (1, 11, 12, 51, 52, 53, 104, 129):
        batches = from_disk(release, seed=3)
        batches.seek(step)
        assert np.array_equal(draw(batches, 130 - step), whole[step:])


def test_rows_beyond_full_batches_are_other_ones_each_epoch(release):
    batches = from_disk(release, size=70, window_bytes=ROW_BYTES * 3000)
    epochs = [np.concatenate(draw(batches, 37)) for _ in range(3)]
    assert all(len(np.unique(epoch)) == 37 * 70 for epoch in epochs)
    assert len({tuple(np.setdiff1d(np.arange(NUM), epoch)) for epoch in epochs}) == 3


def test_only_large_releases_in_files_come_from_disk(release, monkeypatch):
    cost = LikelihoodCost(RANDOMIZER)
    assert isinstance(minibatches(release, cost, SIZE, 0, CPU), FromMemory)
    monkeypatch.setattr(module, "_MOST_IN_MEMORY", NUM - 1)
    assert isinstance(minibatches(release, cost, SIZE, 0, CPU), FromDisk)
    held = RANDOMIZER.privatize(people(0, NUM))
    assert isinstance(minibatches(held, cost, SIZE, 0, CPU), FromMemory)
    with pytest.raises(PrivotError, match="batch_size 3000 is more than"):
        FromDisk(release, cost, 3000, 0, CPU)


MIXED = Schema.from_toml("""
[columns.height]
kind = "numeric"
bounds = [0, 10]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
""")


@pytest.mark.parametrize(("report", "loss"), [("split", "plain"), ("joint", "likelihood")])
def test_fits_from_disk_resume_bit_for_bit(tmp_path, monkeypatch, report, loss):
    import os
    import signal

    from privot.training import Interrupted

    table = {"height": [2.0, 7.0] * 1000, "color": ["red", "blue"] * 1000}
    monkeypatch.setattr(report_table, "_ROW_GROUP", 100)
    Randomizer.calibrate(MIXED, 4.0, report=report).privatize(table).save(tmp_path / "r.parquet")
    release = Release.load(tmp_path / "r.parquet")
    monkeypatch.setattr(module, "_MOST_IN_MEMORY", 100)
    monkeypatch.setattr("privot.local.generators.entropic_fit._REPORTS_OF_TABLES", 200)
    settings = FitSettings(
        estimator="generator", loss=loss, steps=60, batch_size=50, hidden=(16,), seed=1
    )
    whole = fit(release, settings)

    def press_ctrl_c(step, steps, loss):
        if step == 31:
            os.kill(os.getpid(), signal.SIGINT)

    checkpoint = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(release, settings, checkpoint=checkpoint, progress=press_ctrl_c)
    resumed = fit(release, settings, checkpoint=checkpoint, resume=True)
    for name, weight in whole.sampler.generator.state_dict().items():
        assert torch.equal(weight, resumed.sampler.generator.state_dict()[name])


def test_a_digest_does_not_depend_on_pieces_and_files(tmp_path):
    table = {"height": [2.0, 7.0] * 300, "color": ["red", "blue"] * 300}
    for report in ("split", "joint"):
        release = Randomizer.calibrate(MIXED, 4.0, report=report).privatize(table)
        release.save(tmp_path / "r.parquet")
        loaded = Release.load(tmp_path / "r.parquet")
        assert loaded.rows.digest() == release.rows.digest()
        pieces = report_table.ReportTable.of(release.table.slice(0, 77), release.table.slice(77))
        whole = list(pieces.pieces(50))
        assert len(whole) > 1
        assert report_table.ReportTable.of(*whole).digest() == release.rows.digest()
        other = report_table.ReportTable.of(release.table.slice(1), release.table.slice(0, 1))
        assert other.digest() != release.rows.digest()
