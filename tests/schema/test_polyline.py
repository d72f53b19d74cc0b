"""Polylines: the diameter is that of the corners, and unit coordinates stay in the unit box."""

import numpy as np
import pytest

from privot.schema import Polyline

CIRCLE = Polyline(tuple((float(np.cos(t)), float(np.sin(t))) for t in np.linspace(0, np.pi, 181)))


def test_unit_corners_of_polylines_stay_in_the_unit_box():
    rng = np.random.default_rng(5)
    for _ in range(500):
        corners = rng.standard_normal((5, 2)) * rng.choice([1e-3, 1.0, 1e3]) + rng.normal() * 100
        unit = Polyline(tuple(map(tuple, corners))).unit
        assert np.abs(np.asarray(unit.corners)).max() <= 1


def test_lengths_are_places_and_back():
    line = CIRCLE.line
    assert line.upper[0] == pytest.approx(np.pi, rel=1e-4)
    lengths = np.linspace(0, line.upper[0], 1000)[:, None]
    np.testing.assert_allclose(CIRCLE.along(CIRCLE.at(lengths)), lengths, atol=1e-12)
    np.testing.assert_allclose(CIRCLE.at(line.upper[0] * np.ones((1, 1)) / 2), [[0, 1]], atol=1e-12)
    detour = Polyline(((0.0, 0.0), (3.0, 0.0), (3.0, 0.0), (3.0, 4.0)))
    assert detour.along(np.array([[3.0, 1.0], [2.0, 0.0], [3.0, 9.0]])).tolist() == [[4], [2], [7]]


def test_half_circle_has_the_papers_diameters():
    assert CIRCLE.diameter(1) == pytest.approx(1 + np.sqrt(2), abs=1e-12)
    assert CIRCLE.diameter(2) == pytest.approx(2, abs=1e-12)


def test_far_points_are_projected_in_their_direction():
    """A point less than half a degree above the axis is nearest to the first corner."""
    points = np.array([[1e5, 1e2], [1e7, 1e4], [1e12, 1e9], [1e150, 1e-150], [np.inf, 5.0]])
    assert CIRCLE.project(points).tolist() == [[1.0, 0.0]] * 5
    steep = np.array([[1e7, 1e7], [1e99, 1e99], [-np.inf, np.inf]])
    np.testing.assert_allclose(
        CIRCLE.project(steep), [[np.sqrt(0.5) * s, np.sqrt(0.5)] for s in (1, 1, -1)]
    )
