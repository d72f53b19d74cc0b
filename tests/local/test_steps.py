"""Batches from disk: every report once an epoch, in an order that the seed fixes, from any step on.

Their bias: plain transport shrinks the learned spread; self-corrected does not.
Data N(0, I_d), Gaussian noise of standard deviation σ, generator a·z: the fixed point of a is 1 for
an unbiased loss. REFERENCE values for plain at b = 50 … 400 are 0.55 … 0.73 (d = 20, σ = 1).
"""

import numpy as np
import pytest
import torch
from torch import nn

from numbered_people import RANDOMIZER, people
from privot import FitSettings, Randomizer, Release, Schema, fit
from privot.core.errors import PrivotError
from privot.local.networks import steps as module
from privot.local.networks.cost import LikelihoodCost
from privot.local.networks.generator_fit import TransportObjective
from privot.local.networks.heads import Head
from privot.local.networks.steps import LOSSES, FromDisk, FromMemory, minibatches
from privot.mechanisms import Gaussian, Laplace
from privot.randomizer.reports import rows as report_table
from privot.training.loop import TrainingSettings, train

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
    monkeypatch.setattr(module, "_MAX_IN_MEMORY", NUM - 1)
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
    monkeypatch.setattr(module, "_MAX_IN_MEMORY", 100)
    monkeypatch.setattr("privot.local.networks.generator_fit._TABLE_BATCH_SIZE", 200)
    settings = FitSettings(
        estimator="generator", loss=loss, steps=30, batch_size=50, hidden=(16,), seed=1
    )
    whole = fit(release, settings)

    def press_ctrl_c(step, steps, loss):
        if step == 16:
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


RADIUS = 100.0


class Scaled(nn.Module):
    """G(z) = a·z in the table's units; one number to learn."""

    def __init__(self, dimension, start):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(start))
        self.latent_dim = dimension

    def forward(self, latent):
        return self.a * latent / RADIUS

    def draw_latent(self, num_rows, rng):
        return torch.randn(num_rows, self.latent_dim, generator=rng)


def learned_spread(dimension, sigma, batch_size, loss, noise="gaussian", start=0.7, steps=250):
    names = [f"x{j}" for j in range(dimension)]
    schema = Schema.from_dict(
        {"columns": {"x": {"kind": "vector", "columns": names, "radius": RADIUS}}}
    )
    scale = sigma / RADIUS
    mechanism = (
        Gaussian(scale, 2.0**-30) if noise == "gaussian" else Laplace(scale / 2**0.5, 2.0**-30)
    )
    randomizer = Randomizer(schema, {"x": mechanism}, delta=1e-6 if noise == "gaussian" else 0.0)
    clean = np.random.default_rng(0).standard_normal((20_000, dimension))
    release = randomizer.privatize({n: clean[:, j] for j, n in enumerate(names)})
    generator = Scaled(dimension, start)
    settings = FitSettings(batch_size=batch_size, tolerance=1e-3, max_iterations=500)
    objective = TransportObjective(
        generator, Head(randomizer), release, settings, LOSSES[loss], torch.device("cpu")
    )
    train(generator, objective, TrainingSettings(steps, learning_rate=0.02, averaging=0.97))
    return float(generator.a.detach())


def test_plain_transport_shrinks_what_small_batches_learn():
    """.54 ± .008 and .735 ± .002: limits are ten standard deviations away."""
    small, large = (
        learned_spread(20, 1.0, b, "plain", start=0.7, steps=n) for b, n in ((50, 100), (400, 60))
    )
    assert 0.45 < small < 0.65
    assert 0.64 < large < 0.82


@pytest.mark.parametrize(("noise", "start"), [("gaussian", 0.6), ("laplace", 1.4)])
def test_self_corrected_transport_does_not(noise, start):
    """Within .1, where plain transport of such batches is .45 off.

    The standard deviation is .015, so the false-alarm rate is 1e-10.
    """
    learned = learned_spread(20, 1.0, 50, "self_corrected", noise, start, 200)
    assert learned == pytest.approx(1, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("dimension", "sigma", "batch_size"), [(50, 1.0, 400), (50, 3.0, 400)])
def test_self_corrected_transport_in_fifty_dimensions(dimension, sigma, batch_size):
    plain, corrected = (
        learned_spread(dimension, sigma, batch_size, loss, start=0.8, steps=600)
        for loss in ("plain", "self_corrected")
    )
    assert plain < 0.9
    assert corrected == pytest.approx(1, abs=0.05)


def test_plain_transport_is_nearly_unbiased_in_two_dimensions():
    """The standard deviation is .003."""
    assert learned_spread(2, 1.0, 400, "plain", steps=100) == pytest.approx(1, abs=0.05)


def quick_release():
    schema = Schema.from_toml('[columns.c]\nkind = "categorical"\ncategories = ["a", "b", "d"]')
    return Randomizer.calibrate(schema, 2.0, report="split").privatize({"c": ["a", "b"] * 50})


def test_a_loss_of_ones_own_takes_the_place_of_the_settings():
    release = quick_release()
    small = {"steps": 5, "batch_size": 20, "hidden": (8,)}
    seen = []

    def doubled(step):
        value, error = LOSSES["plain"](step)
        seen.append((step.outputs["c"].shape, len(step.reports), len(step.simulated())))
        return 2 * value, error

    mine = fit(release, FitSettings(**small), loss=doubled)
    plain = fit(release, FitSettings(estimator="generator", loss="plain", **small))
    assert mine.made_with["loss"] == "doubled"
    assert seen == [((20, 3), 20, 20)] * 5
    assert mine.history["loss"][0] == pytest.approx(2 * plain.history["loss"][0])
    with pytest.raises(PrivotError, match="loss is a setting of generators: give estimator"):
        fit(release, FitSettings(estimator="latent_classes"), loss=doubled)
