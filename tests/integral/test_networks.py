"""Networks: what they learn, what is kept of them, what settings refuse."""

import math

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.integral.learners import Network, NetworkSettings
from privot.integral.networks import train_network

QUICK = NetworkSettings(hidden=(8,), steps=60, batch_size=128, learning_rate=0.02)


def test_log_odds_are_a_log_ratio_up_to_its_bound():
    """Of N(1, 1) against N(−1, 1) it is 2x: increasing, and cut smoothly at the bound."""
    rng = np.random.default_rng(0)
    records = rng.normal(1.0, 1.0, (2000, 1))
    x = np.linspace(-2, 2, 9)[:, None]
    for bound in (None, 0.5):
        net = train_network(records, lambda n, r: r.normal(-1.0, 1.0, (n, 1)), QUICK, 0, bound)
        assert (np.diff(net(x)) > 0).all()
        again = Network.from_arrays(net.arrays(), net.bound)
        np.testing.assert_array_equal(again(x), net(x))
        assert (np.abs(net(1e6 * x)) <= 0.5).all() == (bound is not None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "at least 1"),
        ({"hidden": (0,)}, "at least 1"),
        ({"learning_rate": math.nan}, "learning_rate"),
    ],
)
def test_network_settings_are_checked(settings, message):
    with pytest.raises(PrivotError, match=message):
        NetworkSettings(**settings)
