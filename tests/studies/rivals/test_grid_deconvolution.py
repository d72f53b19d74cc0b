"""Grid deconvolution: likelihood rises, known densities come back, and not the noise."""

import numpy as np
import pytest

from privot.errors import PrivotError
from privot.evaluation import sample_distance
from privot.release import Randomizer
from privot.schema import Schema
from studies.rivals import fit_grid

SCHEMA = Schema.from_toml("""
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 4], [10, 20]]
[columns.age]
kind = "numeric"
bounds = [0, 100]
""")
CENTERS = np.array([[1.0, 12.0], [3.0, 18.0]])


def towns(num, seed):
    rng = np.random.default_rng(seed)
    return CENTERS[(rng.random(num) < 0.25).astype(int)] + rng.normal(0, [0.1, 0.25], (num, 2))


@pytest.fixture(scope="module")
def release():
    points = towns(20_000, 0)
    table = {"x": points[:, 0], "y": points[:, 1], "age": np.full(20_000, 50.0)}
    return Randomizer.calibrate(SCHEMA, 12.0, mechanism="laplace").privatize(table)


def test_likelihood_rises_and_squarem_is_ahead(release):
    likelihoods = [
        fit_grid(release, "place", 24, iterations, squarem=False).log_likelihood
        for iterations in (3, 10, 30)
    ]
    assert likelihoods == sorted(likelihoods)
    assert fit_grid(release, "place", 24, 30).log_likelihood > likelihoods[-1]


def test_two_towns_come_back_in_the_tables_units(release):
    density = fit_grid(release, "place", 24, 150)
    drawn = density.sample(4000, seed=0)
    first = (drawn[:, 0] < 2).mean()
    assert first == pytest.approx(0.75, abs=0.03)
    unit = [2 / 4, 2 / 10]
    noisy = np.stack([release.table[c].to_numpy() for c in "xy"], axis=1)
    truth = towns(4000, 1) * unit
    assert sample_distance(drawn * unit, truth, 1000) < 0.3  # .15, deviation .01, heavy tail
    assert sample_distance(noisy * unit, truth, 1000) > 0.6


def test_only_boxes_of_two_coordinates(release):
    with pytest.raises(PrivotError, match="'age' is not a box of two coordinates"):
        fit_grid(release, "age")
    with pytest.raises(PrivotError, match="'height' is not"):
        fit_grid(release, "height")
