"""Densities on grids against closed forms."""

import numpy as np
import pytest
from scipy.stats import norm

from privot.core.errors import PrivotError
from studies.common.densities import (
    Grid,
    kullback_leibler,
    mode_coverage,
    negative_log_likelihood,
    variation_distance,
)


def gaussian(grid, mean, stddev):
    logs = -(((grid.points - mean) / stddev) ** 2).sum(axis=1) / 2
    return grid.normalized(logs)[0]


LINE = Grid((-12.0,), (12.0,), 3000)
PLANE = Grid((-9.0, -9.0), (9.0, 9.0), 300)


@pytest.mark.parametrize("grid", [LINE, PLANE])
def test_divergence_of_gaussians(grid):
    """KL of N(m, I) from N(0, s² I), and its NLL."""
    mean, stddev = 1.0, 1.5
    p, q = gaussian(grid, mean, 1.0), gaussian(grid, 0.0, stddev)
    each = np.log(stddev) + (1 + mean**2) / (2 * stddev**2) - 0.5
    assert kullback_leibler(grid, p, q) == pytest.approx(grid.dim * each, abs=1e-6)
    entropy = grid.dim * 0.5 * np.log(2 * np.pi * np.e)
    loss = negative_log_likelihood(grid, p, q)
    assert loss == pytest.approx(grid.dim * each + entropy, abs=1e-6)


def test_variation_of_shifted_gaussians():
    """TV of N(0, 1) and N(1, 1) is 2Φ(½) − 1."""
    found = variation_distance(LINE, gaussian(LINE, 0.0, 1.0), gaussian(LINE, 1.0, 1.0))
    assert found == pytest.approx(2 * norm.cdf(0.5) - 1, abs=1e-5)


def test_coverage_of_a_wider_truth():
    """The model's 95 % interval ±1.96 holds this much of N(0, 2²)."""
    p, q = gaussian(LINE, 0.0, 2.0), gaussian(LINE, 0.0, 1.0)
    reach = norm.ppf(0.975)
    assert mode_coverage(LINE, p, q) == pytest.approx(1 - 2 * norm.sf(reach / 2), abs=2e-3)
    assert mode_coverage(LINE, q, q) == pytest.approx(0.95, abs=1e-9)


def test_coverage_does_not_depend_on_the_order_of_a_plateau():
    """A flat model: whatever is at its one level counts in proportion."""
    q = np.full(3000, 1 / 24)
    p = gaussian(LINE, -5.0, 0.5)
    assert mode_coverage(LINE, p, q) == pytest.approx(0.95)


def test_excluded_truth_costs_infinitely_much():
    grid = Grid((0.0,), (1.0,), 2)
    assert kullback_leibler(grid, np.array([1.0, 1.0]), np.array([2.0, 0.0])) == np.inf


def test_normalized_says_what_it_divided_by():
    _, log_total = LINE.normalized(-(LINE.points[:, 0] ** 2) / 2)
    assert log_total == pytest.approx(0.5 * np.log(2 * np.pi), abs=1e-12)


def test_refusals():
    with pytest.raises(PrivotError, match="every lower one below"):
        Grid((0.0,), (0.0,), 4)
    with pytest.raises(PrivotError, match="keep the nodes"):
        Grid((0.0, 0.0), (1.0, 1.0), 10_000)
    with pytest.raises(PrivotError, match="where the mass is"):
        LINE.normalized(np.full(3000, -np.inf))
    with pytest.raises(PrivotError, match="between 0 and 1"):
        mode_coverage(LINE, np.ones(3000), np.ones(3000), 1.0)
