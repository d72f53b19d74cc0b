"""Covariances of components: what a record adds, and what is estimated of noisy sums."""

import numpy as np
import pytest
import torch

from central.declared_images import image_records
from studies.sliced.components import ComponentProducts, _own_roots

IMAGES = image_records((6, 5), num_labels=3, low_pass=3, degree=1)
RNG = np.random.default_rng(0)
CENTERS = RNG.standard_normal((3, 2, 9))
BASES = np.linalg.qr(RNG.standard_normal((3, 9, 9)))[0][:, :, :4]


@pytest.mark.parametrize("norm", [0.05, 100.0])
def test_a_record_adds_its_residual_to_its_component(norm):
    pixels, labels = torch.rand(30, 6, 5), torch.arange(30) % 3
    query = ComponentProducts(BASES, IMAGES, CENTERS, IMAGES, CENTERS.reshape(6, 9), norm)
    slots, vectors = query.answer((pixels.numpy(), labels.numpy()))
    assert (slots // 2 == labels.numpy()).all()
    assert np.square(vectors).sum(axis=1).max() <= query.radius**2
    residuals = IMAGES.prepare(pixels).double().numpy() - CENTERS.reshape(6, 9)[slots]
    expected = np.einsum("np,npw->nw", residuals, BASES[labels])
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    expected *= np.minimum(norm / lengths, 1)
    assert np.abs(vectors * query.unit - expected).max() <= query.unit


def test_covariances_are_met_without_noise():
    values = np.array([4.0, 2.0, 1.0, 0.5])
    basis = np.linalg.qr(RNG.standard_normal((4, 4)))[0]
    samples = RNG.standard_normal((5, 40, 3)) * np.sqrt(values[:3])
    own = samples.swapaxes(1, 2) @ samples / 40
    roots = _own_roots(own, np.full(5, 1e-6), basis, values).astype(float)
    found = basis.T @ (roots @ roots.swapaxes(1, 2)) @ basis
    assert found[:, :3, :3] == pytest.approx(own, abs=1e-3)
    assert found[:, :3, 3] == pytest.approx(0, abs=1e-3)


def test_noise_is_taken_away():
    values = np.array([4.0, 2.0, 1.0])
    own = np.repeat(np.diag(values)[None], 400, 0)
    noise = 0.5 * RNG.standard_normal(own.shape)
    noisy = own + (noise + noise.swapaxes(1, 2)) / 2
    roots = _own_roots(noisy, np.full(400, 0.5), np.eye(3), values).astype(float)
    errors = np.square(roots @ roots.swapaxes(1, 2) - own).sum(axis=(1, 2)).mean()
    assert errors < 0.5 * np.square(noisy - own).sum(axis=(1, 2)).mean()
