import pytest
import torch

from privot.errors import PrivotError
from privot.sliced.loss import smoothed_sliced_loss, spread_loss
from privot.transport.exact import transport_cost_1d


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("rows", [40, 25])
def test_value_and_gradient_are_those_of_transport_on_the_line(q, rows):
    x = torch.randn(40, 7, generator=rng(1))
    y = torch.randn(rows, 7, generator=rng(2), requires_grad=True)
    loss = smoothed_sliced_loss(x, y, 0.0, q, rng())
    (gradient,) = torch.autograd.grad(loss, y)
    expected = transport_cost_1d(y, x, q).mean()
    (right,) = torch.autograd.grad(expected, y)
    assert torch.allclose(loss, expected, rtol=1e-5)
    assert torch.allclose(gradient, right, atol=1e-7)


def test_no_gradient_reaches_the_private_side():
    x = torch.randn(9, 3, generator=rng(1), requires_grad=True)
    y = torch.randn(9, 3, generator=rng(2), requires_grad=True)
    smoothed_sliced_loss(x, y, 0.5, 2, rng()).backward()
    assert x.grad is None
    assert y.grad.abs().sum() > 0


def test_noise_on_both_sides_makes_equal_laws_meet():
    """With noise on the private side only, the loss would not be near 0 at the truth."""
    clean = torch.randn(4000, 2, generator=rng(1))
    noisy = torch.randn(4000, 2, generator=rng(3)) + 2 * torch.randn(4000, 2, generator=rng(2))
    assert smoothed_sliced_loss(noisy, clean, 2.0, 2, rng(4)) < 0.05
    assert smoothed_sliced_loss(noisy, clean, 0.0, 2, rng(4)) > 1.0


def test_the_loss_is_mean_part_plus_spread():
    x = torch.randn(30, 4, generator=rng(1)) + 3
    y = torch.randn(30, 4, generator=rng(2))
    whole = smoothed_sliced_loss(x, y, 0.0, 2, rng())
    means = (x.mean(dim=0) - y.mean(dim=0)).square().mean()
    assert torch.allclose(whole, means + spread_loss(x, y, 0.0, rng()), rtol=1e-4)


def test_other_exponents_are_refused():
    with pytest.raises(PrivotError, match="q is 3"):
        smoothed_sliced_loss(torch.zeros(2, 1), torch.zeros(2, 1), 0.0, 3, rng())
