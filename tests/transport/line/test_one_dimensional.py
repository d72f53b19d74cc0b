"""Distances on the line against POT, brute force and the laws of a metric."""

import numpy as np
import ot
import pytest
import torch

from privot.errors import PrivotError
from privot.transport.line.one_dimensional import transport_cost_1d, wasserstein_1d

SIZES = [(1, 1), (1, 9), (30, 30), (30, 45), (64, 17)]


def points(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def probabilities(seed, n):
    return torch.softmax(points(seed, n), dim=0)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_uniform_weights_match_pot(n, m, p):
    x, y = points(0, n), 0.5 + 2 * points(1, m)
    expected = ot.emd2_1d(x.numpy(), y.numpy(), metric="minkowski", p=p)
    assert float(transport_cost_1d(x, y, p)) == pytest.approx(expected, rel=1e-10)
    assert float(wasserstein_1d(x, y, p)) == pytest.approx(expected ** (1 / p), rel=1e-10)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_weights_match_pot_column_by_column(n, m, p):
    x, y, a, b = points(0, n, 3), points(1, m, 3), probabilities(2, n), probabilities(3, m)
    expected = [
        ot.emd2_1d(x[:, k].numpy(), y[:, k].numpy(), a.numpy(), b.numpy(), "minkowski", p)
        for k in range(3)
    ]
    np.testing.assert_allclose(transport_cost_1d(x, y, p, a, b).numpy(), expected, rtol=1e-9)


def test_the_general_solver_agrees():
    """Against linear programming on the matrix of costs, so that sorting itself is tested."""
    x, y, b = points(0, 12), points(1, 7), probabilities(2, 7)
    cost = (x[:, None] - y[None]).abs() ** 3
    expected = ot.emd2(np.full(12, 1 / 12), b.numpy(), cost.numpy())
    assert float(transport_cost_1d(x, y, 3, weights_y=b)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_equal_weights_given_or_not_are_the_same(n, m):
    x, y = points(0, n, 2), points(1, m, 2)
    given = transport_cost_1d(x, y, 2, torch.full((n,), 1 / n), torch.full((m,), 1 / m))
    torch.testing.assert_close(given, transport_cost_1d(x, y, 2))


def test_a_point_of_weight_two_is_two_points():
    x = torch.tensor([0.0, 1.0, 1.0, 5.0])
    merged, weights = torch.tensor([5.0, 1.0, 0.0]), torch.tensor([0.25, 0.5, 0.25])
    y = points(0, 9).float()
    torch.testing.assert_close(wasserstein_1d(x, y), wasserstein_1d(merged, y, 2, weights))


@pytest.mark.parametrize("p", [1.0, 2.0, 2.5])
def test_laws_of_a_distance(p):
    x, y, z = points(0, 20), points(1, 33), points(2, 14)
    distance = wasserstein_1d(x, y, p)
    assert float(distance) > 0.05
    torch.testing.assert_close(distance, wasserstein_1d(y, x, p))
    torch.testing.assert_close(wasserstein_1d(-3 * x + 7, -3 * y + 7, p), 3 * distance)
    assert float(wasserstein_1d(x, x[torch.randperm(20)], p)) == 0
    assert float(distance) <= float(wasserstein_1d(x, z, p) + wasserstein_1d(z, y, p))
    torch.testing.assert_close(
        wasserstein_1d(x, x + 2.5, p), torch.tensor(2.5, dtype=torch.float64)
    )
    assert float(distance) <= float(wasserstein_1d(x, y, p + 1))  # W_p grows with p


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("m", [8, 11])
def test_gradients(p, weighted, m):
    x, y = points(0, 8, 2).requires_grad_(), points(1, m, 2).requires_grad_()
    weights = (probabilities(2, 8), probabilities(3, m)) if weighted else (None, None)
    assert torch.autograd.gradcheck(lambda x, y: wasserstein_1d(x, y, p, *weights), (x, y))


def test_gradient_at_distance_zero_is_zero():
    x = points(0, 6).requires_grad_()
    wasserstein_1d(x, x.detach().flip(0)).backward()
    assert x.grad is not None
    assert float(x.grad.abs().max()) == 0


def test_what_sorting_cannot_do_is_refused():
    x = torch.zeros(3)
    with pytest.raises(PrivotError, match="p 0.5 is below 1"):
        wasserstein_1d(x, x, 0.5)
    with pytest.raises(PrivotError, match="points have shapes"):
        wasserstein_1d(x, torch.zeros(3, 2))
    with pytest.raises(PrivotError, match="points have shapes"):
        wasserstein_1d(x, torch.zeros(0))
    with pytest.raises(PrivotError, match="weights_x has shape"):
        wasserstein_1d(x, x, 2, torch.ones(4) / 4)
    with pytest.raises(PrivotError, match="weights_y adds up to 3"):
        wasserstein_1d(x, x, 2, weights_y=torch.ones(3))
