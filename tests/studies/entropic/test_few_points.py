"""Laws of a few points, their reports beside those of the half circle."""

import numpy as np
import pytest

from studies.entropic.few_points import NoisyPlane, half_circle, nearest


@pytest.mark.parametrize("gap", [0.1, 1.0])
def test_divergence_of_two_points_is_that_of_shifted_gaussians(gap):
    plane, one = NoisyPlane(0.9), np.ones(1)
    p, q = (plane.density(np.array([[x, 0.0]]), one) for x in (0.0, gap))
    assert plane.divergence(p, q) == pytest.approx(gap**2 / (2 * 0.9**2), rel=1e-3)


def test_noise_hides_all_but_the_first_moments():
    rows = [nearest(num_points) for num_points in (2, 3, 4)]
    divergences = [row["divergence"] for row in rows]
    assert divergences[0] > 30 * divergences[1] > 900 * divergences[2]
    assert [row["w2"] for row in rows] == pytest.approx([0.44, 0.31, 0.24], abs=0.01)
    assert rows[2]["total_variation"] < 0.2 < 0.9 < rows[1]["total_variation"]


def test_smaller_noise_tells_more():
    assert nearest(3, stddev=0.9)["divergence"] > 10 * nearest(3)["divergence"]


def test_the_curve_has_its_length_and_radius():
    curve = half_circle(1000)
    np.testing.assert_allclose(np.linalg.norm(curve, axis=1), 1)
    np.testing.assert_allclose(curve.mean(axis=0), [0, 2 / np.pi], atol=1e-5)
