"""Losses that learn the noise, or slowly: what they are, and what a fit by them learns."""

import numpy as np
import pytest
import torch

from privot import FitSettings, Randomizer, Schema, fit
from privot.local.networks.cost import LikelihoodCost, ReportBatch
from privot.local.networks.steps import Step
from privot.randomizer import randomizer_from_noise
from privot.transport import SinkhornSolver, wasserstein
from studies.rivals.batch_losses import noisy_wasserstein, sinkhorn_divergence, unregularized

NUMBER = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]')
QUICK = FitSettings(
    estimator="generator",
    steps=300,
    batch_size=100,
    hidden=(32, 32),
    learning_rate=3e-3,
    averaging=0.98,
)


def spread(values):
    """Mean absolute distance from the one true value."""
    return np.abs(np.asarray(values) - 50).mean()


def step_of(x, y, mechanism="gaussian", noise=1.0):
    """Outputs x and reports y (n, d), noise of this scale in between."""
    names = [f"x{j}" for j in range(x.shape[1])]
    column = {"kind": "vector", "columns": names, "radius": 1.0}
    schema = Schema.from_dict({"columns": {"v": column}})
    delta = 1e-6 if mechanism == "gaussian" else 0.0
    cost = LikelihoodCost(randomizer_from_noise(schema, noise, delta, mechanism=mechanism))
    rng = torch.Generator().manual_seed(7)
    return Step({"v": x}, ReportBatch({"v": y}, {"v": None}), cost, None, SinkhornSolver(1e-3), rng)


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "delta"), [("laplace", 8, 0), ("gaussian", 10, 1e-5)]
)
def test_where_everybody_is_alike_it_learns_the_noise_and_entropic_transport_the_person(
    mechanism, epsilon, delta
):
    release = Randomizer.calibrate(NUMBER, epsilon, delta, mechanism=mechanism).privatize(
        {"age": np.full(20_000, 50.0)}
    )
    noise = spread(np.clip(release.table["age"], 0, 100))  # as samples are projected
    model = fit(release, QUICK, loss=unregularized)
    assert spread(model.sample(5000, seed=0)["age"]) == pytest.approx(noise, rel=0.15)
    assert spread(fit(release, QUICK).sample(5000, seed=0)["age"]) < noise / 4
    assert model.made_with["loss"] == "unregularized"
    assert model.guarantee == release.guarantee


def test_only_the_noisy_wasserstein_loss_has_its_minimum_at_the_clean_law():
    """On the line, x = a · normal against y = normal + noise: which a does each loss like best?"""
    rng = torch.Generator().manual_seed(0)
    z, clean, noise = torch.randn(3, 1000, 1, generator=rng)
    best = {
        loss: min((0.6, 1.0, 1.41), key=lambda a: float(loss(step_of(a * z, clean + noise))[0]))
        for loss in (unregularized, sinkhorn_divergence, noisy_wasserstein)
    }
    assert list(best.values()) == [1.41, 1.41, 1.0]


@pytest.mark.parametrize(("mechanism", "p", "unit"), [("laplace", 1, 2.0), ("gaussian", 2, 8.0)])
def test_they_are_the_distances_in_units_of_the_noise(mechanism, p, unit):
    x, y = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(0))
    x.requires_grad_()
    value, error = unregularized(step_of(x, y, mechanism, 2.0))
    assert error == 0
    distance = float(wasserstein(x.detach(), y, p))
    assert float(value.detach()) == pytest.approx(distance**p / unit, rel=1e-5)
    for loss in (unregularized, sinkhorn_divergence, noisy_wasserstein):
        (gradient,) = torch.autograd.grad(loss(step_of(x, y, mechanism, 2.0))[0], x)
        assert float(gradient.abs().min()) > 0
    assert float(sinkhorn_divergence(step_of(x, x, mechanism, 2.0))[0]) == pytest.approx(
        0, abs=0.01
    )
