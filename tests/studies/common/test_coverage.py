"""Precision, recall, density, coverage on laws whose answers are known."""

import numpy as np
import pytest

from privot.core.errors import PrivotError
from studies.common.coverage import measure_coverage


def blobs(centers, num_points, rng, width=0.1):
    which = rng.integers(len(centers), size=num_points)
    return np.asarray(centers)[which] + width * rng.standard_normal((num_points, 2))


def test_equal_laws_score_near_one():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 500, 2))
    found = measure_coverage(x, y)
    assert min(found.precision, found.recall, found.coverage) > 0.9
    assert found.density == pytest.approx(1, abs=0.15)


def test_a_forgotten_mode_costs_recall_and_coverage_alone():
    rng = np.random.default_rng(0)
    real = blobs([(0, 0), (5, 0)], 600, rng)
    found = measure_coverage(real, blobs([(0, 0)], 600, rng))
    assert found.precision > 0.9
    assert found.recall < 0.6
    assert found.coverage < 0.6


def test_an_invented_mode_costs_precision_alone():
    rng = np.random.default_rng(0)
    real = blobs([(0, 0)], 600, rng)
    found = measure_coverage(real, blobs([(0, 0), (5, 0)], 600, rng))
    assert found.precision < 0.6
    assert found.recall > 0.9


def test_one_outlier_inflates_precision_but_hardly_density():
    """The reason for density: one far real point has a huge ball."""
    rng = np.random.default_rng(0)
    real = np.concatenate([blobs([(0, 0)], 500, rng), [[30.0, 0.0]]])
    learned = blobs([(15, 0)], 500, rng)
    found = measure_coverage(real, learned)
    assert found.precision > 0.9
    assert found.density < 0.3
    assert found.coverage < 0.01


def test_by_hand():
    """Real 0, 1, 3 and learned 0.5, 10 on a line, one neighbor: radii 1, 1, 2 and 9.5, 9.5."""
    real, learned = np.array([[0.0], [1.0], [3.0]]), np.array([[0.5], [10.0]])
    found = measure_coverage(real, learned, neighbors=1)
    assert found.precision == 0.5
    assert found.recall == 1.0
    assert found.density == pytest.approx(2 / (1 * 2))
    assert found.coverage == pytest.approx(2 / 3)


def test_too_few_points_are_refused():
    with pytest.raises(PrivotError, match="neighbors 5 of 5 and 9 points"):
        measure_coverage(np.zeros((5, 2)), np.zeros((9, 2)))
