"""The law in numbers against its definition; more of it in the laws of `test_window`."""

import math

import numpy as np
import pytest

from privot.mechanisms.window_cells import WindowCells, WindowMixture


def test_the_variance_of_randomized_response():
    """By hand: one cell of its own, five in all."""
    cells = WindowCells(1, 4, 0, "box", False)
    law = WindowMixture(cells, math.log(16), False)
    assert law.probabilities == pytest.approx((0.8, 0.05))
    estimate = (0.8 * 1 + 0.05 * (1 + 0.25 + 0.25)) / 0.75**2 - 1  # of an end: E y²/g² − x²
    assert law.variance() == pytest.approx(estimate)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_waves_are_kept_as_the_window_s_sum_says(dimension):
    cells = WindowCells(dimension, 64, 9, "box", False)
    law = WindowMixture(cells, 3.0, False)
    inside, outside = law.probabilities
    waves = np.random.default_rng(0).uniform(0, 9, (5, dimension))
    exact = (inside - outside) * np.cos(cells.offsets * 2 / 64 @ waves.T).sum(axis=0)
    np.testing.assert_allclose(law.attenuation(waves), exact, atol=0.02)


def test_cells_are_a_tiling_of_the_interval():
    cells = WindowCells(2, 8, 2, "l1_ball", True)
    count = cells.num_report_cells
    law = WindowMixture(cells, 2.0, False)
    reports = cells.cells(cells.report_numbers)
    records = np.broadcast_to([[6, 5]], reports.shape)
    low, high = law.probability_cells(reports, records, np.ones(count, bool))
    assert (high - low).prod(axis=1).sum() == pytest.approx(1.0)
    assert low.min() == 0
    assert high.max() == pytest.approx(1.0)
    low, high = law.probability_cells(reports, records, np.zeros(count, bool))
    np.testing.assert_allclose((high - low).prod(axis=1), 1 / count)
