"""Weights of waves, and the rule of reach on made-up scores."""

import numpy as np
import pytest

from privot.local.waves.grid_drift import REACHES, longest_likely_reach, wave_weights


@pytest.mark.parametrize(
    ("losses", "first"),
    [
        ((0.09, 0.0), 0),  # of 100 people a standard error is .1
        ((0.11, 0.0), 1),
        ((0.3, 0.09, 0.2, 0.0, 0.5), 1),
        ((0.11, 0.11, 0.0, 0.5), 2),
        ((0.0, 0.09, 0.09), 0),
    ],
)
def test_the_longest_reach_that_is_as_likely_as_the_best_is_chosen(losses, first):
    likely, spread = np.log([0.3, 0.3]), np.array([1.0, -1.0])
    logs = [likely - loss + spread * (loss > 0) for loss in losses]
    assert longest_likely_reach(logs, np.array([50.0, 50.0])) == first
    assert longest_likely_reach(logs, np.array([5e5, 5e5])) == losses.index(0.0)


def test_without_reports_the_longest_is_chosen():
    logs = [np.log([0.3, 0.3]), np.log([0.5, 0.4])]
    assert longest_likely_reach(logs, np.zeros(2)) == 0


def test_no_wave_is_too_far_to_be_the_nearest():
    ages = np.array([500.0, 490.0])
    np.testing.assert_allclose(wave_weights(ages, 3.0), [np.exp(-10 / 3), 1.0])


def test_a_shorter_reach_weighs_no_wave_more():
    ages = np.array([9.0, 4.0, 3.5, 1.0, -2.0])
    weights = np.array([wave_weights(ages, reach) for reach in REACHES])
    np.testing.assert_array_equal(weights[0], [1, 1, 1, 1, 0])
    np.testing.assert_array_equal(weights[-1], [0, 0, 0, 1, 0])
    assert (np.diff(weights, axis=0) <= 0).all()
