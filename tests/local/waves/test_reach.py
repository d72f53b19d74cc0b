"""The rule of reach, on made-up scores of held-out reports."""

import numpy as np
import pytest

from privot.local.waves.reach import farthest


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
