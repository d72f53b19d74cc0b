"""Exact Wasserstein distances against brute force, translations and POT."""

import itertools

import numpy as np
import ot
import pytest
import torch

from privot.errors import PrivotError
from privot.transport import manhattan, squared_euclidean, wasserstein


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
