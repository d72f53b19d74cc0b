"""The demo of homes measures what it draws, and leaves a page, a picture, numbers and a model."""

import json

import numpy as np
import pytest

import privot
from privot import FitSettings
from privot.demo.homes import draw_people, measure_maps, run_demo, to_kilometers


def test_distances_are_in_units_of_the_map_and_in_kilometers():
    people = draw_people(400, seed=0)
    truth = np.stack([people.column(c).to_numpy() for c in ("longitude", "latitude")], axis=1)
    [(units, kilometers)] = measure_maps(truth, [truth + np.array([0.0, 0.5])])
    assert units == pytest.approx(0.5 / 5.55, abs=0.03)
    assert kilometers == pytest.approx(55.6, abs=15)
    london, edinburgh = to_kilometers(np.array([[-0.13, 51.51], [-3.19, 55.95]]))
    assert np.hypot(*(london - edinburgh)) == pytest.approx(534, rel=0.02)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder, said = tmp_path_factory.mktemp("shown") / "demo", []
    metrics = run_demo(folder, num_people=800, settings=FitSettings(steps=60), say=said.append)
    return folder, said, metrics


def test_two_mechanisms_stand_side_by_side(shown):
    _, said, metrics = shown
    papers, ours = metrics.maps
    assert (papers.mechanism, ours.mechanism) == ("laplace", "window")
    for each in (papers, ours):
        assert metrics.w2_floor < each.w2_learned < each.w2_released
        assert metrics.km_floor < each.km_learned
    assert [line[0] for line in said] == list("1234")


def test_what_it_leaves(shown):
    folder, _, metrics = shown
    written = json.loads((folder / "metrics.json").read_text())
    assert (written["num_people"], written["epsilon"]) == (800, 4.0)
    assert written["maps"][1]["w2_learned"] == metrics.maps[1].w2_learned
    page = (folder / "report.html").read_text()
    assert "e^4" in page
    assert "two reports of each person" in page
    assert page.count("data:image/png;base64,") == 1
    assert (folder / "maps.png").read_bytes().startswith(b"\x89PNG")
    model = privot.load(folder / "model")
    assert model.guarantee.epsilon == pytest.approx(4.0)
    assert model.randomizer.mechanisms["home"].kind == "window"


def test_the_papers_version_trains_a_generator(tmp_path):
    settings = FitSettings(steps=3, batch_size=50, hidden=(8,))
    metrics = run_demo(
        tmp_path / "demo", num_people=400, mechanism="laplace", settings=settings, say=list
    )
    (only,) = metrics.maps
    assert (only.mechanism, only.estimator, only.steps) == ("laplace", "generator", 3)
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "trains a generator" in page
    assert "two reports" not in page


@pytest.mark.slow
def test_windows_tell_more_than_laplace_noise_at_the_same_epsilon(tmp_path):
    metrics = run_demo(tmp_path / "demo", num_people=8000, say=list)
    papers, ours = metrics.maps
    # W₂ of 8 000 people: .069 to .091 by windows, .147 to .181 by Laplace noise.
    assert metrics.w2_floor < ours.w2_learned < papers.w2_learned < papers.w2_released
    assert ours.w2_learned < 0.8 * papers.w2_learned
    assert metrics.km_floor < ours.km_learned < papers.km_learned
