"""DPGAN by Opacus: noise as its accountant asks, steps as it says, bad input refused."""

import math
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pytest
import torch

from privot.errors import PrivotError
from studies.rivals import dpgan as module
from studies.rivals.dpgan import PACKAGE, DPGANSettings, fit_dpgan

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

    def test_a_gradient_is_clipped_a_pair_and_noised(self, monkeypatch):
        """Each step's sum: norms of at most C a pair; its noise has standard deviation σ C."""
        optimizers = pytest.importorskip("opacus.optimizers")
        sums, noised, norms, sizes = [], [], [], []
        accumulate = optimizers.DPOptimizer.clip_and_accumulate
        noise = optimizers.DPOptimizer.add_noise

        def flat(parts):
            return torch.cat([part.flatten() for part in parts]).clone()

        def recorded_sum(self):
            each = torch.cat([part.flatten(1) for part in self.grad_samples], dim=1)
            shortened = each * (0.01 / each.norm(dim=1)).clamp(max=1.0)[:, None]
            accumulate(self)
            sums.append(flat(p.summed_grad for p in self.params))
            norms.append(float((sums[-1] - shortened.sum(dim=0)).abs().max()))
            sizes.append(len(each))

        def recorded_noise(self):
            noise(self)
            noised.append(flat(p.grad for p in self.params))

        monkeypatch.setattr(optimizers.DPOptimizer, "clip_and_accumulate", recorded_sum)
        monkeypatch.setattr(optimizers.DPOptimizer, "add_noise", recorded_noise)
        settings = DPGANSettings(
            steps=100, batch_size=50, hidden=16, latent_dim=2, gradient_norm=0.01
        )
        fitted = fit_dpgan(_records(), 2.0, 1e-5, settings, seed=0)
        assert len(sums) == settings.steps
        assert max(norms) < 1e-5
        # Batches are Poisson samples: of sizes that differ, with mean 50 and variance 47.5.
        assert abs(np.mean(sizes) - 50) < 3
        assert 25 < np.var(sizes) < 80
        noise_seen = torch.cat([b - a for a, b in zip(sums, noised, strict=True)])
        wanted = fitted.noise_multiplier * settings.gradient_norm
        assert abs(float(noise_seen.std()) / wanted - 1) < 0.02
        assert all(not torch.equal(a, b) for a, b in pairwise(noised))

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
