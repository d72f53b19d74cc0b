import pytest
import torch

from privot.generators import MLP
from privot.local.generators.covariance_start import leading_axes, start_at_moments


def made_reports(num_reports=20_000, seed=0):
    """Records of two factors around a mean, in ten coordinates, with noise of variance 4."""
    rng = torch.Generator().manual_seed(seed)
    factors = torch.linalg.qr(torch.randn(10, 2, generator=rng)).Q * torch.tensor([1.5, 1.0])
    clean = 0.3 + torch.randn(num_reports, 2, generator=rng) @ factors.T
    return clean + 2 * torch.randn(num_reports, 10, generator=rng), factors


def test_axes_are_those_of_the_clean_records():
    reports, factors = made_reports()
    mean, axes = leading_axes(reports, 4.0)
    assert axes.shape == (2, 10)
    assert float((mean - 0.3).abs().max()) < 0.08
    truth = factors @ factors.T
    assert float((axes.T @ axes - truth).norm() / truth.norm()) < 0.15
    # The reports' own covariance is far from it.
    assert float((torch.cov(reports.T) - truth).norm() / truth.norm()) > 3


def test_pure_noise_has_no_axes():
    noise = 2 * torch.randn(5000, 40, generator=torch.Generator().manual_seed(1))
    assert len(leading_axes(noise, 4.0 * 1.05)[1]) == 0


def test_outputs_start_with_the_moments():
    axes = torch.zeros(2, 6)
    axes[0, 0], axes[1, 1] = 0.1, 0.05
    mean = torch.tensor([0.2, -0.5, 0.0, 0.8, -0.8, 0.4])
    network = MLP(latent_dim=4, num_features=6, hidden=(64, 64), seed=0)
    latent = network.draw_latent(4000, torch.Generator().manual_seed(0))
    assert start_at_moments(network, latent, mean, axes) == 2
    fresh = network.draw_latent(4000, torch.Generator().manual_seed(1))
    with torch.no_grad():
        outputs = torch.tanh(network(fresh))
    assert float((outputs.mean(dim=0) - mean).abs().max()) < 0.01
    deviations = outputs.std(dim=0)
    assert deviations[:2].tolist() == pytest.approx([0.1, 0.05], rel=0.15)
    assert float(deviations[2:].max()) < 1e-4


def test_a_mean_at_the_bounds_and_more_axes_than_hidden_features():
    network = MLP(latent_dim=2, num_features=8, hidden=(4,), seed=0)
    latent = network.draw_latent(1000, torch.Generator().manual_seed(0))
    mean = torch.full((8,), -1.0)
    count = start_at_moments(network, latent, mean, 0.01 * torch.eye(8))
    assert count <= 4
    with torch.no_grad():
        assert bool(torch.isfinite(network(latent)).all())


@pytest.mark.parametrize("shape", [(1, 3), (4, 2049)])
def test_too_few_or_too_wide_reports_have_a_mean_alone(shape):
    mean, axes = leading_axes(torch.full(shape, 2.0), 1e-9)
    assert mean.tolist() == [2.0] * shape[1]
    assert axes.shape == (0, shape[1])
