"""The entropic cost as a function of the ground costs: its value, its gradient, and rows of it."""

import pytest
import torch

from privot.transport import Problem, SinkhornSolver, entropic_cost, squared_euclidean
from privot.transport.entropic import entropic_cost_of_rows


def cloud(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_envelope_gradient_is_the_derivative_of_the_converged_value():
    x, y = cloud(2, 12, 2).requires_grad_(), 0.3 + cloud(3, 9, 2)
    solver = SinkhornSolver(1e-12, 100_000)

    def value(points):
        return entropic_cost(squared_euclidean(points, y), 0.5, solver)[0]

    assert torch.autograd.gradcheck(value, (x,), eps=1e-5, atol=1e-5)


def test_the_value_is_the_plans_own_cost():
    x, y = cloud(0, 20, 2), 1 + cloud(1, 30, 2)
    cost, reg = squared_euclidean(x, y), 0.3
    value, result = entropic_cost(cost, reg, SinkhornSolver(1e-10, 100_000))
    plan, outer = result.plan, torch.full_like(cost, 1 / 600)
    direct = (plan * cost).sum() + reg * torch.special.xlogy(plan, plan / outer).sum()
    assert float(value) == pytest.approx(float(direct), rel=1e-8)
    assert isinstance(result.problem, Problem)


@pytest.mark.parametrize(("first", "last"), [(0, 8), (8, 20)])
def test_rows_have_their_part_of_the_whole_gradient(first, last):
    cost, solver = squared_euclidean(cloud(0, 20, 2), cloud(1, 30, 2)), SinkhornSolver(1e-8)
    whole = cost.clone().requires_grad_()
    value, _ = entropic_cost(whole, solver=solver)
    value.backward()
    rows = cost[first:last].clone().requires_grad_()
    part, _ = entropic_cost_of_rows(rows, first, lambda mine: cost, solver)
    part.backward()
    assert torch.equal(part, value)
    assert whole.grad is not None
    assert torch.equal(rows.grad, whole.grad[first:last])
