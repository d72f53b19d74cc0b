"""Fits of images and tables, and the laws of all models."""

import json
from functools import cache

import numpy as np
import pytest

from laws.model import ModelLaws
from privot.errors import PrivotError
from privot.schema import Schema
from privot.sliced import SlicedModel
from sliced.halves import data, drawn, learn

pytestmark = pytest.mark.usefixtures("little_noise")


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


@cache
def of_images():
    return learn({"steps": 150})


@cache
def of_a_table():
    columns = {"age": {"kind": "numeric", "bounds": [0, 9]}, "sick": {"kind": "boolean"}}
    people = {"age": np.arange(60) % 9.0, "sick": np.arange(60) % 2 == 0}
    settings = {"steps": 20, "generated": 20, "num_projections": 4}
    return learn(settings, people, Schema.from_dict({"columns": columns}))


class TestImages(ModelLaws):
    @pytest.fixture
    def model(self):
        return of_images()


class TestNetworkOfATable(ModelLaws):
    @pytest.fixture
    def model(self):
        return of_a_table()


def test_factors_need_images():
    schema = Schema.from_dict({"columns": {"a": {"kind": "numeric", "bounds": [0, 1]}}})
    with pytest.raises(PrivotError, match="needs images"):
        learn({"estimator": "factors"}, {"a": [0.0] * 50}, schema)
