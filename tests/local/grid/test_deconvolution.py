"""Penalized likelihood ends at its maximum, and its penalty is what theory says."""

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize

from privot.local.deconvolution import STRENGTH, Hats, deconvolve, roughness
from privot.local.grid_channels import ProductChannel


def blur(nodes, width):
    """Reports that are a record's node moved by Laplace noise, on twice the grid."""
    gap = np.abs(np.arange(-nodes // 2, nodes + nodes // 2 + 1)[:, None] - np.arange(nodes + 1))
    law = np.exp(-gap / width)
    return law / law.sum(axis=0)


def volumes_of(nodes):
    return Hats.of(nodes, nodes.size).volumes


def counts_of(weights, law, people, seed=0):
    return np.random.default_rng(seed).multinomial(people, law @ weights).astype(float)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_roughness_is_half_the_integral_of_the_squared_slope(dimension):
    axis = np.linspace(-1, 1, 33)
    logs = 5 * axis
    for _ in range(dimension - 1):
        logs = np.add.outer(logs, -2 * axis)
    # Along an axis the lines of nodes at both ends count whole: one spacing more of width.
    width = 2 + 2 / 32
    assert roughness(logs)[0] == pytest.approx(
        (25 + 4 * (dimension - 1)) / 2 * 2 * width ** (dimension - 1)
    )


def test_its_slope_is_its_slope():
    shape, start = (4, 4), np.random.default_rng(0).standard_normal(16)
    found = check_grad(
        lambda g: roughness(g.reshape(shape))[0],
        lambda g: roughness(g.reshape(shape))[1].ravel(),
        start,
    )
    assert found < 1e-5 * np.abs(roughness(start.reshape(shape))[1]).max()


def test_it_ends_at_the_maximum_that_a_general_optimizer_finds():
    nodes, law = np.ones(17, bool), blur(16, 3.0)
    truth = np.exp(-((np.arange(17) - 5.0) ** 2) / 8) + 0.3 * (np.arange(17) > 11)
    counts = counts_of(truth / truth.sum(), law, 4_000)

    def misfit(logs, strength=0.5):
        weights = volumes_of(nodes) * np.exp(logs)
        weights /= weights.sum()
        return -counts @ np.log(law @ weights) + strength * roughness(logs)[0]

    found = deconvolve(ProductChannel(counts, [law]), nodes, strength=0.5, tolerance=1e-6).weights
    best = minimize(misfit, np.zeros(17), method="BFGS").fun
    assert misfit(np.log(found / volumes_of(nodes))) == pytest.approx(best, abs=0.02)


def test_nobody_is_where_nobody_may_be_and_a_flat_density_stays_flat():
    axis = np.linspace(-1, 1, 33)
    nodes = np.hypot(axis[:, None], axis) <= 1
    law = blur(32, 2.0)
    flat = volumes_of(nodes)
    flat /= flat.sum()
    counts = 5_000 * (law @ flat.reshape(33, 33) @ law.T).ravel()
    found = deconvolve(ProductChannel(counts, [law, law]), nodes).weights
    assert (found[~nodes.ravel()] == 0).all()
    assert np.abs(found - flat).sum() < 0.02


def test_a_curve_leaves_few_people_far_from_it():
    """The noise of reports looks like people anywhere, who would be steep wherever they were."""
    axis = np.arange(33)
    law = np.where(np.abs(np.arange(-8, 41)[:, None] - axis) <= 4, 30.0, 1.0)
    law /= law.sum(axis=0)
    truth = np.zeros((33, 33))
    truth[axis, axis] = 1 / 33
    counts = np.random.default_rng(0).multinomial(30_000, (law @ truth @ law.T).ravel())
    found = deconvolve(ProductChannel(counts.astype(float), [law, law]), np.ones((33, 33), bool))
    far = np.abs(axis[:, None] - axis).ravel() > 6
    assert found.weights[far].sum() < 0.005


def test_a_stronger_prior_is_smoother_and_steps_are_bounded():
    nodes, law = np.ones(33, bool), blur(32, 3.0)
    channel = ProductChannel(counts_of(np.full(33, 1 / 33), law, 500), [law])
    weak, strong = (
        roughness(np.log(deconvolve(channel, nodes, strength=s).weights / volumes_of(nodes)))[0]
        for s in (STRENGTH, 10 * STRENGTH)
    )
    assert strong < weak / 2
    assert deconvolve(channel, nodes, max_steps=3).steps == 3


def around(reference, counts, strength):
    law = blur(32, 3.0)
    channel = ProductChannel(counts_of(counts, law, 4000), [law])
    nodes = np.ones(33, bool)
    return deconvolve(
        channel, nodes, strength=strength, reference=reference, tolerance=1e-6
    ).weights


def humps():
    axis, volumes = np.linspace(-1, 1, 33), volumes_of(np.ones(33, bool))
    found = [np.exp(-((axis - middle) ** 2) / 0.1) * volumes for middle in (0.4, -0.3)]
    return [each / each.sum() for each in found]


def test_a_reference_stands_where_the_penalty_is_strong_and_gives_way_where_it_is_weak():
    east, west = humps()
    assert np.abs(around(east, west, 1e6) - east).sum() < 1e-3
    found, free = (np.abs(around(reference, west, 0.1) - west).sum() for reference in (east, None))
    assert found < 1.3 * free
    flat = volumes_of(np.ones(33, bool)) / 32
    np.testing.assert_allclose(around(flat, west, 0.1), around(None, west, 0.1), atol=1e-9)


def test_reports_that_agree_with_a_reference_change_little():
    """Of a true reference the ratio is flat, however steep it is itself: no strength is too much."""
    east, _ = humps()
    free, informed = (np.abs(around(each, east, 10.0) - east).sum() for each in (None, east))
    assert informed < 0.4 * free
