import json
import signal

import numpy as np
import pytest
import torch

from laws.model import ModelLaws
from privot.errors import PrivotError
from privot.schema import Schema
from privot.schema.columns.array import tensor_values
from privot.sliced import SlicedModel, SlicedSettings, SlicePlan, fit
from privot.sliced.factors import shrink
from privot.sliced.releases.plan import accounted_grid
from privot.sliced.settings import ReleaseSettings
from privot.training import Interrupted
from sliced.declared_images import image_schema, image_table

SCHEMA = image_schema((6, 6), 2)
SHORT = {"batch_size": 20, "num_projections": 12, "low_pass": 3}


def learn(settings, table=None, schema=SCHEMA, **more):
    table = image_table(*data()) if table is None else table
    settings = SlicedSettings(**SHORT | settings)
    return fit(table, schema, epsilon=8.0, delta=1e-3, settings=settings, **more)


@pytest.fixture(autouse=True)
def _little_noise(monkeypatch):
    """Skip the seconds of a calibration: what is fitted is tested here, not what is promised."""

    def plan(self, epsilon, delta, count, records):
        grid = 2.0**-20
        steps = 1 if self.release == "once" else self.steps
        accounting = self.accounting(count, records, accounted_grid(grid, 1000))
        return SlicePlan(accounting, 0.2, steps, delta, grid)

    monkeypatch.setattr(ReleaseSettings, "plan", plan)


def data(count=400):
    """Class 0 is bright on the left, class 1 on the right, each by a random amount."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    images = torch.full((count, 6, 6), 0.1)
    bright = 0.5 + 0.3 * torch.rand(count, 1, 1, generator=rng)
    images[labels == 0, :, :3] = bright[labels == 0]
    images[labels == 1, :, 3:] = bright[labels == 1]
    return images, labels


def drawn(model, count, **how):
    table = model.sample(count, seed=0, **how)
    return tensor_values(table["image"]), np.array(table["label"].to_pylist()).astype(int)


def sides(model):
    images, labels = drawn(model, 400)
    left, right = images[:, :, :3].mean(axis=(1, 2)), images[:, :, 3:].mean(axis=(1, 2))
    return left - right, labels


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 1500},
        {"steps": 300, "estimator": "network", "generated": 60},
        {"steps": 400, "estimator": "network", "loss": "sliced", "generated": 60},
        {
            "estimator": "network",
            "release": "once",
            "orthonormal": True,
            "num_projections": 72,
            "optimizer_steps": 200,
            "generated": 60,
        },
        {
            "estimator": "network",
            "release": "once",
            "loss": "entropic",
            "orthonormal": True,
            "num_projections": 72,
            "optimizer_steps": 150,
            "generated": 60,
        },
        {"steps": 300, "neighboring": "zero_out", "estimator": "network", "generated": 60},
    ],
    ids=["factors", "network", "published", "once", "once-entropic", "padded"],
)
def test_classes_are_learned(settings):
    if settings.get("release") == "once" or settings.get("loss") == "sliced":
        settings = settings | {"low_pass": None, "degree": 1, "scale": 6.0}
    model = learn(settings)
    difference, labels = sides(model)
    assert difference[labels == 0].mean() > 0.2
    assert difference[labels == 1].mean() < -0.2
    assert model.guarantee == model.plan.guarantee


@pytest.mark.slow
def test_factors_learn_the_spread():
    """Not only means: the amount of light varies within a class as it does in the data."""
    images, labels = data()
    model = learn({"steps": 6000})
    made, of = drawn(model, 4000)
    learned = made[of == 0][:, :, :3].mean(axis=(1, 2)).std()
    true = images[labels == 0][:, :, :3].mean(dim=(1, 2)).std()
    assert 0.6 < learned / float(true) < 1.5


def test_shrinking_removes_noise_and_keeps_signal():
    rng = np.random.default_rng(0)
    prior = 1 / (1 + np.arange(12.0))
    truth = np.stack([np.diag(prior) * (1 + 0.5 * c) for c in range(4)])
    noise = rng.normal(0, 0.1, truth.shape)
    noisy = truth + (noise + noise.transpose(0, 2, 1)) / np.sqrt(2)
    shrunk = shrink(noisy, np.full(4, 0.1), prior)
    assert np.square(shrunk - truth).sum() < 0.3 * np.square(noisy - truth).sum()
    exact = shrink(truth, np.full(4, 1e-9), prior)
    assert np.allclose(exact, truth, atol=1e-6)


def test_a_class_without_records_is_left_out():
    model = learn({"steps": 1500}, schema=image_schema((6, 6), 3))
    assert set(drawn(model, 500)[1]) == {0, 1}


def test_labels_can_be_asked_for(tmp_path):
    model = learn({"steps": 30, "estimator": "network", "generated": 20})
    assert set(drawn(model, 50, where={"label": "1"})[1]) == {1}
    assert set(drawn(model, 50, where={"label": [0, 1]})[1]) == {0, 1}
    with pytest.raises(PrivotError, match="give one of 0, 1"):
        model.sample(2, where={"label": "7"})
    with pytest.raises(PrivotError, match="only labels of images"):
        model.sample(2, where={"image": "7"})


def test_saved_and_loaded(tmp_path):
    for estimator in ("factors", "network"):
        model = learn({"steps": 150, "estimator": estimator})
        model.save(tmp_path / "model")
        again = SlicedModel.load(tmp_path / "model")
        assert again.guarantee == model.guarantee
        for one, other in zip(drawn(model, 5), drawn(again, 5)):
            assert np.allclose(one, other, atol=1e-5)
        public = json.dumps(json.loads((tmp_path / "model" / "model.json").read_text()))
        assert "clipped" not in public
        assert "seconds" not in public
    (tmp_path / "model" / "weights.safetensors").write_bytes(b"x")
    with pytest.raises(PrivotError, match="is damaged"):
        SlicedModel.load(tmp_path / "model")
    with pytest.raises(PrivotError, match="cannot be read"):
        SlicedModel.load(tmp_path / "nothing")


def test_files_and_whole_numbers_of_numpy_are_taken(tmp_path):
    images, labels = data()
    np.savez(tmp_path / "data.npz", image=images.numpy(), label=labels.numpy().astype(np.uint8))
    numbers = {"steps": np.int64(30), "batch_size": np.int32(20), "seed": np.uint8(1)}
    settings = numbers | {"estimator": "network", "generated": 20}
    model = learn(settings, tmp_path / "data.npz")
    model.save(tmp_path / "model")
    assert len(model.sample(np.int64(3), seed=np.int64(0))) == 3
    for rows in (2.5, -1, float("nan")):
        with pytest.raises(PrivotError, match=r"num_rows .* cannot be"):
            model.sample(rows)


class TestImages(ModelLaws):
    @pytest.fixture
    def model(self):
        return learn({"steps": 150})


class TestNetworkOfATable(ModelLaws):
    @pytest.fixture
    def model(self):
        columns = {"age": {"kind": "numeric", "bounds": [0, 9]}, "sick": {"kind": "boolean"}}
        people = {"age": np.arange(60) % 9.0, "sick": np.arange(60) % 2 == 0}
        settings = {"steps": 20, "generated": 20, "num_projections": 4}
        return learn(settings, people, Schema.from_dict({"columns": columns}))


def test_times_are_not_kept():
    settings = {"steps": 20, "estimator": "network", "generated": 20}
    assert (learn(settings).history["seconds"] == 0).all()


@pytest.mark.parametrize("estimator", ["factors", "network"])
def test_interrupted_runs_go_on_with_their_ledger(tmp_path, estimator):
    settings = {"steps": 300, "estimator": estimator, "generated": 20}
    path = tmp_path / "run"

    def stop(step, steps, loss):
        if step == 100:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        learn(settings, checkpoint=path, progress=stop)
    spent = json.loads((tmp_path / "run.ledger").read_text())["entries"][-1]["spent"]
    assert 100 <= spent < 300
    with pytest.raises(PrivotError, match="releases already"):
        learn(settings, checkpoint=path)
    other = {"steps": 300, "batch_size": 30, "estimator": estimator}
    with pytest.raises(PrivotError, match="another budget"):
        learn(other, checkpoint=path, resume=True)
    model = learn(settings, checkpoint=path, resume=True)
    assert model.releases == 300
    assert model.guarantee.epsilon == model.plan.guarantee.epsilon


@pytest.mark.parametrize("estimator", ["factors", "network"])
def test_a_run_without_its_ledger_is_not_resumed(tmp_path, estimator):
    """Its checkpoint holds releases that nobody could count."""
    settings = {"steps": 300, "estimator": estimator, "generated": 20}

    def stop(step, steps, loss):
        if step == 100:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        learn(settings, checkpoint=tmp_path / "run", progress=stop)
    (tmp_path / "run.ledger").unlink()
    with pytest.raises(PrivotError, match="run.ledger is gone"):
        learn(settings, checkpoint=tmp_path / "run", resume=True)


def test_a_killed_run_stays_within_budget_and_is_usable(tmp_path):
    """The kill's releases stay counted: the rest of the fit runs on what was pooled."""
    settings = {"steps": 200, "estimator": "network", "generated": 20}
    path = tmp_path / "run"

    def stop(step, steps, loss):
        if step == 150:
            raise MemoryError

    with pytest.raises(MemoryError):
        learn(settings, checkpoint=path, progress=stop)
    model = learn(settings, checkpoint=path, resume=True)
    assert model.releases == 200
    assert len(model.sample(4)) == 4


