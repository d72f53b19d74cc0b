"""Wasserstein distances against brute force, POT, closed forms and the laws of a metric."""

import itertools

import numpy as np
import ot
import pytest
import torch

from privot.core.errors import PrivotError
from privot.transport import manhattan, squared_euclidean, wasserstein
from privot.transport.exact import sliced_wasserstein, transport_cost_1d


@pytest.mark.parametrize("p", [1, 2])
def test_brute_force_over_all_matchings(p):
    rng = torch.Generator().manual_seed(0)
    x, y = (torch.randn(6, 3, generator=rng, dtype=torch.float64) for _ in range(2))
    norms = (x[:, None] - y[None]).abs().pow(p).sum(2)
    best = min(norms[range(6), s].mean() for s in itertools.permutations(range(6)))
    assert float(wasserstein(x, y, p)) == pytest.approx(float(best) ** (1 / p))


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("offset", [0.0, 5.0, 1e4])
@pytest.mark.parametrize("num", [80, 400])
def test_matches_pot(p, offset, num):
    """Also where the search starts from entropic potentials (400 points), near and far apart."""
    rng = torch.Generator().manual_seed(1)
    x, y = (torch.randn(num, 4, generator=rng, dtype=torch.float64) for _ in range(2))
    y = 2 * y + offset
    cost = (manhattan if p == 1 else squared_euclidean)(x, y).numpy()
    expected = ot.emd2(np.full(num, 1 / num), np.full(num, 1 / num), cost) ** (1 / p)
    # The squares' expansion cancels digits far from the origin: of both, equally.
    assert float(wasserstein(x, y, p)) == pytest.approx(
        expected, rel=1e-9 if offset < 1e4 else 1e-7
    )


def test_translation_moves_by_its_length_and_gradient_points_along_it():
    x = torch.randn(50, 2, dtype=torch.float64, requires_grad=True)
    distance = wasserstein(x, x.detach() + torch.tensor([3.0, 4.0]))
    distance.backward()
    assert float(distance.detach()) == pytest.approx(5)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.sum(0).numpy(), [-0.6, -0.8], atol=1e-9)


def test_unequal_shapes_are_refused():
    with pytest.raises(PrivotError, match="same shape"):
        wasserstein(torch.ones(3, 2), torch.ones(4, 2))


SIZES = [(1, 1), (1, 9), (30, 30), (30, 45), (64, 17)]


def random_directions(dimension, number, rng):
    normal = torch.randn((dimension, number), generator=rng, dtype=torch.float64)
    return normal / normal.norm(dim=0)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def points(seed, *shape):
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_matches_pot_column_by_column(n, m, p):
    x, y = points(0, n, 3), 0.5 + 2 * points(1, m, 3)
    expected = [
        ot.emd2_1d(x[:, k].numpy(), y[:, k].numpy(), metric="minkowski", p=p) for k in range(3)
    ]
    np.testing.assert_allclose(transport_cost_1d(x, y, p).numpy(), expected, rtol=1e-10)
    assert float(transport_cost_1d(x[:, 0], y[:, 0], p)) == pytest.approx(expected[0], rel=1e-10)


def test_the_general_solver_agrees():
    """Against linear programming on the matrix of costs, so that sorting itself is tested."""
    x, y = points(0, 12), points(1, 7)
    cost = (x[:, None] - y[None]).abs() ** 3
    expected = ot.emd2(np.full(12, 1 / 12), np.full(7, 1 / 7), cost.numpy())
    assert float(transport_cost_1d(x, y, 3)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("p", [1.0, 2.0, 2.5])
def test_laws_of_a_distance_on_the_line(p):
    def distance(x, y, p=p):
        return float(transport_cost_1d(x, y, p)) ** (1 / p)

    x, y, z = points(0, 20), points(1, 33), points(2, 14)
    apart = distance(x, y)
    assert apart > 0.05
    assert distance(y, x) == pytest.approx(apart)
    assert distance(-3 * x + 7, -3 * y + 7) == pytest.approx(3 * apart)
    assert distance(x, x[torch.randperm(20)]) == 0
    assert apart <= distance(x, z) + distance(z, y)
    assert distance(x, x + 2.5) == pytest.approx(2.5)
    assert apart <= distance(x, y, p + 1)  # W_p grows with p


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("m", [8, 11])
def test_gradients_on_the_line(p, m):
    x, y = points(0, 8, 2).requires_grad_(), points(1, m, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: transport_cost_1d(x, y, p), (x, y))


def test_gradient_at_distance_zero_is_zero():
    x = points(0, 6, 1).requires_grad_()
    sliced_wasserstein(x, x.detach().flip(0), torch.ones(1, 1)).backward()
    assert x.grad is not None
    assert float(x.grad.abs().max()) == 0


def test_what_sorting_cannot_do_is_refused():
    x = torch.zeros(3)
    with pytest.raises(PrivotError, match="p 0.5 is below 1"):
        transport_cost_1d(x, x, 0.5)
    with pytest.raises(PrivotError, match="points have shapes"):
        transport_cost_1d(x, torch.zeros(3, 2))
    with pytest.raises(PrivotError, match="points have shapes"):
        transport_cost_1d(x, torch.zeros(0))


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("m", [25, 40])
def test_slices_match_pot(p, m):
    x, y, directions = points(0, 25, 4), 1 + points(1, m, 4), random_directions(4, 15, rng())
    expected = ot.sliced_wasserstein_distance(x, y, projections=directions, p=p)
    ours = sliced_wasserstein(x, y, directions, p)
    assert float(ours) == pytest.approx(float(expected), rel=1e-9)


def test_two_points_at_distance_one_are_one_over_root_d_apart():
    directions = random_directions(10, 50_000, rng())
    x, y = torch.zeros(1, 10), torch.nn.functional.one_hot(torch.tensor([3]), 10).float()
    # Standard error of the mean square: √(2·9/12)/10/√50000 = 5e-4 of 0.1.
    assert float(sliced_wasserstein(x, y, directions)) ** 2 == pytest.approx(0.1, abs=3e-3)


def test_laws_of_a_distance_along_directions():
    x, y, directions = points(0, 30, 5), points(1, 47, 5), random_directions(5, 20, rng())
    distance = sliced_wasserstein(x, y, directions)
    assert float(distance) > 0.1
    torch.testing.assert_close(distance, sliced_wasserstein(y, x, directions))
    torch.testing.assert_close(sliced_wasserstein(3 * x + 1, 3 * y + 1, directions), 3 * distance)
    assert float(sliced_wasserstein(x, x.flip(0), directions)) < 1e-15  # the product rounds
    shift = points(2, 5)
    expected = (shift @ directions).square().mean().sqrt()
    torch.testing.assert_close(sliced_wasserstein(x, x + shift, directions), expected)


@pytest.mark.parametrize("m", [7, 10])
def test_gradients_along_directions(m):
    directions = random_directions(3, 4, rng())
    x, y = points(0, 7, 3).requires_grad_(), points(1, m, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: sliced_wasserstein(x, y, directions), (x, y))


def test_shapes_that_do_not_fit_are_refused():
    x = torch.zeros(4, 3)
    with pytest.raises(PrivotError, match="directions have shapes"):
        sliced_wasserstein(x, x, torch.eye(2))
    with pytest.raises(PrivotError, match="give \\(n, d\\), \\(m, d\\), \\(d, k\\)"):
        sliced_wasserstein(x[0], x, torch.eye(3))
