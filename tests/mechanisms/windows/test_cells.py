"""Cells: every window is among the reports, has the same size, and is numbered in order."""

import numpy as np
import pytest

from privot.mechanisms.window_cells import WindowCells, window_offsets
from privot.schema import Box, L1Ball, L2Ball

DOMAINS = [
    Box((0.0,), (3.0,)),
    Box((0.0, 1.0), (3.0, 2.0)),
    Box((0.0,) * 3, (3.0,) * 3),
    L2Ball(2, 5.0),
    L2Ball(3, 5.0),
    L2Ball(2, 5.0, True),
    L1Ball(2, 5.0),
    L1Ball(3, 5.0, True),
]


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_window_is_among_the_reports_and_has_the_same_size(domain):
    """Of any record, the corners and those that rounding moves outside included."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, domain.dimension)) * rng.uniform(0, 2, (300, 1))
    records = domain.unit.project(np.vstack([points, np.concatenate(domain.unit.far_apart())]))
    cells = WindowCells(domain.dimension, 32, 5, domain.area, not domain.symmetric)
    own = np.rint((records + 1) * 16).astype(np.int64)
    assert cells.is_record_cell(own).all()
    assert cells.is_report_cell(own[:, None] + cells.offsets).all()
    numbers = cells.number(own)[:, None] + cells.number_offsets
    np.testing.assert_array_equal(cells.cells(numbers), own[:, None] + cells.offsets)
    assert (cells.rank(numbers + 1) - cells.rank(numbers) == 1).all()
    assert (np.diff(numbers, axis=1) > 0).all()
    reports = cells.number_limit if cells.report_numbers is None else len(cells.report_numbers)
    assert cells.num_report_cells == reports == cells.rank(np.array([cells.number_limit]))[0]


def test_a_ball_wastes_few_cells():
    """What no window reaches is left out, but for a margin of roundings."""
    for area, volume in (("box", 3.0**2), ("l2_ball", np.pi * 1.5**2)):
        cells = WindowCells(2, 512, 128, area, False)
        assert 1 <= cells.num_report_cells / (volume * 256**2) < 1.03


def test_offsets_are_a_ball_in_order():
    offsets = window_offsets(2, 2)
    assert offsets.tolist() == sorted(offsets.tolist())
    assert len(offsets) == 13
    assert window_offsets(3, 0).tolist() == [[0, 0, 0]]
