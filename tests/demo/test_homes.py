"""The demo of homes measures what it draws, and leaves a page, a picture, numbers and a model."""

import json

import numpy as np
import pytest

import privot
from privot import FitSettings, Schema
from privot.datasets.fetch import SCHEMA_TOML
from privot.demo.homes import distances, run_demo


def test_distances_stand_between_the_truth_and_the_noise():
    domain = Schema.from_toml(SCHEMA_TOML).point_column("home").domain
    rng = np.random.default_rng(0)
    truth, fresh = (rng.uniform([-8, 50], [1, 60], (300, 2)) for _ in range(2))
    noisy = truth + rng.laplace(0, 5, truth.shape)
    told = distances(domain, truth, noisy, truth + np.array([0.5, 0]), fresh)
    assert told["w2_learned"] < told["w2_released"] < told["w2_released_raw"]
    assert 0 < told["w2_floor"] < told["w2_released"]


def test_what_it_leaves(tmp_path):
    folder, said = tmp_path / "demo", []
    metrics = run_demo(
        folder,
        num_people=400,
        settings=FitSettings(steps=3, batch_size=50, hidden=(8,)),
        say=said.append,
    )
    written = json.loads((folder / "metrics.json").read_text())
    assert (written["num_people"], written["steps"], written["epsilon"]) == (400, 3, 4.0)
    assert metrics.w2_learned == written["w2_learned"]
    assert [line[0] for line in said] == list("1234")
    page = (folder / "report.html").read_text()
    assert "e^4" in page
    assert page.count("data:image/png;base64,") >= 2
    assert (folder / "maps.png").read_bytes().startswith(b"\x89PNG")
    model = privot.load(folder / "model")
    assert model.guarantee.epsilon == pytest.approx(4.0)
