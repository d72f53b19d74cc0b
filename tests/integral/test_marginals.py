"""Laws of one coordinate: there and back, and what each refuses."""

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.integral.references import Categorical, Integers, Normal, Uniform, marginal_from_dict


@pytest.mark.parametrize(
    "marginal",
    [
        Normal(1.0, 0.5),
        Normal(0.0, 1.0, 6.0, 8.0),
        Uniform(0.0, 2.0),
        Categorical((0.2, 0.3, 0.5)),
        Integers(-2, 2),
    ],
)
def test_round_trip(marginal):
    again = marginal_from_dict(marginal.to_dict())
    assert again == marginal
    x = marginal.sample(100, np.random.default_rng(0))
    np.testing.assert_array_equal(again.log_density(x), marginal.log_density(x))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Uniform(1.0, 0.0), "not an interval"),
        (lambda: Normal(0.0, 0.0), "no normal law"),
        (lambda: Normal(low=50.0, high=60.0), "almost no mass"),
        (lambda: Categorical((0.5, 0.6)), "add up to 1"),
        (lambda: Categorical((1.0, 0.0)), "never be drawn"),
        (lambda: Integers(3, 3), "smaller first"),
        (lambda: marginal_from_dict({"kind": "other"}), "kind of marginal is 'other'"),
    ],
)
def test_refusals(build, message):
    with pytest.raises(PrivotError, match=message):
        build()
