"""The Sinkhorn divergence against POT, its limits, and the laws of a divergence."""

import numpy as np
import ot
import pytest
import torch

from privot.core.errors import PrivotError
from privot.transport import SinkhornSolver, Status, manhattan, squared_euclidean
from studies.rivals.divergence import sinkhorn_divergence

EXACT = SinkhornSolver(tolerance=1e-9, max_iterations=100_000)
GROUNDS = [squared_euclidean, manhattan]


def points(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def divergence(x, y, ground=squared_euclidean, reg=1.0, solver=EXACT):
    value, results = sinkhorn_divergence(x, y, ground, reg, solver)
    assert [r.status for r in results] == [Status.CONVERGED] * 3
    return value


def entropic_by_pot(x, y, ground, reg):
    cost = ground(x, y).numpy()
    a, b = (np.full(size, 1 / size) for size in cost.shape)
    plan = ot.sinkhorn(a, b, cost, reg, method="sinkhorn_log", stopThr=1e-9, numItermax=50_000)
    return (plan * (cost + reg * np.log(plan / a[:, None] / b))).sum()


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("reg", [0.8, 4.0])
def test_matches_three_problems_solved_by_pot(ground, reg):
    x, y = points(0, 20, 3), 0.5 + points(1, 31, 3)
    expected = entropic_by_pot(x, y, ground, reg)
    expected -= (entropic_by_pot(x, x, ground, reg) + entropic_by_pot(y, y, ground, reg)) / 2
    assert float(divergence(x, y, ground, reg)) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("ground", GROUNDS)
def test_laws_of_a_divergence(ground):
    x, y = points(0, 20, 3), points(1, 31, 3)
    value = divergence(x, y, ground)
    assert float(value) > 0.01
    torch.testing.assert_close(value, divergence(y, x, ground), rtol=1e-8, atol=0)
    assert float(divergence(x, x[torch.randperm(20)], ground)) == pytest.approx(0, abs=1e-9)
    torch.testing.assert_close(value, divergence(x + 3, y + 3, ground), rtol=1e-7, atol=0)
    power = 2 if ground is squared_euclidean else 1
    scaled = divergence(3 * x, 3 * y, ground, 3**power)
    torch.testing.assert_close(scaled, 3**power * value, rtol=1e-7, atol=0)


def test_a_shift_costs_its_square_and_pulls_back():
    """For squares the shift's cross terms are fixed by the marginals, whatever reg is."""
    x, shift = points(0, 15, 2), torch.tensor([3.0, 4.0], dtype=torch.float64)
    moved = (x + shift).requires_grad_()
    value = divergence(moved, x, reg=0.7)
    value.backward()
    assert float(value.detach()) == pytest.approx(25)
    assert moved.grad is not None
    np.testing.assert_allclose(moved.grad.sum(0).numpy(), [6, 8], atol=1e-6)


def test_limits_of_weak_and_strong_regularization():
    x, y = points(0, 12, 2), 1 + points(1, 12, 2)
    squares = squared_euclidean(x, y).numpy()
    rough = SinkhornSolver(tolerance=1e-3, max_iterations=100_000)
    weak = float(divergence(x, y, reg=0.02, solver=rough))
    assert weak == pytest.approx(ot.emd2([], [], squares), rel=0.02)
    means = float((x.mean(0) - y.mean(0)).square().sum())
    assert float(divergence(x, y, reg=1e4)) == pytest.approx(means, rel=1e-2)
    energy = manhattan(x, y).mean() - (manhattan(x, x).mean() + manhattan(y, y).mean()) / 2
    assert float(divergence(x, y, manhattan, 1e4)) == pytest.approx(float(energy), rel=1e-2)


@pytest.mark.parametrize("ground", GROUNDS)
def test_gradients(ground):
    x, y = points(0, 6, 2).requires_grad_(), points(1, 9, 2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, y: divergence(x, y, ground, 3.0), (x, y), eps=1e-5, atol=1e-5
    )


def test_the_entropic_cost_alone_would_pull_equal_laws_together():
    """What debiasing is for: at x = y the divergence is at rest."""
    x = points(0, 25, 2).requires_grad_()
    divergence(x, x.detach(), reg=2.0).backward()
    assert x.grad is not None
    assert float(x.grad.abs().max()) < 1e-8


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(PrivotError, match="points have shapes"):
        sinkhorn_divergence(torch.zeros(3, 2), torch.zeros(3, 1))
