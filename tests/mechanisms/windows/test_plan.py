"""Plans: the width of greatest information, or of least error, on a grid that is fine enough."""

import math

import numpy as np
import pytest

from privot.mechanisms.window_cells import best_window_share, coarsest_plan, window_plan


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0, 15.0])
def test_the_best_share_tells_most(epsilon):
    shares = np.geomspace(1e-9, 0.6, 200_001)
    total = 1 + shares * math.expm1(epsilon)
    told = epsilon * shares * math.exp(epsilon) / total - np.log(total)
    assert best_window_share(epsilon) == pytest.approx(shares[told.argmax()], rel=2e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_in_one_dimension_it_is_the_square_wave(epsilon):
    power = math.exp(epsilon)
    half = (epsilon * power - power + 1) / (2 * power * (power - 1 - epsilon))
    share = best_window_share(epsilon)
    assert share / (1 - share) == pytest.approx(2 * half, rel=1e-9)


def test_windows_are_of_many_cells_where_the_grid_allows_it():
    for dimension in (1, 2, 3):
        for epsilon in (0.001, 0.5, 2.0, 8.0, 40.0):
            plan = window_plan(dimension, epsilon)
            assert plan.radius >= 8 or plan.steps == coarsest_plan(dimension, 0.0).steps
            assert plan.radius <= plan.steps
    assert coarsest_plan(2, 0.05).steps == 512
    assert coarsest_plan(2, 0.2).steps == 256


def test_radii_shrink_as_epsilon_grows_until_a_number_tells_no_more():
    radii = [
        [plan.radius / plan.steps for plan in (window_plan(d, e) for e in (1.0, 2.0, 4.0))]
        for d in (1, 2, 3)
    ]
    for each in radii:
        assert each == sorted(each, reverse=True)
    assert radii[1] == pytest.approx([0.45, 0.225, 0.1125], rel=0.02)
    assert window_plan(1, 5.0) == window_plan(1, 9.0)
    assert window_plan(2, 0.25).radius / 128 == pytest.approx(1.8, abs=0.01)
    assert window_plan(2, 0.01).radius == 256
