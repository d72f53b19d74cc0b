"""Rows of maps by place of trust."""

import pytest

from studies.promise.places import measure


@pytest.mark.parametrize("where", ["aggregated", "central"])
def test_more_epsilon_is_nearer_to_the_people(where):
    """By 12 runs a place: .036 ± .005 at ε = 30, seven deviations below .07.

    Its logarithm is 6.8 or more deviations below that at ε = .05. A false alarm comes in fewer than one
    run in 10⁹, if both are Gaussian.
    """
    floor, few, many = measure("towns", 0, [0.05, 30.0], [where], None, 3000)
    assert [row["where"] for row in (floor, few, many)] == ["floor", where, where]
    assert many["w2"] < few["w2"]
    assert many["w2"] < 0.07
