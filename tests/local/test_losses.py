"""Mini-batch bias: plain transport shrinks the learned spread; self-corrected does not.

Data N(0, I_d), Gaussian noise of standard deviation σ, generator a·z: the fixed point of a is 1 for
an unbiased loss. REFERENCE values for plain at b = 50 … 400 are 0.55 … 0.73 (d = 20, σ = 1).
"""

import numpy as np
import pytest
import torch
from torch import nn

from privot.errors import PrivotError
from privot.local import FitSettings, fit
from privot.local.generators.entropic_fit import TransportObjective
from privot.local.generators.losses import LOSSES
from privot.local.likelihood.heads import Head
from privot.mechanisms import Gaussian, Laplace
from privot.release import Randomizer
from privot.schema import Schema
from privot.training import TrainingSettings, train

RADIUS = 100.0


class Scaled(nn.Module):
    """G(z) = a·z in the table's units; one number to learn."""

    def __init__(self, dimension, start):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(start))
        self.latent_dim = dimension

    def forward(self, latent):
        return self.a * latent / RADIUS

    def draw_latent(self, num_rows, rng):
        return torch.randn(num_rows, self.latent_dim, generator=rng)


def learned_spread(dimension, sigma, batch_size, loss, noise="gaussian", start=0.7, steps=250):
    names = [f"x{j}" for j in range(dimension)]
    schema = Schema.from_dict(
        {"columns": {"x": {"kind": "vector", "columns": names, "radius": RADIUS}}}
    )
    scale = sigma / RADIUS
    mechanism = (
        Gaussian(scale, 2.0**-30) if noise == "gaussian" else Laplace(scale / 2**0.5, 2.0**-30)
    )
    randomizer = Randomizer(schema, {"x": mechanism}, delta=1e-6 if noise == "gaussian" else 0.0)
    clean = np.random.default_rng(0).standard_normal((20_000, dimension))
    release = randomizer.privatize({n: clean[:, j] for j, n in enumerate(names)})
    generator = Scaled(dimension, start)
    settings = FitSettings(batch_size=batch_size, tolerance=1e-3, max_iterations=500)
    objective = TransportObjective(
        generator, Head(randomizer), release, settings, LOSSES[loss], torch.device("cpu")
    )
    train(generator, objective, TrainingSettings(steps, learning_rate=0.02, averaging=0.97))
    return float(generator.a.detach())


def test_plain_transport_shrinks_what_small_batches_learn():
    small, large = (learned_spread(20, 1.0, b, "plain", start=0.7) for b in (50, 400))
    assert 0.45 < small < 0.65
    assert 0.66 < large < 0.80


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("start", [0.6, 1.4])
def test_self_corrected_transport_does_not(noise, start):
    assert learned_spread(20, 1.0, 50, "self_corrected", noise, start, 400) == pytest.approx(
        1, abs=0.05
    )


@pytest.mark.slow
@pytest.mark.parametrize(("dimension", "sigma", "batch_size"), [(50, 1.0, 400), (50, 3.0, 400)])
def test_self_corrected_transport_in_fifty_dimensions(dimension, sigma, batch_size):
    plain, corrected = (
        learned_spread(dimension, sigma, batch_size, loss, start=0.8, steps=600)
        for loss in ("plain", "self_corrected")
    )
    assert plain < 0.9
    assert corrected == pytest.approx(1, abs=0.05)


def test_plain_transport_is_nearly_unbiased_in_two_dimensions():
    assert learned_spread(2, 1.0, 400, "plain") == pytest.approx(1, abs=0.05)


def quick_release():
    schema = Schema.from_toml('[columns.c]\nkind = "categorical"\ncategories = ["a", "b", "d"]')
    return Randomizer.calibrate(schema, 2.0, report="split").privatize({"c": ["a", "b"] * 50})


def test_a_loss_of_ones_own_takes_the_place_of_the_settings():
    release = quick_release()
    small = {"steps": 5, "batch_size": 20, "hidden": (8,)}
    seen = []

    def doubled(step):
        value, error = LOSSES["plain"](step)
        seen.append((step.outputs["c"].shape, len(step.reports), len(step.echo())))
        return 2 * value, error

    mine = fit(release, FitSettings(**small), loss=doubled)
    plain = fit(release, FitSettings(estimator="generator", loss="plain", **small))
    assert mine.made_with["loss"] == "doubled"
    assert seen == [((20, 3), 20, 20)] * 5
    assert mine.history["loss"][0] == pytest.approx(2 * plain.history["loss"][0])
    with pytest.raises(PrivotError, match="loss is a generator's: give estimator"):
        fit(release, FitSettings(estimator="latent_classes"), loss=doubled)
