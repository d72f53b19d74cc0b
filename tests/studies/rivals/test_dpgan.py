"""DPGAN by Opacus: noise as its accountant asks, steps as it says, bad input refused."""

import math
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pytest
import torch

from privot.core.errors import PrivotError
from studies.rivals import dpgan as module
from studies.rivals.dpgan import (
    PACKAGE,
    DPGANSettings,
    fit_dpgan,
    private_critic,
    raise_critic,
)

SMALL = DPGANSettings(steps=60, batch_size=50, hidden=16, latent_dim=2)


def _records(num_records: int = 1000) -> np.ndarray:
    return np.random.default_rng(0).normal(1.5, 0.5, (num_records, 2))


def test_a_missing_package_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(PrivotError, match="pip install opacus"):
        fit_dpgan(_records(), 1.0, 1e-5, SMALL, seed=0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0.0}, "epsilon is 0"),
        ({"epsilon": math.inf}, "epsilon is inf"),
        ({"delta": 0.0}, "delta is 0"),
        ({"records": np.full((100, 2), np.nan)}, "finite"),
        ({"records": np.zeros(100)}, "give a table"),
        ({"records": np.zeros((49, 2))}, "batch_size is 50 of 49"),
    ],
)
def test_bad_input_is_refused(change, words):
    arguments = {"records": _records(), "epsilon": 1.0, "delta": 1e-5, "settings": SMALL}
    with pytest.raises(PrivotError, match=words):
        fit_dpgan(**(arguments | change), seed=0)


@pytest.mark.skipif(find_spec(PACKAGE) is None, reason="opacus is not installed")
class TestWithOpacus:
    """What only a trained model shows."""

    def test_the_noise_is_what_the_accountant_asks_for(self):
        """Spent is just below ε by an accountant of our own, and a tenth less noise is beyond it."""
        accounting = pytest.importorskip("dp_accounting")
        fitted = fit_dpgan(_records(), 2.0, 1e-5, SMALL, seed=0)
        assert 1.98 < fitted.spent_epsilon <= 2.0
        assert fitted.guarantee.epsilon == 2.0
        assert fitted.guarantee.neighboring == "zero_out"

        def epsilon(noise: float) -> float:
            accountant = accounting.rdp.RdpAccountant(
                neighboring_relation=accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
            )
            step = accounting.PoissonSampledDpEvent(0.05, accounting.GaussianDpEvent(noise))
            accountant.compose(step, SMALL.steps)
            return accountant.get_epsilon(1e-5)

        assert epsilon(fitted.noise_multiplier) <= 2.0 + 1e-6
        assert epsilon(0.9 * fitted.noise_multiplier) > 2.1

    def test_gradients_are_clipped_a_pair(self):
        """The sum that is noised is that of each pair's own gradient, of norm C at most."""
        settings = DPGANSettings(gradient_norm=0.5, batch_size=8)
        weights = torch.Generator().manual_seed(0)
        critic = torch.nn.Sequential(
            torch.nn.Linear(3, 5), torch.nn.LeakyReLU(0.2), torch.nn.Linear(5, 1)
        )
        with torch.no_grad():
            for weight in critic.parameters():
                weight.copy_(torch.randn(weight.shape, generator=weights))
        pairs = torch.randn((8, 2, 3), generator=weights) * torch.logspace(-2, 1, 8)[:, None, None]
        wanted, norms = torch.zeros(sum(p.numel() for p in critic.parameters())), []
        for pair in pairs:
            level = critic(pair)[:, 0]
            parts = torch.autograd.grad(level[1] - level[0], list(critic.parameters()))
            gradient = torch.cat([part.flatten() for part in parts])
            norms.append(float(gradient.norm()))
            wanted += gradient * min(1.0, 0.5 / norms[-1])
        assert min(norms) < 0.5 < max(norms)
        private, optimizer = private_critic(critic, 0.0, settings, weights)
        raise_critic(pairs, private, optimizer)
        found = torch.cat([p.summed_grad.flatten() for p in optimizer.params])
        assert torch.allclose(found, wanted, atol=1e-5)

    def test_sums_of_random_batches_are_noised(self, monkeypatch):
        """Noise has standard deviation σ C, anew in every step, and batches are Poisson samples."""
        optimizers = pytest.importorskip("opacus.optimizers")
        noise = optimizers.DPOptimizerFastGradientClipping.add_noise
        step = module.raise_critic
        noises, sizes = [], []

        def flat(parts):
            return torch.cat([part.flatten() for part in parts]).clone()

        def recorded_noise(self):
            before = flat(p.summed_grad for p in self.params)
            noise(self)
            noises.append(flat(p.grad for p in self.params) - before)

        def recorded_step(pairs, *others):
            sizes.append(len(pairs))
            step(pairs, *others)

        monkeypatch.setattr(optimizers.DPOptimizerFastGradientClipping, "add_noise", recorded_noise)
        monkeypatch.setattr(module, "raise_critic", recorded_step)
        settings = DPGANSettings(
            steps=100, batch_size=50, hidden=16, latent_dim=2, gradient_norm=0.01
        )
        fitted = fit_dpgan(_records(), 2.0, 1e-5, settings, seed=0)
        assert len(sizes) == len(noises) == settings.steps
        # Sizes differ, with mean 50 and variance 47.5.
        assert abs(np.mean(sizes) - 50) < 3
        assert 25 < np.var(sizes) < 80
        wanted = fitted.noise_multiplier * settings.gradient_norm
        assert abs(float(torch.cat(noises).std()) / wanted - 1) < 0.02
        assert all(not torch.equal(a, b) for a, b in pairwise(noises))

    def test_an_empty_batch_is_noised_and_counted(self):
        settings = DPGANSettings(steps=40, batch_size=1, hidden=8, latent_dim=2)
        fitted = fit_dpgan(_records(20), 1.0, 1e-3, settings, seed=0)
        assert 0 < fitted.spent_epsilon <= 1.0
        assert np.isfinite(fitted.sample(5, torch.Generator().manual_seed(0))).all()

    def test_it_learns_where_the_records_are_and_seeds_repeat(self):
        """With much ε the draws' mean moves from the origin's surroundings to the records'."""
        settings = DPGANSettings(
            steps=400, batch_size=100, learning_rate=3e-3, weight_bound=0.3, hidden=16, latent_dim=2
        )
        state = torch.random.get_rng_state()
        draws = [
            fit_dpgan(_records(), 50.0, 1e-5, settings, seed=1).sample(
                2000, torch.Generator().manual_seed(0)
            )
            for _ in range(2)
        ]
        assert torch.equal(state, torch.random.get_rng_state())
        assert np.array_equal(draws[0], draws[1])
        assert draws[0].shape == (2000, 2)
        assert np.abs(draws[0].mean(axis=0) - 1.5).max() < 0.75
