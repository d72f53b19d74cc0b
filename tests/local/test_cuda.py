"""A GPU's fits, where there is one: the same law as the processor's, up to rounding."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from privot.local import FitSettings, fit
from privot.randomizer import randomizer_from_noise
from privot.schema import Schema
from privot.schema.columns.array import tensor_values
from privot.transport import Problem, SinkhornSolver

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no CUDA device here"
)
SCHEMA = Schema.from_toml('[columns.image]\nkind = "array"\nshape = [8, 8]\nbounds = [0, 1]\n')


def test_plans_agree_with_the_processors():
    cost = torch.rand(300, 200, generator=torch.Generator().manual_seed(0))
    here, there = (
        SinkhornSolver(1e-5, 2000).solve(Problem(where, reg=0.1)).plan.cpu()
        for where in (cost, cost.cuda())
    )
    torch.testing.assert_close(here, there, atol=1e-7, rtol=1e-3)


@pytest.mark.parametrize("architecture", ["mlp", "dcgan"])
def test_a_generator_of_images_is_fitted_and_drawn(tmp_path, architecture):
    """Bright left or right halves: the mean of each half is a half, and halves are opposites."""
    left = np.random.default_rng(0).random(2000) < 0.5
    images = np.zeros((2000, 8, 8))
    images[left, :, :4] = 1.0
    images[~left, :, 4:] = 1.0
    release = randomizer_from_noise(SCHEMA, 0.5, 1e-6).privatize({"image": images})
    settings = FitSettings(steps=300, batch_size=64, hidden=(32,), latent_dim=4)
    model = fit(release, replace(settings, architecture=architecture), device="cuda")
    drawn = tensor_values(model.sample(500, seed=0).column("image"))
    halves = drawn[:, :, :4].mean(axis=(1, 2)), drawn[:, :, 4:].mean(axis=(1, 2))
    assert np.mean(halves[0]) == pytest.approx(0.5, abs=0.15)
    assert np.corrcoef(*halves)[0, 1] < -0.5
    model.save(tmp_path / "model")
