"""Assignments are optimal: against SciPy's own search on costs that were not reduced."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from privot.core.errors import PrivotError
from privot.transport.assignment import assignment, wasserstein

METRICS = {1: "cityblock", 2: "sqeuclidean"}
CASES = {
    "normal": lambda rng: (rng.normal(size=(400, 2)), 1.3 * rng.normal(size=(400, 2)) + 0.2),
    "few places": lambda rng: (
        rng.integers(0, 4, (350, 2)) / 1.0,
        rng.integers(0, 4, (350, 2)) / 1.0,
    ),
    "far apart": lambda rng: (rng.normal(size=(320, 3)), 1e6 + rng.normal(size=(320, 3))),
    "one far": lambda rng: (np.r_[rng.normal(size=(349, 1)), [[1e4]]], rng.normal(size=(350, 1))),
    "all alike": lambda rng: (np.ones((310, 2)), np.ones((310, 2))),
}


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_reduced_costs_have_the_same_optimum(case, p):
    x, y = CASES[case](np.random.default_rng(0))
    cost = cdist(x, y, METRICS[p])
    best = cost[linear_sum_assignment(cost)].sum()
    matched = assignment(x, y, p)
    assert sorted(matched) == [*range(len(x))]
    assert cost[np.arange(len(x)), matched].sum() == pytest.approx(best, rel=1e-9, abs=1e-12)


def test_a_shift_costs_its_length():
    x = np.random.default_rng(1).normal(size=(500, 2))
    assert wasserstein(x, x + np.array([3.0, 4.0])) == pytest.approx(5.0)
    assert wasserstein(x, x[::-1] + np.array([3.0, -4.0]), p=1) == pytest.approx(7.0)


def test_refusals_name_what_is_wrong():
    with pytest.raises(PrivotError, match="p 3 is not known: use 1"):
        assignment(np.zeros((2, 1)), np.zeros((2, 1)), 3)
    with pytest.raises(PrivotError, match="the same shape"):
        assignment(np.zeros((2, 1)), np.zeros((3, 1)))
