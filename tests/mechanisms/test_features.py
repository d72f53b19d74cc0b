"""Features: unit vectors whose means are moments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.errors import PrivotError
from privot.mechanisms.candidates.features import MOST_FEATURES, Features


def points(count, size, seed=0):
    z = np.random.default_rng(seed).standard_normal((count, size))
    return z / np.linalg.norm(z, axis=1, keepdims=True) * np.linspace(0, 1, count)[:, None]


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 4), st.booleans())
def test_vectors_have_length_one_and_hold_the_moments(size, paired, labels, nullable):
    weights = (0.0, 0.3, 0.7) if labels == 1 else (0.1, 0.5, 0.4)
    features = Features(size, min(paired, size), labels, weights, nullable)
    z, code = points(50, size), np.arange(50) % labels
    vectors = features.encode(z, code)
    assert vectors.shape == (50, features.dimension)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    found = features.decode(vectors.mean(axis=0, dtype=np.float64))
    one_hot = np.eye(labels)[code]
    p = features.paired
    np.testing.assert_allclose(found.shares, one_hot.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.first, one_hot.T @ z / 50, atol=1e-6)
    np.testing.assert_allclose(found.second, z[:, :p].T @ z[:, :p] / 50, atol=1e-6)
    np.testing.assert_allclose(found.squares, (z[:, p:] ** 2).mean(axis=0), atol=1e-6)
    assert found.missing == 0


def test_missing_points_are_counted_apart():
    z = points(40, 5)
    z[:10] = np.nan
    features = Features.of(5, labels=2, nullable=True)
    found = features.decode(features.encode(z, np.arange(40) % 2).mean(axis=0, dtype=np.float64))
    assert found.missing == pytest.approx(0.25, abs=1e-6)
    np.testing.assert_allclose(found.shares, 0.5, atol=1e-6)
    np.testing.assert_allclose(found.first.sum(axis=0), z[10:].sum(axis=0) / 40, atol=1e-6)


def test_pairs_are_left_out_where_they_are_too_many():
    assert Features.of(170).paired == 170
    large = Features.of(400, labels=10)
    assert (large.paired, large.dimension) == (0, 10 + 10 * 400 + 400 + 1)
    assert Features.of(170).dimension <= MOST_FEATURES


@pytest.mark.parametrize(
    ("fields", "told"),
    [((0, 0, 1, (0.0, 0.5, 0.5)), "q ≥ 1"), ((3, 4, 1, (0.0, 0.5, 0.5)), "p ≤ q"),
     ((3, 3, 0, (0.0, 0.5, 0.5)), "C ≥ 1"), ((3, 3, 2, (0.0, 0.5, 0.5)), "weights"),
     ((3, 3, 1, (0.1, 0.5, 0.4)), "weights"), ((3, 3, 2, (0.1, 0.5, 0.5)), "add up"),
     ((3, 3, 2, (0.5, 0.5)), "three")],
)  # fmt: skip
def test_features_that_are_none_are_refused(fields, told):
    with pytest.raises(PrivotError, match=told):
        Features(*fields)
