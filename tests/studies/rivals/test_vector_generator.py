"""A dense generator of labeled vectors: within the cube, repeatable, and taught by a noisy embedding."""

import numpy as np
import torch

from studies.rivals.dp_merf import DPMERFSettings, fit_dp_merf
from studies.rivals.vector_generator import VectorGenerator


def test_draws_lie_in_the_cube_and_repeat():
    labels = torch.arange(30) % 10
    first, second = (VectorGenerator(6, seed=1).sample(labels, seed=2) for _ in range(2))
    assert first.shape == (30, 6)
    assert 0 < first.min() < first.max() < 1
    assert (first == second).all()


def test_dp_merf_teaches_it_where_labels_lie():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 4000)
    centers = rng.uniform(0.2, 0.8, (10, 6))
    vectors = (centers[labels] + 0.02 * rng.standard_normal((4000, 6))).astype(np.float32)
    generator = VectorGenerator(6)
    settings = DPMERFSettings(num_frequencies=100, bandwidth=0.5, steps=150, batch_size=200)
    found = fit_dp_merf(vectors, labels, 10.0, 1e-5, settings, generator=generator)
    assert found.generator is generator
    drawn = generator.sample(torch.arange(10).repeat_interleave(50))
    means = drawn.reshape(10, 50, 6).mean(axis=1)
    assert np.abs(means - centers).mean() < 0.1
