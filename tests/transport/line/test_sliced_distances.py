"""Sliced Wasserstein distances against POT, closed forms and the laws of a metric."""

import ot
import pytest
import torch

from privot.errors import PrivotError
from privot.transport.line.sliced import random_directions, sliced_wasserstein


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def points(seed, *shape):
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("m", [25, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_matches_pot(p, m, weighted):
    x, y, directions = points(0, 25, 4), 1 + points(1, m, 4), random_directions(4, 15, rng())
    a, b = (torch.softmax(points(2 + n, n), 0) for n in (25, m)) if weighted else (None, None)
    expected = ot.sliced_wasserstein_distance(x, y, a, b, projections=directions, p=p)
    ours = sliced_wasserstein(x, y, directions, p, a, b)
    assert float(ours) == pytest.approx(float(expected), rel=1e-9)


def test_directions_are_uniform_on_the_sphere_and_follow_the_seed():
    directions = random_directions(3, 20_000, rng(1))
    torch.testing.assert_close(directions.norm(dim=0), torch.ones(20_000, dtype=torch.float64))
    # Standard errors: 0.004 of a mean, 0.002 of a second moment; 5 of them allowed.
    assert float(directions.mean(dim=1).abs().max()) < 0.02
    second = directions @ directions.T / 20_000
    assert float((second - torch.eye(3) / 3).abs().max()) < 0.012
    assert torch.equal(directions, random_directions(3, 20_000, rng(1)))
    assert not torch.equal(directions, random_directions(3, 20_000, rng(2)))


def test_two_points_at_distance_one_are_one_over_root_d_apart():
    directions = random_directions(10, 50_000, rng())
    x, y = torch.zeros(1, 10), torch.nn.functional.one_hot(torch.tensor([3]), 10).float()
    # Standard error of the mean square: √(2·9/12)/10/√50000 = 5e-4 of 0.1.
    assert float(sliced_wasserstein(x, y, directions)) ** 2 == pytest.approx(0.1, abs=3e-3)


def test_laws_of_a_distance():
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
def test_gradients(m):
    directions = random_directions(3, 4, rng())
    x, y = points(0, 7, 3).requires_grad_(), points(1, m, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: sliced_wasserstein(x, y, directions), (x, y))


def test_shapes_that_do_not_fit_are_refused():
    x = torch.zeros(4, 3)
    with pytest.raises(PrivotError, match="directions 2: give as many"):
        sliced_wasserstein(x, x, torch.eye(2))
    with pytest.raises(PrivotError, match="give \\(n, d\\), \\(m, d\\) and \\(d, k\\)"):
        sliced_wasserstein(x[0], x, torch.eye(3))
    with pytest.raises(PrivotError, match="num_projections 0"):
        random_directions(3, 0, rng())
