"""Covariances of components: what a record adds, and what is estimated of noisy sums."""

import numpy as np
import pytest
import torch

from central.declared_images import image_records
from privot.central.moments import nearest_component
from privot.central.sums import Rounds, SumMechanism, SumPlan, contributions, sensitivity
from privot.models import Checkpoint
from privot.privacy.ledger import Ledger
from studies.sliced.components import (
    CalibratedLaw,
    Residuals,
    _own_roots,
)

IMAGES = image_records((6, 5), num_labels=3, low_pass=3, degree=1)
RNG = np.random.default_rng(0)
CENTERS = RNG.standard_normal((3, 2, 9))
BASES = np.linalg.qr(RNG.standard_normal((3, 9, 9)))[0][:, :, :4]


@pytest.mark.parametrize("norm", [0.05, 100.0])
@pytest.mark.parametrize("by_component", [False, True])
def test_a_record_adds_its_residual_to_its_slot(norm, by_component):
    pixels, labels = torch.rand(30, 6, 5), torch.arange(30) % 3
    means = CENTERS.reshape(6, 9)
    query = Residuals(IMAGES, CENTERS, IMAGES, means, norm, BASES, by_component)
    slots, vectors = query.answer((pixels.numpy(), labels.numpy()))
    nearest = nearest_component(CENTERS, IMAGES.prepare(pixels), labels)
    assert (slots == (nearest if by_component else labels.numpy())).all()
    residuals = IMAGES.prepare(pixels).double().numpy() - means[nearest]
    expected = np.einsum("np,npw->nw", residuals, BASES[labels])
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    expected *= np.minimum(norm / lengths, 1)
    assert np.abs(vectors[:, :-1] * query.unit - expected).max() <= query.unit
    assert vectors[:, -1] == pytest.approx(query.anchor)


@pytest.mark.parametrize("by_component", [False, True])
def test_a_replaced_record_moves_sums_by_at_most_the_sensitivity(by_component):
    """The longest residuals, against themselves turned around, of the same slots and of others."""
    pixels, labels = torch.eye(30).reshape(30, 6, 5), torch.arange(30) % 3
    means = CENTERS.reshape(6, 9)
    query = Residuals(IMAGES, CENTERS, IMAGES, means, 0.05, BASES, by_component)
    added = contributions(query, (pixels.numpy(), labels.numpy())).astype(float)
    apart = np.linalg.norm(added[:, None] - added[None], axis=2)
    bound = sensitivity(query)
    assert 0.9 * bound < apart.max() <= bound
    assert np.linalg.norm(added, axis=1).max() <= sensitivity(query, "zero_out")


def test_moments_of_slots_are_those_of_residuals():
    pixels, labels = torch.rand(600, 6, 5), torch.arange(600) % 3
    origin, maps = np.zeros((3, 1, 9)), np.repeat(np.eye(9)[None], 3, axis=0)
    query = Residuals(IMAGES, origin, IMAGES, origin[:, 0], 20.0, maps, by_component=False)
    plan = SumPlan((1e6,), 1e-5, 600)
    mechanism = SumMechanism((pixels.numpy(), labels.numpy()), Ledger(plan))
    rounds = Rounds(mechanism, Checkpoint(None, {}, resume=False))
    counts, means, covariances, _ = query.released(rounds)
    coordinates = IMAGES.prepare(pixels).double().numpy()
    for label in range(3):
        own = coordinates[labels == label]
        assert counts[label] == pytest.approx(200, abs=0.1)
        assert means[label] == pytest.approx(own.mean(axis=0), abs=0.02)
        expected = np.cov(own.T, bias=True)
        assert covariances[label] == pytest.approx(expected, abs=0.05)


class Flat:
    """Law of uniform pixels below .6, of all labels alike."""

    low = image_records((6, 5), num_labels=2, low_pass=3, degree=1)

    def values(self, labels, rng):
        return 0.6 * torch.rand(len(labels), 6, 5, generator=rng)


def test_draws_have_the_moments_of_their_labels():
    """Of 3 000 draws means err by .006, and covariances by .004; clipping leaves more."""
    means = Flat.low.transform(torch.full((2, 6, 5), 0.5)).numpy().astype(float)
    half = RNG.standard_normal((2, 9, 9)) * 0.1
    covariances = half @ half.swapaxes(1, 2) + 0.01 * np.eye(9)
    moved = CalibratedLaw(Flat(), means, covariances, directions=9, seed=0)
    labels = torch.arange(2).repeat_interleave(3000)
    images = moved.values(labels, torch.Generator().manual_seed(1))
    assert images.min() >= 0
    assert images.max() <= 1
    drawn = Flat.low.transform(images).double().numpy()
    for label in range(2):
        own = drawn[labels == label]
        assert own.mean(axis=0) == pytest.approx(means[label], abs=0.05)
        assert np.cov(own.T) == pytest.approx(covariances[label], abs=0.04)


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
