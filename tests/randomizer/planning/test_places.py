"""Plans of places: they predict what fits of public people err by, and know what serves."""

import math

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.local import fit
from privot.mechanisms import Gaussian
from privot.randomizer import Randomizer, plan_reports
from privot.randomizer.column_plans import calibrate_as, ways_of_places
from privot.schema import Schema

PLACE = Schema.from_toml(
    'columns.home = {kind = "vector", columns = ["x", "y"], bounds = [[-1, 1], [-1, 1]]}'
)
NUMBER = Schema.from_toml('columns.n = {kind = "numeric", bounds = [-1, 1]}')


def test_all_noise_of_points_is_compared_and_what_needs_to_be_alone_only_there():
    column = PLACE.columns["home"]
    alone, beside = (ways_of_places(column, 1e-6, alone=a) for a in (True, False))
    assert set(alone) == {"gaussian", "laplace", "window"} == set(beside)
    assert alone["window"](4.0, 1000).error < alone["laplace"](4.0, 1000).error
    with pytest.raises(PrivotError, match="needs a report of its own"):
        beside["window"](4.0, 1000)


def test_gaussian_noise_has_the_delta_that_is_told():
    column = PLACE.columns["home"]
    made = calibrate_as(column, Gaussian, 1.0, 1e-6)
    assert made.guarantee(column.domain, 1e-6).epsilon <= 1.0
    assert made.stddev < calibrate_as(column, Gaussian, 1.0, 1e-9).stddev


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["window", "laplace"])
def test_numbers_err_by_about_what_was_planned(mechanism):
    """W₁ of fits of three public laws, over the plan's; a half or the double is out."""
    rng, ratios = np.random.default_rng(0), []
    for _ in range(3):
        centers, sizes = rng.uniform(-0.8, 0.8, 5), rng.uniform(0.01, 0.1, 5)
        which = rng.integers(5, size=20_000)
        people = np.clip(centers[which] + sizes[which] * rng.standard_normal(20_000), -1, 1)
        release = Randomizer.calibrate(NUMBER, 2.0, mechanism=mechanism).privatize({"n": people})
        drawn = fit(release, seed=0).sample(20_000, seed=0)["n"].to_numpy()
        options = plan_reports(NUMBER, 2.0, 20_000).columns[0].options
        planned = next(o.error for o in options if o.report == mechanism)
        ratios.append(np.abs(np.sort(drawn) - np.sort(people)).mean() / planned)
    assert 0.5 < math.exp(np.log(ratios).mean()) < 2
