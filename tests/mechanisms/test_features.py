"""Features: unit vectors whose means are moments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.core.errors import PrivotError
from privot.mechanisms.candidates.features import Features


def points(count, size, seed=0):
    z = np.random.default_rng(seed).standard_normal((count, size))
    return z / np.linalg.norm(z, axis=1, keepdims=True)


@given(st.integers(1, 9), st.integers(1, 4), st.booleans())
def test_vectors_have_length_one_and_hold_the_moments(size, labels, nullable):
    features = Features(size, labels, 0.0 if labels == 1 else 0.1, nullable)
    z, code = points(50, size), np.arange(50) % labels
    vectors = features.encode(z, code)
    assert vectors.shape == (50, features.dimension)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    found = features.decode(vectors.mean(axis=0, dtype=np.float64))
    one_hot = np.eye(labels)[code]
    np.testing.assert_allclose(found.shares, one_hot.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.first, one_hot.T @ z / 50, atol=1e-6)
    assert found.missing == 0


def test_missing_points_are_counted_apart():
    z = points(40, 5)
    z[:10] = np.nan
    features = Features.of(5, num_labels=2, nullable=True)
    vectors = features.encode(z, np.arange(40) % 2)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    found = features.decode(vectors.mean(axis=0, dtype=np.float64))
    assert found.missing == pytest.approx(0.25, abs=1e-6)
    np.testing.assert_allclose(found.shares, 0.5, atol=1e-6)
    np.testing.assert_allclose(found.first.sum(axis=0), z[10:].sum(axis=0) / 40, atol=1e-6)


def test_parts_are_those_of_each_label():
    features = Features.of(3, num_labels=2, nullable=True)
    labels, by_label, missing = features.parts(np.arange(9.0)[None])
    assert (labels.tolist(), missing.tolist()) == ([[0, 1]], [8])
    assert by_label.tolist() == [[[2, 3, 4], [5, 6, 7]]]
    labels, by_label, missing = Features.of(3).parts(np.arange(3.0)[None])
    assert (labels.tolist(), by_label.tolist(), missing.tolist()) == ([[0]], [[[0, 1, 2]]], [0])


@pytest.mark.parametrize(
    ("fields", "told"),
    [((0, 1, 0.0), "from 1"), ((3, 0, 0.0), "from 1"), ((3, 2, 0.0), "label_weight"),
     ((3, 1, 0.1), "label_weight"), ((3, 2, 0.9), "label_weight")],
)  # fmt: skip
def test_features_that_are_none_are_refused(fields, told):
    with pytest.raises(PrivotError, match=told):
        Features(*fields)
