"""From how many reports on they tell more than nothing: against simulated tables, and by the plan."""

import numpy as np
import pytest

from privot.mechanisms.choice import planned_error
from privot.randomizer import Randomizer
from privot.randomizer.information import min_informative_reports
from privot.schema import Schema

SICK = Schema.from_dict({"columns": {"sick": {"kind": "boolean"}}})
HOME = Schema.from_dict(
    {"columns": {"home": {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 1]]}}}
)


def mean_error(people, epsilon):
    """Mean error of unbiased shares from randomized response, over uniformly many shares of True."""
    rng = np.random.default_rng(0)
    share = rng.random(40_000)
    keep = np.exp(epsilon) / (1 + np.exp(epsilon))
    reported = rng.binomial(people, share * keep + (1 - share) * (1 - keep)) / people
    return np.abs((reported - (1 - keep)) / (2 * keep - 1) - share).mean()


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_of_one_column_it_is_where_the_error_falls_below_a_guess(epsilon):
    needed = min_informative_reports(Randomizer.calibrate(SICK, epsilon))
    guess = 0.25  # of |share − ½|, share being uniform
    assert mean_error(2 * needed, epsilon) < guess < mean_error(max(1, needed // 2), epsilon)


def test_of_places_it_is_where_the_plan_begins_to_improve():
    randomizer = Randomizer.calibrate(HOME, 4.0)
    needed, mechanism = min_informative_reports(randomizer), randomizer.mechanisms["home"]
    domain = HOME.point_column("home").domain
    nothing = planned_error(mechanism, domain, 1)
    assert planned_error(mechanism, domain, needed) < nothing
    assert planned_error(mechanism, domain, int(0.98 * needed) - 1) == nothing
    assert needed < min_informative_reports(Randomizer.calibrate(HOME, 1.0))


def test_of_images_nothing_is_planned():
    image = {"kind": "array", "shape": [8, 8], "bounds": [0, 1]}
    schema = Schema.from_dict({"columns": {"image": image}})
    randomizer = Randomizer.calibrate(schema, 10.0, delta=1e-6, mechanism="gaussian")
    assert min_informative_reports(randomizer) is None
