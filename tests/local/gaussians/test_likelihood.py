"""The closed-form likelihood of Gaussian classes, against averages over points and reports."""

import math

import numpy as np
import pytest
import torch
from scipy import special

from privot.local.gaussians import SmoothChannel
from privot.local.networks.gaussian_fit import ClassParameters, LabelParts, Start
from privot.mechanisms.candidates.codebook import ClosestCandidates

CLASSES, SIZE = 2, 5


def made(epsilon=5.0, nullable=False):
    rng = np.random.default_rng(0)
    channel = SmoothChannel.of(ClosestCandidates.for_dimension(60, epsilon), 0.1)
    means = rng.standard_normal((CLASSES, SIZE)) * 0.2 + [0.7, 0, 0, 0, 0]
    start = Start(np.array([0.6, 0.4]), 0.05, means, 0.05, np.full(SIZE, 0.06), np.full(SIZE, 0.3))
    return ClassParameters(channel, start, 2, nullable, seed=1)


def reports(count, seed=2):
    rng = torch.Generator().manual_seed(seed)
    shape = (count, CLASSES)
    return LabelParts(
        torch.randn(shape, generator=rng),
        torch.randn((*shape, SIZE), generator=rng),
        torch.randn(count, generator=rng),
    )


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("epsilon", [2.0, 5.0, 8.0])
def test_it_is_a_density_against_that_of_candidates(epsilon, nullable):
    with torch.no_grad():
        density = made(epsilon, nullable).log_densities(reports(150_000)).exp().double()
    error = float(density.std()) / math.sqrt(len(density))
    assert float(density.mean()) == pytest.approx(1, abs=4 * error + 0.03)


def test_it_is_the_mean_over_points_of_the_law():
    parameters, y = made(), reports(20)
    classes, channel = parameters.law(), parameters.channel
    rng, found = np.random.default_rng(0), 0.0
    for label in range(CLASSES):
        points = classes._draw_untilted(label, 200_000, rng)
        u = math.sqrt(channel.label_weight) * y.labels[:, label].numpy() + math.sqrt(
            1 - channel.label_weight
        ) * (points @ y.points[:, label].numpy().T)
        step = special.ndtr((u - channel.threshold) / channel.width)
        ratio = channel.outside + (channel.inside - channel.outside) * step
        mass = channel.tilt((points**2).sum(axis=1)).mean()
        found = found + classes.shares[label] * ratio.mean(axis=0) / mass
    with torch.no_grad():
        np.testing.assert_allclose(parameters.log_densities(y).exp(), found, rtol=0.02)


def test_gradients_are_finite_even_about_no_mean():
    parameters = made()
    with torch.no_grad():
        parameters.means.zero_()
    loss = parameters.penalty() - parameters.log_densities(reports(50)).mean()
    loss.backward()
    for name, value in parameters.named_parameters():
        if name != "missing":
            assert torch.isfinite(value.grad).all()
