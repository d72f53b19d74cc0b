"""Panels keep the shape of what they show."""

import numpy as np
import pytest

from privot.report.panels import Panel, draw_maps


def test_maps_keep_the_shape_of_the_land():
    """A degree of longitude is drawn shorter by the cosine of the latitude."""
    points = np.random.default_rng(0).uniform([0, 50], [10, 60], (100, 2))
    figure = draw_maps([Panel("a", "b", points)] * 2, ((0.0, 10.0), (50.0, 60.0)))
    assert figure.axes[0].get_aspect() == pytest.approx(1 / np.cos(np.deg2rad(55)))
    square = draw_maps([Panel("a", "b", points)], ((0.0, 10.0), (50.0, 70.0)), geographic=False)
    assert square.axes[0].get_aspect() == pytest.approx(0.5)
