"""The law in numbers against its definition; more of it in the laws of `test_window`."""

import numpy as np
import pytest

from privot.mechanisms.windows.cells import WindowCells
from privot.mechanisms.windows.law import WindowLaw


def test_a_window_of_no_excess_tells_nothing():
    cells = WindowCells(2, 16, 3, "l2_ball", False)
    assert WindowLaw(cells, 1 / cells.count, 1 / cells.count).information() == pytest.approx(0)


def test_one_cell_of_its_own_tells_all():
    """Randomized response, by hand."""
    cells = WindowCells(1, 4, 0, "box", False)
    law = WindowLaw(cells, 0.8, 0.05)
    told = np.log2(5) + 0.8 * np.log2(0.8) + 4 * 0.05 * np.log2(0.05)
    assert law.information() == pytest.approx(told)
    estimate = (0.8 * 1 + 0.05 * (1 + 0.25 + 0.25)) / 0.75**2 - 1  # of an end: E y²/g² − x²
    assert law.variance() == pytest.approx(estimate)


def test_cells_are_a_tiling_of_the_interval():
    cells = WindowCells(2, 8, 2, "l1_ball", True)
    window, count = len(cells.window), cells.count
    outside = 0.4 / (count - window)
    law = WindowLaw(cells, 0.6 / window, outside)
    reports = cells.cells(cells.reached)
    records = np.broadcast_to([[6, 5]], reports.shape)
    low, high = law.probability_cells(reports, records, np.ones(count, bool))
    assert (high - low).prod(axis=1).sum() == pytest.approx(1.0)
    assert low.min() == 0
    assert high.max() == pytest.approx(1.0)
    low, high = law.probability_cells(reports, records, np.zeros(count, bool))
    np.testing.assert_allclose((high - low).prod(axis=1), 1 / count)
