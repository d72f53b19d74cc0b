"""PrivUnit: unbiased, of the stated variance, and no threshold is better."""

import math

import numpy as np
import pytest

from studies.rivals.priv_unit import PrivUnit


def test_reports_are_unbiased_with_the_stated_deviation():
    rival, rng = PrivUnit(20, 3.0), np.random.default_rng(0)
    x = rng.standard_normal(20)
    x /= np.linalg.norm(x)
    reports = rival.privatize(np.tile(x, (100_000, 1)), rng)
    error = reports.mean(axis=0) - x
    assert np.abs(error).max() < 5 * rival.stddev / math.sqrt(100_000)
    assert np.sqrt(reports.var(axis=0).mean()) == pytest.approx(rival.stddev, rel=0.01)
    np.testing.assert_allclose(np.linalg.norm(reports, axis=1), 1 / rival.scale)


def test_the_odds_of_the_cap_are_those_of_epsilon():
    rival = PrivUnit(50, 2.0)
    share = rival._beyond(rival.threshold)
    inside = rival._inside(share)
    assert inside / share / ((1 - inside) / (1 - share)) == pytest.approx(math.exp(2.0))
    x = np.eye(50)[:1].repeat(50_000, axis=0)
    reports = rival.privatize(x, np.random.default_rng(1)) * rival.scale
    near = (reports[:, 0] >= rival.threshold).mean()
    assert abs(near - inside) < 5 * math.sqrt(inside * (1 - inside) / 50_000)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 10.0])
def test_no_other_threshold_is_better(epsilon):
    rival = PrivUnit(200, epsilon)
    others = np.linspace(0.0, 0.5, 2001)
    best = max(rival._scale(t) for t in others)
    assert best <= rival.scale * (1 + 1e-6)
