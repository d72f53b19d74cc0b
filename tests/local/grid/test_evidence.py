"""On the line the evidence knows how smooth a density is, and a bound is no place to be flat."""

import numpy as np
import pytest

from privot.local.deconvolution import (
    CountLikelihood,
    Hats,
    SmoothPrior,
    _find_mode,
    average_by_evidence,
)
from privot.local.grid_channels import ProductChannel

NODES, REACH = 65, 12
AXIS = np.linspace(-1, 1, NODES)


def window():
    """Reports e times likelier within a window of a fifth of the line."""
    reports = np.arange(-REACH, NODES + REACH)[:, None]
    law = np.where(np.abs(reports - np.arange(NODES)) <= REACH, np.e, 1.0)
    return law / law.sum(axis=0)


def fitted(shares, people=100_000, seed=0):
    law = window()
    counts = np.random.default_rng(seed).multinomial(people, law @ shares).astype(float)
    return average_by_evidence(ProductChannel(counts, [law])).weights


def transport(first, second):
    return np.abs(np.cumsum(first - second)).sum() * 2 / (NODES - 1)


@pytest.mark.parametrize(
    ("density", "most"),
    [
        (np.exp(-4 * (AXIS + 1)), 0.015),
        (np.exp(-((AXIS - 0.2) ** 2) / 0.08), 0.015),
        (np.exp(-(((AXIS + 0.5) / 0.05) ** 2) / 2) + 0.2 * (AXIS > 0), 0.03),
    ],
    ids=["highest at a bound", "one bump", "a spike and a step"],
)
def test_densities_of_every_smoothness_come_back(density, most):
    density = density.copy()
    density[[0, -1]] /= 2
    truth = density / density.sum()
    found = fitted(truth)
    assert found.sum() == pytest.approx(1.0)
    assert transport(found, truth) < most
    flat = np.full(NODES, 1 / NODES)
    assert transport(flat, truth) > 4 * most


def test_an_exponential_keeps_its_slope_at_the_bound():
    density = np.exp(-4 * (AXIS + 1))
    density[[0, -1]] /= 2
    found = fitted(density / density.sum())
    assert np.log(2 * found[0] / found[8]) == pytest.approx(4 * 0.25, rel=0.15)


def test_evidence_is_the_integral_of_likelihood_and_prior():
    """Of one free shape it can be integrated point by point."""
    law = window()
    basis = AXIS[:, None]
    shapes = SmoothPrior(basis, np.ones(1), np.zeros(1))
    counts = np.random.default_rng(1).multinomial(3_000, law.mean(axis=1)).astype(float)
    likelihood = CountLikelihood(counts, law, Hats(np.ones(NODES)))
    _, evidence, _ = _find_mode(likelihood, shapes, 2.0, np.zeros(1), 50)
    at = np.linspace(-4, 4, 4001)
    logs = [counts @ np.log(law @ likelihood.hats.weights(AXIS * a)) - a**2 for a in at]
    integral = np.log(np.exp(np.array(logs) - max(logs)).sum() * (at[1] - at[0])) + max(logs)
    prior = 0.5 * np.log(2 / (2 * np.pi))
    assert evidence == pytest.approx(integral + prior, abs=0.05)


def test_steps_are_bounded_for_each_strength():
    law = window()
    counts = law.mean(axis=1) * 1000
    channel = ProductChannel(counts * (1 + np.sin(np.arange(len(counts)))), [law])
    assert average_by_evidence(channel, max_steps=1).steps <= 2 * 25
