"""Penalized likelihood climbs, ends at its maximum, and its penalty is what theory says."""

import numpy as np
import pytest
from scipy.optimize import minimize

from privot.local.grid.channels import ProductChannel
from privot.local.grid.deconvolution import Roughness, deconvolve


def blur(nodes, width):
    """Reports that are a record's node moved by Laplace noise, on twice the grid."""
    gap = np.abs(np.arange(-nodes // 2, nodes + nodes // 2 + 1)[:, None] - np.arange(nodes + 1))
    law = np.exp(-gap / width)
    return law / law.sum(axis=0)


def counts_of(weights, law, people, seed=0):
    return np.random.default_rng(seed).multinomial(people, law @ weights).astype(float)


@pytest.mark.parametrize("dimension", [1, 2])
def test_roughness_of_a_gaussian_is_a_quarter_of_its_information(dimension):
    axis = np.linspace(-1, 1, 129)
    one = np.exp(-(axis**2) / (2 * 0.15**2))
    weights = one if dimension == 1 else np.outer(one, one)
    weights = weights / weights.sum()
    roughness = Roughness(np.ones(weights.shape, bool), 3.0)
    assert roughness.penalty(weights.ravel()) == pytest.approx(
        3.0 * dimension / (4 * 0.15**2), rel=0.01
    )


def test_smoothing_lowers_roughness_and_keeps_mass_where_it_may_be():
    rng = np.random.default_rng(0)
    axis = np.linspace(-1, 1, 33)
    nodes = np.hypot(axis[:, None], axis) <= 1
    weights = np.where(nodes, rng.random(nodes.shape), 0.0).ravel()
    weights *= 0.8 / weights.sum()
    roughness = Roughness(nodes, 1e-3)
    smooth = roughness.smooth(weights)
    assert smooth.sum() == pytest.approx(0.8)
    assert (smooth[~nodes.ravel()] == 0).all()
    assert roughness.penalty(smooth) < roughness.penalty(weights)
    flat = roughness.volumes.ravel() / roughness.volumes.sum()
    assert roughness.penalty(flat) == pytest.approx(0.0, abs=1e-12)
    assert roughness.smooth(flat) == pytest.approx(flat)


def test_people_at_an_edge_are_not_rough():
    """Half a hat holds half as many: a density that is largest at its end stays so."""
    law = blur(64, 4.0)
    shares = np.exp(-np.arange(65) / 13.0)
    shares[[0, -1]] /= 2
    channel = ProductChannel(counts_of(shares / shares.sum(), law, 200_000), [law])
    found = deconvolve(channel, np.ones(65, bool)).weights
    assert 2 * found[0] / found[:3].mean() > 1.0
    assert 2 * found[0] == pytest.approx(1 / 13.0, rel=0.15)


def test_it_ends_near_the_maximum_that_a_general_optimizer_finds():
    nodes, law = np.ones(17, bool), blur(16, 3.0)
    truth = np.exp(-((np.arange(17) - 5.0) ** 2) / 8) + 0.3 * (np.arange(17) > 11)
    counts = counts_of(truth / truth.sum(), law, 4_000)
    found = deconvolve(ProductChannel(counts, [law]), nodes, strength=1.25, tolerance=1e-6)
    roughness = Roughness(nodes, 1.25 / 4_000)

    def misfit(roots):
        weights = roots**2 / (roots**2).sum()
        return -(counts / 4_000) @ np.log(law @ weights) + roughness.penalty(weights)

    best = minimize(misfit, np.full(17, 0.25), method="BFGS").fun
    assert -found.objective[-1] - best < 2 / 4_000  # nats of all reports
    assert found.objective == sorted(found.objective)


def test_many_reports_leave_little_of_the_prior():
    nodes, law = np.ones(33, bool), blur(32, 2.0)
    truth = np.exp(-((np.arange(33) - 9.0) ** 2) / 18) + np.exp(-((np.arange(33) - 24.0) ** 2) / 8)
    truth /= truth.sum()
    errors = []
    for people in (2_000, 2_000_000):
        channel = ProductChannel(counts_of(truth, law, people), [law])
        errors.append(np.abs(deconvolve(channel, nodes).weights - truth).sum())
    assert errors[1] < 0.06 < errors[0]


def test_a_stronger_prior_is_smoother_and_steps_are_bounded():
    nodes, law = np.ones(33, bool), blur(32, 3.0)
    channel = ProductChannel(counts_of(np.full(33, 1 / 33), law, 500), [law])
    weak, strong = (deconvolve(channel, nodes, strength=s).weights for s in (0.05, 5.0))
    roughness = Roughness(nodes, 1.0)
    assert roughness.penalty(strong) < roughness.penalty(weak) / 2
    assert deconvolve(channel, nodes, most_steps=8, tolerance=0.0).steps == 8
