"""Weights of waves, what lines through them are worth, and the rule of reach on made-up scores."""

import numpy as np
import pytest

from privot.local.waves.reach import MOVING, Reach, farthest


@pytest.mark.parametrize(
    ("losses", "last"),
    [
        ((0.0, 0.09), 1),  # of 100 people a standard error is .1
        ((0.0, 0.11), 0),
        ((0.5, 0.0, 0.2, 0.09, 0.3), 3),
        ((0.5, 0.0, 0.11, 0.11), 1),
        ((0.09, 0.09, 0.0), 2),
    ],
)
def test_the_farthest_reach_is_kept_that_is_as_likely_as_the_best(losses, last):
    likely, spread = np.log([0.3, 0.3]), np.array([1.0, -1.0])
    logs = [likely - loss + spread * (loss > 0) for loss in losses]
    assert farthest(logs, np.array([50.0, 50.0])) == last
    assert farthest(logs, np.array([5e5, 5e5])) == losses.index(0.0)


@pytest.mark.parametrize("reach", [*MOVING, Reach(3.0), Reach(np.inf)])
def test_equivalent_waves_are_those_of_a_weighted_fit(reach):
    """The variance of the fitted value at the last time, of waves with noise of variance 1."""
    times = np.array([0.0, 1.0, 2.5, 4.0, 4.5, 6.0, 9.0, 10.0])
    root = np.sqrt(reach.weights(times[-1] - times))
    powers = np.vander(times - times[-1], reach.degree + 1, increasing=True)
    at_last = np.linalg.pinv(root[:, None] * powers)[0] * root
    assert reach.equivalent(times) == pytest.approx(1 / (at_last @ at_last))


def test_no_wave_is_too_far_to_be_the_nearest():
    ages = np.array([500.0, 490.0])
    np.testing.assert_allclose(Reach(3.0).weights(ages), [np.exp(-10 / 3), 1.0])


def test_a_line_through_one_wave_stands():
    assert Reach(0.0, 1).equivalent(np.array([1.0, 2.0])) == pytest.approx(1.0)
