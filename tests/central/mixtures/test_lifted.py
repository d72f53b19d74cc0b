"""Products of lifted vectors: lengths are kept whatever comes, moments are read off them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privot.central.moments import LiftedProducts
from privot.central.sums import NoisySums

RNG = np.random.default_rng(0)
CENTERS = RNG.uniform(-0.5, 0.5, (2, 3, 4))


def arrays(*tensors):
    return tuple(tensor.numpy() for tensor in tensors)


@given(seed=st.integers(0, 2**32), norm=st.floats(1e-3, 10))
def test_vectors_keep_their_length(seed, norm):
    rng = torch.Generator().manual_seed(seed)
    scale = 10.0 ** torch.randint(-20, 20, (30, 1), generator=rng)
    points = torch.randn(30, 4, generator=rng, dtype=torch.float64) * scale
    query = LiftedProducts(CENTERS, norm)
    slots, vectors = query.answer(arrays(points, torch.arange(30) % 2))
    assert vectors.shape == (30, query.width)
    assert np.square(vectors.astype(object)).sum(axis=1).max() <= query.radius**2
    assert ((slots >= 0) & (slots < query.slots)).all()


def test_moments_are_those_of_the_residuals():
    query = LiftedProducts(CENTERS, 3.0)
    points = torch.from_numpy(RNG.uniform(-1, 1, (500, 4)))
    labels = torch.arange(500) % 2
    slots, vectors = query.answer(arrays(points, labels))
    sums = np.stack([vectors[slots == s].T @ vectors[slots == s] for s in range(6)]).astype(float)
    told = query.moments(NoisySums(sums, 29.0))
    for slot in range(6):
        label, component = divmod(slot, 3)
        residuals = points.numpy()[slots == slot] - CENTERS[label, component]
        assert (slots[slots == slot] // 3 == labels.numpy()[slots == slot]).all()
        assert told.counts[label, component] == pytest.approx(len(residuals))
        assert told.sums[label, component] == pytest.approx(residuals.sum(axis=0), abs=0.1)
        assert told.products[label, component] == pytest.approx(residuals.T @ residuals, abs=0.2)


def test_errors_are_in_the_units_of_points():
    query = LiftedProducts(np.zeros((1, 1, 4)), 2.0)
    noise = RNG.standard_normal((4000, 5, 5)) * np.where(np.eye(5, dtype=bool), 1, 2**-0.5) * 1e6
    many = LiftedProducts(np.zeros((4000, 1, 4)), 2.0).moments(NoisySums(noise, 1e6))
    assert many.sum_error == pytest.approx(query.moments(NoisySums(noise[:1], 1e6)).sum_error)
    assert many.sums.std() / many.sum_error == pytest.approx(1, abs=0.04)
    diagonal = many.products[..., range(4), range(4)]
    assert diagonal.std() / many.product_error == pytest.approx(1, abs=0.04)
