"""Fréchet and kernel distances against closed forms and brute force."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from privot.core.errors import PrivotError
from studies.common.frechet import frechet_distance, kernel_distance


def test_of_diagonal_gaussians_by_hand():
    """Points with exact moments: covariances diag(4, 1) and diag(1, 9), means apart by (3, 0)."""
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) * np.sqrt(3 / 4)
    x, y = corners * [2, 1], corners * [1, 3] + [3, 0]
    assert frechet_distance(x, y) == pytest.approx(9 + (2 - 1) ** 2 + (1 - 3) ** 2)


def test_of_general_covariances_against_the_matrix_root():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 4))
    y = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 4)) + 1
    a, b = np.cov(x.T), np.cov(y.T)
    gap = ((x.mean(0) - y.mean(0)) ** 2).sum()
    expected = gap + np.trace(a + b - 2 * sqrtm(a @ b).real)
    assert frechet_distance(x, y) == pytest.approx(expected)
    assert frechet_distance(y, x) == pytest.approx(expected)


def test_the_floor_falls_with_the_number_of_points():
    rng = np.random.default_rng(0)
    small, large = (
        np.mean([frechet_distance(*rng.standard_normal((2, n, 8))) for _ in range(10)])
        for n in (100, 1000)
    )
    assert 5 < small / large < 20


def test_kernel_distance_against_a_double_loop_and_without_bias():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((7, 3)), rng.standard_normal((5, 3)) + 0.5

    def k(a, b):
        return (a @ b / 3 + 1) ** 3

    def within(z):
        return np.mean([k(a, b) for i, a in enumerate(z) for j, b in enumerate(z) if i != j])

    cross = np.mean([k(a, b) for a in x for b in y])
    assert kernel_distance(x, y) == pytest.approx(within(x) + within(y) - 2 * cross)
    draws = [kernel_distance(*rng.standard_normal((2, 20, 3))) for _ in range(400)]
    assert abs(np.mean(draws)) < 6 * np.std(draws) / 20  # seeded: no false alarms
    assert min(draws) < 0


@pytest.mark.parametrize("distance", [frechet_distance, kernel_distance])
def test_shapes_are_checked(distance):
    with pytest.raises(PrivotError, match=r"features have shapes \(3, 2\) and \(3, 4\)"):
        distance(np.zeros((3, 2)), np.zeros((3, 4)))
    with pytest.raises(PrivotError, match="two rows or more"):
        distance(np.zeros((1, 2)), np.zeros((3, 2)))
