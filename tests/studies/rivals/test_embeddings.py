"""Features of norm 1: tangents are a network's gradients, and low frequencies are all that some see."""

import numpy as np
import pytest
import torch

from studies.rivals.embeddings import FourierFeatures, TangentFeatures, cosine_basis

SIDE = 6
LOW = 3


def made(kind, low_pass=None):
    if kind == "fourier":
        return FourierFeatures(SIDE * SIDE, 20, 1.5, 0, low_pass)
    return TangentFeatures(SIDE * SIDE, 20, 0, low_pass)


def points(count):
    return torch.from_numpy(np.random.default_rng(0).random((count, SIDE * SIDE)))


@pytest.mark.parametrize("kind", ["fourier", "tangent"])
@pytest.mark.parametrize("low_pass", [None, LOW])
def test_every_point_has_features_of_norm_one(kind, low_pass):
    features, x = made(kind, low_pass), points(7) - 0.5
    sums = features.sums(x, torch.arange(7), 7)
    assert sums.shape == (7, features.width)
    assert sums.norm(dim=1).numpy() == pytest.approx(np.ones(7))


@pytest.mark.parametrize("kind", ["fourier", "tangent"])
def test_sums_are_of_their_label(kind):
    features, x = made(kind), points(5)
    labels = torch.tensor([1, 0, 1, 1, 3])
    each = features.sums(x, torch.arange(5), 5)
    sums = features.sums(x, labels, 4)
    assert torch.allclose(sums[1], each[[0, 2, 3]].sum(0))
    assert torch.allclose(sums[3], each[4])
    assert not sums[2].any()


def test_tangents_are_the_gradient_of_the_network():
    """Of ten equal rows of gradients one is kept, √10 times: every inner product is the network's."""
    features, x = made("tangent"), points(2)
    weights = features.weights.double().requires_grad_()
    last = torch.randn(10, 20, generator=torch.Generator().manual_seed(1)).double()
    last = (last + (features.slopes - last.sum(0)) / 10).requires_grad_()
    bias = torch.zeros(10).double().requires_grad_()
    gradients = []
    for point in x:
        hidden = (torch.cat([point, torch.ones(1).double()]) @ weights).relu()
        output = last @ torch.nn.functional.layer_norm(hidden, (20,)) + bias
        found = torch.autograd.grad(output.sum(), [weights, last, bias])
        gradient = torch.cat([part.flatten() for part in found])
        gradients.append(gradient / gradient.norm())
    gradients = torch.stack(gradients)
    found = features.sums(x, torch.arange(2), 2)
    assert torch.allclose(found @ found.T, gradients @ gradients.T)
    first = gradients[:, : weights.numel()].reshape(2, *weights.shape).mT.flatten(1)
    assert torch.allclose(found[:, : weights.numel()], first)
    assert not torch.allclose(found[0], found[1], atol=0.01)


@pytest.mark.parametrize("kind", ["fourier", "tangent"])
def test_high_frequencies_are_not_seen(kind):
    across = torch.cos(torch.pi * 3 * (torch.arange(SIDE) + 0.5) / SIDE).double()
    wave = across.repeat(SIDE)
    x, labels = points(1), torch.tensor([0])
    low, every = made(kind, LOW), made(kind)
    assert torch.allclose(low.sums(x + wave, labels, 1), low.sums(x, labels, 1))
    assert not torch.allclose(every.sums(x + wave, labels, 1), every.sums(x, labels, 1))


def test_cosines_are_orthonormal_and_begin_with_the_mean():
    basis = cosine_basis(SIDE * SIDE, LOW)
    assert torch.allclose(basis.T @ basis, torch.eye(LOW * LOW, dtype=torch.float64))
    assert torch.allclose(basis[:, 0], torch.full((SIDE * SIDE,), 1 / SIDE).double())
