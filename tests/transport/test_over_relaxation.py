"""The rule for ω, and steps of ω times their length, as compiled loops call them."""

import numpy as np
import pytest

from privot.transport.compiled import compiled
from privot.transport.sinkhorn import over_relaxation
from privot.transport.sinkhorn.over_relaxation import move, next_omega


@compiled
def moved(x, towards, omega):
    move(x, towards, omega, x.size, np.empty(x.size), np.empty(x.size))
    return x


@compiled
def rule(omega, errors, now, changed):
    return next_omega(omega, errors, now, changed)


@pytest.mark.parametrize("omega", [1.0, 1.3, 1.99])
def test_a_step_goes_omega_times_as_far_in_logarithms(omega):
    rng = np.random.default_rng(0)
    x, towards = 10.0 ** rng.uniform(-8, 8, 1000), 10.0 ** rng.uniform(-8, 8, 1000)
    exact = np.log(x) + omega * (np.log(towards) - np.log(x))
    np.testing.assert_allclose(np.log(moved(x.copy(), towards, omega)), exact, atol=1e-4)


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.999])
def test_the_first_omega_is_youngs_for_the_rate_seen(rate):
    errors = rate ** np.arange(10.0)
    omega, changed = rule(1.0, errors, 5, 0)
    assert changed == 5
    assert omega == pytest.approx(min(1.995, 2 / (1 + np.sqrt(1 - rate))))
    assert rule(1.0, errors, 2, 0) == (1.0, 0)  # three plain steps come first


def test_growing_errors_end_it():
    errors = np.array([1.0, 1.0, 1.0, 50.0])
    assert rule(1.9, errors, 3, 1) == (1.0, 3)
    assert rule(1.9, np.ones(4), 3, 1) == (1.9, 1)
    assert over_relaxation._LARGEST_OMEGA < 2
