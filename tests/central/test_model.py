"""Fits of images and tables, and the laws of all models."""

import json
from functools import cache

import numpy as np
import pytest

from central.declared_images import image_table
from central.halves import SCHEMA, data, drawn, learn
from laws.model import ModelLaws
from privot.central import CentralModel, fit
from privot.core.errors import PrivotError
from privot.schema import Schema

pytestmark = pytest.mark.usefixtures("little_noise")


def test_labels_can_be_asked_for(tmp_path):
    model = learn({"steps": 30, "generated": 20})
    assert set(drawn(model, 50, where={"label": "1"})[1]) == {1}
    assert set(drawn(model, 50, where={"label": [0, 1]})[1]) == {0, 1}
    with pytest.raises(PrivotError, match="the value '7': use '0', '1'"):
        model.sample(2, where={"label": "7"})
    with pytest.raises(PrivotError, match="no value: give at least one"):
        model.sample(2, where={"label": []})
    with pytest.raises(PrivotError, match="conditions on label alone"):
        model.sample(2, where={"image": "7"})


def test_saved_and_loaded(tmp_path):
    for model in (learn({"steps": 30, "generated": 20}), mixed()):
        model.save(tmp_path / "model")
        again = CentralModel.load(tmp_path / "model")
        assert again.guarantee == model.guarantee
        for one, other in zip(drawn(model, 5), drawn(again, 5)):
            assert np.allclose(one, other, atol=1e-5)
        public = json.dumps(json.loads((tmp_path / "model" / "model.json").read_text()))
        assert "clipped" not in public
        assert "seconds" not in public
    (tmp_path / "model" / "weights.safetensors").write_bytes(b"x")
    with pytest.raises(PrivotError, match="is damaged"):
        CentralModel.load(tmp_path / "model")
    with pytest.raises(PrivotError, match="cannot be read"):
        CentralModel.load(tmp_path / "nothing")


@cache
def mixed():
    return fit(image_table(*data()), SCHEMA, epsilon=8.0, delta=1e-3)


@cache
def of_a_table():
    columns = {"age": {"kind": "numeric", "bounds": [0, 9]}, "sick": {"kind": "boolean"}}
    people = {"age": np.arange(60) % 9.0, "sick": np.arange(60) % 2 == 0}
    settings = {"steps": 20, "generated": 20, "num_projections": 4}
    return learn(settings, people, Schema.from_dict({"columns": columns}))


class TestImages(ModelLaws):
    @pytest.fixture
    def model(self):
        return mixed()


class TestNetworkOfATable(ModelLaws):
    @pytest.fixture
    def model(self):
        return of_a_table()
