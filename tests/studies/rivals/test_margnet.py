"""MargNet: its budget, and that with much of it pairs are known."""

import numpy as np

import studies.rivals.margnet as rival
from privot.privacy import ZeroConcentratedDP
from studies.rivals.margnet import MargNet, concentrated


def test_the_budget_is_the_largest_that_keeps_the_promise():
    rho = concentrated(1.0, 1e-6)
    assert ZeroConcentratedDP(rho).to_approximate(1e-6).epsilon <= 1.0
    assert ZeroConcentratedDP(1.001 * rho).to_approximate(1e-6).epsilon > 1.0


def test_with_a_large_budget_columns_that_depend_on_each_other_are_drawn_so(monkeypatch):
    """Two equal columns and a free one; independent ones would be .5 from the truth."""
    monkeypatch.setattr(rival, "_STEPS", 20)
    rng = np.random.default_rng(0)
    first = rng.integers(2, size=2000)
    codes = np.stack([first, first, rng.integers(3, size=2000)], axis=1)
    fitted = MargNet(codes, [2, 2, 3])
    fitted.fit(300.0, 1e-6)
    drawn = fitted.sample(4000, rng)
    assert (drawn[:, 0] == drawn[:, 1]).mean() > 0.95
    assert abs((drawn[:, 2] == 0).mean() - 1 / 3) < 0.06  # 8 deviations of 4 000 draws