def test_tables():
    schema = Schema.from_dict(
        {
            "columns": {
                "age": {"kind": "numeric", "bounds": [0, 100]},
                "sex": {"kind": "categorical", "categories": ["F", "M"]},
            }
        }
    )
    sex = np.array(["F", "M"])[np.arange(400) % 2]
    age = np.where(sex == "F", 30.0, 80.0)
    people = {"age": age, "sex": sex}
    settings = {"steps": 500, "generated": 100, "num_projections": 4}
    table = learn(settings, people, schema).sample(1000, seed=0)
    ages, of = table.column("age").to_numpy(), np.array(table.column("sex").to_pylist())
    assert ages[of == "F"].mean() < ages[of == "M"].mean() - 15


def test_settings_refuse():
    with pytest.raises(PrivotError, match="steps 0 cannot be"):
        SlicedSettings(steps=0)
    for size in (float("nan"), 20.0, True):
        with pytest.raises(PrivotError, match=r"batch_size .* cannot be: give a whole number"):
            SlicedSettings(batch_size=size)
    with pytest.raises(PrivotError, match="needs release='once'"):
        SlicedSettings(loss="entropic")
    with pytest.raises(PrivotError, match="loss 'other'"):
        SlicedSettings(loss="other")
    schema = Schema.from_dict({"columns": {"a": {"kind": "numeric", "bounds": [0, 1]}}})
    with pytest.raises(PrivotError, match="needs images"):
        learn({"estimator": "factors"}, {"a": [0.0] * 50}, schema)
